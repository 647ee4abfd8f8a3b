"""The encodings that Kafka's messages share and `struct` doesn't have: unsigned varints, tag buffers, ids as text.

Offsets in and out, no objects with a position: every reader takes a buffer and an offset and returns the value and
the offset behind it. Buffers are bytes, bytearray or memoryview (of format "B"); nothing is copied.
Source: KIP-482 (flexible versions), Kafka's `ByteUtils`.
"""

from base64 import urlsafe_b64encode
from typing import NamedTuple

from proxy.wire.errors import Malformed, Truncated, in_bytes

Buffer = bytes | bytearray | memoryview

# A varint carries 7 bits a byte; five bytes hold 32 bits, and Kafka reads no more.
UVARINT_BYTES = 5
UVARINT_MAX = 0xFFFF_FFFF


def read_uvarint(buf: Buffer, at: int) -> tuple[int, int]:
    """The unsigned varint at `at` (minimal or not, at most 5 bytes and 32 bits) and the offset behind it.

    Errors: Truncated, Malformed.
    """
    # Lengths of up to 16383 are nearly all; the loop for longer ones takes twice the time.
    try:
        first = buf[at]
        if first < 0x80:
            return first, at + 1
        second = buf[at + 1]
        if second < 0x80:
            return first & 0x7F | second << 7, at + 2
        return read_groups(32, buf, at)
    except IndexError:
        raise Truncated("the bytes end inside a varint", offset=len(buf)) from None


def read_groups(bits: int, buf: Buffer, start: int) -> tuple[int, int]:
    """An integer of `bits` bits in groups of 7, not below 0, and the offset behind it.

    Errors: Malformed; IndexError if the buffer ends inside it.
    """
    value, max_bytes = 0, -(-bits // 7)
    for place in range(max_bytes):
        byte = buf[start + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if value >> bits:
                raise Malformed(f"a varint of more than {bits} bits", offset=start)
            return value, start + place + 1
    raise Malformed(f"a varint of more than {max_bytes} bytes", offset=start)


def uvarint(value: int, width: int = 0) -> bytes:
    """`value` (0 to 2**32 - 1) as an unsigned varint of at least `width` bytes, at most 5.

    A padded varint sets the "more follows" bit and adds groups of zeros. The readers of Java, librdkafka and
    kafka-python accept it.

    Errors: Malformed for a value or a width out of range.
    """
    # As in `read_uvarint`: records and arrays of that length are common; the loop takes 1.6 times the time.
    if 0x80 <= value < 0x4000 and not width:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if not 0 <= value <= UVARINT_MAX:
        raise Malformed(f"{value} is no unsigned varint of 32 bits")
    if width > UVARINT_BYTES:
        raise Malformed(f"a varint of {width} bytes: at most {UVARINT_BYTES} can be read")
    out = bytearray()
    while value > 0x7F or len(out) + 1 < width:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class TagSpan(NamedTuple):
    """The offsets of a tagged field: its number from `start`, its size from `size_start`, its bytes up to `end`."""

    tag: int
    start: int
    size_start: int
    payload_start: int
    end: int


def read_tags(buf: Buffer, at: int) -> tuple[list[TagSpan], int]:
    """The entries of the tag buffer at `at`, in wire order, and the offset behind it. Errors: Truncated, Malformed."""
    count, at = read_uvarint(buf, at)
    spans = []
    for _ in range(count):
        span = _read_tag(buf, at)
        spans.append(span)
        at = span.end
    return spans, at


def _read_tag(buf: Buffer, start: int) -> TagSpan:
    tag, size_start = read_uvarint(buf, start)
    size, payload_start = read_uvarint(buf, size_start)
    if payload_start + size > len(buf):
        raise Truncated(f"tag {tag} of {in_bytes(size)} goes beyond the end", offset=payload_start)
    return TagSpan(tag, start, size_start, payload_start, payload_start + size)


def uuid_text(value: bytes) -> str:
    """A 16 byte id as Kafka's tools print it: base64url without padding."""
    return urlsafe_b64encode(value).rstrip(b"=").decode()

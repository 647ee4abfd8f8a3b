"""Integers in groups of 7 bits, signed (zigzag) and unsigned, of 16, 32 and 64 bits: single ones and whole arrays.

The lowest group comes first; every byte but the last has its top bit set. An integer takes at most 3, 5 or 10 bytes.
Values are Java's shorts, ints and longs in both encodings. The unsigned encoding of a negative value is that of its
two's complement in the type's own width, as in Kafka's `ByteUtils.writeUnsignedVarint`: -1 takes 3, 5 or 10 bytes.
Readers accept encodings that are longer than necessary, but refuse more bytes than the type can need, and bits beyond
its width (Kafka's readers drop such bits in silence).
Offsets in and out, as in `primitives`. Source: KAFKA-9927, Kafka's `ByteUtils`.
"""

from collections.abc import Callable, Generator, Sequence
from struct import Struct, error

from proxy.wire.errors import Malformed, Truncated
from proxy.wire.primitives import Buffer, read_groups

VarintReader = Callable[[int, Buffer, int], tuple[int, int]]

TWO, THREE, FOUR, FIVE = (Struct(f"{count}B").pack for count in range(2, 6))
# The signed number of a byte below 128.
short_signed = [byte >> 1 ^ -(byte & 1) for byte in range(128)].__getitem__
# Tables for `bytes.translate`, for arrays whose elements take one byte each: -64 to 63, as two's complement.
TO_ZIGZAG = bytes((byte << 1 ^ -(byte >> 7)) & 0xFF for byte in range(256))
FROM_ZIGZAG = bytes((byte >> 1 ^ -(byte & 1)) & 0xFF for byte in range(256))


def _read(bits: int, buf: Buffer, at: int) -> tuple[int, int]:
    # A loop takes three times as long as these lines, which serve all but long integers of 64 bits and errors.
    try:
        value: int = buf[at]
        if value < 1 << 7:
            return value, at + 1
        value += (buf[at + 1] << 7) - (1 << 7)
        if value < 1 << 14:
            return value, at + 2
        value += (buf[at + 2] << 14) - (1 << 14)
        if value < 1 << 16 or bits == 16:
            return (value, at + 3) if value < 1 << 16 else read_groups(bits, buf, at)
        if value < 1 << 21:
            return value, at + 3
        value += (buf[at + 3] << 21) - (1 << 21)
        if value < 1 << 28:
            return value, at + 4
        value += (buf[at + 4] << 28) - (1 << 28)
        return (value, at + 5) if value < 1 << 32 else read_groups(bits, buf, at)
    except IndexError:
        raise Truncated("the bytes end inside a varint", offset=len(buf)) from None


def read_unsigned(bits: int, buf: Buffer, at: int) -> tuple[int, int]:
    """An integer of `bits` bits in the unsigned encoding, and the offset behind it. Errors: Truncated, Malformed."""
    value, at = _read(bits, buf, at)
    return (value - (1 << bits) if value >> bits - 1 else value), at


def read_signed(bits: int, buf: Buffer, at: int) -> tuple[int, int]:
    """An integer of `bits` bits in the signed encoding, and the offset behind it. Errors: Truncated, Malformed."""
    value, at = _read(bits, buf, at)
    return value >> 1 ^ -(value & 1), at


def read_many_unsigned(bits: int, count: int, buf: Buffer, at: int) -> tuple[list[int], int]:
    """`count` unsigned integers, and the offset behind the last. Errors: Truncated, Malformed."""
    short = _all_short(count, buf, at)
    return (list(short), at + count) if short else _read_many(read_unsigned, bits, count, buf, at)


def read_many_signed(bits: int, count: int, buf: Buffer, at: int) -> tuple[list[int], int]:
    """`count` signed integers, and the offset behind the last. Errors: Truncated, Malformed."""
    short = _all_short(count, buf, at)
    if short:
        return memoryview(short.translate(FROM_ZIGZAG)).cast("b").tolist(), at + count
    return _read_many(read_signed, bits, count, buf, at)


def _all_short(count: int, buf: Buffer, at: int) -> bytes:
    """The bytes of `count` elements if each takes one byte, otherwise b""."""
    short = bytes(buf[at : at + count])
    return short if len(short) == count and short.isascii() else b""


def _read_many(read: VarintReader, bits: int, count: int, buf: Buffer, at: int) -> tuple[list[int], int]:
    found = []
    for _ in range(count):
        value, at = read(bits, buf, at)
        found.append(value)
    return found, at


def skip(max_bytes: int, buf: Buffer, at: int) -> int:
    """The offset behind an integer of at most `max_bytes` bytes. Errors: Malformed; IndexError at the buffer's end."""
    for end in range(at, at + max_bytes):
        if buf[end] < 0x80:
            return end + 1
    raise Malformed(f"a varint of more than {max_bytes} bytes", offset=at)


def split(max_bytes: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, tuple[Buffer, int, int]]:
    """Steps over an integer that several chunks may share, from its second byte on.

    Returns the chunk, the offset in it behind the integer, and the chunk's size. Errors: Malformed.
    """
    for _ in range(max_bytes - 1):
        while at >= size:
            at -= size
            buf = yield
            size = len(buf)
        at += 1
        if buf[at - 1] < 0x80:
            return buf, at, size
    raise Malformed(f"a varint of more than {max_bytes} bytes", offset=at)


def unsigned(bits: int, value: int) -> bytes:
    """`value` of `bits` bits in the unsigned encoding. Errors: Malformed for a value out of range."""
    top = 1 << bits - 1
    if not -top <= value < top:
        raise Malformed(f"{value} has no room in {bits} bits")
    return _groups(value & 2 * top - 1)


def signed(bits: int, value: int) -> bytes:
    """`value` of `bits` bits in the signed encoding. Errors: Malformed for a value out of range."""
    top = 1 << bits - 1
    if not -top <= value < top:
        raise Malformed(f"{value} has no room in {bits} bits")
    return _groups(value << 1 ^ value >> bits - 1)


def _groups(value: int) -> bytes:
    if value < 1 << 7:
        return bytes((value,))
    if value < 1 << 14:
        return TWO(value & 0x7F | 0x80, value >> 7)
    if value < 1 << 21:
        return THREE(value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14)
    if value < 1 << 28:
        return FOUR(value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21)
    low = (value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21 & 0x7F | 0x80)
    return FIVE(*low, value >> 28) if value < 1 << 35 else FOUR(*low) + _groups(value >> 28)


def many_unsigned(bits: int, values: Sequence[int]) -> bytes:
    """The values in the unsigned encoding, one behind the other. Errors: Malformed."""
    try:
        # The first value usually predicts the others; a wrong guess costs an exception, as much as some elements.
        if values and -1 < values[0] < 128 and (short := bytes(values)).isascii():
            return short
    except ValueError:  # a value takes more than a byte
        pass
    return b"".join([unsigned(bits, value) for value in values])


def many_signed(bits: int, values: Sequence[int]) -> bytes:
    """The values in the signed encoding, one behind the other. Errors: Malformed."""
    try:
        if values and -65 < values[0] < 64:
            short = Struct(f"{len(values)}b").pack(*values).translate(TO_ZIGZAG)
            if short.isascii():
                return short
    except error:  # a value takes more than a byte
        pass
    return b"".join([signed(bits, value) for value in values])


def varint_size(bits: int, value: int, *, zigzag: bool) -> int:
    """The bytes that `value` of `bits` bits takes in the unsigned encoding, or in the signed one (`zigzag`)."""
    written = value << 1 ^ value >> bits - 1 if zigzag else value & (1 << bits) - 1
    return max(1, -(-written.bit_length() // 7))

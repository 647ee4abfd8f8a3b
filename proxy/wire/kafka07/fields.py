"""The elements of 0.7's requests, responses and messages: big-endian integers, topics, blocks with a length.

Offsets in and out, as in `primitives`. No `struct.error` leaves this module: bytes that end early are Truncated, values
that don't fit are Malformed. The callers add the message's name (`errors.naming`).
"""

from struct import Struct, error
from typing import Any

from proxy.wire.errors import Malformed, Truncated, in_bytes
from proxy.wire.primitives import Buffer

INT16, INT32, INT64 = Struct(">h"), Struct(">i"), Struct(">q")


def take(layout: Struct, buf: Buffer, at: int) -> tuple[Any, ...]:
    """The layout's values at `at`; they end at `at + layout.size`. Errors: Truncated."""
    if at + layout.size > len(buf):
        raise Truncated(f"the bytes end inside a field of {layout.size} bytes", offset=len(buf))
    return layout.unpack_from(buf, at)


def put(layout: Struct, *values: int) -> bytes:
    """The values as bytes. Errors: Malformed for a value out of range."""
    try:
        return layout.pack(*values)
    except error as fault:
        raise Malformed(f"values that don't fit: {fault}") from None


def take_block(layout: Struct, buf: Buffer, at: int) -> tuple[bytes, int]:
    """The block behind a length of this layout, and the offset behind it. Errors: Truncated, Malformed."""
    (size,) = take(layout, buf, at)
    start = at + layout.size
    if size < 0:
        raise Malformed(f"a length of {size}", offset=at)
    if start + size > len(buf):
        raise Truncated(f"a block of {in_bytes(size)} goes beyond the end", offset=len(buf))
    return bytes(buf[start : start + size]), start + size


def put_block(layout: Struct, block: Buffer) -> bytes:
    """The block with its length in front. Errors: Malformed if it is too long."""
    return put(layout, len(block)) + block


def take_topic(buf: Buffer, at: int) -> tuple[str, int]:
    """A topic and the offset behind it, in UTF-8 as brokers read it (the page: ASCII, fit for a directory's name)."""
    name, end = take_block(INT16, buf, at)
    try:
        return name.decode(), end
    except UnicodeDecodeError:
        raise Malformed("a topic that is not UTF-8", offset=at + INT16.size) from None


def put_topic(topic: str) -> bytes:
    """The topic's bytes. Errors: Malformed for more than 32767 bytes, or a text that UTF-8 can't hold."""
    try:
        return put_block(INT16, topic.encode())
    except UnicodeEncodeError:
        raise Malformed(f"the topic {topic!r} can't be written as UTF-8") from None


def at_end(buf: Buffer, at: int) -> None:
    """Checks that `at` is the end. Errors: Malformed if bytes follow."""
    if at != len(buf):
        raise Malformed(f"{in_bytes(len(buf) - at)} behind its end", offset=at)

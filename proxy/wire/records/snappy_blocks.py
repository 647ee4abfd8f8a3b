"""Snappy as Kafka uses it: blocks in snappy-java's framing (Java, Python clients) or one bare block (librdkafka, Go).

The framing has 8 bytes of magic, version and compatible version (int32 each), then blocks with an int32 length before
each. Streams may be concatenated: then these 16 bytes stand where a length is expected. As in snappy-java, the magic
distinguishes a framed stream from a bare block.
"""

from collections.abc import Iterator

from proxy.wire.budget import Allowance
from proxy.wire.errors import Malformed, WireError, in_bytes
from proxy.wire.primitives import read_uvarint
from proxy.wire.records.codec_input import inside, library

WHAT = "snappy stream"
MAGIC = b"\x82SNAPPY\0"
HEADER = MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
# the block size of Java's writer
BLOCK = 32 << 10
# A copy of 64 bytes takes 3, so no block grows by more. A larger stated size is not worth an allocation.
LARGEST_RATIO = 22


def unfold(data: memoryview, allowance: Allowance) -> Iterator[bytes]:
    """All blocks, one by one."""
    if data[: len(MAGIC)] != MAGIC:
        yield _block(data, allowance)
        return
    at = 0
    while at < len(data):
        if data[at : at + len(MAGIC)] == MAGIC:
            at = inside(data, at + len(HEADER), WHAT)
            continue
        start = inside(data, at + 4, WHAT)
        at = inside(data, start + int.from_bytes(data[at:start], "big"), WHAT)
        if plain := _block(data[start:at], allowance):
            yield plain


def _block(block: memoryview, allowance: Allowance) -> bytes:
    """The plain data of one block, which begins with its plain size."""
    try:
        size, _ = read_uvarint(block, 0)
    except WireError as error:
        raise Malformed(f"no snappy block: {error.reason}") from None
    allowance.take(size)
    if size > len(block) * LARGEST_RATIO:
        raise Malformed(f"a snappy block of {in_bytes(len(block))} that says it holds {size}")
    snappy = library("snappy")
    try:
        plain: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise Malformed(f"no snappy block: {error.__cause__}") from None
    return plain


def compress(data: bytes) -> bytes:
    """`data` in snappy-java's framing, which every client's reader accepts."""
    snappy = library("snappy")
    pieces = [HEADER]
    for at in range(0, len(data), BLOCK):
        block = snappy.compress(data[at : at + BLOCK])
        pieces += (len(block).to_bytes(4, "big"), block)
    return b"".join(pieces)

"""Zstandard frames, often without a content size, one behind another, fed block by block.

A block unfolds to 128 KiB at most, so the output is counted before the next block is unfolded; the library's own reader
would unfold the whole input at once. Walking over the blocks also finds a frame's end: a cut frame is an error here,
while the library would return less data. The largest window is the library's 128 MiB, as in Java; the window takes
memory only as output fills it.
Source: RFC 8878, section 3.1.
"""

from collections.abc import Generator, Iterator
from typing import Any

from proxy.wire.budget import Allowance
from proxy.wire.errors import Malformed
from proxy.wire.records.codec_input import inside, library

WHAT = "zstd frame"
MAGIC = 0xFD2FB528
# sixteen magics of frames that carry no data
SKIPPABLE = 0x184D2A50
HAS_CHECKSUM, SINGLE_SEGMENT = 1 << 2, 1 << 5
DICTIONARY_BYTES = (0, 1, 2, 4)
CONTENT_SIZE_BYTES = (0, 2, 4, 8)
RLE, RESERVED = 1, 3
BLOCK_HEAD = 3
# Kafka's default level
LEVEL = 3


def unfold(data: memoryview, allowance: Allowance) -> Iterator[bytes]:
    """All frames, block by block."""
    # shared by all frames: making one takes longer than unfolding a small frame
    context = library("zstandard").ZstdDecompressor()
    at = 0
    while at < len(data) or not at:
        at = yield from _frame(data, at, allowance, context)


def _frame(data: memoryview, at: int, allowance: Allowance, context: Any) -> Generator[bytes, None, int]:
    """Yields the data of the frame at `at`; returns the offset behind it."""
    if _number(data, at, 4) & ~15 == SKIPPABLE:
        return inside(data, at + 8 + _number(data, at + 4, 4), WHAT)
    unpacker = context.decompressobj()
    for end in _pieces(data, at):
        try:
            plain = unpacker.decompress(data[at:end])
        except (library("zstandard").ZstdError, MemoryError) as error:
            raise Malformed(f"no zstd frame: {error}") from None
        allowance.take(len(plain))
        if plain:
            yield plain
        at = end
    return at


def _pieces(data: memoryview, at: int) -> Iterator[int]:
    """The ends of the header and of each block; the last block's end is behind the checksum, if there is one."""
    if _number(data, at, 4) != MAGIC:
        raise Malformed("no zstd frame: its magic is missing")
    flags = _number(data, at + 4, 1)
    at = _header_end(data, at + 5, flags)
    yield at
    last = 0
    while not last:
        head = _number(data, at, BLOCK_HEAD)
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if kind == RESERVED:
            raise Malformed("no zstd frame: a block of the reserved type")
        at += BLOCK_HEAD + (1 if kind == RLE else size)
        at += 4 if last and flags & HAS_CHECKSUM else 0
        yield inside(data, at, WHAT)


def _header_end(data: memoryview, at: int, flags: int) -> int:
    single = flags & SINGLE_SEGMENT
    size = CONTENT_SIZE_BYTES[flags >> 6] or (1 if single else 0)
    return inside(data, at + (0 if single else 1) + DICTIONARY_BYTES[flags & 3] + size, WHAT)


def _number(data: memoryview, at: int, size: int) -> int:
    return int.from_bytes(data[at : inside(data, at + size, WHAT)], "little")


def compress(data: bytes, level: int | None) -> bytes:
    packer = library("zstandard").ZstdCompressor(level=LEVEL if level is None else level, write_content_size=False)
    compressed: bytes = packer.compress(data)
    return compressed

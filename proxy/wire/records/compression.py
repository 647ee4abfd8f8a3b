"""Compressed records <-> plain ones, in pieces, within an allowance.

A bomb is stopped while it unfolds: each codec unfolds a little at a time, or states the size of its output first
(snappy), and takes that size from an `Allowance`. A reader of only the first records never unfolds the later ones. An
allowance limits bytes, not a ratio: a batch of equal records really shrinks to a thousandth.

A payload may consist of several members or frames, because some clients flush within a batch. A codec's library is
imported on its first use. Errors carry no offset here: the caller knows the batch.
Source: Kafka's `Compression` classes, KIP-57 (lz4), KIP-110 (zstd).
"""

import zlib
from collections.abc import Generator, Iterator

from proxy.wire.budget import Allowance, of_a_batch
from proxy.wire.errors import Malformed
from proxy.wire.primitives import Buffer
from proxy.wire.records import lz4_frames, snappy_blocks, zstd_frames
from proxy.wire.records.codec_input import STEP, next_piece
from proxy.wire.records.kinds import Compression

# Sixty times a broker's default limit of a message's size.
DEFAULT_LIMIT = 64 << 20
# The deepest nesting of compressed messages. Real ones have two levels; a bomb must not use up the stack, nor unfold
# many levels of a few bytes each.
DEEPEST = 4


def decompress(codec: Compression, data: Buffer, limit: int = DEFAULT_LIMIT, *, magic: int = 2) -> bytes:
    """The plain records in `data`, at most `limit` bytes of them; otherwise as `unfold`."""
    return joined(unfold(codec, data, of_a_batch(limit), magic=magic))


def unfold(codec: Compression, data: Buffer, allowance: Allowance, *, magic: int = 2) -> Iterator[bytes]:
    """The plain records in `data`, piece by piece.

    `magic`: of the batch, since lz4 in magic 0 has a header checksum of its own.

    Errors, each raised at its piece: Malformed (damaged or cut off), OverBudget, ModuleNotFoundError.
    """
    view = memoryview(data)
    match codec:
        case Compression.NONE:
            allowance.take(len(view))
            yield bytes(view)
        case Compression.GZIP:
            yield from gunzip(view, allowance)
        case Compression.SNAPPY:
            yield from snappy_blocks.unfold(view, allowance)
        case Compression.LZ4:
            yield from lz4_frames.unfold(view, allowance, magic)
        case Compression.ZSTD:
            yield from zstd_frames.unfold(view, allowance)
        case Compression.UNKNOWN:
            raise Malformed("an unknown codec")


def is_as_it_says(codec: Compression, data: Buffer, allowance: Allowance, *, magic: int = 2) -> bool:
    """False if `unfold` reads data that are not as their frame says: lz4's checksum or size of all of them.

    Kafka's readers don't compare them either. Errors: as of `unfold`.
    """
    return codec is not Compression.LZ4 or lz4_frames.is_as_it_says(memoryview(data), allowance, magic)


def joined(pieces: Iterator[bytes]) -> bytes:
    """The pieces as one; a single piece is not copied."""
    found = list(pieces)
    return found[0] if len(found) == 1 else b"".join(found)


def compress(codec: Compression, data: bytes, level: int | None = None, *, magic: int = 2) -> bytes:
    """`data` as Kafka's own clients would compress it. `level`: on the codec's own scale, None for its default.

    Errors: ValueError for UNKNOWN; the codec library's own error for a wrong level; ModuleNotFoundError.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            packer = zlib.compressobj(-1 if level is None else level, wbits=GZIP_BITS)
            return packer.compress(data) + packer.flush()
        case Compression.SNAPPY:
            return snappy_blocks.compress(data)
        case Compression.LZ4:
            return lz4_frames.compress(data, level, magic)
        case Compression.ZSTD:
            return zstd_frames.compress(data, level)
        case Compression.UNKNOWN:
            raise ValueError("records can't be written in an unknown codec")


# zlib's `wbits` for gzip's header and trailer and the largest window
GZIP_BITS = 31


def gunzip(data: memoryview, allowance: Allowance) -> Iterator[bytes]:
    """All members of a gzip file."""
    at = 0
    while at < len(data) or not at:
        at = yield from _member(data, at, allowance)


def _member(data: memoryview, at: int, allowance: Allowance) -> Generator[bytes, None, int]:
    """Yields the plain data of one member; returns the offset behind it."""
    unpacker = zlib.decompressobj(GZIP_BITS)
    while not unpacker.eof:
        piece: Buffer = unpacker.unconsumed_tail
        if not piece:
            piece, at = next_piece(data, at, "gzip member")
        try:
            plain = unpacker.decompress(piece, STEP)
        except zlib.error as error:
            raise Malformed(f"no gzip member: {error}") from None
        allowance.take(len(plain))
        if plain:
            yield plain
    return at - len(unpacker.unused_data)

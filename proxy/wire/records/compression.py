"""Compressed records <-> plain ones, never more of them than a limit allows.

A bomb is stopped while it unfolds: each codec is asked for a little at a time (`Output` counts), or says first how much
it will make (snappy). So at most LIMIT bytes of output, and a codec's window beside it, are ever held. The limit is one
of bytes, not of a ratio: a batch of equal records shrinks honestly to a thousandth.

Payloads may consist of several members or frames, as clients that flush within a batch write them. Libraries
are imported when their codec is first met. Errors carry no offset here: the caller knows which batch it is.
Source: Kafka's `Compression` classes, KIP-57 (lz4), KIP-110 (zstd).
"""

import zlib
from importlib import import_module
from typing import Any

from proxy.wire.errors import Malformed
from proxy.wire.primitives import Buffer
from proxy.wire.records.kinds import Compression

# Sixty times what a broker takes as a message's size by default.
DEFAULT_LIMIT = 64 << 20
# So often messages may be compressed one in the other. Whoever nests them at all does it twice; a bomb may not use up
# the stack, nor be unfolded ever again for a few bytes each.
DEEPEST = 4
# Input is fed in pieces: what stands behind a member's end is copied by the codecs, with many small members each time.
PIECE = 8 << 10
# Some codecs allocate what they are asked for before they know whether they need it.
STEP = 128 << 10

PACKAGES = {"snappy": "python-snappy", "lz4.frame": "lz4", "zstandard": "zstandard"}


class Output:
    """What came out so far, in pieces; Malformed as soon as it is more than `limit` bytes."""

    def __init__(self, limit: int):
        self.limit, self.size = limit, 0
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self.expect(len(piece))
        self.size += len(piece)
        self._pieces.append(piece)

    def expect(self, more: int) -> None:
        """Malformed if `more` bytes would be too many."""
        if self.size + more > self.limit:
            raise Malformed(f"the records unfold to more than {self.limit} bytes")

    def joined(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def library(name: str) -> Any:
    """The module `name`; ModuleNotFoundError says which package lacks."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"records of this codec need the package {PACKAGES[name]}", name=name) from error


def decompress(codec: Compression, data: Buffer, limit: int = DEFAULT_LIMIT, *, magic: int = 2) -> bytes:
    """The plain records in `data`. `magic`: of the batch, since lz4 in magic 0 has a header checksum of its own.

    Errors: Malformed (damaged, cut off, or more than `limit` bytes), ModuleNotFoundError.
    """
    out = Output(limit)
    view = memoryview(data)
    match codec:
        case Compression.NONE:
            out.add(bytes(view))
        case Compression.GZIP:
            gunzip(view, out)
        case Compression.SNAPPY:
            from proxy.wire.records import snappy_blocks

            snappy_blocks.decompress(view, out)
        case Compression.LZ4:
            from proxy.wire.records import lz4_frames

            lz4_frames.decompress(view, out, magic)
        case Compression.ZSTD:
            from proxy.wire.records import zstd_frames

            zstd_frames.decompress(view, out)
        case Compression.UNKNOWN:
            raise Malformed("an unknown codec")
    return out.joined()


def compress(codec: Compression, data: bytes, level: int | None = None, *, magic: int = 2) -> bytes:
    """`data` as Kafka's own clients would write it. `level`: the codec's own measure, None for its default.

    Errors: ValueError for UNKNOWN; what the codec's library says of a level that it lacks; ModuleNotFoundError.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            packer = zlib.compressobj(-1 if level is None else level, wbits=GZIP_BITS)
            return packer.compress(data) + packer.flush()
        case Compression.SNAPPY:
            from proxy.wire.records import snappy_blocks

            return snappy_blocks.compress(data)
        case Compression.LZ4:
            from proxy.wire.records import lz4_frames

            return lz4_frames.compress(data, level, magic)
        case Compression.ZSTD:
            from proxy.wire.records import zstd_frames

            return zstd_frames.compress(data, level)
        case Compression.UNKNOWN:
            raise ValueError("records can't be written in an unknown codec")


# zlib's word for "with gzip's header and trailer, the largest window"
GZIP_BITS = 31


def gunzip(data: memoryview, out: Output) -> None:
    """All members of a gzip file."""
    at = 0
    while at < len(data) or not at:
        at = _member(data, at, out)


def _member(data: memoryview, at: int, out: Output) -> int:
    unpacker = zlib.decompressobj(GZIP_BITS)
    while not unpacker.eof:
        piece: Buffer = unpacker.unconsumed_tail
        if not piece:
            piece, at = next_piece(data, at, "gzip member")
        try:
            out.add(unpacker.decompress(piece, STEP))
        except zlib.error as error:
            raise Malformed(f"no gzip member: {error}") from None
    return at - len(unpacker.unused_data)


def inside(data: memoryview, at: int, what: str) -> int:
    """`at` itself, if that is no place behind the end. Errors: Malformed."""
    if at > len(data):
        raise Malformed(f"a {what} that does not end")
    return at


def next_piece(data: memoryview, at: int, what: str) -> tuple[memoryview, int]:
    """The next bytes to feed and the offset behind them; Malformed where there are none."""
    piece = data[at : at + PIECE]
    if not piece:
        raise Malformed(f"a {what} that does not end")
    return piece, at + len(piece)

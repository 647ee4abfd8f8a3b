"""The bodies of a row group one after the other, each unfolded when it is asked for.

Arrow unfolds a whole page and makes an array of it before the first body can be had, and a page of large frames is a
row group: one of 64 MiB took 315 MiB, most of it memory that the kernel had to find and clear each time. Here a body is
the only copy of its bytes, and neither the page nor the row group is in memory.

Only for what captures have: pages of version 1 whose values stand one behind the other (PLAIN), compressed with zstd or
not at all. `can_stream` tells; files that other programs have written anew are read by Arrow.
Source: parquet-format's `Encodings.md` (PLAIN, RLE), and `README.md` on data pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from struct import Struct
from typing import Any, BinaryIO

import zstandard

from recorder.capture.frames import DamagedFileError
from recorder.capture.pages import Page, pages

PLAIN = 0
CODECS = frozenset({"ZSTD", "UNCOMPRESSED"})
LENGTH = Struct("<i")
# bytes of compressed data that are read at a time
READ = 128 << 10
# Bytes that are unfolded at a time where bodies are small: one call for each would cost more than the bodies.
BLOCK = 256 << 10
# From so many bytes on (the mean of a page), each body is unfolded to where it stays.
LARGE = 16 << 10
# at most so many bytes hold a run's length
LONGEST_RUN = 9
# up to so many bytes; none at the end. Errors: DamagedFileError
Read = Callable[[int], bytes]


def can_stream(file: BinaryIO, column: Any) -> bool:
    """True if `bodies` reads the column: pyarrow's description of it from the footer. Errors: DamagedFileError."""
    is_known = column.compression in CODECS and not column.has_dictionary_page
    return is_known and all(page.encoding == PLAIN for page in pages(file, column))


def bodies(file: BinaryIO, column: Any, *, nullable: bool, first: int = 0) -> Iterator[bytes | None]:
    """The column's values in their order. Nobody else may move `file` meanwhile.

    Args: nullable: as the schema has it. first: the row to begin with; pages before it are not unfolded.
    Errors: DamagedFileError.
    """
    rows = 0
    for page in pages(file, column):
        if rows + page.values > first:
            file.seek(page.at)
            source = file.read if column.compression == "UNCOMPRESSED" else _unfolded(file)
            yield from islice(_values(_Plain(source, page), page.values, nullable), max(first - rows, 0), None)
        rows += page.values
    if rows != column.num_values:
        raise DamagedFileError(f"{rows} bodies where the footer says {column.num_values}")


def _unfolded(file: BinaryIO) -> Read:
    """Reads what the page unfolds to at which `file` stands."""
    stream = zstandard.ZstdDecompressor().stream_reader(file, read_size=READ, closefd=False)

    def read(size: int) -> bytes:
        try:
            found: bytes = stream.read(size)
            return found
        except (zstandard.ZstdError, MemoryError) as fault:
            raise DamagedFileError(f"a page that can't be unfolded: {fault}") from None

    return read


def _values(plain: _Plain, count: int, nullable: bool) -> Iterator[bytes | None]:
    for is_present in _present(plain.sized(), count) if nullable else repeat(True, count):
        yield plain.sized() if is_present else None


class _Plain:
    """The plain bytes of a page, read forward: each value stands behind its length."""

    def __init__(self, source: Read, page: Page) -> None:
        self._source, self._left = source, page.unfolded
        self._at_once = 0 if page.unfolded >= LARGE * page.values else BLOCK
        self._block, self._at = b"", 0

    def sized(self) -> bytes:
        """The next value. What its length claims is never more than what the page unfolds to."""
        start = self._at + LENGTH.size
        if start > len(self._block):
            self._block, start = self._rest(self._at, LENGTH.size), LENGTH.size
        (size,) = LENGTH.unpack_from(self._block, start - LENGTH.size)
        end = start + size
        if start <= end <= len(self._block):
            self._at = end
            return self._block[start:end]
        if not 0 <= size <= len(self._block) - start + self._left:
            raise DamagedFileError("a body that is longer than its page")
        block = self._rest(start, size)
        self._at = size if len(block) > size else 0
        self._block = block if self._at else b""
        return block[:size]

    def _rest(self, at: int, size: int) -> bytes:
        """The block from `at` on, with what follows, up to `size` bytes or more."""
        found = self._block[at:]
        while len(found) < size:
            more = self._source(min(max(size - len(found), self._at_once), self._left))
            if not more:
                raise DamagedFileError("a page that ends early")
            self._left -= len(more)
            found += more
        return found


def _present(levels: bytes, count: int) -> list[int]:
    """For each of `count` values 1, or 0 for a null: runs of one level, and groups of eight levels as bits."""
    found: list[int] = []
    at = 0
    while len(found) < count:
        header, at = _run(levels, at)
        size = header >> 1
        some = levels[at : at + (size if header & 1 else 1)]
        if not some or not size:
            raise DamagedFileError("levels that end early")
        if header & 1:
            found += [byte >> place & 1 for byte in some for place in range(8)]
        else:
            found += [some[0] & 1] * min(size, count - len(found))
        at += len(some)
    return found[:count]


def _run(levels: bytes, at: int) -> tuple[int, int]:
    """The varint before a run, and the offset behind it."""
    value = shift = 0
    for byte in levels[at : at + LONGEST_RUN]:
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
    raise DamagedFileError("levels that end early")

"""Reads the bodies of a row group one after the other. Each is decompressed when it is asked for.

Used by `row_group`. Arrow decompresses a whole page and makes an array of it before it returns the first body, and a
row group of large frames is one page: 64 MiB took 315 MiB. Here a body is the only copy of its bytes, and
neither the page nor the row group is in memory.

Reads only what the compactor writes: pages of version 1 with the encoding PLAIN, compressed with zstd or not at all.
`can_stream` tells whether a column is like that; Arrow reads the others, which other programs have written.
Source: parquet-format's `Encodings.md` (PLAIN, RLE), and `README.md` on data pages.
"""

from __future__ import annotations

import zlib
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
# Bytes of compressed data that are read at a time. After each, a thread that unfolds bodies beside another one has to
# wait for the interpreter.
COMPRESSED_BLOCK = 1 << 20
# bytes that are decompressed at a time if bodies are small: one call for each body would cost more than the bodies
BLOCK = 256 << 10
# in a page whose bodies have at least so many bytes on average, each body is decompressed by itself, without a block
LARGE = 16 << 10
# the most bytes that a run's header takes
LONGEST_RUN_HEADER = 9
# returns the next bytes, as many as asked for or fewer; none at the end. Errors: DamagedFileError
Read = Callable[[int], bytes]


def can_stream(file: BinaryIO, column: Any) -> bool:
    """True if `bodies` can read the column chunk with this metadata of pyarrow's. Errors: DamagedFileError."""
    is_known = column.compression in CODECS and not column.has_dictionary_page
    return is_known and all(page.encoding == PLAIN for page in pages(file, column))


def bodies(
    file: BinaryIO, column: Any, *, nullable: bool, first: int = 0, is_checked: bool = False
) -> Iterator[bytes | None]:
    """The column's values in order; None for a null. Nothing else may move the position of `file` meanwhile.

    Args:
        nullable: as in the schema.
        first: the row to begin with; pages before it are not decompressed.
        is_checked: the checksums of the pages were right when the file was last read.
    Errors: DamagedFileError.
    """
    rows = 0
    for page in pages(file, column):
        if rows + page.values > first:
            if not is_checked:
                _check_stored(file, page)
            file.seek(page.at)
            source = file.read if column.compression == "UNCOMPRESSED" else _decompressed(file)
            yield from islice(_values(_PlainValues(source, page), page.values, nullable), max(first - rows, 0), None)
        rows += page.values
    if rows != column.num_values:
        raise DamagedFileError(f"{rows} bodies where the footer says {column.num_values}")


def _check_stored(file: BinaryIO, page: Page) -> None:
    """Checks the stored bytes of a page with a checksum. Errors: DamagedFileError."""
    if page.crc is None:
        return
    file.seek(page.at)
    crc, left = 0, page.stored
    while block := file.read(min(left, BLOCK)):
        crc, left = zlib.crc32(block, crc), left - len(block)
    if crc != page.crc:
        raise DamagedFileError("a page whose checksum is wrong")


def _decompressed(file: BinaryIO) -> Read:
    """A function that reads the decompressed bytes of the page at the position of `file`."""
    stream = zstandard.ZstdDecompressor().stream_reader(file, read_size=COMPRESSED_BLOCK, closefd=False)

    def read(size: int) -> bytes:
        try:
            found: bytes = stream.read(size)
            return found
        except (zstandard.ZstdError, MemoryError) as fault:
            raise DamagedFileError(f"a page that can't be unfolded: {fault}") from None

    return read


def _values(plain: _PlainValues, count: int, nullable: bool) -> Iterator[bytes | None]:
    """The `count` values of a page.

    The page of a nullable column begins with the definition levels; the values that aren't null follow. Levels have a
    length in front, as values have, so `next_value` reads both. The page of [b"ab", None]:

        02 00 00 00  03 01    levels: present, null
        02 00 00 00  61 62    b"ab"
    """
    for is_present in _present(plain.next_value(), count) if nullable else repeat(True, count):
        yield plain.next_value() if is_present else None


class _PlainValues:
    """The decompressed bytes of a page, read forward: values, each after its length."""

    def __init__(self, source: Read, page: Page) -> None:
        self._source, self._left = source, page.unfolded
        self._at_once = 0 if page.unfolded >= LARGE * page.values else BLOCK
        self._block, self._at = b"", 0

    def next_value(self) -> bytes:
        """The next value. Errors: DamagedFileError, also if its length exceeds the rest of the page."""
        start = self._at + LENGTH.size
        if start > len(self._block):
            self._block, start = self._read_on(self._at, LENGTH.size), LENGTH.size
        (size,) = LENGTH.unpack_from(self._block, start - LENGTH.size)
        end = start + size
        if start <= end <= len(self._block):
            self._at = end
            return self._block[start:end]
        if not 0 <= size <= len(self._block) - start + self._left:
            raise DamagedFileError("a body that is longer than its page")
        block = self._read_on(start, size)
        self._at = size if len(block) > size else 0
        self._block = block if self._at else b""
        return block[:size]

    def _read_on(self, at: int, size: int) -> bytes:
        """The block's bytes from `at` on; reads more after them until there are `size` or more."""
        block = self._block[at:]
        while len(block) < size:
            more = self._source(min(max(size - len(block), self._at_once), self._left))
            if not more:
                raise DamagedFileError("a page that ends early")
            self._left -= len(more)
            block += more
        return block


def _present(levels: bytes, count: int) -> list[int]:
    """For each of `count` values 1, or 0 for a null.

    `levels`: definition levels as Parquet encodes them. A run is a header (varint) and what its lowest bit says:

        06 01    lowest bit 0: a level, repeated 6 >> 1 = 3 times: 1 1 1
        03 05    lowest bit 1: 3 >> 1 = 1 group of eight levels, as bits from the lowest on: 1 0 1 0 0 0 0 0
    """
    present: list[int] = []
    at = 0
    while len(present) < count:
        header, at = _run_header(levels, at)
        size = header >> 1
        some = levels[at : at + (size if header & 1 else 1)]
        if not some or not size:
            raise DamagedFileError("levels that end early")
        if header & 1:
            present += [byte >> place & 1 for byte in some for place in range(8)]
        else:
            present += [some[0] & 1] * min(size, count - len(present))
        at += len(some)
    return present[:count]


def _run_header(levels: bytes, at: int) -> tuple[int, int]:
    """The varint at a run's beginning, and the offset after it."""
    value = shift = 0
    for byte in levels[at : at + LONGEST_RUN_HEADER]:
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
    raise DamagedFileError("levels that end early")

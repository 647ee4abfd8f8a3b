"""Reads the page headers of a Parquet column, and checks that the pages hold no more than the file's footer says.

A page decompresses to as many bytes and values as its own header claims. The footer has the sums of both for the
column. `row_group` computes its memory from the footer, so it checks that the pages agree (`check_pages`).
`body_stream` takes the positions and encodings of pages from here (`pages`). Source: parquet-format's `parquet.thrift`
(PageHeader), which is written in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

from recorder.capture.frames import DamagedFileError

# Thrift's types, in the low half of a field's first byte
STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
INTEGERS = (4, 5, 6)
# field ids of PageHeader: both sizes of the page, and the structs for data pages (v1, v2)
UNFOLDED, COMPRESSED = 2, 3
# the field with the CRC-32 of a page's stored bytes, as a signed number; other programs may leave it out
CRC = 4
DATA_PAGE = 5
DATA_PAGE_HEADERS = (DATA_PAGE, 8)
# field ids in the structs for data pages; ENCODING is that of version 1
NUM_VALUES, ENCODING = 1, 2
# How many bytes of a header are read at first, and at most. Most headers fit into the first number. The second one is
# more than enough, even if a header holds its page's smallest and largest value.
USUAL_HEADER, LONGEST_HEADER = 1 << 8, 1 << 16
# Thrift's longest integers; a varint holds groups of seven bits
INTEGER_BITS = 64
# levels of nested structs, and elements of a list: real headers have two levels and no lists
DEEPEST, MAX_ELEMENTS = 8, 1000

Struct = dict[int, Any]


class Page(NamedTuple):
    """One page, by its header.

    Attributes:
        at, stored: the offset of its bytes in the file, and their number.
        unfolded: the number of bytes to which it decompresses.
        values: the number of its values; 0 for a dictionary page.
        encoding: Parquet's number of the values' encoding; None for a dictionary page, and for pages of version 2.
        crc: the CRC-32 of its stored bytes; None: the page has none.
    """

    at: int
    stored: int
    unfolded: int
    values: int
    encoding: int | None
    crc: int | None


def pages(file: BinaryIO, column: Any) -> Iterator[Page]:
    """The pages of a column. `column`: the footer's description, by pyarrow. Errors: DamagedFileError."""
    at = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)), default=0)
    end = at + column.total_compressed_size
    while at < end:
        header, size = _header(file, at)
        stored = _number(header, COMPRESSED)
        values = sum(_number(header[field], NUM_VALUES) for field in DATA_PAGE_HEADERS if field in header)
        data = header.get(DATA_PAGE)
        encoding = data.get(ENCODING) if isinstance(data, dict) else None
        crc = header[CRC] & 0xFFFFFFFF if isinstance(header.get(CRC), int) else None
        yield Page(at + size, stored, _number(header, UNFOLDED), values, encoding, crc)
        at += size + stored


def check_pages(file: BinaryIO, column: Any) -> None:
    """Checks the pages of `column`.

    Errors: DamagedFileError for pages that decompress to more bytes, or hold more values, than the footer says.
    """
    unfolded = values = 0
    for page in pages(file, column):
        unfolded += page.unfolded
        values += page.values
    if unfolded > column.total_uncompressed_size or values > column.num_values:
        raise DamagedFileError(f"the pages of {column.path_in_schema} hold more than the footer says")


def _number(struct: Any, field: int) -> int:
    """A size or a count in a header. Errors: DamagedFileError if it is missing, negative or no number."""
    value = struct.get(field) if isinstance(struct, dict) else None
    if not isinstance(value, int) or value < 0:
        raise DamagedFileError("a page without a size")
    return value


def _header(file: BinaryIO, at: int) -> tuple[Struct, int]:
    """The page header at an offset, and its size."""
    for most in (USUAL_HEADER, LONGEST_HEADER):
        file.seek(at)
        reader = _CompactReader(file.read(most))
        with suppress(IndexError):
            return reader.struct(0), reader.at
    raise DamagedFileError("a page's header that does not end")


class _CompactReader:
    """Reads Thrift's compact protocol. Integers and structs become values, everything else None."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int) -> Struct:
        found: Struct = {}
        number = 0
        while (byte := self._byte()) & 15 != STOP:
            number = number + (byte >> 4) if byte >> 4 else self._integer()
            found[number] = self._value(byte & 15, depth + 1)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise DamagedFileError("a page's header of structs in structs")
        if kind == STRUCT:
            return self.struct(depth)
        if kind in INTEGERS:
            return self._integer()
        if kind in (LIST, SET):
            self._list(depth)
        elif kind in (BINARY, DOUBLE, BYTE):
            size = self._varint() if kind == BINARY else 8 if kind == DOUBLE else 1
            self.at += size
        elif kind not in (TRUE, FALSE):
            raise DamagedFileError("a page's header of an unknown type")
        return None

    def _list(self, depth: int) -> None:
        byte = self._byte()
        count = byte >> 4 if byte >> 4 < 15 else self._varint()
        if count > MAX_ELEMENTS:
            raise DamagedFileError("a page's header with a long list")
        for _ in range(count):
            # a boolean in a list takes a byte
            self._value(BYTE if byte & 15 in (TRUE, FALSE) else byte & 15, depth + 1)

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        # most numbers take a byte
        if (value := self._data[self.at]) < 128:
            self.at += 1
            return value
        value = 0
        for shift in range(0, INTEGER_BITS, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128 and not value >> INTEGER_BITS:
                return value
        raise DamagedFileError(f"a page's header with a number of more than {INTEGER_BITS} bits")

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

"""Rows of an Arrow table as tuples of Python values, fast for columns with few different values, as most of a capture.

A column with one value is repeated, each text is made once, and numbers without nulls are read from Arrow's buffer;
only other columns are converted value by value. Rows are converted a few at a time, so the caller never waits long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa

# rows that are converted at a time
AT_ONCE = 256
# Arrow's integers -> how Python's memoryview calls them
_FORMATS: dict[str, Any] = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
}
# start, stop -> the values of these rows
_Column = Callable[[int, int], Any]


def quick_rows(table: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, in order, as tuples of its columns' values."""
    columns = [_column(column.combine_chunks()) for column in table.columns]
    for start in range(0, len(table), AT_ONCE):
        stop = min(start + AT_ONCE, len(table))
        yield from zip(*(column(start, stop) for column in columns), strict=True)


def _column(values: Any) -> _Column:
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if len(values) and values.null_count == len(values):
        return lambda start, stop: repeat(None, stop - start)
    if pa.types.is_string(values.type):
        return _texts(values)
    if pa.types.is_integer(values.type) and not values.null_count:
        return _numbers(values)
    return lambda start, stop: values.slice(start, stop - start).to_pylist()


def _texts(values: Any) -> _Column:
    coded = values.dictionary_encode()
    texts, indices = coded.dictionary.to_pylist(), coded.indices
    if len(texts) == 1 and not values.null_count:
        return lambda start, stop: repeat(texts[0], stop - start)
    # a null has the code behind the last text
    texts.append(None)
    codes = _numbers(indices.fill_null(len(texts) - 1))
    return lambda start, stop: [texts[code] for code in codes(start, stop)]


def _numbers(values: Any) -> _Column:
    """Integers without nulls. Arrow's own way to many of them at once needs numpy, which a plain installation lacks."""
    start, stop = (index * values.type.bit_width // 8 for index in (values.offset, values.offset + len(values)))
    numbers: Any = memoryview(values.buffers()[1]).cast("B")[start:stop].cast(_FORMATS[str(values.type)])
    return lambda start, stop: numbers[start:stop].tolist()

"""Reads a row group of an untrusted Parquet file within an allowance of memory.

Used by `reader`. A few kilobytes of Parquet may hold a hundred million rows, one text a million times, or a page that
decompresses to gigabytes. So the memory of the columns is computed before they are read: from the footer, after a check
that the pages agree with it (`pages`). Texts, and bodies that are stored with a dictionary, are read as dictionary
columns, which hold each value once. They become plain columns only after the size of the plain column has been
computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from proxy.wire.budget import Allowance
from proxy.wire.errors import OverBudget, in_bytes
from recorder.capture import body_stream
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError
from recorder.capture.pages import check_pages
from recorder.capture.remote import Place, file_system_of
from recorder.facts.dropped import Spans, filled

# memory of a value besides its bytes: a number, an index or an offset, and whether it is null
VALUE_COST = 9
# memory of a list's element as a Python value: a dict of two numbers
ELEMENT_COST = 300
TEXT_COLUMNS = frozenset(
    name for name, kind in (*c.FRAME_COLUMNS, *c.EVENT_COLUMNS, *c.ORIGIN_COLUMNS) if kind == "string"
)
# by the number of a row whose frame lacks dropped spans: the spans, and the bytes of the whole frame
Lacking = Mapping[int, tuple[Spans, int]]
NOTHING_LACKING: tuple[Spans, int] = ((), 0)
DICTIONARY_ENCODINGS = frozenset({"PLAIN_DICTIONARY", "RLE_DICTIONARY"})


def opened(path: Place) -> Any:
    """The file opened for `RowGroup`: a pyarrow ParquetFile, to be closed."""
    system, name = file_system_of(path)
    with pq.ParquetFile(name, filesystem=system) as parquet:
        # not `footer.schema`: the schema and the footer refer to each other, so that only the garbage collector frees
        # them. Two objects do not make the collector run, although a footer of eighty row groups takes 2 MB
        footer, present = parquet.metadata, set(parquet.schema_arrow.names)
    wanted = [*TEXT_COLUMNS, *([c.FRAME] if _has_dictionary(footer, c.FRAME) else [])]
    as_dictionaries = [column for column in wanted if column in present]
    # from a store, each column would be a request of its own; `pre_buffer` fetches neighbouring columns together
    remote = not isinstance(path, Path)
    return pq.ParquetFile(
        name,
        filesystem=system,
        metadata=footer,
        read_dictionary=as_dictionaries,
        pre_buffer=remote,
        page_checksum_verification=True,
    )


def _has_dictionary(footer: Any, name: str) -> bool:
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    # all row groups have their columns in the schema's order; to make pyarrow's object of each column would take longer
    # than to read a row group of large frames
    places = [at for at in range(footer.num_columns) if groups and _field(groups[0].column(at)) == name]
    return any(DICTIONARY_ENCODINGS & {*group.column(at).encodings} for group in groups for at in places)


def _columns(group: Any, names: Iterable[str]) -> list[Any]:
    """The footer's descriptions of the columns of these fields; the field of a list has several columns."""
    wanted, columns = {*names}, (group.column(at) for at in range(group.num_columns))
    return [column for column in columns if _field(column) in wanted]


def _field(column: Any) -> str:
    name: str = column.path_in_schema.partition(".")[0]
    return name


class RowGroup:
    """One row group.

    `allowance` pays for the tables that are kept (`keep`). Every read must fit into what is left of it.
    """

    def __init__(self, parquet: Any, file: BinaryIO, number: int, allowance: Allowance) -> None:
        self._parquet, self._file, self._number, self._allowance = parquet, file, number, allowance

    def heads(self, names: Sequence[str]) -> Any:
        """These columns as a table; none of them may be `frame`. Errors: OverBudget, DamagedFileError, pyarrow's."""
        table = self._read(names)
        texts = [at for at, field in enumerate(table.schema) if pa.types.is_dictionary(field.type)]
        # together: a row group has a dozen text columns, and each of them alone may fit
        self._must_fit(sum(_plain_size(table[at]) for at in texts))
        for at in texts:
            table = table.set_column(at, pa.field(table.field(at).name, pa.string()), table[at].cast(pa.string()))
        return table

    def bodies(self, rows: Any) -> Any:
        """The column `frame` of these rows (indices; None: all rows). Errors: as of `heads`."""
        column = self.whole_bodies()
        if rows is not None:
            column = column.take(rows)
        if not pa.types.is_dictionary(column.type):
            return column
        self._must_fit(_plain_size(column))
        return column.cast(column.type.value_type)

    def whole_bodies(self) -> Any:
        """The column `frame`, with zeros in dropped spans. A dictionary holds each body once. Errors: as of `heads`."""
        self._must_fit(self.bodies_size)
        column = self._read([c.FRAME])[c.FRAME]
        if pa.types.is_dictionary(column.type):
            # checks the indices into the dictionary, by which bodies are looked up
            column.validate(full=True)
            if self._lacking:
                self._must_fit(_plain_size(column))
        return _filled(column, self._lacking)

    @cached_property
    def _lacking(self) -> Lacking:
        if c.DROPPED not in self._parquet.schema_arrow.names:
            return {}
        dropped = self._read([c.DROPPED])[c.DROPPED]
        if dropped.null_count == len(dropped):
            return {}
        self._must_fit(dropped.nbytes + ELEMENT_COST * _elements(dropped))
        return _lacking(dropped, self._read([c.STORED])[c.STORED])

    @property
    def bodies_size(self) -> int:
        """The bytes of memory that `whole_bodies` takes at most, by the footer and by the sizes of whole frames."""
        stored = _memory(_columns(self._parquet.metadata.row_group(self._number), [c.FRAME]))
        return stored + sum(size for _, size in self._lacking.values())

    def streamed_bodies(self, first: int, *, is_checked: bool = False) -> Iterator[bytes | None]:
        """The column `frame` from row `first` on, body by body, in little memory.

        `is_checked`: see `body_stream.bodies`. Errors: as of `heads`.
        """
        footer = self._parquet.metadata.row_group(self._number)
        (column,) = _columns(footer, [c.FRAME])
        self._check([column])
        if column.num_values != footer.num_rows:
            raise DamagedFileError(f"{column.num_values} bodies where the footer says {footer.num_rows} rows")
        if body_stream.can_stream(self._file, column):
            nullable = self._parquet.schema_arrow.field(c.FRAME).nullable
            found = body_stream.bodies(self._file, column, nullable=nullable, first=first, is_checked=is_checked)
            return self._whole(found, first) if self._lacking else found
        return (body.as_py() for body in self.whole_bodies()[first:])

    def _whole(self, bodies: Iterator[bytes | None], first: int) -> Iterator[bytes | None]:
        for at, body in enumerate(bodies, first):
            self._must_fit(self._lacking.get(at, NOTHING_LACKING)[1])
            yield _whole(body, self._lacking.get(at))

    def keep(self, table: Any) -> Any:
        """Has the allowance pay for a table, and returns the table. Errors: OverBudget."""
        elements = sum(_elements(column) for column in table.columns)
        self._allowance.take(table.nbytes + ELEMENT_COST * elements)
        return table

    def _read(self, names: Sequence[str]) -> Any:
        footer = self._parquet.metadata.row_group(self._number)
        self._check(_columns(footer, names))
        table = self._parquet.read_row_group(self._number, columns=list(names))
        if len(table) != footer.num_rows:
            raise DamagedFileError(f"{len(table)} rows where the footer says {footer.num_rows}")
        return table

    def _check(self, columns: Sequence[Any]) -> None:
        for column in columns:
            check_pages(self._file, column)
        self._must_fit(_memory(columns))

    def _must_fit(self, size: int) -> None:
        if size > self._allowance.left:
            self._allowance.exhaust()
            raise OverBudget(f"{self._allowance.making} makes more than {in_bytes(self._allowance.size)}")


def with_whole_frames(table: Any) -> Any:
    """A table of frames with zeros in dropped spans."""
    column = _filled(table[c.FRAME], _lacking(table[c.DROPPED], table[c.STORED]))
    return table.set_column(table.column_names.index(c.FRAME), c.FRAME, column)


def _lacking(dropped: Any, stored: Any) -> Lacking:
    """The rows with dropped spans. Errors: DamagedFileError."""
    rows = (at for at, valid in enumerate(dropped.is_valid().to_pylist()) if valid)
    found = {at: (dropped[at].as_py(), stored[at].as_py()) for at in rows}
    if any(size is None or size < 0 for _, size in found.values()):
        raise DamagedFileError(f"its column {c.STORED} has holes")
    return found


def _filled(column: Any, lacking: Lacking) -> Any:
    """A column of frames with zeros in dropped spans. Errors: DamagedFileError."""
    if not lacking:
        return column
    whole = (_whole(body.as_py(), lacking.get(at)) for at, body in enumerate(column))
    return pa.chunked_array([pa.array(whole, pa.binary())])


def _whole(body: bytes | None, lacks: tuple[Spans, int] | None) -> bytes | None:
    try:
        return body if body is None or lacks is None else filled(body, *lacks)
    except ValueError as error:
        raise DamagedFileError(str(error)) from None


def _memory(columns: Sequence[Any]) -> int:
    return sum(column.total_uncompressed_size + VALUE_COST * column.num_values for column in columns)


def _plain_size(column: Any) -> int:
    """The bytes of a dictionary column's values as a plain column. Errors: pyarrow's, for a damaged dictionary."""
    size = 0
    for chunk in column.chunks:
        chunk.dictionary.validate(full=True)
        size += pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
    return size


def _elements(column: Any) -> int:
    return (pc.sum(pc.list_value_length(column)).as_py() or 0) if pa.types.is_list(column.type) else 0

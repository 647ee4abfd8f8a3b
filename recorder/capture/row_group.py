"""Reads a row group of an untrusted Parquet file within an allowance of memory.

Used by `reader`. A few kilobytes of Parquet may hold a hundred million rows, one text a million times, or a page that
decompresses to gigabytes. So the memory of the columns is computed before they are read: from the footer, after a check
that the pages agree with it (`pages`). Texts, and bodies that are stored with a dictionary, are read as dictionary
columns, which hold each value once. They become plain columns only after the size of the plain column has been
computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

# memory of a value besides its bytes: a number, an index or an offset, and whether it is null
VALUE_COST = 9
# memory of a list's element as a Python value: a dict of two numbers
ELEMENT_COST = 300
TEXT_COLUMNS = frozenset(
    name for name, kind in (*c.FRAME_COLUMNS, *c.EVENT_COLUMNS, *c.ORIGIN_COLUMNS) if kind == "string"
)
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
        column = self.stored_bodies()
        if rows is not None:
            column = column.take(rows)
        if not pa.types.is_dictionary(column.type):
            return column
        self._must_fit(_plain_size(column))
        return column.cast(column.type.value_type)

    def stored_bodies(self) -> Any:
        """The column `frame` as it is stored: a dictionary holds each body once. Errors: as of `heads`."""
        column = self._read([c.FRAME])[c.FRAME]
        if pa.types.is_dictionary(column.type):
            # checks the indices into the dictionary, by which bodies are looked up
            column.validate(full=True)
        return column

    @property
    def bodies_size(self) -> int:
        """The bytes of memory that `stored_bodies` takes, by the footer."""
        return _memory(_columns(self._parquet.metadata.row_group(self._number), [c.FRAME]))

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
            return body_stream.bodies(self._file, column, nullable=nullable, first=first, is_checked=is_checked)
        return (body.as_py() for body in self.stored_bodies()[first:])

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

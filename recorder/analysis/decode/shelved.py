"""Rows of several tables as Parquet files: each task writes a file of each table that it has rows of.

So one pass over a capture makes all tables of bodies that a report needs, as `packed` does, where Spark and its workers
share a folder. A question then reads the columns that it needs, and no row is handed to Spark before one asks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from recorder.analysis.decode.rows import Decoder
from recorder.analysis.schema import Table

TABLE, FILE = "table", "file"
DDL = f"{TABLE} string, {FILE} string"
# Rows, and bytes of them, that are written as one row group. A worker holds as many of each table.
_MOST_ROWS, _MOST_BYTES = 1 << 16, 8 << 20


def shelved(batches: Iterable[tuple[Decoder, Any]], folder: str) -> Iterator[Any]:
    """Writes Arrow batches of the tables into files of a new folder in `folder`: batches of DDL of one row a file."""
    import pyarrow as pa

    place = Path(tempfile.mkdtemp(dir=folder))
    shelves: dict[str, _Shelf] = {}
    try:
        for decoder, batch in batches:
            if decoder.name not in shelves:
                shelves[decoder.name] = _Shelf(place / f"{decoder.name}.parquet", decoder.table)
            shelves[decoder.name].put(batch)
    finally:
        for shelf in shelves.values():
            shelf.close()
    files = [str(place / f"{name}.parquet") for name in shelves]
    yield pa.RecordBatch.from_arrays([pa.array([*shelves], pa.string()), pa.array(files, pa.string())], [TABLE, FILE])


class _Shelf:
    """A table's file. Batches of few rows are gathered until they are worth a row group."""

    def __init__(self, path: Path, table: Table) -> None:
        import pyarrow.parquet as pq

        texts = [column.name for column in table.columns if column.kind == "string"]
        self._writer = pq.ParquetWriter(path, table.arrow_schema, use_dictionary=texts, write_statistics=False)
        self._clear()

    def _clear(self) -> None:
        self._batches: list[Any] = []
        self._rows = self._bytes = 0

    def put(self, batch: Any) -> None:
        """Adds the rows of an Arrow batch."""
        self._batches.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= _MOST_ROWS or self._bytes >= _MOST_BYTES:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_batches(self._batches))
        self._clear()

    def close(self) -> None:
        """Writes what is left, and ends the file."""
        if self._batches:
            self._write()
        self._writer.close()

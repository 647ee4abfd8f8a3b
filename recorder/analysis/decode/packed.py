"""Packs rows of several tables into one DataFrame.

So one pass over a capture makes all tables that a report needs, and opens each frame once. A packed row holds the name
of a table and an Arrow batch of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from recorder.facts.rows import Decoder

TABLE, ROWS = "table", "rows"
DDL = f"{TABLE} string, {ROWS} binary"
# fast; and rows repeat the columns of their frames
_CODEC = "lz4"


def packed(batches: Iterable[tuple[Decoder, Any]]) -> Iterator[Any]:
    """Packs each table's Arrow batches: a batch becomes one row with the columns of DDL."""
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression=_CODEC)
    for decoder, batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
            stream.write_batch(batch)
        rows = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([pa.array([decoder.name]), rows], [TABLE, ROWS])


def unpacked(batches: Iterable[Any]) -> Iterator[Any]:
    """The Arrow batches that were packed into the column ROWS."""
    import pyarrow as pa

    for batch in batches:
        for rows in batch.column(ROWS):
            with pa.ipc.open_stream(rows.as_buffer()) as stream:
                yield from stream

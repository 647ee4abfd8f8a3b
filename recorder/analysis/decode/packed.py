"""Rows of several tables in one DataFrame: each row is a batch of rows of one of them, packed.

So one pass over a capture makes all tables of bodies that a report needs, and opens each frame once. A table is what
the batches with its name unpack to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from recorder.analysis.decode.rows import Decoder

TABLE, ROWS = "table", "rows"
DDL = f"{TABLE} string, {ROWS} binary"
# fast, and the heads of frames repeat themselves
_CODEC = "lz4"


def packed(batches: Iterable[tuple[Decoder, Any]]) -> Iterator[Any]:
    """Arrow batches of the tables, as batches of DDL of one row each."""
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression=_CODEC)
    for decoder, batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
            stream.write_batch(batch)
        rows = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([pa.array([decoder.name]), rows], [TABLE, ROWS])


def unpacked(batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches with the column ROWS, as the batches that were packed into it."""
    import pyarrow as pa

    for batch in batches:
        for rows in batch.column(ROWS):
            with pa.ipc.open_stream(rows.as_buffer()) as stream:
                yield from stream

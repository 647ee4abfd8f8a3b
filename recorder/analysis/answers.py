"""What the brokers answered: the error codes in the responses' bodies.

Spark chooses the rows by their heads, in the Parquet reader where it can; only the bodies of those rows travel to
Python, in batches bounded in bytes (settings in job.py), and only codes travel back. A body larger than `largest` is
left alone: the capture gives such a frame a row group of its own, so the filter keeps the reader from loading it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.dialects import Dialect
from proxy.wire.error_paths import apis_with_errors, error_codes
from recorder.analysis import columns as c

# The capture's row groups are bounded by the same number of bytes, and with them what a Parquet reader holds.
LARGEST_BODY = 64 << 20
# body, dialect, api key, api version, where its first masked span starts
Row = tuple[Any, str, int, int | None, int | None]

_FACTS = [c.SESSION, c.CONNECTION, c.EXCHANGE, c.DIALECT, c.API_KEY, c.API_VERSION]
_DECODED = "session string, connection bigint, exchange bigint, error_codes array<smallint>"


def answers(frames: DataFrame, *, largest: int = LARGEST_BODY) -> DataFrame:
    """The error codes of each response whose body can be read: one row an exchange (KEYS, ERROR_CODES).

    ERROR_CODES holds every code other than 0, as often as it stands in the response; null where the body could not be
    read. Responses that were not even looked at (opaque, cut, larger than `largest` bytes) have no row.
    Needs the columns of the capture.
    """
    masked_from = F.get(F.col(c.MASKED), F.lit(0))["start"].cast("int").alias("masked_from")
    return frames.filter(_worth_reading(largest)).select(*_FACTS, masked_from, c.FRAME).mapInArrow(_decode, _DECODED)


def _worth_reading(largest: int) -> Column:
    return (
        (F.col(c.KIND) == "response")
        & F.col(c.EXCHANGE).isNotNull()
        & reduce(or_, map(_has_errors, Dialect))
        & (F.col(c.SIZE) <= largest)
        & (F.col(c.STORED) == F.col(c.SIZE))
    )


def _has_errors(dialect: Dialect) -> Column:
    return (F.col(c.DIALECT) == dialect.value) & F.col(c.API_KEY).isin(apis_with_errors(dialect))


def _decode(batches: Iterable[Any]) -> Iterator[Any]:
    """Runs in Spark's Python workers: record batches of bodies in, record batches of error codes out."""
    import pyarrow as pa

    for batch in batches:
        codes = [_codes_of(row) for row in _rows(batch)]
        keys = [batch.column(name) for name in c.KEYS]
        yield pa.RecordBatch.from_arrays([*keys, pa.array(codes, pa.list_(pa.int16()))], [*c.KEYS, c.ERROR_CODES])


def _rows(batch: Any) -> Iterable[Row]:
    heads = (batch.column(name).to_pylist() for name in (c.DIALECT, c.API_KEY, c.API_VERSION, "masked_from"))
    return zip(batch.column(c.FRAME), *heads, strict=True)


def _codes_of(row: Row) -> list[int] | None:
    body, dialect, api_key, api_version, masked_from = row
    buffer = body.as_buffer()
    if buffer is None:
        return None
    # Arrow calls its bytes signed; a length is not
    frame = memoryview(buffer).cast("B")
    return error_codes(frame, api_key, api_version, masked_from=masked_from, dialect=dialect)

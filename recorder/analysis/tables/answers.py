"""The errors in the responses' bodies, and whether a response may have waited.

Spark selects rows by their heads, in the Parquet reader where it can. Only the bodies of these rows go to Python, in
batches bounded in bytes (settings in job.py), and only codes and words come back. Bodies larger than `largest` are not
read: the capture gives such a frame a row group of its own, so the filter keeps the reader from loading it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.dialects import Dialect
from proxy.wire.error_paths import Unread, apis_with_errors
from recorder.analysis import columns as t
from recorder.capture import frames as c
from recorder.capture.frames import CUT
from recorder.capture.reading import Reading, read, unread_wait

# The capture's row groups, and with them a Parquet reader's memory, are bounded by the same number of bytes.
LARGEST_BODY = 64 << 20
# body, dialect, api key, api version, where its first masked span starts, whether it never came whole
BodyRow = tuple[Any, str, int, int | None, int | None, bool]

_FACTS = [c.SESSION, c.CONNECTION, c.EXCHANGE, c.DIALECT, c.API_KEY, c.API_VERSION]
_MASKED_FROM, _IS_CUT = "masked_from", "is_cut"
_DECODED = "session string, connection bigint, exchange bigint, error_codes array<smallint>, unread string, wait string"


def answers(frames: DataFrame, *, largest: int = LARGEST_BODY) -> DataFrame:
    """One row for each response whose body was read (KEYS, ERROR_CODES, UNREAD, WAIT).

    ERROR_CODES holds every code other than 0, as often as it occurs in the response; if the body could not be read, it
    is null and UNREAD says why. WAIT is null but for long polls (`proxy.wire.long_polls`). Responses that were not
    selected (opaque, left out, larger than `largest` bytes) have no row. Needs the columns of the capture.
    """
    # a span without a start may begin anywhere
    start = F.coalesce(F.get(F.col(c.MASKED), F.lit(0))["start"].cast("int"), F.lit(0))
    masked_from = F.when(F.size(c.MASKED) > 0, start).alias(_MASKED_FROM)
    is_cut = F.coalesce(F.col(c.NOTE).startswith(CUT), F.lit(False)).alias(_IS_CUT)
    chosen = frames.filter(_worth_reading(largest)).select(*_FACTS, masked_from, is_cut, c.FRAME)
    return chosen.mapInArrow(_decode, _DECODED)


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
    """Runs in Spark's Python workers: takes record batches of bodies, returns record batches of readings."""
    import pyarrow as pa

    for batch in batches:
        readings = [_read(row) for row in _rows(batch)]
        keys = [batch.column(name) for name in t.KEYS]
        codes = pa.array([None if one.unread else one.codes for one in readings], pa.list_(pa.int16()))
        words = [pa.array([one[at] for one in readings], pa.string()) for at in (1, 2)]
        yield pa.RecordBatch.from_arrays([*keys, codes, *words], [*t.KEYS, t.ERROR_CODES, t.UNREAD, t.WAIT])


def _rows(batch: Any) -> Iterable[BodyRow]:
    names = (c.DIALECT, c.API_KEY, c.API_VERSION, _MASKED_FROM, _IS_CUT)
    return zip(batch.column(c.FRAME), *(batch.column(name).to_pylist() for name in names), strict=True)


def _read(row: BodyRow) -> Reading:
    body, dialect, api_key, api_version, masked_from, is_cut = row
    buffer = body.as_buffer()
    if buffer is None:
        return Reading([], Unread.OMITTED, unread_wait(dialect, api_key))
    # Arrow's buffers are of signed bytes
    frame = memoryview(buffer).cast("B")
    return read(
        frame, dialect=dialect, api_key=api_key, api_version=api_version, masked_from=masked_from, is_cut=is_cut
    )

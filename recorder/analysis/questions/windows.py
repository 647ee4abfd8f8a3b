"""Latency and errors a window of a capture that is still being recorded: the answers of a stream.

The measures are those of `latency_by_api` and `errors_by_api`. A window is written once, when the watermark has passed
its end, so these group by the window itself: of its start alone Spark does not know when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.questions.groups import groups, in_calendar
from recorder.analysis.questions.latency import measures, waits
from recorder.analysis.tables.errors import each_code, looked_up
from recorder.capture import frames as c

_WINDOW = "_window"
# columns of exchanges, beside those that are grouped by
ERRORS_NEED = (c.AT, t.ERROR_CODES)
LATENCY_NEEDS = (
    *ERRORS_NEED,
    t.ANSWERED_AT,
    t.OUTCOME,
    t.WAIT,
    c.REQUEST_SIZE,
    t.RESPONSE_SIZE,
    c.LATENCY_NS,
)


def in_time(exchanges: DataFrame, watermark: str) -> DataFrame:
    """The exchanges of which a stream awaits no more once its newest is by `watermark` newer. Needs AT.

    A time that no calendar has would have every later exchange come late.
    """
    return exchanges.filter(in_calendar(F.col(c.AT))).withWatermark(c.AT, watermark)


def latency_in_windows(exchanges: DataFrame, *, window: str, by: Sequence[str] = (c.API,)) -> DataFrame:
    """The columns of `latency_by_api` per window. Needs what it needs.

    UNANSWERED is missing: that an answer does not come, no row tells.
    """
    found = exchanges.groupBy(_window(window), *groups(by, None), waits().alias(t.WAIT)).agg(*measures())
    return _started(found.drop(t.UNANSWERED))


def errors_in_windows(exchanges: DataFrame, *, window: str, by: Sequence[str] = (c.API,)) -> DataFrame:
    """The columns of `errors_by_api` per window. Needs what it needs."""
    each = each_code(exchanges, [F.col(c.AT), *groups(by, None)])
    counted = each.groupBy(_window(window), *by, t.ERROR_CODE).agg(
        F.sum(t.COUNT).alias(t.COUNT), F.count("*").alias(t.EXCHANGES)
    )
    name, retriable = looked_up()
    told = counted.withColumns({t.ERROR: name, t.RETRIABLE: retriable})
    return _started(told).select(t.WINDOW_START, *by, t.ERROR_CODE, t.ERROR, t.RETRIABLE, t.COUNT, t.EXCHANGES)


def _window(length: str) -> Column:
    return F.window(c.AT, length).alias(_WINDOW)


def _started(found: DataFrame) -> DataFrame:
    rest = [name for name in found.columns if name != _WINDOW]
    return found.select(F.col(_WINDOW)["start"].alias(t.WINDOW_START), *rest)

"""Latency and errors by window, for a stream over a capture that is still being recorded.

The measures are those of `latency_by_api` and `errors_by_api`. Spark writes a window when the watermark has passed
its end. So the functions group by the window itself: from its start alone, Spark can't tell its end.
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
# columns of EXCHANGES that the functions need besides those to group by
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
    """Returns the exchanges with a watermark: an exchange that is older than the newest one by more is late. Needs AT.

    Exchanges with a time beyond the calendar are left out: after one of them, all others would be late.
    """
    return exchanges.filter(in_calendar(F.col(c.AT))).withWatermark(c.AT, watermark)


def latency_in_windows(exchanges: DataFrame, *, window: str, by: Sequence[str] = (c.API,)) -> DataFrame:
    """Returns the columns of `latency_by_api` per window, except UNANSWERED. Needs LATENCY_NEEDS and `by`.

    A stream knows only exchanges that one row describes, and so no unanswered ones.
    """
    found = exchanges.groupBy(_window(window), *groups(by, None), waits().alias(t.WAIT)).agg(*measures())
    return _started(found.drop(t.UNANSWERED))


def errors_in_windows(exchanges: DataFrame, *, window: str, by: Sequence[str] = (c.API,)) -> DataFrame:
    """Returns the columns of `errors_by_api` per window, except FLOW. Needs ERRORS_NEED and `by`."""
    each = each_code(exchanges, [F.col(c.AT), *groups(by, None)])
    counted = each.groupBy(_window(window), *by, t.ERROR_CODE).agg(
        F.sum(t.COUNT).alias(t.COUNT), F.count("*").alias(t.EXCHANGES)
    )
    name, retriable = looked_up()
    named = counted.withColumns({t.ERROR: name, t.RETRIABLE: retriable})
    return _started(named).select(t.WINDOW_START, *by, t.ERROR_CODE, t.ERROR, t.RETRIABLE, t.COUNT, t.EXCHANGES)


def _window(length: str) -> Column:
    return F.window(c.AT, length).alias(_WINDOW)


def _started(found: DataFrame) -> DataFrame:
    rest = [name for name in found.columns if name != _WINDOW]
    return found.select(F.col(_WINDOW)["start"].alias(t.WINDOW_START), *rest)

"""The columns by which answers are grouped: those that the question names, and optionally a window of time."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.expressions import api
from recorder.capture import frames as c

# Python's calendar, less a day at either end for time zones
_CALENDAR = ("0001-01-02", "9999-12-30")


def groups(by: Sequence[str], window: str | None) -> list[Column]:
    """Returns the grouping columns: WINDOW_START if `window` (such as "1 minute") is given, then those of `by`.

    An api that the catalog does not know is named by its key, `api 1234`, so two unknown APIs stay apart.
    WINDOW_START is null for times that Python can't represent.
    """
    columns = [api().alias(c.API) if name == c.API else F.col(name) for name in by]
    if window is None:
        return columns
    start = F.window(c.AT, window)["start"]
    return [F.when(in_calendar(start), start).alias(t.WINDOW_START), *columns]


def in_calendar(moment: Column) -> Column:
    """True for times that Python can represent."""
    return moment.between(*(F.lit(end).cast("timestamp") for end in _CALENDAR))

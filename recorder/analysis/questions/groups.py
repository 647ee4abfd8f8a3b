"""The grouping columns of the tables by api: the api's name, and optionally a window of time."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.capture import frames as c

# the calendar, less a day at either end for time zones
_CALENDAR = ("0001-01-02", "9999-12-30")


def by_api(window: str | None) -> list[Column]:
    """Grouping columns: WINDOW_START first if `window` (such as "1 minute") is given, then API.

    An api that the catalog does not know is named by its key, `api 1234`, so that two unknown ones stay apart.
    WINDOW_START is null for times beyond the calendar, which Python can't represent.
    """
    api = F.coalesce(F.col(c.API), F.concat(F.lit("api "), F.col(c.API_KEY).cast("string"))).alias(c.API)
    if window is None:
        return [api]
    start = F.window(c.AT, window)["start"]
    known = start.between(*(F.lit(end).cast("timestamp") for end in _CALENDAR))
    return [F.when(known, start).alias(t.WINDOW_START), api]

"""Expressions that tables, questions and findings share."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.capture import frames as c

# Spark's approximate percentile is exact for groups with at most this many values.
_ACCURACY = 10_000


def ns(at: str | Column) -> Column:
    """Returns a timestamp in ns since 1970; it is exact to the microsecond."""
    return F.unix_micros(at) * 1000


def api() -> Column:
    """Returns the api's name. An unknown api is named by its key, "api 1234", so that two of them stay apart."""
    return F.coalesce(F.col(c.API), F.concat(F.lit("api "), F.col(c.API_KEY).cast("string")))


def percentile(value: str | Column, share: float) -> Column:
    """Returns an aggregate: the percentile of a group's values, by nearest rank, so it is one of the values."""
    return F.percentile_approx(value, share, _ACCURACY)


def percentiles(value: str | Column, shares: list[float]) -> Column:
    """Returns an aggregate: the list of these percentiles, computed in one pass; null for a group without values."""
    return F.percentile_approx(value, shares, _ACCURACY)

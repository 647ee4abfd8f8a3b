"""Expressions that tables, questions and findings share."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

# Spark's approximate percentile is exact until a group has more values than this.
_ACCURACY = 10_000


def ns(at: str | Column) -> Column:
    """A moment in ns since 1970, to the microsecond."""
    return F.unix_micros(at) * 1000


def percentile(value: str | Column, share: float) -> Column:
    """The value below which the share of a group's values lies: one that occurred (nearest rank)."""
    return F.percentile_approx(value, share, _ACCURACY)


def percentiles(value: str | Column, shares: list[float]) -> Column:
    """The list of several such values, for the work of one; null where there is no value."""
    return F.percentile_approx(value, shares, _ACCURACY)

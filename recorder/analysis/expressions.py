"""Expressions that tables, questions and findings share."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.embedded import is_embedded
from recorder.capture import frames as c

# Spark's approximate percentile is exact for groups with at most this many values.
_ACCURACY = 10_000

# units of time, and how many of them a millisecond has
_PARTS_OF_MS = {"microseconds": 1_000, "nanoseconds": 1_000_000}


def ns(at: str | Column) -> Column:
    """Returns a timestamp in ns since 1970; it is exact to the microsecond."""
    return F.unix_micros(at) * 1000


def api() -> Column:
    """Returns the api's name. An unknown api is named by its key, "api 1234", so that two of them stay apart."""
    return F.coalesce(F.col(c.API), F.concat(F.lit("api "), F.col(c.API_KEY).cast("string")))


def finer_unit(stamp_ms: Column, at: Column) -> Column:
    """Returns the unit in which a record's time is given where Kafka takes milliseconds: `microseconds`,
    `nanoseconds`; null for milliseconds, and for other times.

    Args:
        at: when the record came. A time within a factor of two of it has the unit that leads there.
    """
    shares = stamp_ms / (F.unix_micros(at) / 1000)
    found = F.lit(None).cast("string")
    for unit, parts in _PARTS_OF_MS.items():
        found = F.when(shares.between(parts / 2, parts * 2), F.lit(unit)).otherwise(found)
    return found


def in_ms(stamp_ms: Column, at: Column) -> Column:
    """Returns a record's time in milliseconds, also if it is given in a `finer_unit`."""
    parts = F.create_map(*(F.lit(part) for pair in _PARTS_OF_MS.items() for part in pair))
    unit = finer_unit(stamp_ms, at)
    return F.when(unit.isNull(), stamp_ms.cast("double")).otherwise(stamp_ms / F.try_element_at(parts, unit))


def percentile(value: str | Column, share: float) -> Column:
    """Returns an aggregate: the percentile of a group's values, by nearest rank, so it is one of the values."""
    return percentiles(value, [share])[0] if is_embedded() else F.percentile_approx(value, share, _ACCURACY)


def percentiles(value: str | Column, shares: list[float]) -> Column:
    """Returns an aggregate: the list of these percentiles, computed in one pass; null for a group without values."""
    if not is_embedded():
        return F.percentile_approx(value, shares, _ACCURACY)
    # The embedded engine would interpolate. Here it holds all values of a group: auto asks it about small captures.
    ordered = F.array_sort(F.collect_list(value))
    found = F.array(*(F.get(ordered, (F.ceil(share * F.size(ordered)) - 1).cast("int")) for share in shares))
    return F.when(F.count(value) > 0, found)


def without(values: str | Column, others: str | Column) -> Column:
    """Returns the different values of an array that the other array lacks; null if either is null.

    Neither may hold nulls.

    (`array_except` takes no arrays on the embedded engine that differ in whether values may be null.)
    """
    found = F.filter(F.array_distinct(values), lambda value: ~F.array_contains(others, value))
    other = F.col(others) if isinstance(others, str) else others
    return F.when(other.isNotNull(), found)


def union_of(one: DataFrame, other: DataFrame) -> DataFrame:
    """Returns the rows of both tables; columns that one of them lacks are null in its rows.

    (`allowMissingColumns` leaves such a column without a type on the embedded engine.)
    """
    kinds = {field.name: field.dataType for table in (one, other) for field in table.schema.fields}
    both = [
        table.withColumns({name: F.lit(None).cast(kind) for name, kind in kinds.items() if name not in table.columns})
        for table in (one, other)
    ]
    return both[0].unionByName(both[1])

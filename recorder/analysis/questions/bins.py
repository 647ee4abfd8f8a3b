"""The report's timeline: rows grouped by its bins, and such rows as series of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import ns
from recorder.analysis.summary.bounds import MAX_TOP, Series, Timeline, Top
from recorder.capture import frames as c

BIN, NAME = "bin", "name"
OTHER = "other"


def span(captured: Captured) -> Timeline | None:
    """Returns the timeline of the chosen frames; None if there are none."""
    first, last = captured.chosen.agg(F.min(ns(c.AT)), F.max(ns(c.AT))).collect()[0]
    return None if first is None else Timeline.over(first, last)


def bin_of(line: Timeline, at: str = c.AT) -> Column:
    """Returns the bin of a moment; a moment outside the timeline belongs to the nearest bin."""
    found = F.floor((ns(at) - line.first_at_ns) / line.bin_ns)
    return F.least(F.greatest(found, F.lit(0)), F.lit(line.bins - 1)).cast("int").alias(BIN)


def series(name: str, line: Timeline, values: Iterable[tuple[int, float | None]], empty: float | None = None) -> Series:
    """Returns a series from (bin, value) pairs; all other bins have the value `empty`."""
    found = dict(values)
    return Series(name, tuple(found.get(at, empty) for at in range(line.bins)))


def firsts(ordered: DataFrame, most: int) -> tuple[list[Any], int]:
    """Returns the first rows, and the number of all rows. Only if there may be more does a second query count them."""
    rows = ordered.limit(most).collect()
    return rows, len(rows) if len(rows) < most else ordered.count()


def top_names(totals: DataFrame, by: str) -> tuple[list[str], int]:
    """Returns the names (NAME) of the rows with the largest `by`, and the number of all rows."""
    rows, total = firsts(totals.orderBy(F.desc(by), NAME), MAX_TOP)
    return [row[NAME] for row in rows], total


def among(names: Sequence[str]) -> Column:
    """Returns a column: NAME if it is one of these, else OTHER."""
    return F.when(F.col(NAME).isin(*names), F.col(NAME)).otherwise(OTHER) if names else F.lit(OTHER)


def by_name(rows: Iterable[Any], value: str) -> dict[str, list[tuple[int, float | None]]]:
    """Returns the (bin, value) pairs of each name."""
    found: dict[str, list[tuple[int, float | None]]] = {}
    for row in rows:
        found.setdefault(row[NAME], []).append((row[BIN], row[value]))
    return found


def stacked(rows: DataFrame, names: list[str], total: int, line: Timeline, value: Column) -> Top[Series]:
    """Returns a series for each of these names, and one for all other names. Needs NAME and AT."""
    found = rows.groupBy(among(names).alias(NAME), bin_of(line)).agg(value.cast("double").alias("value")).collect()
    values = by_name(found, "value")
    tops = tuple(series(name, line, values.get(name, ()), 0) for name in names)
    rest = series(OTHER, line, values[OTHER], 0) if OTHER in values and OTHER not in names else None
    return Top(tops, total, rest)

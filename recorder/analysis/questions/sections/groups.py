"""The section on consumer groups: the lag of each group over time (its lane in the plot), and the rebalances.

Lag is summed over a group's partitions at the end of each bin. A lane has no values if the lag is unknown: share groups
commit no offsets, and for other groups the log's end may not have been recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.expressions import ns
from recorder.analysis.questions.bins import firsts
from recorder.analysis.summary.bounds import MAX_ROWS, MAX_TOP, Series, Table, Timeline, Top
from recorder.analysis.summary.sections.groups import Group, Groups, Rebalance
from recorder.analysis.tables.lag import KEY, Offsets, Span, aged
from recorder.analysis.tables.rebalances import SILENT_S, lives
from recorder.capture import frames as c
from recorder.facts import group_rows as g

# A partition with lag is stalled if its committed offset does not move for so many of the rules' windows.
STALLED_WINDOWS = 10
# Topics that a group's row names.
_MOST_TOPICS = 5
# Characters of the reasons that members gave.
_LONGEST_REASON = 200
_GROUP = "group_id"


class GroupTables(NamedTuple):
    """The section's tables: `group_events`, `rebalances`, offsets, and lag by the timeline's bins (`lag_windows`).

    `within`: the capture's end, and the length of the rules' windows.
    """

    events: DataFrame
    rebalances: DataFrame
    offsets: Offsets
    lag: DataFrame
    within: Span


def groups(found: GroupTables, line: Timeline) -> Groups:
    """Returns the section."""
    bins = found.lag.withColumn("bin", F.col("window") - line.first_at_ns // line.bin_ns)
    sums = _sums(bins)
    every = _people(found).join(_totals(sums), _GROUP, "left").join(_counts(found), _GROUP, "left")
    order = F.desc_nulls_last("most_lag"), F.desc_nulls_last("commits"), F.col(_GROUP)
    shown, total = firsts(every.orderBy(*order), MAX_TOP)
    names = [row[_GROUP] for row in shown]
    if not names and (reason := _unread(found.events)):
        return Groups(not_judged=reason)
    ages, lanes = _ages(found, bins, line, names), _lanes(sums, names)
    rows = (_group(row, ages.get(row[_GROUP]), lanes.get(row[_GROUP], {}), line) for row in shown)
    return Groups(groups=Top(tuple(rows), total), rebalances=_rebalances(found.rebalances))


def _unread(events: DataFrame) -> str | None:
    """Returns the reason why no request of a group could be read; None if there are no such requests."""
    count, reason = events.agg(F.count("*"), F.mode(t.UNREAD)).collect()[0]
    return f"none of the {count} requests of groups could be read ({reason})" if count else None


def _people(found: GroupTables) -> DataFrame:
    """Returns each group's protocol, its topics, and the number of its members at the end."""
    named = found.events.filter(F.col(_GROUP).isNotNull())
    told = F.when(F.col("topic").isNotNull(), F.array("topic")).otherwise(F.col("subscription"))
    # what was refused is not the group's topic
    wanted = F.when(F.coalesce(t.ERROR_CODE, F.lit(0)) == 0, told)
    facts = named.groupBy(_GROUP).agg(
        F.mode("protocol").alias("protocol"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_set(wanted)))).alias("topics"),
    )
    heard = ns("last") >= found.within.last_ns - SILENT_S * 10**9
    there = lives(found.events).groupBy(_GROUP).agg(F.count_if(heard & F.col("left").isNull()).alias("members"))
    return facts.join(there, _GROUP, "left")


def _counts(found: GroupTables) -> DataFrame:
    counted = found.rebalances.groupBy(_GROUP).agg(
        F.count("*").alias("rebalances"), F.max(F.size("members")).alias("most_members")
    )
    is_commit = F.col("step") == g.COMMIT
    committed = found.events.filter(is_commit & F.col("counts_from").isNotNull()).groupBy(_GROUP)
    # a commit of several partitions counts once
    commits = committed.agg(F.count_distinct(c.SESSION, c.CONNECTION, c.EXCHANGE).alias("commits"))
    return counted.join(commits, _GROUP, "full_outer")


def _sums(bins: DataFrame) -> DataFrame:
    """Returns each group's lag at the end of each bin, over all partitions; null if no partition's lag is known."""
    return bins.groupBy(_GROUP, "bin").agg(F.sum("lag").alias("lag"))


def _totals(sums: DataFrame) -> DataFrame:
    known = sums.filter(F.col("lag").isNotNull())
    return known.groupBy(_GROUP).agg(F.max("lag").alias("most_lag"), F.max_by("lag", "bin").alias("last_lag"))


def _lanes(sums: DataFrame, names: Iterable[str]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for row in sums.filter(F.col(_GROUP).isin(*names)).collect() if names else ():
        found.setdefault(row[_GROUP], {})[row["bin"]] = row["lag"]
    return found


def _ages(found: GroupTables, bins: DataFrame, line: Timeline, names: Iterable[str]) -> dict[str, Any]:
    """Returns the age of each group's lag at the end (`lag_ms`), and the bin from which a partition is `stalled`."""
    order = Window.partitionBy(*KEY).orderBy("bin")
    moves = ~F.col("committed_offset").eqNullSafe(F.lag("committed_offset").over(order))
    still = F.coalesce(F.col("lag") > 0, F.lit(False)) & ~moves
    since = F.max(F.when(~still, F.col("bin"))).over(Window.partitionBy(*KEY))
    last = F.row_number().over(Window.partitionBy(*KEY).orderBy(F.desc("bin"))) == 1
    ends = bins.filter(F.col(_GROUP).isin(*names)).withColumns({"since": since, "is_last": last}).filter("is_last")
    enough = STALLED_WINDOWS * found.within.window_ns // line.bin_ns
    stalled = F.when(F.col("bin") - F.col("since") >= enough, F.col("since") + 1)
    rows = (
        aged(found.offsets, ends, found.within)
        .groupBy(_GROUP)
        .agg(F.max("lag_ms").alias("lag_ms"), F.min(stalled).alias("stalled"))
    )
    return {row[_GROUP]: row for row in rows.collect()} if names else {}


def _group(row: Any, age: Any, lane: dict[int, int], line: Timeline) -> Group:
    values = tuple(lane.get(at) for at in range(line.bins))
    stalled = age and age["stalled"]
    return Group(
        row[_GROUP],
        row["protocol"],
        row["members"],
        row["most_members"],
        tuple((row["topics"] or ())[:_MOST_TOPICS]),
        row["rebalances"] or 0,
        row["commits"],
        row["last_lag"],
        row["most_lag"],
        age and age["lag_ms"],
        None if stalled is None else line.begin_ns(stalled),
        Series("lag", values),
    )


def _rebalances(found: DataFrame) -> Table[Rebalance]:
    joined = F.substring(F.array_join("reasons", "; "), 1, _LONGEST_REASON)
    said = F.when(joined != "", joined).alias("said")
    times = [ns(name).alias(name) for name in ("from_at", "to_at")]
    columns: list[str | Column] = [_GROUP, *times, c.CAUSE, F.size("members").alias("members"), "generation"]
    rows, total = firsts(found.orderBy("from_at", _GROUP).select(*columns, said), MAX_ROWS)
    return Table(tuple(Rebalance(*row) for row in rows), total)

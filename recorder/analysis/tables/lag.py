"""The lag of consumer groups: a row for each partition of a group and window of time.

Lag is the log's end less the group's last commit that counts, at the same moment, as Kafka's own tool shows it. Commits
and log ends become steps in order of time, each with the lag of its moment. A window has the last, the least and the
largest lag of its steps. A window without steps repeats the last lag.

    commits ─┐
             ├─ steps in order ── lag at each ── windows ── filled ── lag_ms, lag_records
    ends ────┘  (a few a window)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it
from pyspark.sql.window import WindowSpec

from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import ns, union_of
from recorder.analysis.tables.group_events import COUNTS_FROM, group_events
from recorder.analysis.tables.lag_age import with_age
from recorder.analysis.tables.log_ends import log_ends
from recorder.analysis.tables.names import CLUSTER_CALLED
from recorder.analysis.tables.topic_lives import DIES, LIFE, topic_lives, with_life
from recorder.capture import frames as c
from recorder.facts import group_rows as g
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

SECOND_NS = 10**9
MINUTE_NS = 60 * SECOND_NS
# A shorter capture has shorter windows: minutes would be too few.
SHORT_CAPTURE_NS, SHORT_WINDOW_NS = 10 * MINUTE_NS, 5 * SECOND_NS
# The ends that are kept for a partition and window: a busy partition has thousands.
ENDS_A_WINDOW = 10
# An end that no frame has shown for this long may be outdated.
STALE_S = 60

WINDOW_END = "window_end"
LAG = Table(
    "lag",
    "a group's lag on a partition at the end of a window (1 min; 5 s in captures of less than 10 min)",
    (
        CLUSTER_CALLED,
        Declared("group_id", "string", "the group"),
        Declared("topic", "string", "the topic"),
        Declared(
            "topic_id",
            "string",
            "its id, or its name if no id was told. A topic that is deleted and made anew has another id",
        ),
        Declared("partition", "int", "the partition"),
        Declared(WINDOW_END, "timestamp", "the window's end, or the capture's"),
        Declared("end_offset", "bigint", "the log's end; null if no frame has told it yet"),
        Declared("committed_offset", "bigint", "the group's last commit that counts; null: none"),
        Declared("committed_at", "timestamp", "when it began to count, or was first told"),
        Declared(
            "lag", "bigint", "`end_offset` less `committed_offset`; 0 if the commit is ahead of the end that was told"
        ),
        Declared("least_lag", "bigint", "the least lag in the window"),
        Declared("most_lag", "bigint", "the largest lag in the window"),
        Declared("lag_ms", "bigint", "the time since the log's end passed the commit; null: before the capture"),
        Declared(
            "readable_lag",
            "bigint",
            "the lag of a reader of committed records: up to the last stable offset; null: unknown, because the log "
            "has grown since a Fetch told that offset in an earlier window",
        ),
        Declared("lag_records", "bigint", "`lag` less the control batches in it that the capture holds"),
        Declared("is_stale", "boolean", f"whether nothing has told the end for {STALE_S} s"),
        Declared("commits", "bigint", "how many commits of the window count"),
    ),
    needs_bodies=True,
)
_PARTITION = [c.CLUSTER, "topic", LIFE, "partition"]
KEY = [*_PARTITION, "group_id"]
# `stable_at`: when a Fetch told the last stable offset; `fetched_end`: the end that it told
_STATE = ["end_offset", "stable_offset", "told_at", "stable_at", "fetched_end", "commit"]
# returns the table of this name; makes it by the function if it is not there yet
Once = Callable[[str, Callable[[], DataFrame]], DataFrame]


class Span(NamedTuple):
    """The time of a capture, in ns, and how long its windows are."""

    last_ns: int
    window_ns: int

    @property
    def last_window(self) -> int:
        """The number of the window of the last frame."""
        return self.last_ns // self.window_ns


def window_ns(first_ns: int, last_ns: int) -> int:
    """How long the windows of a capture are."""
    return MINUTE_NS if last_ns - first_ns >= SHORT_CAPTURE_NS else SHORT_WINDOW_NS


def span(captured: Captured) -> Span:
    """The capture's end and windows. Runs a Spark job if the files don't tell their times."""
    first, last = captured.times or captured.chosen.agg(F.min(c.AT_NS), F.max(c.AT_NS)).collect()[0]
    return Span(last or 0, window_ns(first or 0, last or 0))


def made_anew(_name: str, make: Callable[[], DataFrame]) -> DataFrame:
    """Makes the table, and does not keep it."""
    return make()


class Offsets(NamedTuple):
    """The tables that lag is made of. `kept`: rows of `commits`. `ends`: ends of logs, with their topics' lives.

    `lives`: the lives of topics. `once`: makes a table once, and keeps it.
    """

    kept: DataFrame
    ends: DataFrame
    lives: DataFrame
    once: Once = made_anew

    def points(self, within: Span) -> DataFrame:
        """The ends, `thinned`."""
        return self.once(f"ends by {within.window_ns} ns", lambda: thinned(self.ends, within))


def offsets(captured: Captured) -> Offsets:
    """The offsets of all groups. Needs a capture that keeps tables: each is read several times."""
    lives = captured.once("lives of topics", lambda: topic_lives(captured))
    kept = captured.once("commits", lambda: commits(group_events(captured), lives))
    ends = captured.once("ends of logs", lambda: with_life(log_ends(captured, kept), lives))
    return Offsets(kept, ends, lives, captured.once)


def lag(captured: Captured) -> DataFrame:
    """One row a window: the columns of LAG."""
    found, within = offsets(captured.keeping()), span(captured)
    return aged(found, lag_windows(found, within), within).select(*LAG.names)


def lag_windows(found: Offsets, within: Span) -> DataFrame:
    """One row a window: the columns of LAG without those of `aged`; also `window` (its number), and LIFE."""
    windows = filled(by_window(with_lag(steps(found.kept, found.points(within))), within), found.lives, within)
    behind = _not_below_0(F.col("stable_offset") - F.col("committed_offset"))
    begins_us = F.col("window") * (within.window_ns // 1000)
    has_grown = (F.col("end_offset") > F.col("fetched_end")) & (F.unix_micros("stable_at") < begins_us)
    readable = F.when(~F.coalesce(has_grown, F.lit(False)), behind)
    stale = F.unix_seconds(WINDOW_END) - F.unix_seconds("told_at") > STALE_S
    return windows.withColumns({"readable_lag": readable, "is_stale": stale, "topic_id": F.col(LIFE)})


def aged(found: Offsets, windows: DataFrame, within: Span) -> DataFrame:
    """Rows of `lag_windows` with `lag_ms` and `lag_records`."""
    return with_age(windows, found.points(within), found.ends)


def commits(events: DataFrame, lives: DataFrame) -> DataFrame:
    """The commits that count, and offsets in OffsetFetch answers: KEY, AT, `committed_offset`, `is_commit`."""
    counting = events.filter(F.col(COUNTS_FROM).isNotNull())
    found = counting.filter(F.col("topic").isNotNull())
    offsets = found.withColumns({c.AT: F.col(COUNTS_FROM), "is_commit": F.col("step") == g.COMMIT})
    placed = with_life(offsets, lives).select(*KEY, c.AT, "committed_offset", "is_commit")
    # a deleted group has no offset of any partition
    gone = counting.filter((F.col("step") == g.DELETE) & F.col("topic").isNull())
    deleted = gone.select(c.CLUSTER, "group_id", F.col(COUNTS_FROM).alias(c.AT)).join(
        placed.select(*KEY).distinct(), [c.CLUSTER, "group_id"]
    )
    nothing = F.lit(None).cast("bigint").alias("committed_offset")
    return placed.unionByName(deleted.select(*KEY, c.AT, nothing, F.lit(False).alias("is_commit")))


def thinned(ends: DataFrame, within: Span) -> DataFrame:
    """A few ends a window and partition: the highest and the lowest with their first times, and the latest time."""
    step = F.floor(ns(c.AT) / (within.window_ns // ENDS_A_WINDOW))
    earliest = F.struct(F.col("end_offset"), -F.unix_micros(c.AT))
    is_fetched = F.col("stable_offset").isNotNull()
    return ends.groupBy(*_PARTITION, step.alias("_step")).agg(
        F.max_by(c.AT, earliest).alias(c.AT),
        F.max("end_offset").alias("end_offset"),
        F.min(F.struct("end_offset", F.unix_micros(c.AT).alias("at_us"))).alias("lowest"),
        F.max("stable_offset").alias("stable_offset"),
        F.max(c.AT).alias("told_at"),
        F.max(F.when(is_fetched, F.col(c.AT))).alias("stable_at"),
        F.max(F.when(is_fetched, F.col("end_offset"))).alias("fetched_end"),
    )


def steps(kept: DataFrame, points: DataFrame) -> DataFrame:
    """The commits, and the ends of their partitions, repeated for each group that commits the partition."""
    groups = kept.select(*KEY).distinct()
    ends = points.join(groups, _PARTITION).select(*KEY, c.AT, *_STATE[:-1])
    state = F.struct("committed_offset", F.col(c.AT).alias("committed_at")).alias("commit")
    return union_of(kept.select(*KEY, c.AT, state, "is_commit"), ends)


def with_lag(steps: DataFrame) -> DataFrame:
    """The steps, each with the end and the commit of its moment, and the lag."""
    # at the same moment, the end comes first
    until_now = _in_order(KEY, c.AT, F.col("is_commit").isNotNull()).rowsBetween(Window.unboundedPreceding, 0)
    state = {name: F.max(name).over(until_now) for name in _STATE[:-1]}
    commit = F.last("commit", ignorenulls=True).over(until_now)
    found = steps.withColumns({**state, "commit": commit})
    behind = F.col("end_offset") - F.col("commit")["committed_offset"]
    # before its first commit, a group is not known to exist
    return found.filter(F.col("commit").isNotNull()).withColumn("lag", _not_below_0(behind))


def _not_below_0(offsets: Column) -> Column:
    """Null stays null."""
    return F.when(offsets.isNotNull(), F.greatest(offsets, F.lit(0)))


def _in_order(key: list[str], *order: str | Column) -> WindowSpec:
    return Window.partitionBy(*key).orderBy(*order)


def by_window(steps: DataFrame, within: Span) -> DataFrame:
    """The last state of each window that has steps."""
    number = F.floor(ns(c.AT) / within.window_ns).alias("window")
    # at the same moment, the step that knows more
    last = F.struct(c.AT, F.coalesce("end_offset", F.lit(-1)), F.coalesce("is_commit", F.lit(False)))
    return steps.groupBy(*KEY, number).agg(
        F.max_by(F.struct(*_STATE, "lag"), last).alias("state"),
        F.min("lag").alias("least_lag"),
        F.max("lag").alias("most_lag"),
        F.count_if("is_commit").alias("commits"),
    )


def filled(windows: DataFrame, lives: DataFrame, within: Span) -> DataFrame:
    """All windows from the first one to the topic's end or the capture's. A window without steps repeats the last
    state.
    """
    dies = F.floor(ns(DIES) / within.window_ns)
    ended = (
        windows.groupBy(*KEY)
        .agg(F.min("window").alias("_first"))
        .join(
            F.broadcast(lives.select(c.CLUSTER, "topic", LIFE, dies.alias("_dies"))), [c.CLUSTER, "topic", LIFE], "left"
        )
    )
    last = F.greatest(F.least(F.lit(within.last_window), F.coalesce("_dies", F.lit(within.last_window))), "_first")
    every = ended.select(*KEY, F.explode(F.sequence("_first", last)).alias("window"))
    found = every.join(windows, [*KEY, "window"], "left")
    state = F.last("state", ignorenulls=True).over(_in_order(KEY, "window").rowsBetween(Window.unboundedPreceding, 0))
    end_us = F.least((F.col("window") + 1) * (within.window_ns // 1000), F.lit(within.last_ns // 1000))
    unfolded = found.withColumn("state", state).select(*KEY, "window", "least_lag", "most_lag", "commits", "state.*")
    return unfolded.withColumns(
        {
            "committed_offset": F.col("commit.committed_offset"),
            "committed_at": F.col("commit.committed_at"),
            "least_lag": F.coalesce("least_lag", "lag"),
            "most_lag": F.coalesce("most_lag", "lag"),
            "commits": F.coalesce("commits", F.lit(0)),
            WINDOW_END: F.timestamp_micros(end_us),
        }
    )

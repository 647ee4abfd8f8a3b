"""Rules on consumer groups: frequent rebalances, members that end without leaving, that get no partition or never
commit, lag that stays or grows.

Lag is that of `tables.lag`, in the windows of the rules. A lag must stay, or keep growing, for ten windows.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.expressions import ns
from recorder.analysis.findings.counting import Words, counted, evidence, inside, null_safe_join, rule_rows
from recorder.analysis.findings.rows import CASES, EVIDENCE, FROM_NS, MEASURE, OF, TO_NS, WINDOW
from recorder.analysis.findings.tables import CLUSTER_ID, Tables
from recorder.analysis.findings.windows import LONG
from recorder.analysis.tables.clients import HOST, host
from recorder.analysis.tables.group_events import COUNTS_FROM
from recorder.analysis.tables.lag import KEY, WINDOW_END
from recorder.analysis.tables.rebalance_causes import FENCED, JOINED, LOST, UNKNOWN
from recorder.analysis.tables.rebalances import SILENT_S, assignments, lives
from recorder.capture import frames as c
from recorder.facts import group_rows as g
from recorder.facts.frame import RESPONSE
from recorder.facts.rows import SIDE

# causes that are problems by themselves
BAD_CAUSES = (LOST, FENCED, UNKNOWN)
_GROUP = [c.CLUSTER, "group_id"]
_TOPIC = [*_GROUP, "topic"]

RuleFunction = Callable[[Tables], DataFrame]


def rebalances(tables: Tables) -> DataFrame:
    """The larger of two numbers within ten windows: rebalances because members were lost or fenced, or for no known
    reason; and rebalances because members joined, divided by the number of members. Each rebalance holds up the group's
    reading.
    """
    numbered = tables.rebalances.withColumn(WINDOW, tables.windows.number("from_at"))
    near = Window.partitionBy(*_GROUP).orderBy(WINDOW).rangeBetween(1 - LONG, 0)
    is_bad, is_join = F.col(c.CAUSE).isin(*BAD_CAUSES), F.col(c.CAUSE) == JOINED
    bad, joins = (F.count_if(which).over(near) for which in (is_bad, is_join))
    peak = F.greatest(F.max(F.size("members")).over(near), F.lit(1))
    causes = F.array_join(F.array_sort(F.collect_set(F.when(is_bad | is_join, F.col(c.CAUSE))).over(near)), ", ")
    first = F.min(F.when(is_bad | is_join, ns("from_at"))).over(near)
    measured = {MEASURE: F.greatest(bad, joins / peak), "_causes": causes, "_first": first, CASES: F.lit(1)}
    found = _at(numbered.withColumns(measured).filter(is_bad | is_join), "from_at")
    return rule_rows(found.withColumn(FROM_NS, F.col("_first")), "group_id", {"causes": "_causes"})


def silent_leaves(tables: Tables) -> DataFrame:
    """Members of a group that closed their connection without leaving the group. Static members do so on purpose, and
    don't count. A member counts once the group goes on without it.
    """
    lost = tables.rebalances.select(*_GROUP, "from_at", F.explode("lost").alias("who"))
    last = (
        lives(tables.group_events)
        .filter(~F.col("is_static"))
        .withColumnsRenamed({"last_session": c.SESSION, "last_connection": c.CONNECTION})
    )
    number = tables.windows.number("closed_at").alias(WINDOW)
    closed = tables.connections.select(c.SESSION, c.CONNECTION, "closed_at", number)
    ended = lost.join(last, [*_GROUP, "who"]).join(closed, [c.SESSION, c.CONNECTION])
    gone = ended.filter(F.col("closed_at") <= F.col("from_at"))
    return rule_rows(_at(gone.withColumns({CASES: F.lit(1), MEASURE: F.lit(1)}), "closed_at"), "group_id")


def idle_members(tables: Tables) -> DataFrame:
    """Members of a group that have no partition at a window's end, while others have some: there are more members than
    partitions, or their assignor gives some members nothing. Share groups, whose members share partitions, and groups
    of Kafka Streams are left out.
    """
    held = tables.windows.spread(assignments(tables.group_events), "until")
    # the assignment at the window's end
    last = inside(held.filter(tables.windows.number("until") > F.col(WINDOW)))
    is_idle, window_ns = F.col("partitions") == 0, F.col(WINDOW) * tables.windows.length_ns
    rows = last.groupBy(*_GROUP, WINDOW).agg(
        F.count("*").alias("_members"),
        F.sum("partitions").alias("_partitions"),
        F.count_if(is_idle).alias(CASES),
        F.min_by(evidence(last, ns(c.AT)), F.when(is_idle, F.struct(c.AT, "who"))).alias(EVIDENCE),
    )
    own = {OF: F.lit(None), MEASURE: F.col(CASES), FROM_NS: window_ns, TO_NS: window_ns + tables.windows.length_ns}
    found = rows.filter((F.col(CASES) > 0) & (F.col("_partitions") > 0)).withColumns(own)
    return rule_rows(found, "group_id", {"members": "_members", "partitions": "_partitions"})


def never_commits(tables: Tables) -> DataFrame:
    """Records that members of a group read, in ten windows or more, while no commit of the group was accepted.
    Consumers that choose their partitions themselves (assign) don't count, nor do share groups and groups of Kafka
    Streams.
    """
    own = ["_cluster", HOST, c.CLIENT_ID, "topic"]
    events = tables.group_events.withColumn("_cluster", F.col(c.CLUSTER)).withColumn(HOST, host())
    members = events.filter(F.col("protocol").isin(g.CLASSIC, g.CONSUMER) & (F.size("assignment") > 0))
    topics = members.withColumn("topic", F.explode(F.transform("assignment", _topic_of)))
    is_accepted = (F.col("step") == g.COMMIT) & (F.col(t.ERROR_CODE) == 0)
    committed = events.filter(is_accepted).groupBy("_cluster", "group_id").agg(F.lit(True).alias("_commits"))
    # clients of several groups may read for any of them
    of_client = null_safe_join(topics, committed, ["_cluster", "group_id"], "left").groupBy(*own)
    readers = of_client.agg(F.min("group_id").alias("group_id"), F.max("_commits").alias("_commits"))
    is_read = (F.col(SIDE) == RESPONSE) & (F.col(c.API) == "Fetch") & (F.col("bytes") > 0) & F.col("topic").isNotNull()
    reads = tables.of_bodies(tables.partitions.filter(is_read)).withColumn("_cluster", F.col(CLUSTER_ID))
    uncommitted = null_safe_join(reads.drop("group_id"), readers.filter(F.col("_commits").isNull()), own)
    facts = {
        "_windows": F.count_distinct("_in"),
        "_topics": F.array_join(F.array_sort(F.collect_set("topic")), ", "),
        MEASURE: F.sum(F.coalesce("records", F.lit(1))),
    }
    found = counted(uncommitted.withColumns({"_in": F.col(WINDOW), WINDOW: F.lit(0)}), ["group_id"], more=facts)
    long = found.filter(F.col("_windows") >= LONG).withColumn(OF, F.lit(None).cast("bigint"))
    return rule_rows(long, "group_id", {"topics": "_topics"})


def _topic_of(partition: Column) -> Column:
    """The topic of a partition such as `orders-3`."""
    return F.regexp_replace(partition, r"-\d+$", "")


def stalled(*, has_members: bool) -> RuleFunction:
    """Makes a rule's function: the lag of groups that commit nothing new, either with members or without."""

    def find(tables: Tables) -> DataFrame:
        """A group's lag on those partitions of a topic whose commit has not changed for ten windows."""
        order = Window.partitionBy(*KEY).orderBy(WINDOW)
        is_same = F.col("committed_offset") == F.lag("committed_offset").over(order)
        still = ((F.col("least_lag") > 0) & is_same).cast("int")
        in_a_row = F.sum(still).over(order.rowsBetween(2 - LONG, 0))
        hot = tables.lag.withColumn("_still", in_a_row).filter(F.col("_still") >= LONG - 1)
        behind = hot.groupBy(*_TOPIC, WINDOW, WINDOW_END).agg(
            F.sum("lag").alias(MEASURE),
            F.count("*").alias("_partitions"),
            F.array_join(F.array_sort(F.collect_set("partition")), ", ").alias("_numbers"),
        )
        known = _with_members(behind, tables).filter(F.col("_has_members") == has_members)
        return _of_lag(known, tables, {"topic": "topic", "partitions": "_numbers"})

    return find


def falls_behind(tables: Tables) -> DataFrame:
    """By how many records a group's lag on a topic has grown in ten windows. Its least lag grew in each of them,
    although the group went on committing: more is written than it reads.
    """
    sums = tables.lag.groupBy(*_TOPIC, WINDOW, WINDOW_END).agg(
        F.sum("least_lag").alias("_least"), F.sum("commits").alias("_commits")
    )
    order = Window.partitionBy(*_TOPIC).orderBy(WINDOW)
    was = F.lag("_least").over(order)
    rising = sums.withColumn("_rises", F.coalesce((F.col("_least") > was) & (was > 0), F.lit(False)).cast("int"))
    ten = order.rowsBetween(1 - LONG, 0)
    facts = {
        "_ups": F.sum("_rises").over(ten),
        "_made": F.sum("_commits").over(ten),
        MEASURE: F.col("_least") - F.lag("_least", LONG).over(order),
    }
    hot = rising.withColumns(facts).filter((F.col("_ups") >= LONG) & (F.col("_made") > 0))
    return _of_lag(hot, tables, {"topic": "topic", "lag": "_least"})


def _of_lag(found: DataFrame, tables: Tables, words: Words) -> DataFrame:
    """Makes a rule's rows of windows of a group and topic. The evidence is the group's last commit that counts."""
    counts = tables.group_events.filter((F.col("step") == g.COMMIT) & F.col(COUNTS_FROM).isNotNull())
    at_ns = ns(c.AT)
    shown = evidence(counts, at_ns)
    last = counts.groupBy(*_TOPIC).agg(F.max_by(shown, F.struct(at_ns, shown)).alias(EVIDENCE))
    end_ns = ns(WINDOW_END)
    times = {FROM_NS: end_ns, TO_NS: end_ns, CASES: F.lit(1), OF: F.lit(None)}
    subject = F.concat("group_id", F.lit(" on "), F.col("topic"))
    with_evidence = null_safe_join(found, last, _TOPIC, "left").withColumns(times)
    return rule_rows(with_evidence, subject, {"group": "group_id", **words})


def _with_members(found: DataFrame, tables: Tables) -> DataFrame:
    """The rows, and whether the group has a member at the window's end."""
    every = (
        lives(tables.group_events)
        .groupBy(*_GROUP)
        .agg(F.collect_list(F.struct("first", "last", "left")).alias("_lives"))
    )
    now = F.col(WINDOW_END)

    def is_there(life: Column) -> Column:
        has_left = F.coalesce(life["left"] <= now, F.lit(False))
        is_heard = life["last"] >= now - F.expr(f"INTERVAL {SILENT_S} SECONDS")
        return (life["first"] <= now) & ~has_left & is_heard

    there = F.coalesce(F.exists("_lives", is_there), F.lit(False))
    return null_safe_join(found, every, _GROUP, "left").withColumn("_has_members", there).drop("_lives")


def _at(found: DataFrame, at: str) -> DataFrame:
    """The rows with `at` as the time of their case, and themselves as evidence."""
    at_ns = ns(at)
    return found.withColumns({FROM_NS: at_ns, TO_NS: at_ns, OF: F.lit(None), EVIDENCE: evidence(found, at_ns)})

"""What `inspect groups`, `transactions` and `metadata` show: each a few tables of a capture, as people read them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.similar import LIKELY, nearest
from proxy.terminal import printable
from recorder.analysis.bodies import Captured
from recorder.analysis.sources import load
from recorder.analysis.tables.errors import looked_up
from recorder.facts import group_rows as g

# the steps of a member that a group's timeline shows
_STEPS = (g.JOIN, g.SYNC, g.LEAVE)
_PARTITION = ("cluster", "group_id", "topic_id", "partition")
# columns of rebalances that hold ids of members, or the names of static ones
_MEMBERS = ("members", "joined", "left", "lost")
# names of groups that a wrong one is compared with
_NAMES = 10_000


class Look(NamedTuple):
    """One table.

    `what`: a row of it is this, for the sentence where it has none; `meant`: the end of that sentence.
    """

    title: str
    what: str
    rows: Callable[[Captured], DataFrame]
    meant: Callable[[Captured], str] = lambda _: ""


def groups() -> Look:
    """A row for each group. `members`: those of the last generation that have not left since."""
    return Look("Groups", "group", _groups)


def group(name: str) -> dict[str, Look]:
    """One group's rebalances, the steps of its members, and how far behind it is at the end."""
    shown, meant = printable(name), partial(_meant, name=name)
    return {
        "rebalances": Look("Rebalances", f"rebalance of the group {shown}", partial(_rebalances, name=name), meant),
        "steps": Look("Steps of members", f"step of a member of the group {shown}", partial(_steps, name=name), meant),
        "lag": Look("Lag at the end", f"commit of the group {shown}", partial(_lag, name=name), meant),
    }


def _meant(found: Captured, name: str) -> str:
    """The group that was probably meant by a name that no group has."""
    rows = load(found, "group_events").select("group_id").filter(F.col("group_id").isNotNull()).distinct()
    names = [row["group_id"] for row in rows.limit(_NAMES).collect()]
    near = None if name in names else nearest(name, names, likeness=LIKELY)
    return "" if near is None else f"; did you mean the group {printable(near)}?"


def of_transactions() -> Look:
    """A row for each transaction."""
    return Look("Transactions", "transaction", _transactions)


def moves() -> Look:
    """A row for each partition or node whose state became another one."""
    return Look("Leaders, replicas and nodes that changed", "change of a leader, a replica or a node", _moves)


def _groups(found: Captured) -> DataFrame:
    rebalances, lag = load(found, "rebalances"), _last_lag(load(found, "lag"))
    key = ["cluster", "group_id"]
    left = load(found, "group_events").filter((F.col("step") == g.LEAVE) & (F.col("error_code") == 0))
    leaves = left.select(*key, "member_id", "at")
    formed = rebalances.groupBy(*key).agg(
        F.max_by("protocol", "from_at").alias("protocol"),
        F.max("generation").alias("generation"),
        F.max_by("members", "from_at").alias("members"),
        F.count("*").alias("rebalances"),
        F.max("from_at").alias("last_rebalance"),
        F.max_by("cause", "from_at").alias("cause"),
    )
    behind = lag.groupBy(*key).agg(
        F.count("*").alias("partitions"), F.sum("lag").alias("lag"), F.max("lag_ms").alias("lag_ms")
    )
    # nobody tells the last member's leaving: no generation follows it
    gone = (
        formed.join(leaves, key)
        .filter((F.col("at") > F.col("last_rebalance")) & F.array_contains("members", F.col("member_id")))
        .groupBy(*key)
        .agg(F.count_distinct("member_id").alias("gone"))
    )
    present = F.size("members") - F.coalesce("gone", F.lit(0))
    return (
        formed.join(gone, key, "left")
        .withColumn("members", F.when(F.col("members").isNotNull(), present))
        .drop("gone")
        .join(behind, key, "full_outer")
        .orderBy(F.desc_nulls_last("lag"), "group_id")
    )


def _rebalances(found: Captured, name: str) -> DataFrame:
    rows = load(found, "rebalances").filter(F.col("group_id") == name).crossJoin(_client_ids(found, name))
    for column in _MEMBERS:
        rows = rows.withColumn(column, F.transform(column, _by_client_id))
    shown = (
        "from_at",
        "generation",
        "duration_ms",
        "cause",
        "members",
        "joined",
        "left",
        "lost",
        "reasons",
        "assignor",
    )
    return rows.orderBy("from_at", "generation").select(*shown)


def _client_ids(found: Captured, name: str) -> DataFrame:
    """One row with the map `client_ids`: client ids of a group's members, by their ids and by static members' names."""
    steps = load(found, "group_events").filter((F.col("group_id") == name) & F.col("client_id").isNotNull())
    ids = steps.select(F.explode(F.array("member_id", "instance_id")).alias("id"), "client_id", "at")
    each = ids.filter(F.col("id").isNotNull()).groupBy("id").agg(F.max_by("client_id", "at").alias("client_id"))
    return each.agg(F.map_from_entries(F.collect_list(F.struct("id", "client_id"))).alias("client_ids"))


def _by_client_id(member: Column) -> Column:
    """A member as people know it: its client id, with the member's id beside it."""
    client = F.col("client_ids")[member]
    return F.when(client.isNotNull(), F.concat(client, F.lit(" ("), member, F.lit(")"))).otherwise(member)


def _steps(found: Captured, name: str) -> DataFrame:
    rows = load(found, "group_events").filter((F.col("group_id") == name) & F.col("step").isin(*_STEPS))
    shown = ("at", "step", "client_id", "member_id", "generation", "is_leader", "assignment", "reason")
    error = F.when(F.col("error_code") != 0, looked_up()[0]).alias("error")
    return rows.orderBy("at", "connection", "sequence").select(*shown, error)


def _lag(found: Captured, name: str) -> DataFrame:
    rows = _last_lag(load(found, "lag").filter(F.col("group_id") == name))
    shown = ("topic", "partition", "end_offset", "committed_offset", "lag", "lag_ms", "committed_at", "is_stale")
    return rows.select(*shown).orderBy(F.desc_nulls_last("lag"), "topic", "partition")


def _last_lag(lag: DataFrame) -> DataFrame:
    """The last window of each partition of a group."""
    last = F.row_number().over(Window.partitionBy(*_PARTITION).orderBy(F.desc("window_end")))
    return lag.withColumn("_number", last).filter("_number = 1").drop("_number")


def _transactions(found: Captured) -> DataFrame:
    shown = (
        "begun_at",
        "transactional_id",
        "number",
        "outcome",
        "told_by",
        "ended_at",
        "partitions",
        "records",
        "bytes",
    )
    return load(found, "transactions").select(*shown, "groups", "client_id").orderBy("begun_at", "transactional_id")


def _moves(found: Captured) -> DataFrame:
    shown = (
        "at",
        "topic",
        "partition",
        "was_leader",
        "leader",
        "leader_epoch",
        "was_isr",
        "isr",
        "was_replicas",
        "replicas",
    )
    node = ("told_node", "was_address", F.concat("host", F.lit(":"), F.col("port").cast("string")).alias("address"))
    return (
        load(found, "metadata_changes")
        .filter(~F.col("is_first"))
        .select(*shown, *node)
        .orderBy("at", "topic", "partition")
    )

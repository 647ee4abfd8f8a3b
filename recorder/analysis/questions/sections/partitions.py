"""The section on partitions: which node leads a partition, and how many bytes it carries."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.questions.bins import firsts
from recorder.analysis.summary.bounds import MAX_MARKS, MAX_ROWS, Marks, Table
from recorder.analysis.summary.sections.partitions import NO_LEADER, LoadOfNode, Partition, Partitions
from recorder.analysis.table_cache import persisted
from recorder.analysis.tables.names import named
from recorder.analysis.tables.produced import not_written, written_only
from recorder.capture import frames as c
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.rows import SIDE
from recorder.facts.topic_partitions import TOPIC_PARTITIONS


def partitions(captured: Captured, changes: DataFrame) -> Partitions:
    """Returns the section on partitions: their bytes and leaders, and the bytes of each node.

    The leader is that of the last Metadata response, or else the last node that served the partition.
    Needs the columns of METADATA_CHANGES.
    """
    used = named(captured, TOPIC_PARTITIONS).filter(F.col("topic").isNotNull() & (F.col("bytes") > 0))
    writes = (F.col(SIDE) == REQUEST) & (F.col(c.API) == "Produce")
    reads = (F.col(SIDE) == RESPONSE) & F.col(c.API).isin("Fetch", "ShareFetch")
    size = {
        name: F.coalesce(F.sum(F.when(which, F.col("bytes"))), F.lit(0)).alias(name)
        for name, which in (("written", writes), ("read", reads))
    }
    happened = written_only(used.filter(writes | reads), not_written(captured))
    found = happened.groupBy("topic", "partition")
    rows = found.agg(*size.values(), F.max_by(c.NODE, F.when(F.col(c.NODE).isNotNull(), F.col(c.AT))).alias("served"))
    sized = rows.withColumn("size", F.col("written") + F.col("read"))
    with persisted(_with_states(sized, changes)) as every:
        return Partitions(partitions=_map(every), nodes=_nodes(every))


def _with_states(rows: DataFrame, changes: DataFrame) -> DataFrame:
    """Adds the newest state from Metadata responses: `leader`, the numbers of `replicas` and `in_sync` replicas.

    `of`: the number of the topic's partitions.
    """
    newest = F.struct(F.coalesce("leader_epoch", F.lit(-1)), c.AT)
    state = F.struct("leader", F.size("replicas").alias("replicas"), F.size("isr").alias("in_sync"))
    told_all = F.col("partition").isNotNull() & F.col("asker").isNull()
    of_partitions = changes.filter(told_all).groupBy("topic", "partition")
    states = of_partitions.agg(F.max_by(state, newest).alias("_state"))
    counts = states.groupBy("topic").agg((F.max("partition") + 1).alias("of"))
    both = rows.join(F.broadcast(states), ["topic", "partition"], "left").join(F.broadcast(counts), ["topic"], "left")
    known = F.when(F.col("_state").isNotNull(), F.coalesce(F.col("_state")["leader"], F.lit(NO_LEADER)))
    return both.withColumns(
        {
            "leader": F.coalesce(known, "served"),
            "replicas": F.col("_state")["replicas"],
            "in_sync": F.col("_state")["in_sync"],
        }
    )


def _map(every: DataFrame) -> Marks[Partition]:
    of_topic = Window.partitionBy("topic")
    topic_bytes = F.sum("size").over(of_topic)
    # partitions are numbered from 0, so without Metadata the highest number tells how many there are at least
    least = F.greatest(F.max("partition").over(of_topic) + 1, F.max("of").over(of_topic), F.lit(1))
    shown = every.withColumns({"of_topic": topic_bytes, "skew": F.col("size") * least / topic_bytes})
    rows, total = firsts(shown.orderBy(F.desc("of_topic"), "topic", "partition"), MAX_MARKS)
    return Marks(
        tuple(
            Partition(
                row["topic"],
                row["partition"],
                row["leader"],
                row["written"],
                row["read"],
                row["skew"],
                row["replicas"],
                row["in_sync"],
            )
            for row in rows
        ),
        total,
    )


def _nodes(every: DataFrame) -> Table[LoadOfNode]:
    rows = every.filter(F.col("leader") != NO_LEADER).groupBy("leader")
    found = rows.agg(F.count("*"), F.sum("written"), F.sum("read")).orderBy("leader")
    nodes, total = firsts(found, MAX_ROWS)
    return Table(tuple(LoadOfNode(*row) for row in nodes), total)

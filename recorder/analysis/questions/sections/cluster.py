"""The sections on topics and partitions: who uses a topic, which node leads a partition, how many bytes they carry."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS
from recorder.analysis.decode.frame import REQUEST, RESPONSE
from recorder.analysis.decode.rows import SIDE
from recorder.analysis.decode.topic_partitions import TOPIC_PARTITIONS
from recorder.analysis.expressions import ns
from recorder.analysis.questions.sections.bins import firsts
from recorder.analysis.summary.bounds import MAX_MARKS, MAX_ROWS, MAX_TOP, Marks, Table, Top
from recorder.analysis.summary.cluster import (
    NO_LEADER,
    EventsOfTopic,
    LoadOfNode,
    Partition,
    Partitions,
    Side,
    Topics,
    TopicTotals,
    TopicUse,
)
from recorder.analysis.table_cache import persisted
from recorder.analysis.tables.clients import HOST
from recorder.analysis.tables.names import named
from recorder.analysis.tables.produced import REFUSED, RETRIED, UNANSWERED, not_written, written_only
from recorder.analysis.tables.topic_use import READS, WRITES, topic_use
from recorder.capture import frames as c

_SIDES = {WRITES: Side.WRITES, READS: Side.READS}
# columns of `topic_use`, in the order of the values of a topic and of a client
_OTHER_RECORDS = tuple(f"{result}_records" for result in (REFUSED, RETRIED, UNANSWERED))
_NOT_ACCEPTED = (*_OTHER_RECORDS, f"{UNANSWERED}_bytes")


def topics(captured: Captured) -> Topics:
    """Returns the section on topics: their clients, and the CloudEvents in them."""
    use = topic_use(captured).filter(F.col("topic").isNotNull())
    happened = written_only(named(captured, CLOUDEVENTS), not_written(captured))
    return Topics(totals=_totals(use), use=_use(use), cloudevents=events(happened))


def events(found: DataFrame) -> Table[EventsOfTopic]:
    """Counts the events of each topic and mode by the clause of the binding that they break; null for none.

    Needs the columns of CLOUDEVENTS.
    """
    broken = F.explode_outer(F.arrays_zip("violations", "reasons"))
    each = found.filter(F.col("topic").isNotNull() & F.col("mode").isNotNull()).withColumn("_broken", broken)
    of_clause = each.groupBy("topic", "mode", F.col("_broken.violations").alias("clause"))
    counts = of_clause.agg(
        F.min("_broken.reasons").alias("reason"),
        F.count_if(F.col(SIDE) == REQUEST).alias("written"),
        F.count_if(F.col(SIDE) == RESPONSE).alias("read"),
    )
    rows, total = firsts(counts.orderBy("topic", "mode", F.col("clause").asc_nulls_first()), MAX_ROWS)
    return Table(tuple(EventsOfTopic(*row) for row in rows), total)


def _totals(use: DataFrame) -> Top[TopicTotals]:
    writes, client = F.col("use") == WRITES, F.struct(HOST, c.CLIENT_ID, c.PRINCIPAL)
    # a client is no writer if brokers refused all that it wrote
    is_writer = writes & (F.col("partitions") > 0)
    rows = use.groupBy("topic").agg(
        F.coalesce(F.sum(F.when(writes, F.col("bytes"))), F.lit(0)).alias("written"),
        F.coalesce(F.sum(F.when(~writes, F.col("bytes"))), F.lit(0)).alias("read"),
        F.sum(F.when(writes, F.col("records"))).alias("written_records"),
        F.sum(F.when(~writes, F.col("records"))).alias("read_records"),
        F.max("partitions").alias("partitions"),
        F.count_distinct(F.when(is_writer, client)).alias("writers"),
        F.count_distinct(F.when(~writes, client)).alias("readers"),
        *(F.sum(name).alias(name) for name in _NOT_ACCEPTED),
    )
    size = F.col("written") + F.coalesce("unanswered_bytes", F.lit(0)) + F.col("read")
    shown, total = firsts(rows.orderBy(F.desc(size), "topic"), MAX_TOP)
    return Top(tuple(TopicTotals(*row) for row in shown), total)


def _use(use: DataFrame) -> Table[TopicUse]:
    times = [ns(name).alias(name) for name in ("first_at", "last_at")]
    names = ["topic", "use", c.CLIENT_ID, "software", c.PRINCIPAL, "group_id", "bytes", "records"]
    size = F.col("bytes") + F.coalesce("unanswered_bytes", F.lit(0))
    ordered = use.orderBy(F.desc(size), "topic", "use", c.CLIENT_ID)
    rows, total = firsts(ordered.select(*names, *times, *_OTHER_RECORDS), MAX_ROWS)
    return Table(tuple(map(_used, rows)), total)


def _used(row: Any) -> TopicUse:
    topic, use, client_id, software, principal, group, size, records, first, last, *others = row
    return TopicUse(
        topic,
        _SIDES[use],
        client_id,
        software,
        principal,
        group,
        size or 0,
        records,
        first,
        last,
        *others,
    )


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

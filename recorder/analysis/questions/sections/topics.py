"""The section on topics: who uses a topic, and the CloudEvents in it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS
from recorder.analysis.expressions import ns
from recorder.analysis.questions.bins import firsts
from recorder.analysis.summary.bounds import MAX_ROWS, MAX_TOP, Table, Top
from recorder.analysis.summary.sections.topics import EventsOfTopic, Side, Topics, TopicTotals, TopicUse
from recorder.analysis.tables.clients import HOST
from recorder.analysis.tables.names import named
from recorder.analysis.tables.produced import REFUSED, RETRIED, UNANSWERED, not_written, written_only
from recorder.analysis.tables.topic_use import READS, WRITES, topic_use
from recorder.capture import frames as c
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.rows import SIDE

_SIDES = {WRITES: Side.WRITES, READS: Side.READS}
# columns of `topic_use`, in the order of the values of a topic and of a client
_OTHER_RECORDS = tuple(f"{result}_records" for result in (REFUSED, RETRIED, UNANSWERED))
_NOT_ACCEPTED = (*_OTHER_RECORDS, f"{UNANSWERED}_bytes")


def topics(captured: Captured) -> Topics:
    """Returns the section on topics: their clients, and the CloudEvents in them."""
    use = topic_use(captured).filter(F.col("topic").isNotNull())
    happened = written_only(named(captured, CLOUDEVENTS), not_written(captured))
    return Topics(totals=_totals(use), use=_use(use), cloudevents=cloudevents(happened))


def cloudevents(found: DataFrame) -> Table[EventsOfTopic]:
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

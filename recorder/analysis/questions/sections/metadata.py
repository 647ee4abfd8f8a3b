"""The section on the cluster's changes of leaders, replicas and nodes, taken from Metadata responses.

If one response changes many partitions in the same way, they share a row: a broker that ends leads hundreds of them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.expressions import ns
from recorder.analysis.questions.bins import NAME, bin_of, by_name, firsts, series
from recorder.analysis.summary.bounds import MAX_ROWS, Table, Timeline, Top
from recorder.analysis.summary.sections.metadata import Contradiction, Metadata, MetadataChange, What
from recorder.analysis.table_cache import persisted
from recorder.capture import frames as c

# partitions that a row names
_MOST_NAMED = 3
_NONE = "none"
_FRAME = [c.SESSION, c.CONNECTION, c.SEQUENCE]


def metadata(changes: DataFrame, line: Timeline) -> Metadata:
    """Returns the section. Needs the columns of METADATA_CHANGES."""
    with persisted(_each(changes.filter(~F.col("is_first")))) as each:
        return Metadata(changes=_rows(each), contradictions=_contradictions(changes), over_time=_over_time(each, line))


def _each(changed: DataFrame) -> DataFrame:
    """Returns a row for each changed fact: NAME (the kind of fact), `before`, `after`, `subject`."""
    node = F.concat(F.lit("node "), F.col("told_node").cast("string"))
    address = F.concat_ws(":", "host", F.col("port").cast("string"))
    of_partition = F.col("partition").isNotNull()
    facts = F.array(
        _fact(What.LEADER, of_partition, _node("was_leader"), _node("leader")),
        _fact(What.IN_SYNC, of_partition, _nodes("was_isr"), _nodes("isr")),
        _fact(What.REPLICAS, of_partition, _nodes("was_replicas"), _nodes("replicas")),
        _fact(What.NODE, F.col("was_address").isNotNull(), F.col("was_address"), address),
    )
    each_fact = changed.withColumn("_fact", F.explode(F.filter(facts, lambda fact: fact.isNotNull())))
    return each_fact.select(
        c.AT, c.CLUSTER, *_FRAME, F.when(of_partition, _place()).otherwise(node).alias("subject"), "_fact.*"
    )


def _place() -> Column:
    return F.concat_ws(" ", F.coalesce("topic", "topic_id"), F.col("partition").cast("string"))


def _fact(what: What, is_known: Column, before: Column, after: Column) -> Column:
    fact = F.struct(F.lit(what.value).alias(NAME), before.alias("before"), after.alias("after"))
    return F.when(is_known & ~before.eqNullSafe(after), fact)


def _node(name: str) -> Column:
    return F.coalesce(F.col(name).cast("string"), F.lit(_NONE))


def _nodes(name: str) -> Column:
    shown = F.array_join(F.transform(name, lambda node: node.cast("string")), ", ")
    return F.when(F.size(name) > 0, shown).otherwise(_NONE)


def _rows(each: DataFrame) -> Table[MetadataChange]:
    found = each.groupBy(*_FRAME, c.CLUSTER, NAME, "before", "after").agg(
        F.min(ns(c.AT)).alias("at_ns"),
        F.slice(F.array_sort(F.collect_set("subject")), 1, _MOST_NAMED).alias("named"),
        F.count_distinct("subject").alias("count"),
    )
    ordered = found.orderBy("at_ns", NAME, F.desc("count"), "named")
    shown, total = firsts(ordered, MAX_ROWS)
    return Table(tuple(map(_change, shown)), total)


def _contradictions(changes: DataFrame) -> Table[Contradiction]:
    found = changes.filter(F.col("partition").isNotNull() & F.col("asker").isNotNull()).select(
        ns(c.AT).alias("at_ns"),
        _place().alias("subject"),
        "asker",
        _node("leader").alias("leader"),
        _node("was_leader").alias("others"),
        c.CLUSTER,
    )
    rows, total = firsts(found.orderBy("at_ns", "subject", "asker"), MAX_ROWS)
    return Table(tuple(Contradiction(*row) for row in rows), total)


def _change(row: Any) -> MetadataChange:
    more = row["count"] - len(row["named"])
    subject = ", ".join(row["named"]) + (f" and {more} more" if more else "")
    return MetadataChange(row["at_ns"], subject, row[NAME], row["before"], row["after"], row[c.CLUSTER])


def _over_time(each: DataFrame, line: Timeline) -> Top[Any]:
    """Counts the changes of each kind by bin."""
    rows = each.groupBy(NAME, bin_of(line)).agg(F.count("*").cast("double").alias("value")).collect()
    values = by_name(rows, "value")
    return Top(tuple(series(what.value, line, values[what.value], 0) for what in What if what.value in values))

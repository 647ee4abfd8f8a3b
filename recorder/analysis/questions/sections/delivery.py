"""The section on delivery: how long record batches took from producer to first consumer, by topic and over time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.expressions import percentile, percentiles
from recorder.analysis.questions.bins import BIN, bin_of, firsts, series
from recorder.analysis.summary.bounds import MAX_ROWS, Table, Timeline
from recorder.analysis.summary.sections.delivery import Delivery, DeliveryOfTopic
from recorder.analysis.table_cache import persisted

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def delivery(deliveries: DataFrame, line: Timeline) -> Delivery:
    """Returns the section. A batch belongs to the bin in which it was produced. Needs the columns of DELIVERIES."""
    found = deliveries.filter((F.col("delivery_ms") >= 0) & F.col("topic").isNotNull())
    with persisted(found.select("topic", "produced_at", "delivery_ms", "age_ms")) as measured:
        return _delivery(measured, line)


def _delivery(found: DataFrame, line: Timeline) -> Delivery:
    by_topic = found.groupBy("topic").agg(
        F.count("*").alias("batches"),
        *_percentiles(),
        F.max("delivery_ms").alias("most"),
        percentile("age_ms", 0.5).alias("age"),
    )
    shown, total = firsts(by_topic.orderBy(F.desc("batches"), "topic"), MAX_ROWS)
    bins = found.groupBy(bin_of(line, "produced_at")).agg(*_percentiles()).collect()
    return Delivery(
        topics=Table(tuple(DeliveryOfTopic(*row) for row in shown), total),
        usual_ms=series("p50", line, ((row[BIN], row["p50"]) for row in bins)),
        slow_ms=series("p99", line, ((row[BIN], row["p99"]) for row in bins)),
    )


def _percentiles() -> list[Column]:
    every = percentiles("delivery_ms", [*_SHARES.values()])
    return [every[at].alias(name) for at, name in enumerate(_SHARES)]

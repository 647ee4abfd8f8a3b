"""What became of the records that Produce requests hold, by partition: were they written, and for the first time?

accepted     the answer has no error
refused      the answer has an error. After a timeout the records may be in the log all the same
retried      sent again, and counted already. Only batches with a sequence tell this (idempotent producers): the broker
             answers a repeated batch with its first offset, or with DUPLICATE_SEQUENCE_NUMBER
unanswered   no answer is known: acks=0 asks for none, or the capture lacks the answer
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.tables.batches import topic_key
from recorder.analysis.tables.names import named
from recorder.capture import frames as c
from recorder.facts.batches import PRODUCED_OFFSETS
from recorder.facts.frame import REQUEST
from recorder.facts.rows import SIDE
from recorder.facts.topic_partitions import TOPIC_PARTITIONS

RESULT = "result"
ACCEPTED, REFUSED, RETRIED, UNANSWERED = "accepted", "refused", "retried", "unanswered"
_DUPLICATE_SEQUENCE = 46
_PARTITION = [*t.KEYS, "_topic", "partition"]
_BATCH = [c.CLUSTER, "_topic", "partition", "_batch"]


def writes(captured: Captured) -> DataFrame:
    """The partitions that Produce requests write to: the columns of `topic_partitions`, and RESULT."""
    return captured.once("writes", lambda: _writes(captured))


def _writes(captured: Captured) -> DataFrame:
    asked = named(captured, TOPIC_PARTITIONS).filter((F.col(SIDE) == REQUEST) & (F.col(c.API) == "Produce"))
    return with_results(asked.filter(F.col("partition").isNotNull()), captured)


def not_written(captured: Captured) -> DataFrame:
    """The partitions of Produce requests that added nothing to a log: KEYS, `topic`, `partition`."""
    return writes(captured).filter(F.col(RESULT).isin(REFUSED, RETRIED)).select(*t.KEYS, "topic", "partition")


def written_only(found: DataFrame, unwritten: DataFrame) -> DataFrame:
    """Rows about partitions of frames, without those of Produce requests in `not_written`."""
    return found.join(unwritten, [*t.KEYS, "topic", "partition"], "left_anti")


def with_results(asked: DataFrame, captured: Captured) -> DataFrame:
    """Rows about partitions of Produce requests, with RESULT.

    Needs the columns of their frames and topics, and `producer_id`, `producer_epoch`, `base_sequence` of their batch.
    """
    answers = rows(captured.later, PRODUCED_OFFSETS).withColumn("_topic", topic_key())
    told = answers.select(*_PARTITION, F.col("error_code").alias("_code"), F.col("base_offset").alias("_offset"))
    both = asked.withColumns({"_topic": topic_key(), "_batch": _batch()}).join(told, _PARTITION, "left")
    # sends of a batch that got the same answer
    alike = Window.partitionBy(*_BATCH, "_code", "_offset").orderBy(c.AT, *t.KEYS)
    facts = {
        "_number": F.row_number().over(alike),
        "_is_written": F.max(F.col("_code") == 0).over(Window.partitionBy(*_BATCH)),
    }
    return both.withColumns(facts).withColumn(RESULT, _result()).select(*asked.columns, RESULT)


def _batch() -> Column:
    """What identifies a batch; a batch without a sequence is told apart by its request alone."""
    producer = F.concat_ws("/", "producer_id", "producer_epoch", "base_sequence")
    has_sequence = F.col("producer_id").isNotNull() & F.col("base_sequence").isNotNull()
    return F.when(has_sequence, producer).otherwise(F.concat_ws("/", F.lit("alone"), *t.KEYS))


def _result() -> Column:
    code, is_first = F.col("_code"), F.col("_number") == 1
    return (
        F.when(code == _DUPLICATE_SEQUENCE, RETRIED)
        .when(code != 0, REFUSED)
        .when((code == 0) & is_first, ACCEPTED)
        .when(is_first & ~F.coalesce("_is_written", F.lit(False)), UNANSWERED)
        .otherwise(RETRIED)
    )

"""Rules on what stands in logs: records twice, records that never came, wrong checksums, times ahead, what is re-read.

retry        the same batch again: of a producer with an id its id, epoch and sequence; of any other its checksum,
             size and time, if a request with it failed, got no answer, or got it when the client had given up
duplicate    a retry that stands in the log a second time: its answer or a Fetch tells another offset
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.decode.frame import REQUEST, RESPONSE
from recorder.analysis.decode.rows import SIDE, UNREAD
from recorder.analysis.findings.counting import Words, counted, inside, said
from recorder.analysis.findings.rows import CASES, MEASURE, OF, WINDOW
from recorder.analysis.findings.tables import CLUSTER_ID, PEER, Tables
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome

_LOG = [CLUSTER_ID, "topic", "partition"]
_PRODUCER = [CLUSTER_ID, "producer_id"]
_CONNECTION = [c.SESSION, c.CONNECTION]
_IN_ORDER = [c.AT, c.SESSION, c.CONNECTION, c.EXCHANGE, "base_offset"]
_SIDES = {REQUEST: "sent to", RESPONSE: "read from"}
# a batch may be in the log though the answer holds one of these: unknown, timed out, too few replicas afterwards, a
# duplicate, a disk's fault
_MAY_BE_STORED = (-1, 7, 20, 46, 56)


def duplicates(tables: Tables) -> DataFrame:
    """Batches that are in a log twice, by topic."""
    data = tables.batches.filter(~F.col("is_control"))
    twice = _twice_with_id(data).unionByName(_twice_without_id(data, tables))
    cases = counted(twice.withColumn(WINDOW, F.lit(0)), ["topic"])
    return said(cases.withColumn(MEASURE, F.col(CASES)), "topic")


def _first() -> Column:
    return F.min(F.struct(c.AT, *t.KEYS)).alias("_first")


def _twice_with_id(data: DataFrame) -> DataFrame:
    own = data.filter(_has_sequence())
    same = own.groupBy(*_LOG, "producer_id", "producer_epoch", "base_sequence")
    found = same.agg(F.count_distinct("base_offset").alias("_offsets"), _first()).filter(F.col("_offsets") > 1)
    return found.select("topic", "_first.*")


def _has_sequence() -> Column:
    """Some clients count without an id."""
    return F.col("producer_id").isNotNull() & F.col("base_sequence").isNotNull()


def _twice_without_id(data: DataFrame, tables: Tables) -> DataFrame:
    too_late = F.broadcast(tables.too_late.withColumn("_too_late", F.lit(True)))
    own = data.filter(F.col("producer_id").isNull()).join(too_late, t.KEYS, "left")
    is_asked = F.col(SIDE) == REQUEST
    is_failed = is_asked & (F.col("base_offset").isNull() | F.coalesce("_too_late", F.lit(False)))
    found = own.groupBy(*_LOG, "crc", "bytes", "max_timestamp_ms").agg(
        F.count_distinct("base_offset").alias("_offsets"),
        F.count_if(is_asked & ~is_failed).alias("_accepted"),
        F.min(F.when(is_failed, F.struct(*t.KEYS))).alias("_failed"),
        _first(),
    )
    more = found.filter((F.col("_offsets") > F.greatest("_accepted", F.lit(1))) & F.col("_failed").isNotNull())
    # a request that awaits no answer (acks=0) has not failed
    awaited = tables.kept.filter(F.col(t.OUTCOME) != Outcome.ONE_WAY.value).select(*t.KEYS)
    suspects = more.select("topic", "_first", "_failed.*")
    return awaited.join(F.broadcast(suspects), t.KEYS).select("topic", "_first.*")


def sequence_gaps(tables: Tables) -> DataFrame:
    """Batches of a producer with an id that skip sequence numbers: the producer did not send the records in between, or
    they had been refused before it sent the batch. Producers whose connections lack frames don't count.
    """
    sent = tables.batches.filter((F.col(SIDE) == REQUEST) & _has_sequence())
    known = sent.join(F.broadcast(_partly_seen(tables)), _PRODUCER, "left_anti")
    of_log = Window.partitionBy(*_LOG, "producer_id", "producer_epoch").orderBy(*_IN_ORDER)
    so_far = of_log.rowsBetween(Window.unboundedPreceding, -1)
    is_refused = F.col("_refused_at").isNotNull()
    end = F.col("base_sequence") + F.col("records")
    before = F.max(F.when(~is_refused, end)).over(so_far)
    told = known.join(_refused(tables), [*t.KEYS, "topic", "partition"], "left")
    behind = told.withColumns({"_missing": F.col("base_sequence") - before, "_news": F.max("_refused_at").over(so_far)})
    # what was sent before the client knew of a refusal is no gap of its making
    knew = F.col("_news").isNull() | (F.col("_news") < F.col(c.AT))
    cases = counted(
        behind.filter((F.col("_missing") > 0) & knew).withColumn(WINDOW, F.lit(0)),
        [PEER, "topic"],
        worst=F.col("_missing"),
    )
    words: Words = {"client": PEER, "topic": "topic"}
    return said(cases.withColumn(MEASURE, F.col(CASES)), F.concat(PEER, F.lit(" to "), "topic"), words)


def _refused(tables: Tables) -> DataFrame:
    """The partitions that answers to Produce refuse for sure: KEYS, topic, partition, and `_refused_at`."""
    answers = tables.partitions.filter((F.col(SIDE) == RESPONSE) & (F.col(c.API) == "Produce"))
    refused = answers.filter((F.col("error_code") != 0) & ~F.col("error_code").isin(*_MAY_BE_STORED))
    return refused.select(*t.KEYS, "topic", "partition", F.col(c.AT).alias("_refused_at"))


def _partly_seen(tables: Tables) -> DataFrame:
    """Producers with connections that have a gap, or whose session has one, or Produce requests that can't be read."""
    gaps = tables.captured.events.filter(F.col(c.KIND) == c.EVENT_GAP).select(*_CONNECTION)
    unread = tables.checked_batches.filter((F.col(SIDE) == REQUEST) & F.col(UNREAD).isNotNull()).select(*_CONNECTION)
    lost = gaps.union(unread).distinct().withColumnsRenamed({c.SESSION: "_session", c.CONNECTION: "_connection"})
    is_here = (F.col(c.SESSION) == F.col("_session")) & (
        F.col("_connection").isNull() | (F.col(c.CONNECTION) == F.col("_connection"))
    )
    sent = tables.batches.filter((F.col(SIDE) == REQUEST) & F.col("producer_id").isNotNull())
    return sent.join(F.broadcast(lost), is_here, "left_semi").select(*_PRODUCER).distinct()


def bad_crcs(tables: Tables) -> DataFrame:
    """Batches whose checksum is not that of their bytes."""
    wrong = tables.batches.filter(~F.col("is_intact")).withColumn(WINDOW, F.lit(0))
    cases = counted(wrong, ["topic", SIDE])
    side = F.when(F.col(SIDE) == REQUEST, _SIDES[REQUEST]).otherwise(_SIDES[RESPONSE])
    subject = F.concat_ws(" ", side, "topic")
    return said(cases.withColumn(MEASURE, F.col(CASES)), subject, {"topic": "topic", "side": side})


def re_reads(tables: Tables) -> DataFrame:
    """The share of a topic's batches that a client reads again on the same connection: below its highest offset."""
    read = tables.batches.filter((F.col(SIDE) == RESPONSE) & (F.col(c.API) == "Fetch") & ~F.col("is_control"))
    in_order = Window.partitionBy(*_CONNECTION, "topic", "partition").orderBy(*_IN_ORDER)
    highest = F.max("last_offset").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    again = read.withColumn("_again", F.coalesce(F.col("last_offset") <= highest, F.lit(False)))
    of_bytes = F.sum(F.when(F.col("_again"), F.col("bytes"))) / F.sum("bytes")
    found = counted(inside(again), [PEER, "topic"], F.col("_again"), more={MEASURE: of_bytes})
    return said(found, F.concat(PEER, F.lit(" of "), "topic"), {"client": PEER, "topic": "topic"})


def clocks_ahead(tables: Tables) -> DataFrame:
    """How far ahead of the proxy's clock the times are that a client gives its records: the median of its batches."""
    told = (F.col("timestamp_type") == "create") & F.col("max_timestamp_ms").isNotNull()
    sent = inside(tables.batches).filter((F.col(SIDE) == REQUEST) & told)
    ahead = (F.col("max_timestamp_ms") - F.unix_micros(c.AT) / 1000).cast("double")
    timed = sent.withColumn("_ahead", ahead)
    usual = {MEASURE: F.median("_ahead")}
    cases = counted(timed, [PEER], F.col("_ahead") > 0, worst=F.col("_ahead"), more=usual)
    return said(cases.withColumn(OF, F.lit(None)), PEER)

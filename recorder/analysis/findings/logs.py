"""Rules on record batches in logs: duplicates, sequence gaps, wrong checksums, wrong clocks, repeated reads.

retry        the same batch, sent again. A producer with an id repeats its id, epoch and sequence. Any other repeats the
             checksum, size and time, after a request that failed, or got no answer before the client gave up
duplicate    a retry that is in the log a second time: its answer or a Fetch shows another offset
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.expressions import finer_unit
from recorder.analysis.findings.counting import Words, counted, inside, rule_rows
from recorder.analysis.findings.rows import CASES, MEASURE, OF, WINDOW
from recorder.analysis.findings.tables import CLUSTER_ID, PEER, Tables
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.rows import SIDE, UNREAD

_LOG = [CLUSTER_ID, "topic", "partition"]
_PRODUCER = [CLUSTER_ID, "producer_id"]
_CONNECTION = [c.SESSION, c.CONNECTION]
_IN_ORDER = [c.AT, c.SESSION, c.CONNECTION, c.EXCHANGE, "base_offset"]
_SIDES = {REQUEST: "sent to", RESPONSE: "read from"}
# With these errors the batch may be in the log: UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT,
# NOT_ENOUGH_REPLICAS_AFTER_APPEND, DUPLICATE_SEQUENCE_NUMBER, KAFKA_STORAGE_ERROR.
_MAY_BE_STORED = (-1, 7, 20, 46, 56)

# times that are seconds since 1970: from 2001 to 2286. No record is of 1970.
_EARLIEST_S, _LATEST_S = 10**9, 10**10


def duplicates(tables: Tables) -> DataFrame:
    """Batches that are in a topic's log twice. Consumers get their records twice, too."""
    data = tables.batches.filter(~F.col("is_control"))
    twice = _twice_with_id(data).unionByName(_twice_without_id(data, tables))
    cases = counted(twice.withColumn(WINDOW, F.lit(0)), ["topic"])
    return rule_rows(cases.withColumn(MEASURE, F.col(CASES)), "topic")


def _first() -> Column:
    return F.min(F.struct(c.AT, *t.KEYS)).alias("_first")


def _twice_with_id(data: DataFrame) -> DataFrame:
    own = data.filter(_has_sequence())
    same = own.groupBy(*_LOG, "producer_id", "producer_epoch", "base_sequence")
    found = same.agg(F.count_distinct("base_offset").alias("_offsets"), _first()).filter(F.col("_offsets") > 1)
    return found.select("topic", "_first.*")


def _has_sequence() -> Column:
    """Whether the producer has both an id and a sequence: some clients send a sequence without an id."""
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
    """Batches of a producer with an id that skip sequence numbers. The producer did not send the records in between, or
    they had been refused before it sent the batch: these records are missing in the log. Producers whose connections
    lack frames don't count.
    """
    sent = tables.batches.filter((F.col(SIDE) == REQUEST) & _has_sequence())
    known = sent.join(F.broadcast(_partly_seen(tables)), _PRODUCER, "left_anti")
    of_log = Window.partitionBy(*_LOG, "producer_id", "producer_epoch").orderBy(*_IN_ORDER)
    so_far = of_log.rowsBetween(Window.unboundedPreceding, -1)
    is_refused = F.col("_refused_at").isNotNull()
    end = F.col("base_sequence") + F.col("records")
    before = F.max(F.when(~is_refused, end)).over(so_far)
    placed = known.join(_refused(tables), [*t.KEYS, "topic", "partition"], "left")
    behind = placed.withColumns(
        {"_missing": F.col("base_sequence") - before, "_news": F.max("_refused_at").over(so_far)}
    )
    # a batch that was sent before the client knew of the refusal is no gap
    knew = F.col("_news").isNull() | (F.col("_news") < F.col(c.AT))
    cases = counted(
        behind.filter((F.col("_missing") > 0) & knew).withColumn(WINDOW, F.lit(0)),
        [PEER, "topic"],
        worst=F.col("_missing"),
    )
    words: Words = {"client": PEER, "topic": "topic"}
    return rule_rows(cases.withColumn(MEASURE, F.col(CASES)), F.concat(PEER, F.lit(" to "), "topic"), words)


def _refused(tables: Tables) -> DataFrame:
    """The partitions that answers to Produce certainly refuse: KEYS, topic, partition, and `_refused_at`."""
    answers = tables.partitions.filter((F.col(SIDE) == RESPONSE) & (F.col(c.API) == "Produce"))
    refused = answers.filter((F.col("error_code") != 0) & ~F.col("error_code").isin(*_MAY_BE_STORED))
    return refused.select(*t.KEYS, "topic", "partition", F.col(c.AT).alias("_refused_at"))


def _partly_seen(tables: Tables) -> DataFrame:
    """Producers whose connection or session has a gap, or that sent unreadable Produce requests."""
    gaps = tables.captured.events.filter(F.col(c.KIND) == c.EVENT_GAP).select(*_CONNECTION)
    unread = tables.all_batches.filter((F.col(SIDE) == REQUEST) & F.col(UNREAD).isNotNull()).select(*_CONNECTION)
    lost = gaps.union(unread).distinct().withColumnsRenamed({c.SESSION: "_session", c.CONNECTION: "_connection"})
    is_here = (F.col(c.SESSION) == F.col("_session")) & (
        F.col("_connection").isNull() | (F.col(c.CONNECTION) == F.col("_connection"))
    )
    sent = tables.batches.filter((F.col(SIDE) == REQUEST) & F.col("producer_id").isNotNull())
    return sent.join(F.broadcast(lost), is_here, "left_semi").select(*_PRODUCER).distinct()


def bad_crcs(tables: Tables) -> DataFrame:
    """Batches whose checksum does not match their bytes: their records are damaged."""
    wrong = tables.batches.filter(~F.col("is_intact")).withColumn(WINDOW, F.lit(0))
    cases = counted(wrong, ["topic", SIDE])
    side = F.when(F.col(SIDE) == REQUEST, _SIDES[REQUEST]).otherwise(_SIDES[RESPONSE])
    subject = F.concat_ws(" ", side, "topic")
    return rule_rows(cases.withColumn(MEASURE, F.col(CASES)), subject, {"topic": "topic", "side": side})


def re_reads(tables: Tables) -> DataFrame:
    """The share of a topic's bytes that a client had already read: on the same connection, or on one that was closed
    before it opened this one. The client may process these records twice.
    """
    read = tables.batches.filter((F.col(SIDE) == RESPONSE) & (F.col(c.API) == "Fetch") & ~F.col("is_control"))
    in_order = Window.partitionBy(*_CONNECTION, "topic", "partition").orderBy(*_IN_ORDER)
    highest = F.max("last_offset").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    with_earlier = read.join(_read_before(read, tables), [*_CONNECTION, PEER, "topic", "partition"], "left")
    # the greatest of those that are known; null if none is
    is_again = F.col("last_offset") <= F.greatest(highest, F.col("_before"))
    again = with_earlier.withColumn("_again", F.coalesce(is_again, F.lit(False)))
    of_bytes = F.sum(F.when(F.col("_again"), F.col("bytes"))) / F.sum("bytes")
    found = counted(inside(again), [PEER, "topic"], F.col("_again"), more={MEASURE: of_bytes})
    return rule_rows(found, F.concat(PEER, F.lit(" of "), "topic"), {"client": PEER, "topic": "topic"})


def _read_before(read: DataFrame, tables: Tables) -> DataFrame:
    """`_before`: the highest offset of a partition that the client had read on connections closed before this one
    opened, by connection, PEER, `topic` and `partition`.
    """
    own = tables.connections.select(*_CONNECTION, "opened_at", "closed_at")
    of_connection = [*_CONNECTION, PEER, CLUSTER_ID, "topic", "partition"]
    highest = read.groupBy(*of_connection).agg(F.max("last_offset").alias("_high")).join(own, _CONNECTION)
    # at the same moment, the end comes first
    ends = highest.select("*", F.col("closed_at").alias("_when"), F.lit(0).alias("_opens"))
    opens = highest.withColumn("_high", F.lit(None).cast("bigint"))
    both = ends.filter(F.col("_when").isNotNull()).unionByName(
        opens.select("*", F.col("opened_at").alias("_when"), F.lit(1).alias("_opens"))
    )
    in_order = Window.partitionBy(PEER, CLUSTER_ID, "topic", "partition").orderBy("_when", "_opens")
    before = F.max("_high").over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    found = both.withColumn("_before", before).filter((F.col("_opens") == 1) & F.col("_before").isNotNull())
    return found.select(*_CONNECTION, PEER, "topic", "partition", "_before")


def times_in_seconds(tables: Tables) -> DataFrame:
    """Batches whose times would be dates of 2001 to 2286 in seconds. In milliseconds, as Kafka takes them, they are of
    the first months of 1970.
    """
    latest = F.col("max_timestamp_ms")
    in_seconds = (F.col("timestamp_type") == "create") & latest.between(_EARLIEST_S, _LATEST_S)
    cases = counted(tables.sent.filter(in_seconds).withColumn(WINDOW, F.lit(0)), [PEER, "topic"])
    words: Words = {"client": PEER, "topic": "topic"}
    return rule_rows(cases.withColumn(MEASURE, F.col(CASES)), F.concat(PEER, F.lit(" to "), "topic"), words)


def clocks_ahead(tables: Tables) -> DataFrame:
    """How far the times of a client's records are ahead of the proxy's clock: the median of its batches.

    Times in microseconds or nanoseconds are millenniums ahead. The sentence then tells the unit.
    """
    has_producer_time = (F.col("timestamp_type") == "create") & F.col("max_timestamp_ms").isNotNull()
    sent = inside(tables.batches).filter((F.col(SIDE) == REQUEST) & has_producer_time)
    ahead = (F.col("max_timestamp_ms") - F.unix_micros(c.AT) / 1000).cast("double")
    timed = sent.withColumn("_ahead", ahead)
    usual = {MEASURE: F.median("_ahead"), "_unit": F.max(finer_unit(F.col("max_timestamp_ms"), F.col(c.AT)))}
    cases = counted(timed, [PEER], F.col("_ahead") > 0, worst=F.col("_ahead"), more=usual)
    return rule_rows(cases.withColumn(OF, F.lit(None)), PEER, {"unit": F.coalesce("_unit", F.lit(""))})

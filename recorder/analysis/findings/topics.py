"""Rules on how the records of topics are batched, spread and acknowledged. They need the bodies of Produce requests."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.decode.frame import REQUEST
from recorder.analysis.decode.rows import SIDE
from recorder.analysis.findings.counting import Words, counted, inside, rates, rule_rows, shares, tallied
from recorder.analysis.findings.rows import CASES, MEASURE, OF, WINDOW
from recorder.analysis.findings.tables import PEER, Tables

# median bytes of a batch, with its header: smaller ones are mostly overhead
SMALL_BATCH = 1024
# Topics with fewer partitions are never even. Topics with a smaller share of all written bytes don't matter.
MIN_PARTITIONS = 3
MIN_SHARE = 0.05
# the least share of all written bytes: less is not worth a codec's time
MIN_PLAIN = 0.1
# the least rate of a topic: less than a gigabyte a day is not worth it either
MIN_PLAIN_BYTES_A_SECOND = 10_000
# 80 % of what brokers take by default (message.max.bytes: 1 MiB): records grow
LARGE_RECORD = int(0.8 * (1 << 20))
_ACKS = {0: "none", 1: "the leader alone", 2: "all in-sync replicas"}


def hot_partitions(tables: Tables) -> DataFrame:
    """How many times an even share of its topic's bytes a partition gets. The partition's leader, and the consumer that
    reads it, carry more than the others.
    """
    written = inside(tables.written)
    size = F.col("bytes")
    sizes = counted(written, ["topic", "partition"], worst=size, more={"_bytes": F.sum(size)})
    of_window = Window.partitionBy(WINDOW)
    of_topic = Window.partitionBy("topic", WINDOW)
    shared = sizes.withColumns(
        {
            "_topic": F.sum("_bytes").over(of_topic),
            "_all": F.sum("_bytes").over(of_window),
            OF: F.sum(OF).over(of_topic),
        }
    )
    many = tables.partition_counts.filter(F.col("partitions") >= MIN_PARTITIONS)
    busy = shared.join(F.broadcast(many), ["topic"]).filter(F.col("_topic") >= MIN_SHARE * F.col("_all"))
    skew = F.col("_bytes") * F.col("partitions") / F.col("_topic")
    subject = F.concat("topic", F.lit(" "), F.col("partition").cast("string"))
    part = F.concat(F.round(100 * F.col("_bytes") / F.col("_topic")).cast("int").cast("string"), F.lit(" %"))
    words: Words = {"topic": "topic", "partition": "partition", "part": part, "partitions": "partitions"}
    return rule_rows(busy.withColumn(MEASURE, skew), subject, words)


def small_batches(tables: Tables) -> DataFrame:
    """How many batches a second a client writes to a topic, where half of them are smaller than 1 KiB. Most of their
    bytes, and most of the broker's work, are overhead.
    """
    batches = inside(tables.batches).filter(F.col(SIDE) == REQUEST)
    cases = counted(batches, [PEER, "topic"], more={"_median": F.median("bytes").cast("int")})
    found = cases.filter(F.col("_median") < SMALL_BATCH)
    return rule_rows(rates(found, tables.windows), _to_topic(), {"client": PEER, "topic": "topic", "size": "_median"})


def uncompressed(tables: Tables) -> DataFrame:
    """How many times smaller zlib makes the uncompressed batches of a topic, by a sample of one in sixteen. Topics with
    less than 10 % of all written bytes, or less than 10 kB a second, are left out.
    """
    sent = inside(tables.batches).filter(F.col(SIDE) == REQUEST)
    is_plain = F.col("codec") == "none"
    sums = {
        "_plain": F.sum(F.when(is_plain, F.col("bytes"))),
        "_bytes": F.sum("bytes"),
        MEASURE: F.sum("sampled_bytes") / F.sum("folded_bytes"),
    }
    # `tallied`, not `counted`: topics without an uncompressed batch are part of all written bytes
    sizes = tallied(sent, ["topic"], is_plain, worst=F.col("bytes"), more=sums)
    part = F.col("_plain") / F.sum("_bytes").over(Window.partitionBy(WINDOW))
    is_much = (F.col("_part") >= MIN_PLAIN) & (F.col("_plain") >= MIN_PLAIN_BYTES_A_SECOND * tables.windows.seconds)
    much = sizes.withColumn("_part", part).filter(is_much)
    shown = F.concat(F.round(100 * F.col("_part")).cast("int").cast("string"), F.lit(" %"))
    return rule_rows(much.withColumn(OF, F.lit(None)), "topic", {"part": shown})


def unsafe(tables: Tables) -> DataFrame:
    """The share of a client's writes to a topic that ask for fewer acks than most writes to this topic."""
    written = inside(tables.written).withColumn("_acks", F.when(F.col("acks") < 0, 2).otherwise(F.col("acks")))
    usual = written.groupBy("topic").agg(F.mode("_acks").alias("_usual"))
    both = written.join(F.broadcast(usual), ["topic"])
    fewest = {"_fewest": F.min("_acks"), "_usual": F.max("_usual")}
    found = counted(both, [PEER, "topic"], F.col("_acks") < F.col("_usual"), more=fewest)
    words: Words = {"client": PEER, "topic": "topic", "acks": _acks("_fewest"), "usual": _acks("_usual")}
    return rule_rows(shares(found), _to_topic(), words)


def large(tables: Tables) -> DataFrame:
    """Batches of a single record that takes more than 80 % of what brokers accept by default. If such records grow,
    brokers refuse them.
    """
    one = (F.col(SIDE) == REQUEST) & (F.col("records") == 1) & (F.col("bytes") >= LARGE_RECORD)
    found = counted(tables.batches.filter(one), [PEER, "topic"], worst=F.col("bytes"))
    return rule_rows(found.withColumn(MEASURE, F.col(CASES)), _to_topic(), {"client": PEER, "topic": "topic"})


def _to_topic() -> Column:
    return F.concat(PEER, F.lit(" to "), F.col("topic"))


def _acks(rank: str) -> Column:
    words = F.create_map(*(F.lit(part) for pair in _ACKS.items() for part in pair))
    return F.try_element_at(words, F.col(rank).cast("int"))

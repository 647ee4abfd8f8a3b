"""Rules on how the records of topics are batched, spread and acknowledged. They need the bodies of Produce requests."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.findings.counting import Words, counted, inside, rates, rule_rows, shares, tallied
from recorder.analysis.findings.rows import CASES, MEASURE, OF, WINDOW
from recorder.analysis.findings.tables import PEER, Tables
from recorder.analysis.summary.sections.findings import NEAR

# median bytes of a batch, with its header: smaller ones are mostly overhead
SMALL_BATCH = 1024
# How many times the others' bytes a partition is said to get at most: others may get none.
MOST_SKEW = 1000
# Standard deviations by which a partition's share must exceed an even one. Partitions that are chosen at random are
# uneven, too, for a few writes.
BEYOND_CHANCE = 3
# the least share of all written bytes: less is not worth a codec's time
MIN_PLAIN = 0.1
# the least rate of a topic: less than a gigabyte a day is not worth it either
MIN_PLAIN_BYTES_A_SECOND = 10_000
# 80 % of what brokers take by default (message.max.bytes: 1 MiB): records grow
LARGE_RECORD = int(0.8 * (1 << 20))
_ACKS = {0: "none", 1: "the leader alone", 2: "all in-sync replicas"}


def hot_partitions(tables: Tables) -> DataFrame:
    """How many times more of its topic's bytes a partition gets than the topic's other partitions do on average: in a
    window, or in that window and the four before it if that is less; 1,000 if the others get next to nothing. The
    partition's leader, and the consumer that reads it, carry more than the others. Each topic is judged by itself,
    however small. What chance does with a few writes to partitions at random does not count.
    """
    size = F.col("bytes")
    sizes = counted(inside(tables.written), ["topic", "partition"], worst=size, more={"_bytes": F.sum(size)})
    of_topic = Window.partitionBy("topic", WINDOW)
    mine, every = (
        F.sum("_bytes").over(Window.partitionBy(*of).orderBy(WINDOW).rangeBetween(1 - NEAR, 0))
        for of in (["topic", "partition"], ["topic"])
    )
    share_of_bytes = F.least(F.col("_bytes") / F.sum("_bytes").over(of_topic), mine / every)
    shared = sizes.withColumns({"_share": share_of_bytes, OF: F.sum(OF).over(of_topic)})
    several = tables.partition_counts.filter(F.col("partitions") > 1)
    found = shared.join(F.broadcast(several), ["topic"])
    share, even = F.col("_share"), 1 / F.col("partitions")
    skew = share / F.greatest((1 - share) / (F.col("partitions") - 1), share / MOST_SKEW)
    is_beyond_chance = (share - even) * F.sqrt(OF) >= BEYOND_CHANCE * F.sqrt(even * (1 - even))
    subject = F.concat("topic", F.lit(" "), F.col("partition").cast("string"))
    words: Words = {
        "topic": "topic",
        "partition": "partition",
        "part": _percent(share),
        "even": _percent(even),
        "partitions": "partitions",
    }
    return rule_rows(found.filter(is_beyond_chance).withColumn(MEASURE, skew), subject, words)


def _percent(share: Column) -> Column:
    return F.concat(F.round(100 * share).cast("int").cast("string"), F.lit(" %"))


def small_batches(tables: Tables) -> DataFrame:
    """How many batches a second a client writes to a topic, where half of them are smaller than 1 KiB. Most of their
    bytes, and most of the broker's work, are overhead.
    """
    cases = counted(inside(tables.sent), [PEER, "topic"], more={"_median": F.median("bytes").cast("int")})
    found = cases.filter(F.col("_median") < SMALL_BATCH)
    return rule_rows(rates(found, tables.windows), _to_topic(), {"client": PEER, "topic": "topic", "size": "_median"})


def uncompressed(tables: Tables) -> DataFrame:
    """How many times smaller zlib makes the uncompressed batches of a topic, by a sample of one in sixteen. Topics with
    less than 10 % of all written bytes, or less than 10 kB a second, are left out.
    """
    sent = inside(tables.sent)
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
    return rule_rows(much.withColumn(OF, F.lit(None)), "topic", {"part": _percent(F.col("_part"))})


def unsafe(tables: Tables) -> DataFrame:
    """The share of a client's writes to a topic that ask for fewer acks than most writes to this topic."""
    written = inside(tables.written).withColumn("_acks", F.when(F.col("acks") < 0, 2).otherwise(F.col("acks")))
    usual = written.groupBy("topic").agg(F.mode("_acks").alias("_usual"))
    both = written.join(F.broadcast(usual), ["topic"])
    fewest = {"_fewest": F.min("_acks"), "_usual": F.max("_usual")}
    found = counted(both, [PEER, "topic"], F.col("_acks") < F.col("_usual"), more=fewest)
    words: Words = {"client": PEER, "topic": "topic", "acks": _acks("_fewest"), "usual": _acks("_usual")}
    return rule_rows(shares(found), _to_topic(), words)


def leader_acks(tables: Tables) -> DataFrame:
    """Writes that ask for acks of the leader alone, to a topic for which most writes do so: `unsafe` compares with
    others, and so can't find them. Topics that are mostly written without acks are left out: their loss is intended.
    """
    written = inside(tables.written).withColumn("_acks", F.when(F.col("acks") < 0, 2).otherwise(F.col("acks")))
    asked = written.groupBy("topic").agg(F.mode("_acks").alias("_usual"), F.max("_acks").alias("_most"))
    both = written.join(F.broadcast(asked.filter(F.col("_usual") == 1)), ["topic"])
    found = counted(both, [PEER, "topic"], F.col("_acks") == 1, more={"_most": F.max("_most")})
    others = F.when(F.col("_most") == 1, "nobody asks for more").otherwise("few writes ask for more")
    alone = {MEASURE: F.col(CASES), OF: F.lit(None).cast("bigint")}
    return rule_rows(found.withColumns(alone), _to_topic(), {"client": PEER, "topic": "topic", "others": others})


def large(tables: Tables) -> DataFrame:
    """Batches of a single record that takes more than 80 % of what brokers accept by default. If such records grow,
    brokers refuse them. Those that were refused already don't count: they are errors.
    """
    one = (F.col("records") == 1) & (F.col("bytes") >= LARGE_RECORD)
    found = counted(tables.sent.filter(one), [PEER, "topic"], worst=F.col("bytes"))
    return rule_rows(found.withColumn(MEASURE, F.col(CASES)), _to_topic(), {"client": PEER, "topic": "topic"})


def _to_topic() -> Column:
    return F.concat(PEER, F.lit(" to "), F.col("topic"))


def _acks(rank: str) -> Column:
    words = F.create_map(*(F.lit(part) for pair in _ACKS.items() for part in pair))
    return F.try_element_at(words, F.col(rank).cast("int"))

"""The clients that write and read each topic: sums over `topic_partitions`.

Produce requests count as writes, by what became of them (`produced`); Fetch and ShareFetch answers count as reads. A
ShareFetch request names its group. A Fetch does not: its group is the one whose offsets the client committed for the
topic, if that is only one.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.tables.clients import HOST, host, software
from recorder.analysis.tables.names import CLUSTER_CALLED, named
from recorder.analysis.tables.produced import ACCEPTED, REFUSED, RESULT, RETRIED, UNANSWERED, writes
from recorder.capture import frames as c
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.rows import SIDE
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table
from recorder.facts.topic_partitions import TOPIC_PARTITIONS

WRITES, READS = "writes", "reads"
_CLIENT = [c.CLUSTER, "topic", HOST, c.CLIENT_ID]
# requests that name the group for which the client reads
_NAME_GROUPS = ("OffsetCommit", "TxnOffsetCommit", "ShareFetch", "ShareAcknowledge")
# what becomes of written records that brokers did not accept
_OTHERS = {
    REFUSED: "that brokers answered with an error",
    RETRIED: "that were sent again and count already: as accepted, or as unanswered",
    UNANSWERED: "without a known answer: acks=0 asks for none, or the capture lacks it",
}

TOPIC_USE = Table(
    "topic_use",
    "a client that writes or reads a topic",
    (
        CLUSTER_CALLED,
        Declared("topic", "string", "its name; null if no frame names the id"),
        Declared("use", "string", f"`{WRITES}` or `{READS}`"),
        Declared(HOST, "string", "the client's address, without the port"),
        Declared(c.CLIENT_ID, "string", "as its requests say"),
        Declared("software", "string", "the client's library, as it calls itself"),
        Declared("software_version", "string", "its version"),
        Declared(c.PRINCIPAL, "string", "who was logged in"),
        Declared(
            "group_id",
            "string",
            "of readers: the only group whose offsets the client committed, or that its ShareFetch requests name",
        ),
        Declared("partitions", "bigint", "how many partitions, without those that refused all that was written"),
        Declared("bytes", "bigint", "bytes of record batches that were read, or that brokers accepted"),
        Declared("records", "bigint", "records in these batches, as far as headers tell"),
        *(
            Declared(f"{result}_{name}", "bigint", f"of writers: {name} {meaning}")
            for result, meaning in _OTHERS.items()
            for name in ("bytes", "records")
        ),
        Declared("first_at", "timestamp", "when first seen"),
        Declared("last_at", "timestamp", "when last seen"),
    ),
    needs_bodies=True,
)


def topic_use(captured: Captured) -> DataFrame:
    """One row for each client and topic: the columns of TOPIC_USE."""
    return captured.once(TOPIC_USE.name, partial(_topic_use, captured))


def _topic_use(captured: Captured) -> DataFrame:
    partitions = named(captured, TOPIC_PARTITIONS).filter(F.col("partition").isNotNull())
    is_read = (F.col(SIDE) == RESPONSE) & F.col(c.API).isin("Fetch", "ShareFetch") & (F.col("bytes") > 0)
    reads = partitions.filter(is_read).withColumns({"use": F.lit(READS), RESULT: F.lit(None).cast("string")})
    used = reads.unionByName(writes(captured).withColumn("use", F.lit(WRITES))).drop("group_id")
    with_software = used.withColumn(HOST, host()).join(
        F.broadcast(software(captured)), [c.SESSION, c.CONNECTION], "left"
    )
    keys = [*_CLIENT, "use", "software", "software_version", c.PRINCIPAL]
    known = F.coalesce(RESULT, F.lit(ACCEPTED))
    summed = with_software.groupBy(*keys).agg(
        F.count_distinct(F.when(known != REFUSED, F.col("partition"))).alias("partitions"),
        *_sums("", known == ACCEPTED),
        *(column for result in _OTHERS for column in _sums(f"{result}_", F.col(RESULT) == result)),
        F.min(c.AT).alias("first_at"),
        F.max(c.AT).alias("last_at"),
    )
    return _with_groups(summed, partitions.withColumn(HOST, host())).select(*TOPIC_USE.names)


def _sums(prefix: str, which: Column) -> list[Column]:
    """Aggregates: the bytes and records of these rows; null if no header tells the number of records."""
    records = F.sum(F.when(which, F.col("records")))
    return [
        F.coalesce(F.sum(F.when(which, F.col("bytes"))), F.lit(0)).alias(f"{prefix}bytes"),
        F.when(F.count_if(which) == 0, F.lit(0).cast("bigint")).otherwise(records).alias(f"{prefix}records"),
    ]


def _with_groups(used: DataFrame, partitions: DataFrame) -> DataFrame:
    asked = partitions.filter((F.col(SIDE) == REQUEST) & F.col(c.API).isin(*_NAME_GROUPS))
    is_refusal = (F.col(SIDE) == RESPONSE) & F.col(c.API).isin(*_NAME_GROUPS) & (F.col("error_code") != 0)
    place = [*t.KEYS, "topic", "partition"]
    named_ones = asked.join(F.broadcast(partitions.filter(is_refusal).select(*place)), place, "left_anti")
    groups = named_ones.groupBy(*_CLIENT).agg(F.collect_set("group_id").alias("groups"))
    one = F.when((F.size("groups") == 1) & (F.col("use") == READS), F.get("groups", F.lit(0)))
    same = [F.col(f"used.{name}").eqNullSafe(F.col(f"of.{name}")) for name in _CLIENT]
    joined = used.alias("used").join(F.broadcast(groups).alias("of"), same, "left")
    return joined.select("used.*", one.alias("group_id"))

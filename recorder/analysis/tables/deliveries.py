"""How long record batches took from the Produce request to the first Fetch answer, and how old their records were.

A batch is identified by its cluster, topic, partition and base offset, and by the producer's id, epoch and sequence. A
batch produced where another one was fetched before belongs to a topic that was created anew. Both times are by the
proxy's clock: the request's last byte, and the answer's last byte.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import in_ms
from recorder.analysis.tables.batches import FETCHED, PRODUCED, batches
from recorder.analysis.tables.names import CLUSTER_CALLED
from recorder.capture import frames as c
from recorder.facts.batches import BATCHES
from recorder.facts.frame import REQUEST
from recorder.facts.rows import SIDE
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

_PRODUCED_BATCHES = replace(BATCHES, name="produced_batches", selectors=(PRODUCED,))
_FETCHED_BATCHES = replace(BATCHES, name="fetched_batches", selectors=(FETCHED,))
_PRODUCER = ["producer_id", "producer_epoch", "base_sequence"]
_BATCH_IN_LOG = [c.CLUSTER, "_topic", "partition", "base_offset", *_PRODUCER]
_FRAME = [c.AT, c.CLIENT, c.CLIENT_ID, c.SESSION, c.CONNECTION, c.EXCHANGE]
_BATCH = ["topic", "topic_id", "records", "bytes", "max_timestamp_ms"]

DELIVERIES = Table(
    "deliveries",
    "a record batch that was produced, fetched, or both",
    (
        CLUSTER_CALLED,
        Declared("topic", "string", "its name; null if no frame names the id"),
        Declared("topic_id", "string", "its id as Kafka prints it; null if the version has only names"),
        Declared("partition", "int", "its number"),
        Declared("base_offset", "bigint", "the offset of its first record"),
        Declared("records", "int", "the number of records; null if only decompressing would tell"),
        Declared("bytes", "int", "bytes on the wire, header included"),
        Declared("produced_at", "timestamp", "when the Produce request arrived; null: not seen"),
        Declared("fetched_at", "timestamp", "when the first answer to Fetch with it arrived; null: not seen"),
        Declared("delivery_ms", "double", "from `produced_at` to `fetched_at`"),
        Declared(
            "age_ms",
            "double",
            "from the latest time of its records, in whatever unit, to `fetched_at`",
        ),
        Declared("producer", "string", "the producer's client id"),
        Declared("consumer", "string", "the client id of the first consumer"),
        *(Declared(name, "bigint", "of the Produce request") for name in (c.CONNECTION, c.EXCHANGE)),
        Declared(c.SESSION, "string", "of the Produce request"),
        *(Declared(f"fetched_{name}", "bigint", "of the answer") for name in (c.CONNECTION, c.EXCHANGE)),
        Declared("fetched_session", "string", "of the answer"),
    ),
    needs_bodies=True,
)


def deliveries(captured: Captured) -> DataFrame:
    """One row a batch: the columns of DELIVERIES. Batches that brokers wrote are left out."""
    produced = batches(captured, offsets=True, decoder=_PRODUCED_BATCHES)
    fetched = batches(captured, decoder=_FETCHED_BATCHES)
    return delivered(produced.unionByName(fetched))


def delivered(found: DataFrame) -> DataFrame:
    """One row a batch, as `deliveries`. Takes rows of `tables.batches` with offsets."""
    known = found.filter(F.col("base_offset").isNotNull() & ~F.col("is_control"))
    placed = known.withColumn("_topic", F.coalesce("topic", "topic_id"))
    is_produced = F.col(SIDE) == REQUEST
    ours = F.struct(*_FRAME, *_BATCH)
    both = (
        _with_lives(placed)
        .groupBy(*_BATCH_IN_LOG, "_life")
        .agg(F.min(F.when(is_produced, ours)).alias("_produced"), F.min(F.when(~is_produced, ours)).alias("_fetched"))
    )
    return _with_both_sides(both).select(*DELIVERIES.names)


def _with_lives(placed: DataFrame) -> DataFrame:
    """The batches with `_life`. It counts how often a batch was produced where one was fetched before."""
    is_fetch = (F.col(SIDE) != REQUEST).cast("int")
    in_order = Window.partitionBy(*_BATCH_IN_LOG).orderBy(c.AT, is_fetch, c.SESSION, c.CONNECTION, c.EXCHANGE)
    begins = (is_fetch == 0) & (F.lag(is_fetch).over(in_order) == 1) & F.col("producer_id").isNull()
    marked = placed.withColumn("_begins", F.coalesce(begins, F.lit(False)).cast("int"))
    return marked.withColumn("_life", F.sum("_begins").over(in_order.rowsBetween(Window.unboundedPreceding, 0)))


def _with_both_sides(both: DataFrame) -> DataFrame:
    produced, fetched, either = F.col("_produced"), F.col("_fetched"), F.coalesce("_produced", "_fetched")
    took = (F.unix_micros(fetched[c.AT]) - F.unix_micros(produced[c.AT])) / 1000
    # the fetched batch first: brokers may have set its time
    stamped = F.coalesce(fetched["max_timestamp_ms"], produced["max_timestamp_ms"])
    columns = {name: either[name] for name in ("topic", "topic_id", "records", "bytes")}
    columns |= {name: produced[name] for name in (c.SESSION, c.CONNECTION, c.EXCHANGE)}
    columns |= {f"fetched_{name}": fetched[name] for name in (c.SESSION, c.CONNECTION, c.EXCHANGE)}
    columns |= {"produced_at": produced[c.AT], "fetched_at": fetched[c.AT], "delivery_ms": took}
    columns |= {"age_ms": F.unix_micros(fetched[c.AT]) / 1000 - in_ms(stamped, fetched[c.AT])}
    columns |= {"producer": produced[c.CLIENT_ID], "consumer": fetched[c.CLIENT_ID]}
    return both.withColumns(columns)

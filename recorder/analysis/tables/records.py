"""Records, and whether a consumer skipped them: a broker sends whole batches, which may begin below its position.

The consumer's position is the last offset that its requests named for the partition. Requests of a fetch session name
only offsets that have changed, so the position may come from an earlier request of the stream
(`tables.fetch_sessions`). For most answers the batches' headers show that no record is below the position. Only the
other answers' records are compared with it.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import keys
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.decode.record_rows import RECORDS
from recorder.analysis.expressions import union_of
from recorder.analysis.tables.batches import topic_key
from recorder.analysis.tables.fetch_sessions import ORDER, RUN, STREAM, streams
from recorder.analysis.tables.names import named
from recorder.capture import frames as c
from recorder.facts.batches import BATCHES
from recorder.facts.fetch_sessions import FETCH_REQUESTS
from recorder.facts.frame import RESPONSE
from recorder.facts.rows import SIDE, FrameSelector
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

BELOW_POSITION = "below_position"
_FETCHED = replace(BATCHES, name="batches_of_fetch", selectors=(FrameSelector(RESPONSE, (keys.FETCH,)),))
_PARTITION = [*t.KEYS, "_topic", "partition"]

RECORDS_WITH_POSITIONS = Table(
    RECORDS.name,
    RECORDS.row,
    (
        *RECORDS.table.columns,
        Declared(
            BELOW_POSITION,
            "boolean",
            "fetched though the consumer had not asked for it; null: not fetched, or what was asked for was not seen",
        ),
    ),
    needs_bodies=True,
)


def records(captured: Captured, *, positions: bool = False) -> DataFrame:
    """One row a record: the columns of RECORDS, with `positions` those of RECORDS_WITH_POSITIONS."""
    found = named(captured, RECORDS)
    if not positions:
        return found
    placed = found.withColumn("_topic", topic_key()).join(_doubtful(captured), _PARTITION, "left")
    is_fetched = (F.col(SIDE) == RESPONSE) & (F.col(c.API) == "Fetch") & F.col("offset").isNotNull()
    below = F.when(F.col("_doubtful"), F.col("offset") < F.col("_position")).otherwise(F.lit(False))
    return placed.withColumn(BELOW_POSITION, F.when(is_fetched, below)).select(*RECORDS_WITH_POSITIONS.names)


def _doubtful(captured: Captured) -> DataFrame:
    """The partitions of answers whose batches begin below the consumer's `_position`, or whose position is unknown."""
    fetches = rows(captured.ever, FETCH_REQUESTS)
    requests = streams(fetches, captured.ever).filter(F.col("_cause").isNull() | F.col("_use").isNotNull())
    of_request = requests.select(*t.KEYS, F.col(c.AT), STREAM, RUN)
    wanted = fetches.filter(F.col("partition").isNotNull() & ~F.col("is_forgotten")).drop(c.AT)
    offsets = wanted.withColumn("_topic", topic_key()).select(*_PARTITION, "fetch_offset").join(of_request, t.KEYS)
    found = _begun(captured).join(of_request, t.KEYS, "left")
    both = union_of(offsets, found)
    in_order = Window.partitionBy(STREAM, RUN, "_topic", "partition").orderBy(
        *ORDER, F.col("_begins").asc_nulls_first()
    )
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    placed = both.withColumn("_position", F.last("fetch_offset", ignorenulls=True).over(so_far))
    position = F.when(F.col(STREAM).isNotNull(), F.col("_position"))
    is_doubtful = F.col("_begins").isNotNull() & (position.isNull() | (F.col("_begins") < position))
    return placed.filter(is_doubtful).select(*_PARTITION, position.alias("_position"), F.lit(True).alias("_doubtful"))


def _begun(captured: Captured) -> DataFrame:
    """The first offset of each partition's records in an answer; 0 for a message with others inside, whose first is
    unknown.
    """
    found = rows(captured, _FETCHED).filter(F.col("last_offset").isNotNull()).withColumn("_topic", topic_key())
    return found.groupBy(*_PARTITION).agg(F.min(F.coalesce("base_offset", F.lit(0))).alias("_begins"))

"""The ends of partitions' logs over time, from answers to Fetch, ListOffsets and Produce.

Fetch and ListOffsets answers show the high watermark. An answer to Produce shows that the log reaches behind the
produced records, so a topic is seen to grow even if its consumers stand still.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, fresh_rows
from recorder.analysis.tables.names import with_names
from recorder.capture import frames as c
from recorder.facts.frame import RESPONSE
from recorder.facts.log_ends import FETCHED_ENDS, PAIRED_ENDS
from recorder.facts.rows import SIDE, Decoder

_PARTITION = [c.CLUSTER, "topic", "partition"]
_END = [*_PARTITION, "topic_id", c.AT, "end_offset", "stable_offset", "control_offsets"]


def log_ends(captured: Captured, topics: DataFrame) -> DataFrame:
    """CLUSTER, `topic`, `topic_id`, `partition`, AT, `end_offset`, `stable_offset`, `control_offsets`.

    `topics`: the wanted ones, as CLUSTER and `topic`; others are left out in the scan.
    """
    wanted = F.broadcast(topics.select(c.CLUSTER, "topic").distinct())

    def ends_of(decoder: Decoder) -> DataFrame:
        return with_names(captured, fresh_rows(captured, decoder)).join(wanted, [c.CLUSTER, "topic"], "left_semi")

    found = ends_of(FETCHED_ENDS).select(*_END).unionByName(_paired(ends_of(PAIRED_ENDS)).select(*_END))
    return found.filter(F.col("end_offset").isNotNull())


def _paired(sides: DataFrame) -> DataFrame:
    """The ends that request and answer show together, for Produce and ListOffsets."""
    answered_at = F.when(F.col(SIDE) == RESPONSE, F.col(c.AT))
    found = sides.groupBy(*t.KEYS, *_PARTITION, c.API).agg(
        F.max(answered_at).alias(c.AT),
        *(F.max(name).alias(name) for name in ("topic_id", "first_offset", "offsets", "is_asked")),
    )
    # if only decompressing would count the records, there is at least one
    behind = F.col("first_offset") + F.greatest(F.coalesce("offsets", F.lit(1)), F.lit(1))
    # the first offset is where the log ended before
    produced = F.array("first_offset", behind)
    queried = F.array(F.when(F.col("is_asked"), F.col("first_offset")))
    each = F.explode(F.when(F.col(c.API) == "Produce", produced).otherwise(queried)).alias("end_offset")
    nothing = {"stable_offset": F.lit(None).cast("bigint"), "control_offsets": F.lit(None).cast("array<bigint>")}
    return found.select(*_PARTITION, "topic_id", c.AT, each).withColumns(nothing)

"""Record batches, with the offsets that they got: a Produce request can't know them, its answer tells.

A producer counts its records from 0 on, so what it wrote is added to the offset in the answer. A message of magic 0 or
1 that holds others does not say how many: neither its own offset nor those behind it are known.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import keys
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.decode.batches import BATCHES, OFFSETS_TOLD
from recorder.analysis.decode.frame import REQUEST, RESPONSE
from recorder.analysis.decode.rows import SIDE, Asked, Decoder
from recorder.analysis.tables.names import named

PRODUCED = Asked(REQUEST, (keys.PRODUCE,))
FETCHED = Asked(RESPONSE, (keys.FETCH, keys.SHARE_FETCH))
_PLACE = [*t.KEYS, "_topic", "partition"]


def batches(captured: Captured, *, offsets: bool = False, of: Decoder = BATCHES) -> DataFrame:
    """One row a batch: the columns of BATCHES. With `offsets` those of Produce requests have the offsets that their
    answers tell: null where none was seen, or it holds an error. `of`: a decoder with these columns and others.
    """
    found = named(captured, of)
    return with_offsets(found, captured) if offsets else found


def with_offsets(found: DataFrame, captured: Captured) -> DataFrame:
    """The batches with the offsets of those that were produced, as `batches` says."""
    answers = rows(captured.later, OFFSETS_TOLD).filter(F.col("error_code") == 0)
    told = answers.withColumn("_topic", topic_key()).select(*_PLACE, F.col("base_offset").alias("_told"))
    own = found.withColumn("_topic", F.when(F.col(SIDE) == REQUEST, topic_key()))
    base = F.when(F.col(SIDE) == REQUEST, F.col("_told") + F.col("base_offset")).otherwise(F.col("base_offset"))
    last = F.when(F.col(SIDE) == REQUEST, F.col("_told") + F.col("last_offset")).otherwise(F.col("last_offset"))
    placed = own.join(told, _PLACE, "left").withColumns({"base_offset": base, "last_offset": last})
    return placed.select(*found.columns)


def topic_key() -> Column:
    """What requests and answers of one version call a topic by."""
    return F.coalesce("topic_id", "topic")

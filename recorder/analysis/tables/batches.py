"""Record batches and records; if asked, those of Produce requests with the offsets that brokers gave them.

A producer counts a partition's records in a request from 0 on, and the answer has the first one's offset. The sum of
both is a batch's offset in the log. A message of magic 0 or 1 that wraps others does not say how many: its own offset
and those of the batches behind it are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import keys
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.tables.names import named
from recorder.facts.batches import BATCHES, PRODUCED_OFFSETS
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.rows import SIDE, Decoder, FrameSelector

PRODUCED = FrameSelector(REQUEST, (keys.PRODUCE,))
FETCHED = FrameSelector(RESPONSE, (keys.FETCH, keys.SHARE_FETCH))
# the columns of BATCHES with offsets
OFFSETS = ("base_offset", "last_offset")
_PARTITION = [*t.KEYS, "_topic", "partition"]


def batches(captured: Captured, *, offsets: bool = False, decoder: Decoder = BATCHES) -> DataFrame:
    """One row a batch: the columns of BATCHES.

    `offsets`: gives the batches of Produce requests their offsets in the log; null if the answer is missing or holds an
    error. `decoder`: one with these columns and others.
    """
    found = named(captured, decoder)
    return with_offsets(found, captured) if offsets else found


def with_offsets(found: DataFrame, captured: Captured, names: Sequence[str] = OFFSETS) -> DataFrame:
    """The batches, those of Produce requests with their offsets in the log, as in `batches`.

    `names`: the columns with offsets.
    """
    answers = rows(captured.later, PRODUCED_OFFSETS).filter(F.col("error_code") == 0)
    offsets = answers.withColumn("_topic", topic_key()).select(*_PARTITION, F.col("base_offset").alias("_base"))
    own = found.withColumn("_topic", F.when(F.col(SIDE) == REQUEST, topic_key()))
    placed = own.join(offsets, _PARTITION, "left")
    in_log = {
        name: F.when(F.col(SIDE) == REQUEST, F.col("_base") + F.col(name)).otherwise(F.col(name)) for name in names
    }
    return placed.withColumns(in_log).select(*found.columns)


def in_log(captured: Captured, decoder: Decoder, names: Sequence[str] = OFFSETS) -> DataFrame:
    """The decoder's table, with topics' names, and with offsets in the log where answers to Produce tell them."""
    found = named(captured, decoder)
    kept = found.withColumns({f"_{name}": F.col(name) for name in names})
    placed = with_offsets(kept, captured, names)
    return placed.withColumns({name: F.coalesce(name, f"_{name}") for name in names}).select(*found.columns)


def topic_key() -> Column:
    """The topic's id, or its name if the version has no ids: a request and its answer have the same."""
    return F.coalesce("topic_id", "topic")

"""How many bytes a capture's integers take, and would take in other encodings: a study of KAFKA-9927 on real traffic.

One scan sums the bytes of each integer field in each encoding. A field's best encoding takes the fewest bytes over the
whole capture, its worst one the most. A body's size in best encodings is its size in fixed ones less what its fields
save. That is exact but for one case: a tagged field that grows beyond 127 bytes, or shrinks below, has a length that is
a byte longer or shorter.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.integers import Encoding
from recorder.analysis.bodies import Captured, fresh_rows, is_readable, is_selected, whole_frames
from recorder.analysis.decode.encodings import API, BYTES, FIELD_SIZES, OF_SIDE, PATH, SENT, VERSION
from recorder.analysis.tables.frames import FRAMES
from recorder.capture import frames as c
from recorder.facts.rows import SIDE, UNREAD
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

BEST, WORST = "best", "worst"
_MESSAGE = [c.API, SIDE, c.API_VERSION]
_MESSAGES = "messages"
# Timed messages of an api and side, and the most bytes of one: enough for ratios, few for a driver.
SAMPLED, _SAMPLE_BYTES = 50, 32 << 10
_FRAME = [c.SESSION, c.CONNECTION, c.SEQUENCE]
SAMPLE_COLUMNS = (c.KIND, c.DIALECT, c.API_KEY, c.API_VERSION, c.FRAME, c.MASKED, c.NOTE)
# Of encodings that take the same, the first one here wins.
_PREFERRED = (Encoding.FIXED, Encoding.UNSIGNED, Encoding.SIGNED)

ENCODINGS = Table(
    "encodings",
    "a field of integers in the messages of an api, side and version; or their whole bodies",
    (
        API,
        OF_SIDE,
        VERSION,
        PATH,
        Declared(_MESSAGES, "bigint", "how many messages; for a field: how many messages have it"),
        SENT,
        *BYTES.values(),
        Declared("best_bytes", "bigint", "with each field's best encoding"),
        Declared("worst_bytes", "bigint", "with each field's worst encoding"),
        Declared(BEST, "string", "`fixed`, `signed` or `unsigned`: the field's fewest bytes; null for a body"),
        Declared(WORST, "string", "the field's most bytes; null for a body"),
    ),
    needs_bodies=True,
)


def encodings(captured: Captured) -> DataFrame:
    """One row a field, and one a message: the columns of ENCODINGS."""
    found = sums(captured).filter(F.col(UNREAD).isNull()).drop(UNREAD)
    least = F.least(*(F.col(column.name) for column in BYTES.values()))
    most = F.greatest(*(F.col(column.name) for column in BYTES.values()))
    of_field = found.withColumns({BEST: _encoding_of(least), WORST: _encoding_of(most)})
    message = Window.partitionBy(*_MESSAGE)
    is_field, fixed = F.col(PATH.name).isNotNull(), F.col(BYTES[Encoding.FIXED].name)
    totals = {}
    for name, chosen in (("best_bytes", least), ("worst_bytes", most)):
        changed = F.coalesce(F.sum(F.when(is_field, chosen - fixed)).over(message), F.lit(0))
        totals[name] = F.when(is_field, chosen).otherwise(fixed + changed)
    named = {name: F.when(is_field, F.col(name)) for name in (BEST, WORST)}
    return of_field.withColumns(totals).withColumns(named).select(*ENCODINGS.names)


def sums(captured: Captured) -> DataFrame:
    """The bytes of each field in each encoding; frames that can't be read are counted by the reason."""
    return captured.once("sums of field sizes", lambda: _sums(captured))


def _sums(captured: Captured) -> DataFrame:
    of_field = fresh_rows(captured, FIELD_SIZES).groupBy(*_MESSAGE, PATH.name, UNREAD)
    added = [F.sum(column.name).alias(column.name) for column in (SENT, *BYTES.values())]
    return of_field.agg(F.count("*").alias(_MESSAGES), *added)


def _encoding_of(size: Column) -> Column:
    """The preferred one of the encodings that take `size` bytes."""
    found = F.lit(None)
    for encoding in reversed(_PREFERRED):
        found = F.when(F.col(BYTES[encoding].name) == size, encoding.value).otherwise(found)
    return found


def sample(captured: Captured) -> list[Any]:
    """Up to SAMPLED frames of each api and side, from the whole time of the capture: rows of `SAMPLE_COLUMNS`.

    Only the bodies of the chosen frames are read.
    """
    # a client may send any api key; messages of unknown apis can't be timed
    known = is_selected(FIELD_SIZES.selectors) & F.col(c.API).isNotNull()
    small = captured.chosen.filter(known & is_readable(_SAMPLE_BYTES))
    as_by_chance = Window.partitionBy(c.API_KEY, c.KIND).orderBy(F.xxhash64(*_FRAME), *_FRAME)
    numbered = small.select(*_FRAME, c.API_KEY, c.KIND).withColumn("_number", F.row_number().over(as_by_chance))
    chosen = numbered.filter(F.col("_number") <= SAMPLED).select(*_FRAME)
    whole = whole_frames(captured, FRAMES.names, FRAMES.ddl)
    return whole.join(F.broadcast(chosen), _FRAME).select(*SAMPLE_COLUMNS).collect()

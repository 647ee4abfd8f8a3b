"""Counts what a capture lacks: gaps, left-out frames, sessions that died. (`recorder.inspect.losses` needs no Spark.)

No event counts the frames that the settings left out. Their number is the closing event's count of frames, less the
connection's rows and gaps. It is unknown for connections with a gap of unknown size, and for those without an opening:
their beginning was removed.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.capture import frames as c
from recorder.capture.frames import (
    EVENT_CLOSED,
    EVENT_GAP,
    EVENT_OPENED,
    EVENT_SESSION,
    EVENT_SETTINGS,
    MAX_COUNTED,
    SETTINGS,
)
from recorder.capture.outcome import DIED

# the JSON in a gap's event
_COUNTED = ("requests", "responses", "frames", "request_bytes", "response_bytes")
_LOST = f"map<string, struct<{', '.join(f'{name}: bigint' for name in _COUNTED)}>>"
_DETAIL = f"struct<connections: bigint, lost: {_LOST}>"
_CONNECTION = [c.SESSION, c.CONNECTION]


def gaps_by_cause(events: DataFrame) -> DataFrame:
    """Counts per CAUSE: GAPS, their known FRAMES and BYTES, and CONNECTIONS of which nothing was recorded.

    Needs KIND, CAUSE, FRAMES, BYTES, DETAIL.
    """
    return (
        _gaps(events)
        .groupBy(c.CAUSE)
        .agg(
            F.count("*").alias(t.GAPS),
            *(_sum(_counted(name)).alias(name) for name in (t.CONNECTIONS, c.FRAMES, c.BYTES)),
        )
    )


def lost_by_api(events: DataFrame) -> DataFrame:
    """Counts per CAUSE and API: FRAMES that gaps lost, and their BYTES. BYTES is null if the capture does not say.

    Needs KIND, CAUSE, FRAMES, BYTES, DETAIL.
    """
    each = _gaps(events).select(c.CAUSE, F.explode("lost").alias(c.API, "of_api"))
    sizes = [F.sum(_counted(f"of_api.{name}")) for name in ("request_bytes", "response_bytes")]
    frames = [_sum(_counted(f"of_api.{name}")) for name in ("requests", "responses", "frames")]
    some = F.coalesce(*sizes).isNotNull()
    return each.groupBy(c.CAUSE, c.API).agg(
        (frames[0] + frames[1] + frames[2]).alias(c.FRAMES),
        F.when(some, sum((F.coalesce(one, F.lit(0)) for one in sizes), F.lit(0))).alias(c.BYTES),
    )


def sessions_that_died(events: DataFrame) -> DataFrame:
    """Returns the SESSION of each proxy run that did not end in order. Needs KIND, CAUSE, SESSION."""
    return events.filter((F.col(c.KIND) == EVENT_SESSION) & (F.col(c.CAUSE) == DIED)).select(c.SESSION).distinct()


def settings_told(events: DataFrame) -> DataFrame:
    """Returns each setting that was in force, as `name` and `value`. Needs KIND, DETAIL."""
    told = events.filter(F.col(c.KIND) == EVENT_SETTINGS)
    found = F.from_json(c.DETAIL, f"{SETTINGS} map<string, string>")[SETTINGS]
    return told.select(F.explode(found).alias("name", "value")).distinct()


def left_out(frames: DataFrame, events: DataFrame) -> DataFrame:
    """Returns one row about what the settings left out: FRAMES, `cut_frames`, `cut_bytes` and `without_records`.

    FRAMES counts frames without a row, on closed connections alone. `cut_frames` were stored in part, without
    `cut_bytes` in all; `without_records` lack records by a rule. Needs of the frames SESSION, CONNECTION, SIZE, STORED,
    RECORDS; of the events KIND, SESSION, CONNECTION, FRAMES.
    """
    cut = F.col(c.SIZE) - F.col(c.STORED)
    rows = frames.groupBy(*_CONNECTION).agg(
        F.count("*").alias("rows"),
        F.count_if(cut > 0).alias("cut_frames"),
        _sum(cut).alias("cut_bytes"),
        F.count(c.RECORDS).alias("without_records"),
    )
    lost = events.filter(F.col(c.KIND).isin(EVENT_OPENED, EVENT_CLOSED, EVENT_GAP) & F.col(c.CONNECTION).isNotNull())
    counted = lost.groupBy(*_CONNECTION).agg(
        _sum(F.when(F.col(c.KIND) == EVENT_CLOSED, _counted(c.FRAMES))).alias("came"),
        _sum(F.when(F.col(c.KIND) == EVENT_GAP, _counted(c.FRAMES))).alias("lost"),
        F.count_if((F.col(c.KIND) == EVENT_GAP) & F.col(c.FRAMES).isNull()).alias("unknown"),
        F.count_if(F.col(c.KIND) == EVENT_OPENED).alias("openings"),
    )
    is_known = (F.col("unknown") == 0) & (F.col("openings") > 0)
    beyond = F.when(is_known, F.col("came") - F.coalesce("rows", F.lit(0)) - F.col("lost"))
    return rows.join(counted, _CONNECTION, "full_outer").agg(
        _sum(F.greatest(beyond, F.lit(0))).alias(c.FRAMES),
        *(_sum(name).alias(name) for name in ("cut_frames", "cut_bytes", "without_records")),
    )


def _gaps(events: DataFrame) -> DataFrame:
    detail = F.from_json(c.DETAIL, _DETAIL)
    gaps = events.filter(F.col(c.KIND) == EVENT_GAP)
    return gaps.select(c.CAUSE, c.FRAMES, c.BYTES, detail.alias("detail")).select("*", "detail.*").drop("detail")


def _counted(name: str) -> Column:
    """A column of counts; impossible numbers become null."""
    return F.when(F.col(name).between(0, MAX_COUNTED), F.col(name))


def _sum(column: Column | str) -> Column:
    return F.coalesce(F.sum(column), F.lit(0))

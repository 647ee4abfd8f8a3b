"""The age of a lag, and its size without control batches, which no consumer sees.

Both are looked up in the order of offsets, not of time. A partition's ends say when the log grew beyond an offset. Its
control batches say which offsets hold no record. So commits, ends and control batches become rows of one order, in
which a commit looks at its neighbours. Between two ends, the log is taken to grow evenly.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.table_cache import cut
from recorder.analysis.tables.topic_lives import LIFE
from recorder.capture import frames as c

_PARTITION = [c.CLUSTER, "topic", LIFE, "partition"]
# The order at one offset: an end that is not beyond it, the question, a control batch in the lag.
_END, _QUESTION, _CONTROL = 0, 1, 2


def with_age(windows: DataFrame, points: DataFrame, ends: DataFrame) -> DataFrame:
    """The windows with `lag_ms` and `lag_records`. `points`: a few ends a window. `ends`: all, for their control
    batches.
    """
    numbered = cut(windows.withColumn("_id", F.monotonically_increasing_id()))
    looked_up = _looked_up(_questions(numbered).unionByName(_growth(points)).unionByName(_controls(ends)))
    at_us, behind = F.unix_micros("window_end"), F.col("lag")
    found = numbered.join(looked_up, "_id", "left")
    since = (at_us - _passed(F.col("_before"), F.col("_next"), F.col("committed_offset"))) / 1000
    none = F.lit(0).cast("bigint")
    # a commit at the log's end has no lag, and no age
    lag_ms = F.when(behind == 0, none).when(since.isNotNull(), F.greatest(F.round(since).cast("bigint"), none))
    return found.withColumns({"lag_ms": lag_ms, "lag_records": behind - F.col("_controls")})


def _passed(before: Column, after: Column, offset: Column) -> Column:
    """When the log's end passed the offset, in us since 1970; null if the capture has no earlier end."""
    share = (offset - before["end"]) / (after["end"] - before["end"])
    return before["until_us"] + share * (after["from_us"] - before["until_us"])


def _questions(windows: DataFrame) -> DataFrame:
    """Two offsets of each lag that are looked up: its commit and its end."""
    behind = windows.filter("lag is not null")
    each = F.explode(
        F.array(
            F.struct(F.col("committed_offset").alias("offset"), F.lit(True).alias("is_commit")),
            F.struct(F.greatest("end_offset", "committed_offset").alias("offset"), F.lit(False).alias("is_commit")),
        )
    )
    found = behind.select(*_PARTITION, "_id", each.alias("_one")).select(*_PARTITION, "_id", "_one.*")
    return _filled(found.withColumn("kind", F.lit(_QUESTION)))


def _growth(points: DataFrame) -> DataFrame:
    """The ends that are no lower than all before them. Others may come from followers, which lag behind."""
    told_us = F.unix_micros("told_at")
    highest = F.struct(
        F.col("end_offset").alias("end"), F.unix_micros(c.AT).alias("from_us"), told_us.alias("until_us")
    )
    low_us = F.col("lowest.at_us")
    lowest = F.struct(F.col("lowest.end_offset").alias("end"), low_us.alias("from_us"), low_us.alias("until_us"))
    both = points.select(*_PARTITION, F.explode(F.array(lowest, highest)).alias("end"))
    order = Window.partitionBy(*_PARTITION).orderBy("end.from_us", "end.end")
    so_far = F.max("end.end").over(order.rowsBetween(Window.unboundedPreceding, 0))
    rising = both.withColumn("_most", so_far).filter(F.col("end.end") >= F.col("_most"))
    return _filled(rising.select(*_PARTITION, F.col("end.end").alias("offset"), "end", F.lit(_END).alias("kind")))


def _controls(ends: DataFrame) -> DataFrame:
    offsets = ends.select(*_PARTITION, F.explode("control_offsets").alias("offset")).distinct()
    return _filled(offsets.withColumn("kind", F.lit(_CONTROL)))


def _filled(rows: DataFrame) -> DataFrame:
    """The rows with all columns of the common order; those that they lack are null."""
    kinds = {"offset": "bigint", "kind": "int", "_id": "bigint", "is_commit": "boolean"}
    kinds |= {"end": "struct<end: bigint, from_us: bigint, until_us: bigint>"}
    lacking = {name: F.lit(None).cast(kind) for name, kind in kinds.items() if name not in rows.columns}
    return rows.withColumns(lacking).select(*_PARTITION, *(F.col(name).cast(kind) for name, kind in kinds.items()))


def _looked_up(rows: DataFrame) -> DataFrame:
    """`_id`, the ends before and behind its commit, and the control batches between its commit and its end."""
    order = Window.partitionBy(*_PARTITION).orderBy("offset", "kind", F.col("end.from_us"))
    before = F.last("end", ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, 0))
    # The next end is found in reverse order. With a window frame to the partition's end, Spark would start anew at each
    # row.
    reverse = Window.partitionBy(*_PARTITION).orderBy(F.desc("offset"), F.desc("kind"), F.col("end.from_us").desc())
    behind = F.last("end", ignorenulls=True).over(reverse.rowsBetween(Window.unboundedPreceding, -1))
    controls = F.count_if(F.col("kind") == _CONTROL).over(order.rowsBetween(Window.unboundedPreceding, 0))
    found = rows.withColumns({"_before": before, "_next": behind, "_controls": controls}).filter(
        F.col("_id").isNotNull()
    )
    is_commit = F.col("is_commit")
    below = F.max(F.when(is_commit, F.col("_controls")))
    return found.groupBy("_id").agg(
        F.first(F.when(is_commit, F.col("_before")), ignorenulls=True).alias("_before"),
        F.first(F.when(is_commit, F.col("_next")), ignorenulls=True).alias("_next"),
        (F.max(F.when(~is_commit, F.col("_controls"))) - below).alias("_controls"),
    )

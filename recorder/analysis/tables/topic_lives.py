"""The lives of topics: a topic that is deleted and created anew has another id, and its offsets begin again at 0.

A frame without the topic's id means the last id that was named before, or else the first one that is named later.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.tables.names import first_named
from recorder.capture import frames as c

LIFE, BORN, DIES = "life", "born", "dies"
_TOPIC = [c.CLUSTER, "topic"]


def topic_lives(captured: Captured) -> DataFrame:
    """CLUSTER, `topic`, LIFE (the topic's id), BORN (when that id was first named), DIES (when the
    next one was; null: never).
    """
    born = first_named(captured).select(*_TOPIC, F.col("topic_id").alias(LIFE), F.col(c.AT).alias(BORN))
    return born.withColumn(DIES, F.lead(BORN).over(Window.partitionBy(*_TOPIC).orderBy(BORN, LIFE)))


def with_life(rows: DataFrame, lives: DataFrame, at: str = c.AT) -> DataFrame:
    """The rows with LIFE: the row's topic id, or else the topic's id at the moment `at`; its name if no id is known."""
    of_topic = lives.groupBy(*_TOPIC).agg(F.array_sort(F.collect_list(F.struct(BORN, LIFE))).alias("_lives"))
    found = rows.join(F.broadcast(of_topic), _TOPIC, "left")
    return found.withColumn(LIFE, F.coalesce("topic_id", _at(F.col(at)), F.col("topic"))).drop("_lives")


def _at(moment: Column) -> Column:
    """The last id that was named before the moment; else the first one."""
    before = F.filter("_lives", lambda one: one[BORN] <= moment)
    last = F.when(F.size(before) > 0, F.element_at(before, -1))
    return F.coalesce(last[LIFE], F.get("_lives", F.lit(0))[LIFE])

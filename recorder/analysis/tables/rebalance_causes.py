"""Why a group rebalanced: the first of CAUSES that is true.

A member that left or was lost is a cause only if other members stayed: a group whose members are all new has begun
again. Partitions that members give up in one generation are assigned in the next: that one is a follow-up.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.expressions import without
from recorder.capture import frames as c

LEFT, LOST, JOINED, FENCED = "left", "lost", "joined", "fenced"
SUBSCRIPTION, PARTITIONS_ADDED, COORDINATOR_MOVED = "subscription", "partitions_added", "coordinator_moved"
FOLLOW_UP, UNKNOWN = "follow_up", "unknown"
CAUSES = (LEFT, LOST, JOINED, FENCED, SUBSCRIPTION, PARTITIONS_ADDED, COORDINATOR_MOVED, FOLLOW_UP, UNKNOWN)
# FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH
FENCED_CODES = (82, 110)
# NOT_COORDINATOR
MOVED_CODES = (16,)
_GROUP = [c.CLUSTER, "group_id"]
_GENERATION = [*_GROUP, "life", "generation"]
_FIRST_GENERATION = 1


def with_causes(found: DataFrame, highest: DataFrame) -> DataFrame:
    """`found` with `joined`, `lost`, CAUSE; it has `left`. `highest`: each generation's highest partition of each
    topic.
    """
    grown = _grown(highest)
    order = Window.partitionBy(*_GROUP).orderBy("first_assigned", "life", "generation")
    was = F.lag(F.struct("members", "revoked")).over(order)
    known = found.join(grown, _GENERATION, "left").withColumn("_was", was)
    before = F.col("_was")["members"]
    compared = known.withColumns(
        {
            "joined": F.when(before.isNotNull(), without("members", before)),
            "_gone": F.when(before.isNotNull(), without(before, "members")),
            "_some_stayed": F.when(before.isNotNull(), F.arrays_overlap("members", before)),
        }
    ).withColumn("lost", without("_gone", "left"))
    return compared.withColumn(c.CAUSE, _first_true(_causes()))


def _causes() -> dict[str, Column]:
    """The condition of each cause, in the order of CAUSES. Null counts as false."""
    before, some_stayed = F.col("_was")["members"], F.coalesce("_some_stayed", F.lit(True))
    is_first = (F.col("generation") == _FIRST_GENERATION) | (F.col("newcomers") > 0)
    same = F.array_sort(before) == F.array_sort("members")
    return {
        LEFT: (F.size("left") > 0) & some_stayed,
        LOST: (F.size("lost") > 0) & F.col("_some_stayed"),
        JOINED: F.when(before.isNull(), is_first).otherwise(F.size("joined") > 0),
        FENCED: F.col("fenced") > 0,
        SUBSCRIPTION: F.col("changed") > 0,
        PARTITIONS_ADDED: F.coalesce("is_grown", F.lit(False)),
        COORDINATOR_MOVED: F.col("moved") > 0,
        FOLLOW_UP: same & (F.col("_was")["revoked"] > 0),
        UNKNOWN: F.lit(True),
    }


def _first_true(causes: dict[str, Column]) -> Column:
    return F.coalesce(*(F.when(condition, F.lit(cause)) for cause, condition in causes.items()))


def _grown(highest: DataFrame) -> DataFrame:
    """`is_grown` of each generation: a topic has a higher partition than before, or its first after the group had
    nothing to assign.
    """
    of_topic, of_group = (
        Window.partitionBy(*_GROUP, *own).orderBy("told_at").rowsBetween(Window.unboundedPreceding, -1)
        for own in (["topic"], [])
    )
    nothing = F.max(F.when(F.col("topic").isNull(), F.lit(-1))).over(of_group)
    grows = F.col("highest") > F.coalesce(F.max("highest").over(of_topic), nothing)
    found = highest.withColumn("_grows", F.coalesce(grows, F.lit(False)))
    return found.groupBy(*_GENERATION).agg(F.max("_grows").alias("is_grown"))

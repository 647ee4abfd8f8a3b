"""Names of topics and clusters, and tables with these names filled in.

The names of the whole capture serve each frame, even if only a part of the time is asked for: an id is often named
later, or on another connection. `cluster` holds the cluster's own id, which Metadata tells: its name in the settings is
not unique, for two clusters may both be called `main`. If the capture lacks the id, the name in the settings stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured, fresh_rows
from recorder.capture import frames as c
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.rows import Decoder
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

_ID, _CLUSTER_ID = "topic_id", "cluster_id"
_TOPIC, _NAMES = "topic", "_names"
_SETTINGS = [c.SESSION, c.CLUSTER]

CLUSTER_CALLED = Declared(c.CLUSTER, "string", "the cluster's own id; its name in the settings if the id was not told")
TOPIC_NAMES = Table(
    "topic_names",
    "a topic's id and its name",
    (
        CLUSTER_CALLED,
        Declared(_ID, "string", "its id as Kafka prints it"),
        Declared(_TOPIC, "string", "the name"),
    ),
    needs_bodies=True,
)


def topic_names(captured: Captured) -> DataFrame:
    """One row an id: the columns of TOPIC_NAMES."""
    return _names(captured)


def first_named(captured: Captured) -> DataFrame:
    """When a topic's name first came with each of its ids: CLUSTER, `topic`, `topic_id`, AT."""
    answered = with_cluster_ids(_answered_names(captured), cluster_ids(captured))
    known = answered.filter(F.col(_ID).isNotNull() & F.col(_TOPIC).isNotNull())
    return known.groupBy(c.CLUSTER, _TOPIC, _ID).agg(F.min(c.AT).alias(c.AT))


def named(captured: Captured, decoder: Decoder) -> DataFrame:
    """The decoder's table, with clusters' ids in `cluster` and with topics' names. A report keeps it."""
    return captured.once(f"named {decoder.name}", lambda: with_names(captured, fresh_rows(captured, decoder)))


def with_names(captured: Captured, found: DataFrame, lists: Sequence[str] = ()) -> DataFrame:
    """The rows, with clusters' ids in `cluster`, and topics' names in place of nulls.

    Needs SESSION, CLUSTER, `topic`, `topic_id`. `lists`: columns of partitions such as `orders-3`, in which names
    replace ids, too.
    """
    names = _names(captured)
    called = with_cluster_ids(found, cluster_ids(captured)).join(
        F.broadcast(names.withColumnRenamed(_TOPIC, "_name")), [c.CLUSTER, _ID], "left"
    )
    shown = {_TOPIC: F.coalesce(_TOPIC, "_name")}
    if lists:
        by_id = names.groupBy(c.CLUSTER).agg(F.map_from_entries(F.collect_list(F.struct(_ID, _TOPIC))).alias(_NAMES))
        called = called.join(F.broadcast(by_id), c.CLUSTER, "left")
        shown |= {name: F.transform(name, _by_name) for name in lists}
    return called.withColumns(shown).select(*found.columns)


def _by_name(partition: Column) -> Column:
    topic = F.regexp_replace(partition, r"-\d+$", "")
    name = F.try_element_at(_NAMES, topic)
    return F.coalesce(F.concat(name, F.regexp_extract(partition, r"(-\d+)$", 1)), partition)


def _answered_names(captured: Captured) -> DataFrame:
    """All names in the whole capture, each with the time of the first answer that has it."""
    return captured.ever.once("answered names", partial(_compute_answered_names, captured.ever))


def _compute_answered_names(captured: Captured) -> DataFrame:
    return (
        fresh_rows(captured, ANSWERED_NAMES).groupBy(*_SETTINGS, _CLUSTER_ID, _ID, _TOPIC).agg(F.min(c.AT).alias(c.AT))
    )


def cluster_ids(captured: Captured) -> DataFrame:
    """The own ids of each session's clusters: SESSION, CLUSTER (the name in the settings), `cluster_id`. A report keeps
    them.
    """
    return captured.ever.once("cluster ids", partial(_compute_cluster_ids, captured))


def _compute_cluster_ids(captured: Captured) -> DataFrame:
    known = _answered_names(captured).filter(F.col(_CLUSTER_ID).isNotNull())
    return known.groupBy(*_SETTINGS).agg(F.max(_CLUSTER_ID).alias(_CLUSTER_ID))


def with_cluster_ids(found: DataFrame, clusters: DataFrame) -> DataFrame:
    """The rows, with clusters' ids in `cluster`. `clusters`: the table of `cluster_ids`."""
    renamed = {c.SESSION: "_session", c.CLUSTER: "_settings", _CLUSTER_ID: "_cluster"}
    other = F.broadcast(clusters.withColumnsRenamed(renamed))
    same = (F.col(c.SESSION) == F.col("_session")) & F.col(c.CLUSTER).eqNullSafe(F.col("_settings"))
    named_by_id = F.coalesce("_cluster", c.CLUSTER)
    return found.join(other, same, "left").withColumn(c.CLUSTER, named_by_id).drop("_cluster", "_session", "_settings")


def _names(captured: Captured) -> DataFrame:
    """The name of each topic's id. A report keeps it."""
    return captured.ever.once(TOPIC_NAMES.name, partial(_compute_names, captured))


def _compute_names(captured: Captured) -> DataFrame:
    known = with_cluster_ids(_answered_names(captured), cluster_ids(captured)).filter(F.col(_ID).isNotNull())
    return known.groupBy(c.CLUSTER, _ID).agg(F.max(_TOPIC).alias(_TOPIC))

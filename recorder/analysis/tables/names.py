"""What clusters and topics are called: dimensions of one row a name, and the tables of bodies with these names in them.

The names of the whole capture serve each of its frames, whatever time was asked for: an id is often named later, or on
another connection. A cluster is called by its own id where Metadata told it: `cluster` is a name of the settings, and
two clusters may both be called `main`. Where the id of a session's cluster was never told, the settings' name stands.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured, fresh_rows
from recorder.analysis.decode.names import NAMES_TOLD
from recorder.analysis.decode.rows import Decoder
from recorder.analysis.schema import Column as Declared
from recorder.analysis.schema import Table
from recorder.capture import frames as c

_ID, _CLUSTER_ID = "topic_id", "cluster_id"
_TOPIC, _NAME, _NAMES = "topic", "_name", "_names"
_SETTINGS = [c.SESSION, c.CLUSTER]
# Of as many sessions' clusters, and of as many topics, names stand in a plan: Spark looks them up one by one.
_MOST_NAMES = 100

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
    told = _told(captured)
    return _names(_called(told, _clusters(told)))


def first_told(captured: Captured) -> DataFrame:
    """When each topic's name was told with each of its ids for the first time: CLUSTER, `topic`, `topic_id`, AT."""
    told = _told(captured)
    known = _called(told, _clusters(told)).filter(F.col(_ID).isNotNull() & F.col(_TOPIC).isNotNull())
    return known.groupBy(c.CLUSTER, _TOPIC, _ID).agg(F.min(c.AT).alias(c.AT))


def named(captured: Captured, decoder: Decoder) -> DataFrame:
    """The decoder's table, with each cluster called by its id, and topics' names in place of nulls.

    A report keeps it, unless its rows lie in files and its few names stand in each question's plan.
    """
    is_stored = captured.is_shelved(decoder) and _few(captured) is not None
    once = captured.planned_once if is_stored else captured.once
    return once(f"named {decoder.name}", partial(_named, captured, decoder))


def _named(captured: Captured, decoder: Decoder) -> DataFrame:
    return with_names(captured, fresh_rows(captured, decoder))


def with_names(captured: Captured, found: DataFrame, lists: Sequence[str] = ()) -> DataFrame:
    """The rows, with each cluster called by its id, and topics' names in place of nulls.

    Needs SESSION, CLUSTER, `topic`, `topic_id`. `lists`: columns of partitions such as `orders-3`, in which names stand
    in place of ids too.
    """
    few = _few(captured)
    if few is not None and not few.clusters and not few.topics:
        return found
    called = few.beside(found) if few is not None else _beside(found, _told(captured), with_lists=bool(lists))
    shown = {_TOPIC: F.coalesce(_TOPIC, _NAME)}
    if lists:
        shown |= {name: F.transform(name, _by_name) for name in lists}
    return called.withColumns(shown).select(*found.columns)


class _Few(NamedTuple):
    """Names that are few enough to stand in a plan. `clusters`: ids by session and name in the settings; `topics`:
    names by cluster and id.
    """

    clusters: Mapping[str, Mapping[str, str]]
    topics: Mapping[str, Mapping[str, str]]

    def beside(self, found: DataFrame) -> DataFrame:
        """The rows, with each cluster called by its id, and _NAME and _NAMES of their topics."""
        own = F.try_element_at(_literal(self.clusters), F.col(c.SESSION))
        of_cluster = F.try_element_at(_literal(self.topics), F.col(c.CLUSTER))
        called = found.withColumn(c.CLUSTER, F.coalesce(F.try_element_at(own, _settings()), F.col(c.CLUSTER)))
        return called.withColumn(_NAMES, of_cluster).withColumn(_NAME, F.try_element_at(_NAMES, F.col(_ID)))


def _settings() -> Column:
    """The name in the settings as a key: of a cluster without one it is empty."""
    return F.coalesce(F.concat(F.lit("="), F.col(c.CLUSTER)), F.lit(""))


def _literal(names: Mapping[str, Mapping[str, str]]) -> Column:
    return F.from_json(F.lit(json.dumps(names)), "map<string, map<string, string>>")


def _few(captured: Captured) -> _Few | None:
    """The names of a report's capture, if they are few; they are looked at once."""
    if captured.kept is None or not captured.has_shelves:
        return None
    return captured.kept.once("few names", partial(_collected, _told(captured)))


def _collected(told: DataFrame) -> _Few | None:
    clusters = _clusters(told)
    found = [table.limit(_MOST_NAMES + 1).collect() for table in (clusters, _names(_called(told, clusters)))]
    if any(len(rows) > _MOST_NAMES for rows in found):
        return None
    clusters_by, topics_by = defaultdict[str, dict[str, str]](dict), defaultdict[str, dict[str, str]](dict)
    for session, settings, cluster in found[0]:
        clusters_by[session]["" if settings is None else f"={settings}"] = cluster
    for cluster, topic_id, topic in found[1]:
        if cluster is not None:
            topics_by[cluster][topic_id] = topic
    return _Few(clusters_by, topics_by)


def _beside(found: DataFrame, told: DataFrame, *, with_lists: bool) -> DataFrame:
    """As `_Few.beside`, by joins; _NAMES are there for lists alone."""
    clusters = _clusters(told)
    names = _names(_called(told, clusters))
    called = _called(found, clusters).join(
        F.broadcast(names.withColumnRenamed(_TOPIC, _NAME)), [c.CLUSTER, _ID], "left"
    )
    if not with_lists:
        return called
    by_id = names.groupBy(c.CLUSTER).agg(F.map_from_entries(F.collect_list(F.struct(_ID, _TOPIC))).alias(_NAMES))
    return called.join(F.broadcast(by_id), c.CLUSTER, "left")


def _by_name(partition: Column) -> Column:
    topic = F.regexp_replace(partition, r"-\d+$", "")
    name = F.try_element_at(_NAMES, topic)
    return F.coalesce(F.concat(name, F.regexp_extract(partition, r"(-\d+)$", 1)), partition)


def _told(captured: Captured) -> DataFrame:
    """What the whole capture tells, and when first."""
    return captured.ever.once("names told", partial(_told_by, captured.ever))


def _told_by(captured: Captured) -> DataFrame:
    return fresh_rows(captured, NAMES_TOLD).groupBy(*_SETTINGS, _CLUSTER_ID, _ID, _TOPIC).agg(F.min(c.AT).alias(c.AT))


def _clusters(told: DataFrame) -> DataFrame:
    """The id of each session's clusters."""
    known = told.filter(F.col(_CLUSTER_ID).isNotNull())
    return known.groupBy(*_SETTINGS).agg(F.max(_CLUSTER_ID).alias("_cluster"))


def _called(found: DataFrame, clusters: DataFrame) -> DataFrame:
    """The rows, with each cluster called by its id."""
    other = F.broadcast(clusters.withColumnsRenamed({c.SESSION: "_session", c.CLUSTER: "_settings"}))
    same = (F.col(c.SESSION) == F.col("_session")) & F.col(c.CLUSTER).eqNullSafe(F.col("_settings"))
    named_by_id = F.coalesce("_cluster", c.CLUSTER)
    return found.join(other, same, "left").withColumn(c.CLUSTER, named_by_id).drop("_cluster", "_session", "_settings")


def _names(told: DataFrame) -> DataFrame:
    known = told.filter(F.col(_ID).isNotNull())
    return known.groupBy(c.CLUSTER, _ID).agg(F.max(_TOPIC).alias(_TOPIC))

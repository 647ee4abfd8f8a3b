"""What clusters and topics are called: dimensions of one row a name, and the tables of bodies with these names in them.

The names of the whole capture serve each of its frames, whatever time was asked for: an id is often named later, or on
another connection. A cluster is called by its own id where Metadata told it: `cluster` is a name of the settings, and
two clusters may both be called `main`. Where the id of a session's cluster was never told, the settings' name stands.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured, rows
from recorder.analysis.decode.names import NAMES_TOLD
from recorder.analysis.decode.rows import Decoder
from recorder.analysis.schema import Column as Declared
from recorder.analysis.schema import Table
from recorder.capture import frames as c

_ID, _CLUSTER_ID = "topic_id", "cluster_id"
_TOPIC = "topic"
_SETTINGS = [c.SESSION, c.CLUSTER]

TOPIC_NAMES = Table(
    "topic_names",
    "a topic's id and its name",
    (
        Declared(c.CLUSTER, "string", "the cluster's own id; its name in the settings where the id was not told"),
        Declared(_ID, "string", "as Kafka prints it"),
        Declared(_TOPIC, "string", "the name"),
    ),
    needs_bodies=True,
)


def topic_names(captured: Captured) -> DataFrame:
    """One row an id: the columns of TOPIC_NAMES."""
    told = _told(captured)
    return _names(_called(told, _clusters(told)))


def named(captured: Captured, decoder: Decoder) -> DataFrame:
    """The decoder's table, with each cluster called by its id, and topics' names in place of nulls."""
    told = _told(captured)
    clusters = _clusters(told)
    names = _names(_called(told, clusters)).withColumnRenamed(_TOPIC, "_name")
    found = _called(rows(captured, decoder), clusters)
    return (
        found.join(F.broadcast(names), [c.CLUSTER, _ID], "left")
        .withColumn(_TOPIC, F.coalesce(_TOPIC, "_name"))
        .select(*decoder.table.names)
    )


def _told(captured: Captured) -> DataFrame:
    always = replace(captured, since_ns=None, until_ns=None)
    return rows(always, NAMES_TOLD).select(*_SETTINGS, _CLUSTER_ID, _ID, _TOPIC).distinct()


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

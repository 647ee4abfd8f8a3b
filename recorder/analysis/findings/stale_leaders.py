"""A rule on requests that don't reach a partition's leader, though Metadata named the leader to the client long before.

    astray   the client asks another node: it does not use the Metadata that it got
    misled   the client asks the node that Metadata names, and it refuses: the node's address leads to another broker

Only requests that a node refused because it does not lead the partition (suspects) are compared with what Metadata had
told the client, and when.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import rows
from recorder.analysis.findings.counting import Words, counted, rule_rows
from recorder.analysis.findings.rows import CASES, MEASURE
from recorder.analysis.findings.tables import PEER, Tables, with_peers
from recorder.analysis.tables.clients import HOST
from recorder.analysis.tables.names import with_names
from recorder.capture import frames as c
from recorder.facts.frame import RESPONSE
from recorder.facts.metadata import METADATA_STATES
from recorder.facts.rows import SIDE

_NOT_LEADER = 6
# Only leaders answer these. A consumer that does not reach the leader gets no further than ListOffsets.
_OF_LEADERS = ("Produce", "Fetch", "ListOffsets")
# A refused client asks for Metadata at once. If it is still refused after this time, Metadata did not help it.
STALE_AFTER_S = 30
_CLIENT_PARTITION = [HOST, c.CLIENT_ID, "topic", "partition"]


def stale_leaders(tables: Tables) -> DataFrame:
    """Produce, Fetch and ListOffsets requests that a node refused because it does not lead the partition. Either
    Metadata had named another leader to the client 30 s or longer before; or Metadata named this node, which had
    refused for 30 s or longer. The client can't write or read the partition meanwhile.
    """
    refused = (F.col(SIDE) == RESPONSE) & (F.col("error_code") == _NOT_LEADER) & F.col(c.API).isin(*_OF_LEADERS)
    suspects = tables.of_bodies(tables.partitions.filter(refused & F.col(c.NODE).isNotNull()))
    # the table of changes reads the same rows
    states = with_names(tables.captured, rows(tables.captured, METADATA_STATES))
    leaders = with_peers(states.filter(F.col("partition").isNotNull()))
    named_leaders = leaders.select(*_CLIENT_PARTITION, "leader", F.col(c.AT).alias("_at"))
    every = named_leaders.join(
        F.broadcast(suspects.select(*_CLIENT_PARTITION).distinct()), _CLIENT_PARTITION, "left_semi"
    )
    known = every.groupBy(*_CLIENT_PARTITION).agg(
        F.array_sort(F.collect_list(F.struct("_at", "leader"))).alias("_leaders")
    )
    both = suspects.join(known, _CLIENT_PARTITION).withColumns(
        {
            "_now": _last_named(F.col(c.AT))["leader"],
            "_before": _last_named(_stale_before())["leader"],
            "_at": _last_named(F.col(c.AT))["_at"],
            "_otherwise": _last_named_otherwise(),
        }
    )
    of_run = Window.partitionBy(*_CLIENT_PARTITION, c.NODE, "_otherwise")
    dated = both.withColumn("_refused_first", F.min(c.AT).over(of_run))
    found = counted(dated.filter(_is_astray() | _is_misled()), [PEER, c.API, "topic", "partition", c.NODE, "_now"])
    words: Words = {
        "client": PEER,
        "api": c.API,
        "node": c.NODE,
        "leader": "_now",
        "topic": "topic",
        "partition": "partition",
    }
    subject = F.concat(PEER, F.lit(": "), "topic", F.lit(" "), F.col("partition").cast("string"))
    return rule_rows(found.withColumn(MEASURE, F.col(CASES)), subject, words)


def _is_astray() -> Column:
    """Whether Metadata has long named another leader to the client."""
    return (F.col("_now") != F.col(c.NODE)) & (F.col("_before") != F.col(c.NODE))


def _is_misled() -> Column:
    """Whether the node has long refused, and Metadata, which the client asked again, named only this node."""
    was_named_again = F.col("_at") > F.col("_refused_first")
    return (F.col("_now") == F.col(c.NODE)) & (F.col("_refused_first") <= _stale_before()) & was_named_again


def _stale_before() -> Column:
    return F.col(c.AT) - F.expr(f"INTERVAL {STALE_AFTER_S} SECONDS")


def _last_named(at: Column) -> Column:
    """The last thing that Metadata told the client up to a moment: `_at`, `leader`. Null if nothing."""
    return _last(F.filter("_leaders", lambda one: one["_at"] <= at))


def _last_named_otherwise() -> Column:
    """When Metadata last named no leader or another one to the client. Null if never."""
    others = F.filter("_leaders", lambda one: (one["_at"] <= F.col(c.AT)) & ~one["leader"].eqNullSafe(F.col(c.NODE)))
    return _last(others)["_at"]


def _last(leaders: Column) -> Column:
    return F.when(F.size(leaders) > 0, F.element_at(leaders, -1))

"""A rule on clients that don't follow a partition's leader, though they were told where it is.

Suspects come first: only what a node refused because it does not lead the partition is compared with what the client
had been told, and when.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.decode.frame import RESPONSE
from recorder.analysis.decode.metadata import METADATA_TOLD
from recorder.analysis.decode.rows import SIDE
from recorder.analysis.findings.counting import Words, counted, said
from recorder.analysis.findings.rows import CASES, MEASURE
from recorder.analysis.findings.tables import PEER, Tables, with_peers
from recorder.analysis.tables.clients import HOST
from recorder.analysis.tables.names import named
from recorder.capture import frames as c

_NOT_LEADER = 6
# Clients ask again at once when a node refuses; so long after, they do not use what they were told.
STALE_AFTER_S = 30
_PLACE = [HOST, c.CLIENT_ID, "topic", "partition"]


def stale_leaders(tables: Tables) -> DataFrame:
    """Produce and Fetch requests that a node refused because it does not lead the partition, 30 s or longer after the
    client had been told another leader.
    """
    refused = (F.col(SIDE) == RESPONSE) & (F.col("error_code") == _NOT_LEADER) & F.col(c.API).isin("Produce", "Fetch")
    suspects = tables.of_bodies(tables.partitions.filter(refused & F.col(c.NODE).isNotNull()))
    leaders = with_peers(named(tables.captured, METADATA_TOLD).filter(F.col("partition").isNotNull()))
    told = leaders.select(*_PLACE, "leader", F.col(c.AT).alias("_told_at"))
    every = told.join(F.broadcast(suspects.select(*_PLACE).distinct()), _PLACE, "left_semi")
    known = every.groupBy(*_PLACE).agg(F.array_sort(F.collect_list(F.struct("_told_at", "leader"))).alias("_told"))
    both = suspects.join(known, _PLACE)
    now, before = _leader(F.col(c.AT)), _leader(F.col(c.AT) - F.expr(f"INTERVAL {STALE_AFTER_S} SECONDS"))
    stale = both.withColumns({"_now": now, "_before": before}).filter(
        (F.col("_now") != F.col(c.NODE)) & (F.col("_before") != F.col(c.NODE))
    )
    found = counted(stale, [PEER, c.API, "topic", "partition", c.NODE, "_now"])
    words: Words = {
        "client": PEER,
        "api": c.API,
        "node": c.NODE,
        "leader": "_now",
        "topic": "topic",
        "partition": "partition",
    }
    subject = F.concat(PEER, F.lit(": "), "topic", F.lit(" "), F.col("partition").cast("string"))
    return said(found.withColumn(MEASURE, F.col(CASES)), subject, words)


def _leader(at: Column) -> Column:
    """The leader that the client was told last before a moment."""
    before = F.filter("_told", lambda one: one["_told_at"] <= at)
    return F.when(F.size(before) > 0, F.element_at(before, -1)["leader"])

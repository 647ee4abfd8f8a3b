"""Rules on the brokers: replicas that are not in sync, uneven load, records that were deleted before they were read.

Metadata answers show a partition's state. It holds from the first answer that shows it to the next state; the last one
holds to the capture's end.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import keys
from recorder.analysis import columns as t
from recorder.analysis.expressions import ns, without
from recorder.analysis.findings.counting import Words, counted, evidence, inside, null_safe_join, rule_rows
from recorder.analysis.findings.rows import CASES, EVIDENCE, FROM_NS, MEASURE, OF, TO_NS, WINDOW
from recorder.analysis.findings.tables import PEER, Tables
from recorder.analysis.tables.exchanges import both_sizes
from recorder.analysis.tables.names import with_cluster_ids
from recorder.capture import frames as c
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.rows import SIDE

# two nodes never carry the same
MIN_NODES = 3
# below this, the balance does not matter
MIN_BYTES_A_SECOND = 100_000
OUT_OF_RANGE = 1
_PARTITION = [c.CLUSTER, "topic", "partition"]
_IN_ORDER = [c.AT, c.SESSION, c.CONNECTION, c.SEQUENCE]


def under_replicated(tables: Tables) -> DataFrame:
    """How many partitions have a replica that is not in sync, by the replica's node; and how many have no leader."""
    # what contradicts the other answers holds for its asker alone
    changes = tables.changes.filter(F.col("partition").isNotNull() & F.col("asker").isNull())
    of_partition = Window.partitionBy(*_PARTITION)
    next_at = F.lead(c.AT).over(of_partition.orderBy(F.col("leader_epoch").asc_nulls_first(), *_IN_ORDER))
    lacks = without("replicas", "isr").cast("array<string>")
    missing = F.when(F.col("leader").isNull(), F.array(F.lit("a leader"))).otherwise(
        F.transform(lacks, lambda node: F.concat(F.lit("node "), node))
    )
    states = changes.withColumn("_next", next_at).withColumn("_missing", F.explode(missing))
    found = inside(tables.windows.spread(states, "_next"))
    first = F.min_by(evidence(found, ns(c.AT)), F.struct(c.AT, "topic", "partition"))
    window_ns = F.col(WINDOW) * tables.windows.length_ns
    rows = found.groupBy(c.CLUSTER, "_missing", WINDOW).agg(
        F.count_distinct("topic", "partition").alias(CASES),
        F.min(F.concat_ws(" ", "topic", F.col("partition").cast("string"))).alias("_example"),
        first.alias(EVIDENCE),
    )
    own = {OF: F.lit(None), MEASURE: F.col(CASES), FROM_NS: window_ns, TO_NS: window_ns + tables.windows.length_ns}
    return rule_rows(rows.withColumns(own), "_missing", {"example": "_example"})


def uneven_nodes(tables: Tables) -> DataFrame:
    """A node's produced and fetched bytes, as a multiple of an even share of its cluster's. The node with the most is
    the first to reach its limits. Clusters with fewer than three nodes are left out, and so are windows in which a
    cluster carries less than 100 kB a second.
    """
    data = inside(tables.exchanges).filter(F.col(c.API_KEY).isin(keys.PRODUCE, keys.FETCH) & F.col(c.NODE).isNotNull())
    # Metadata's nodes have their cluster's own id in CLUSTER
    sized = with_cluster_ids(data, tables.cluster_ids).withColumn("_size", both_sizes())
    of_window = Window.partitionBy(c.CLUSTER, WINDOW)
    carried = counted(sized, [c.CLUSTER, c.NODE], worst=F.col("_size"), more={"_bytes": F.sum("_size")})
    every = carried.withColumn("_all", F.sum("_bytes").over(of_window))
    busy = every.filter(F.col("_all") >= MIN_BYTES_A_SECOND * tables.windows.seconds)
    nodes_in_metadata = tables.changes.filter(F.col("told_node").isNotNull())
    nodes = nodes_in_metadata.groupBy(c.CLUSTER).agg(F.count_distinct("told_node").alias("_nodes"))
    both = null_safe_join(busy, nodes, [c.CLUSTER]).filter(F.col("_nodes") >= MIN_NODES)
    times = F.col("_bytes") * F.col("_nodes") / F.col("_all")
    part = F.concat(F.round(100 * F.col("_bytes") / F.col("_all")).cast("int").cast("string"), F.lit(" %"))
    words: Words = {"part": part, "nodes": "_nodes", "node": c.NODE}
    subject = F.concat(F.lit("node "), c.NODE)
    return rule_rows(both.withColumns({MEASURE: times, OF: F.lit(None)}), subject, words)


def expired(tables: Tables) -> DataFrame:
    """Records that were deleted before a consumer read them, so that it never gets them. Either a log began above a
    group's commit, or a broker refused a Fetch because the offset was gone.
    """
    return _deleted(tables).unionByName(_out_of_range(tables))


def _deleted(tables: Tables) -> DataFrame:
    committed = _commits(tables)
    by_group = Window.partitionBy("_group", *_PARTITION)
    next_at = F.lead(c.AT).over(by_group.orderBy(*_IN_ORDER))
    held = committed.withColumn("_next", next_at)
    starts = tables.partitions.filter(F.col("log_start_offset").isNotNull() & F.col("topic").isNotNull())
    moves = starts.groupBy(*_PARTITION, F.col("log_start_offset").alias("_start")).agg(F.min(c.AT).alias("_moved"))
    is_current = (F.col("_moved") > F.col(c.AT)) & (F.col("_next").isNull() | (F.col("_moved") < F.col("_next")))
    lost = held.join(moves, _PARTITION).filter(is_current & (F.col("_start") > F.col("committed_offset")))
    how = F.concat(F.lit("its log begins at "), "_start", F.lit(" above the commit at "), "committed_offset")
    return _by_group_and_topic(lost.withColumn("_how", how), F.col("_group"))


def _commits(tables: Tables) -> DataFrame:
    """The offsets of groups, from commits that were not refused and from answers to OffsetFetch. If a group is not
    named, its client stands for it.
    """
    every, place = tables.partitions_with_peers, [*t.KEYS, "topic", "partition"]
    refusals = (F.col(SIDE) == RESPONSE) & (F.col(c.API) == "OffsetCommit") & (F.col("error_code") != 0)
    commits = (F.col(SIDE) == REQUEST) & (F.col(c.API) == "OffsetCommit")
    fetched = (F.col(SIDE) == RESPONSE) & (F.col(c.API) == "OffsetFetch") & (F.col("error_code") == 0)
    named_ones = F.col("committed_offset").isNotNull() & F.col("topic").isNotNull()
    asked = every.filter((commits | fetched) & named_ones)
    found = asked.join(every.filter(refusals).select(*place), place, "left_anti")
    return found.withColumn("_group", F.coalesce(F.concat(F.lit("group "), "group_id"), PEER))


def _out_of_range(tables: Tables) -> DataFrame:
    """Fetches refused as out of range, unless they asked above the log's beginning: there, nothing was deleted."""
    fetches = tables.partitions_with_peers.filter((F.col(c.API) == "Fetch") & F.col("topic").isNotNull())
    wrong = fetches.filter((F.col(SIDE) == RESPONSE) & (F.col("error_code") == OUT_OF_RANGE)).drop("fetch_offset")
    place = [*t.KEYS, "topic", "partition"]
    requests = fetches.filter(F.col(SIDE) == REQUEST).select(*place, "fetch_offset")
    starts = fetches.groupBy(*_PARTITION).agg(F.max("log_start_offset").alias("_start"))
    known = wrong.join(requests, place, "left").join(starts, _PARTITION, "left")
    lost = known.filter(F.coalesce(F.col("fetch_offset") < F.col("_start"), F.lit(True)))
    return _by_group_and_topic(lost.withColumn("_how", F.lit("it asked for an offset that is not there")), F.col(PEER))


def _by_group_and_topic(found: DataFrame, who: Column) -> DataFrame:
    of_whom = found.withColumns({"_who": who, WINDOW: F.lit(0)})
    cases = counted(of_whom, ["_who", "topic"], more={"_how": F.min_by("_how", c.AT)})
    measured = cases.withColumn(MEASURE, F.col(CASES))
    return rule_rows(measured, F.concat_ws(" of ", "_who", "topic"), {"who": "_who", "topic": "topic", "how": "_how"})

"""The tables that rules read, each made once, and the windows of the capture.

Most rules read exchanges. Only the columns of KEPT_COLUMNS are kept of them.
"""

from __future__ import annotations

from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.findings.windows import Windows
from recorder.analysis.questions.sections.groups import GroupTables
from recorder.analysis.tables.batches import batches
from recorder.analysis.tables.clients import HOST, clients, host
from recorder.analysis.tables.errors import errors
from recorder.analysis.tables.exchanges import doubtful, exchanges
from recorder.analysis.tables.group_events import group_events
from recorder.analysis.tables.happenings import connections
from recorder.analysis.tables.lag import Offsets, Span, lag_windows, offsets
from recorder.analysis.tables.metadata_changes import metadata_changes
from recorder.analysis.tables.names import cluster_ids, named
from recorder.analysis.tables.produced import not_written, written_only
from recorder.analysis.tables.rebalances import rebalances
from recorder.analysis.tables.transactions import transactions
from recorder.capture import frames as c
from recorder.facts.fetch_sessions import FETCH_SIZES
from recorder.facts.frame import REQUEST
from recorder.facts.group_joins import JOINS
from recorder.facts.rows import SIDE
from recorder.facts.software import OFFERS
from recorder.facts.topic_partitions import TOPIC_PARTITIONS

# PEER: the client as text, its client id and host. FAMILY: the same, with a star for the number at the id's end
PEER, FAMILY = "peer", "family"
# the cluster's own id, in tables of decoded frames
CLUSTER_ID = "cluster_id"
# the columns of an exchange that rules need: no others are kept
KEPT_COLUMNS = (
    *t.KEYS,
    c.CLUSTER,
    c.NODE,
    c.CLIENT,
    c.PRINCIPAL,
    c.CLIENT_ID,
    c.API_KEY,
    c.API,
    c.API_VERSION,
    c.AT,
    t.ANSWERED_AT,
    c.REQUEST_SIZE,
    t.RESPONSE_SIZE,
    c.LATENCY_NS,
    c.TRANSFER_NS,
    t.WAIT,
    t.THROTTLE_MS,
    t.OUTCOME,
    t.ERROR_CODES,
    t.UNREAD,
)
_CONNECTION = [c.SESSION, c.CONNECTION]
# A client that ends may close right behind its last request. A client that has waited this long has given up: no
# request timeout in use is shorter.
GAVE_UP_AFTER_S = 0.5


class Tables:
    """A capture's tables for rules."""

    def __init__(self, captured: Captured, kept: DataFrame | None = None) -> None:
        """`kept`: the exchanges, if they are there already (the columns of KEPT_COLUMNS, HOST, PEER, FAMILY)."""
        self.captured = captured
        self._kept = kept

    @cached_property
    def kept(self) -> DataFrame:
        """The exchanges without windows: the columns of KEPT_COLUMNS, with HOST, PEER, FAMILY."""
        return self._kept if self._kept is not None else kept_exchanges(self.captured)

    @cached_property
    def windows(self) -> Windows:
        """The windows of the capture. Runs a Spark job."""
        spans = self.kept.groupBy(c.SESSION).agg(F.min(c.AT).alias("first"), F.max(c.AT).alias("last"))
        micros = spans.select(c.SESSION, *(F.unix_micros(name).alias(name) for name in ("first", "last")))
        return Windows({row[0]: (row["first"] * 1000, row["last"] * 1000) for row in micros.collect()})

    @cached_property
    def exchanges(self) -> DataFrame:
        """The exchanges, with WINDOW, IS_EDGE, HOST, PEER, FAMILY."""
        return self.windows.put(self.kept)

    @cached_property
    def errors(self) -> DataFrame:
        """The errors in answers, with WINDOW, IS_EDGE, HOST, PEER, FAMILY."""
        return self.windows.put(self.kept_errors)

    @cached_property
    def kept_errors(self) -> DataFrame:
        """The errors in answers, with HOST, PEER, FAMILY. A report keeps them."""
        return self.captured.once("errors", lambda: with_peers(errors(self.kept)))

    @cached_property
    def too_late(self) -> DataFrame:
        """The exchanges that were answered after the client had given up: KEYS.

        Kafka's clients close both directions of a connection at once, so nobody reads answers after the client's end.
        """
        is_end = (F.col(c.KIND) == c.EVENT_HALF_CLOSED) & (F.get_json_object(c.DETAIL, "$.by") == c.BY_CLIENT)
        ends = self.captured.events.filter(is_end).groupBy(*_CONNECTION).agg(F.min(c.AT).alias("_gone_at"))
        had_gone = F.col(t.ANSWERED_AT) > F.col("_gone_at")
        waited_us = F.unix_micros("_gone_at") - F.unix_micros(c.AT)
        gave_up = had_gone & (waited_us >= GAVE_UP_AFTER_S * 1_000_000)
        return self.kept.join(ends, _CONNECTION).filter(gave_up).select(*t.KEYS)

    @cached_property
    def connections(self) -> DataFrame:
        """Connections whose opening was seen, with WINDOW, IS_EDGE, HOST, PEER, FAMILY.

        WINDOW is that of the opening, CLIENT_ID the first one on the connection.
        """
        named = self.kept.filter(F.col(c.CLIENT_ID).isNotNull()).groupBy(*_CONNECTION)
        ids = named.agg(F.min_by(c.CLIENT_ID, c.EXCHANGE).alias(c.CLIENT_ID))
        found = connections(self.captured).filter(F.col("opened_at").isNotNull()).join(ids, _CONNECTION, "left")
        return self.windows.put(with_peers(found), "opened_at")

    @cached_property
    def not_written(self) -> DataFrame:
        """The partitions of Produce requests that added nothing to a log: refused, or sent again."""
        return not_written(self.captured)

    @cached_property
    def written(self) -> DataFrame:
        """The partitions that Produce requests write to, with the columns of `of_bodies`; without those of unknown
        topics, and those that were refused or sent again.
        """
        asked = self.partitions.filter((F.col(SIDE) == REQUEST) & (F.col(c.API) == "Produce") & (F.col("bytes") > 0))
        return self.of_bodies(written_only(asked.filter(F.col("topic").isNotNull()), self.not_written))

    @cached_property
    def sent(self) -> DataFrame:
        """The record batches of Produce requests, as `batches`; without those that were refused or sent again."""
        return written_only(self.batches.filter(F.col(SIDE) == REQUEST), self.not_written)

    @cached_property
    def partition_counts(self) -> DataFrame:
        """How many `partitions` a topic has at least: the highest number in any frame, plus 1."""
        numbers = (found.select("topic", "partition") for found in (self.partitions, self.changes))
        named_ones = reduce(DataFrame.unionByName, numbers).filter(F.col("topic").isNotNull())
        return named_ones.groupBy("topic").agg((F.max("partition") + 1).alias("partitions"))

    @cached_property
    def partitions(self) -> DataFrame:
        """The partitions that frames name."""
        return named(self.captured, TOPIC_PARTITIONS)

    @cached_property
    def partitions_with_peers(self) -> DataFrame:
        """The partitions that frames name, with HOST, PEER, FAMILY, and the cluster's own id as CLUSTER."""
        return with_peers_of_bodies(self.partitions).withColumn(c.CLUSTER, F.col(CLUSTER_ID))

    @cached_property
    def batches(self) -> DataFrame:
        """The record batches, with WINDOW, IS_EDGE, HOST, PEER, FAMILY and CLUSTER_ID; topics by their names."""
        found = self.all_batches.filter(F.col("topic").isNotNull() & F.col("bytes").isNotNull())
        return self.of_bodies(found)

    @cached_property
    def all_batches(self) -> DataFrame:
        """The record batches with the offsets that they got, and frames whose batches could not be read."""
        return self.captured.once("batches in logs", lambda: batches(self.captured, offsets=True))

    @cached_property
    def cluster_ids(self) -> DataFrame:
        """The own ids of each session's clusters: SESSION, CLUSTER (the name in the settings), CLUSTER_ID."""
        return cluster_ids(self.captured)

    @cached_property
    def changes(self) -> DataFrame:
        """The states of partitions and nodes, as Metadata told them."""
        return self.captured.once("metadata changes", lambda: metadata_changes(self.captured))

    @cached_property
    def transactions(self) -> DataFrame:
        """The transactions, with HOST, PEER, FAMILY and CLUSTER_ID."""
        return with_peers_of_bodies(transactions(self.captured))

    def of_bodies(self, rows: DataFrame) -> DataFrame:
        """Rows of decoded frames, with WINDOW, IS_EDGE, HOST, PEER, FAMILY and CLUSTER_ID."""
        return self.windows.put(with_peers_of_bodies(rows))

    @cached_property
    def clients(self) -> DataFrame:
        """The table of clients and the versions that they use."""
        return clients(self.captured)

    @cached_property
    def offers(self) -> DataFrame:
        """The versions that brokers offered, by connection."""
        return rows(self.captured, OFFERS).filter(F.col("offered_key").isNotNull())

    @cached_property
    def fetches(self) -> DataFrame:
        """The Fetch requests with their fetch sessions and sizes, with WINDOW, IS_EDGE, HOST, PEER, FAMILY."""
        return self.windows.put(with_peers(rows(self.captured, FETCH_SIZES).filter(F.col("partitions").isNotNull())))

    @cached_property
    def joins(self) -> DataFrame:
        """The members' requests to join a classic group, with WINDOW, IS_EDGE, HOST, PEER, FAMILY."""
        return self.windows.put(with_peers(rows(self.captured, JOINS).filter(F.col("group_id").isNotNull())))

    @cached_property
    def group_events(self) -> DataFrame:
        """The rows of `group_events`: steps of members, and commits."""
        return group_events(self.captured)

    @cached_property
    def rebalances(self) -> DataFrame:
        """The rebalances of groups."""
        return rebalances(self.captured)

    @cached_property
    def offsets(self) -> Offsets:
        """The tables that lag is made of."""
        return offsets(self.captured)

    @property
    def span(self) -> Span:
        """The capture's end, and the length of a window."""
        return Span(max((last for _, last in self.windows.spans.values()), default=0), self.windows.length_ns)

    @cached_property
    def lag(self) -> DataFrame:
        """The lag of groups by the windows of the rules: rows of `lag_windows`."""
        return self.lag_by(self.windows.length_ns)

    def lag_by(self, window_ns: int) -> DataFrame:
        """The lag of groups by windows of this length: rows of `lag_windows`."""
        found, within = self.offsets, Span(self.span.last_ns, window_ns)
        return self.captured.once(f"lag by {window_ns} ns", lambda: lag_windows(found, within))

    def of_groups(self, window_ns: int) -> GroupTables:
        """The tables of a report's section on groups, with the lag by windows of this length."""
        return GroupTables(self.group_events, self.rebalances, self.offsets, self.lag_by(window_ns), self.span)


def kept_exchanges(captured: Captured) -> DataFrame:
    """The exchanges with the columns of KEPT_COLUMNS, HOST, PEER, FAMILY. A report keeps them."""
    return captured.once("exchanges", lambda: with_peers(exchanges(captured, doubtful(captured)).select(*KEPT_COLUMNS)))


def with_peers_of_bodies(rows: DataFrame) -> DataFrame:
    """The rows with HOST, PEER, FAMILY, and the cluster's own id as CLUSTER_ID; CLUSTER is null.

    PEER leaves out the cluster, because decoded frames tell only its id, which says nothing to a reader.
    """
    return with_peers(rows.withColumnRenamed(c.CLUSTER, CLUSTER_ID).withColumn(c.CLUSTER, F.lit(None).cast("string")))


def with_peers(rows: DataFrame) -> DataFrame:
    """The rows with HOST, PEER and FAMILY. Needs CLUSTER, CLIENT, CLIENT_ID."""
    return rows.withColumn(HOST, host()).withColumns({PEER: _as_text(F.col(c.CLIENT_ID)), FAMILY: _as_text(family())})


def family() -> Column:
    """The client id with a star for the number at its end."""
    return F.regexp_replace(c.CLIENT_ID, r"\d+$", "*")


def _as_text(client_id: Column) -> Column:
    """A client as text, with the cluster if the settings name one other than `main`."""
    shown = F.when(F.length(client_id) > 0, client_id).otherwise("no client id")
    where = F.concat(F.lit(" at "), F.coalesce(HOST, F.lit("an unknown host")))
    cluster = F.when(F.col(c.CLUSTER) != "main", F.concat(F.lit(", cluster "), F.col(c.CLUSTER)))
    return F.concat(F.coalesce(shown, F.lit("no client id")), where, F.coalesce(cluster, F.lit("")))

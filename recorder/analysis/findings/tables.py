"""The tables that rules read, each made once, with the windows of the capture.

Exchanges are kept in memory or on disk, because most rules read them: their heads and error codes alone.
"""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.decode.batches import BATCHES
from recorder.analysis.decode.frame import REQUEST
from recorder.analysis.decode.group_joins import JOINS
from recorder.analysis.decode.rows import SIDE
from recorder.analysis.decode.software import OFFERS
from recorder.analysis.decode.topic_partitions import TOPIC_PARTITIONS
from recorder.analysis.findings.windows import Windows
from recorder.analysis.tables.clients import HOST, clients, host
from recorder.analysis.tables.errors import errors
from recorder.analysis.tables.exchanges import doubtful, exchanges
from recorder.analysis.tables.happenings import connections
from recorder.analysis.tables.names import named
from recorder.capture import frames as c

# who sent the request: its client id and its host; FAMILY: with the number at the id's end left out
PEER, FAMILY = "peer", "family"
# what rules need of an exchange: nothing else is kept
ASKED = (
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
    t.OUTCOME,
    t.ERROR_CODES,
    t.UNREAD,
)
_CONNECTION = [c.SESSION, c.CONNECTION]


class Tables:
    """A capture's tables for rules. Resource handling: `close` lets go of the exchanges."""

    def __init__(self, captured: Captured, kept: DataFrame | None = None) -> None:
        """`kept`: the exchanges, if they are there already (the columns of ASKED)."""
        self.captured = captured
        self._kept = kept if kept is not None else kept_exchanges(captured)

    def close(self) -> None:
        """Lets go of the exchanges in memory and on disk."""
        self._kept.unpersist()

    @property
    def kept(self) -> DataFrame:
        """The exchanges: the columns of ASKED."""
        return self._kept

    @cached_property
    def windows(self) -> Windows:
        """The windows of the capture. Asks Spark at once."""
        spans = self._kept.groupBy(c.SESSION).agg(F.min(c.AT).alias("first"), F.max(c.AT).alias("last"))
        micros = spans.select(c.SESSION, *(F.unix_micros(name).alias(name) for name in ("first", "last")))
        return Windows({row[0]: (row["first"] * 1000, row["last"] * 1000) for row in micros.collect()})

    @cached_property
    def exchanges(self) -> DataFrame:
        """The exchanges, with WINDOW, IS_EDGE, HOST, PEER, FAMILY."""
        return self.windows.put(with_peers(self._kept))

    @cached_property
    def errors(self) -> DataFrame:
        """The errors in answers, with the same."""
        return self.windows.put(with_peers(errors(self._kept)))

    @cached_property
    def connections(self) -> DataFrame:
        """Connections whose opening was seen, with the same, by their opening; CLIENT_ID is their first one."""
        told = self._kept.filter(F.col(c.CLIENT_ID).isNotNull()).groupBy(*_CONNECTION)
        ids = told.agg(F.min_by(c.CLIENT_ID, c.EXCHANGE).alias(c.CLIENT_ID))
        found = connections(self.captured).filter(F.col("opened_at").isNotNull()).join(ids, _CONNECTION, "left")
        return self.windows.put(with_peers(found), "opened_at")

    @cached_property
    def written(self) -> DataFrame:
        """The partitions that Produce requests name, with the same; topics by their names."""
        told = self.partitions.filter((F.col(SIDE) == REQUEST) & (F.col(c.API) == "Produce") & (F.col("bytes") > 0))
        return self._of_bodies(told.filter(F.col("topic").isNotNull()))

    @cached_property
    def partition_counts(self) -> DataFrame:
        """How many `partitions` a topic has at least: they are numbered from 0 on, and any frame may name the last."""
        named_ones = self.partitions.filter(F.col("topic").isNotNull())
        return named_ones.groupBy("topic").agg((F.max("partition") + 1).alias("partitions"))

    @cached_property
    def partitions(self) -> DataFrame:
        """The partitions that frames name."""
        return named(self.captured, TOPIC_PARTITIONS)

    @cached_property
    def batches(self) -> DataFrame:
        """The headers of record batches, with WINDOW, IS_EDGE, HOST, PEER, FAMILY; topics by their names."""
        told = named(self.captured, BATCHES).filter(F.col("topic").isNotNull() & F.col("bytes").isNotNull())
        return self._of_bodies(told)

    def _of_bodies(self, told: DataFrame) -> DataFrame:
        """As for exchanges. Tables of bodies call a cluster by its id, which names no client to a reader."""
        return self.windows.put(with_peers(told.withColumn(c.CLUSTER, F.lit(None).cast("string"))))

    @cached_property
    def clients(self) -> DataFrame:
        """The table of clients and the versions that they use."""
        return clients(self.captured)

    @cached_property
    def offers(self) -> DataFrame:
        """The versions that brokers offered, by connection."""
        return rows(self.captured, OFFERS).filter(F.col("offered_key").isNotNull())

    @cached_property
    def joins(self) -> DataFrame:
        """The members' requests to join a classic group, with WINDOW, IS_EDGE, HOST, PEER, FAMILY."""
        return self.windows.put(with_peers(rows(self.captured, JOINS).filter(F.col("group_id").isNotNull())))


def kept_exchanges(captured: Captured) -> DataFrame:
    """The exchanges with the columns of ASKED, made at once and kept in memory or on disk.

    A checkpoint, because Spark would plan and print how they were made with each of the many questions about them.
    """
    return exchanges(captured, doubtful(captured)).select(*ASKED).localCheckpoint()


def with_peers(rows: DataFrame) -> DataFrame:
    """The rows with HOST, PEER and FAMILY. Needs CLUSTER, CLIENT, CLIENT_ID."""
    family = F.regexp_replace(c.CLIENT_ID, r"\d+$", "*")
    return rows.withColumn(HOST, host()).withColumns({PEER: _named(F.col(c.CLIENT_ID)), FAMILY: _named(family)})


def _named(client_id: Column) -> Column:
    """A client in words. A cluster stands there only where the settings name it."""
    shown = F.when(F.length(client_id) > 0, client_id).otherwise("no client id")
    where = F.concat(F.lit(" at "), F.coalesce(HOST, F.lit("an unknown host")))
    cluster = F.when(F.col(c.CLUSTER) != "main", F.concat(F.lit(", cluster "), F.col(c.CLUSTER)))
    return F.concat(F.coalesce(shown, F.lit("no client id")), where, F.coalesce(cluster, F.lit("")))

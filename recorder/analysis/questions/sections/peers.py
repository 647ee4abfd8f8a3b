"""The sections on clients and their software, on connections, and on events of the capture."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import ns
from recorder.analysis.questions.sections.bins import bin_of, firsts, series
from recorder.analysis.summary.bounds import MAX_ROWS, MAX_TOP, Table, Timeline, Top
from recorder.analysis.summary.peers import (
    Client,
    Clients,
    CloseCause,
    Connections,
    ConnectionsOfClient,
    Event,
    Events,
    SoftwareTotals,
)
from recorder.analysis.table_cache import persisted
from recorder.analysis.tables.clients import CUT, FATE, HELD_BACK, HOST, UNSURE, clients, host
from recorder.analysis.tables.exchanges import both_sizes
from recorder.analysis.tables.happenings import connections, is_probe
from recorder.capture import frames as c

_CONNECTION = [c.SESSION, c.CONNECTION]
_OF_CLIENT = [c.CLIENT_ID, "software", "software_version", c.PRINCIPAL, HOST]
# Fates of a client's versions, the worst first: the client has the worst of them.
_FATES = (CUT, HELD_BACK, UNSURE)
# versions that a row names
_MOST_VERSIONS = 5
# kinds of events that a reader understands without the frames around them
_LISTED = (c.EVENT_SESSION, c.EVENT_GAP, c.EVENT_NODE, c.EVENT_CLOCK)


def software_and_clients(captured: Captured, exchanges: DataFrame) -> Clients:
    """Returns the section on clients: their software, and whether newer brokers would refuse them."""
    used = clients(captured)
    return Clients(clients=_clients(used, exchanges), software=_software(used))


def _clients(used: DataFrame, exchanges: DataFrame) -> Table[Client]:
    rank = F.array_position(F.array(*map(F.lit, _FATES)), F.col(FATE))
    old = F.when(F.col(FATE).isNotNull(), F.concat(c.API, F.lit(" v"), c.API_VERSION))
    rows = used.groupBy(*_OF_CLIENT).agg(
        F.sum(t.REQUESTS).alias(t.REQUESTS),
        F.min(ns("first_at")).alias("first"),
        F.max(ns("last_at")).alias("last"),
        F.min_by(FATE, F.when(rank > 0, rank)).alias(FATE),
        F.slice(F.array_sort(F.collect_set(old)), 1, _MOST_VERSIONS).alias("oldest"),
    )
    sums = exchanges.groupBy(c.CLIENT_ID, host().alias(HOST), c.PRINCIPAL).agg(
        F.count_distinct(*_CONNECTION).alias("connections"), F.sum(both_sizes()).alias("bytes")
    )
    same = [rows[name].eqNullSafe(sums[name]) for name in (c.CLIENT_ID, HOST, c.PRINCIPAL)]
    joined = rows.join(sums, same, "left").select(rows["*"], "connections", "bytes")
    first, total = firsts(joined.orderBy(F.desc(t.REQUESTS), c.CLIENT_ID, HOST), MAX_ROWS)
    return Table(tuple(map(_client, first)), total)


def _client(row: Any) -> Client:
    return Client(
        row[c.CLIENT_ID], row["software"], row["software_version"], row[c.PRINCIPAL], row[HOST],
        row["connections"] or 0, row[t.REQUESTS], row["bytes"] or 0, row["first"], row["last"], row[FATE],
        ", ".join(row["oldest"]) or None,
    )  # fmt: skip


def _software(used: DataFrame) -> Top[SoftwareTotals]:
    client = F.struct(c.CLIENT_ID, c.PRINCIPAL, HOST)
    rows = (
        used.filter(F.col("software").isNotNull())
        .groupBy("software", "software_version")
        .agg(
            F.count_distinct(client).alias("clients"),
            F.sum(t.REQUESTS).alias(t.REQUESTS),
            F.count_distinct(F.when(F.col(FATE) == CUT, client)).alias("cut"),
        )
    )
    shown, total = firsts(rows.orderBy(F.desc(t.REQUESTS), "software", "software_version"), MAX_TOP)
    return Top(tuple(SoftwareTotals(*row) for row in shown), total)


def sockets(captured: Captured, exchanges: DataFrame, line: Timeline) -> Connections:
    """Returns the section on connections: over time, by client, and by cause of their end."""
    ids = exchanges.groupBy(*_CONNECTION).agg(F.min_by(c.CLIENT_ID, c.EXCHANGE).alias(c.CLIENT_ID))
    with persisted(connections(captured).join(ids, _CONNECTION, "left")) as found:
        return _sockets(found, line)


def _sockets(found: DataFrame, line: Timeline) -> Connections:
    # a connection whose opening was not recorded is in no bin, but counts in the total
    opened = found.groupBy(F.when(F.col("opened_at").isNotNull(), bin_of(line, "opened_at"))).count().collect()
    causes = found.filter(F.col(c.CAUSE).isNotNull()).groupBy(c.CAUSE).count().orderBy(F.desc("count"), c.CAUSE)
    ended, kinds = firsts(causes, MAX_ROWS)
    return Connections(
        total=sum(count for _, count in opened),
        probes=found.filter(is_probe()).count(),
        opened=series("opened", line, map(tuple, opened), 0),
        clients=_by_client(found),
        causes=Table(tuple(CloseCause(*row) for row in ended), kinds),
    )


def _by_client(found: DataFrame) -> Table[ConnectionsOfClient]:
    life = (F.unix_micros("closed_at") - F.unix_micros("opened_at")) / 1000
    client = F.concat_ws(" at ", F.col(c.CLIENT_ID), host()).alias("client")
    rows = found.groupBy(client).agg(
        F.count("*").alias("opened"),
        F.count_if(F.col("closed_at").isNull()).alias("open"),
        F.median(life).alias("life"),
        F.coalesce(F.sum(c.BYTES), F.lit(0)).alias("bytes"),
    )
    shown, total = firsts(rows.orderBy(F.desc("opened"), "client"), MAX_ROWS)
    of = found.select(client, c.CAUSE).filter(F.col(c.CAUSE).isNotNull())
    wanted = of.filter(F.col("client").isin(*(row["client"] for row in shown))) if shown else of.limit(0)
    causes: dict[str, dict[str, int]] = {}
    for row in wanted.groupBy("client", c.CAUSE).count().collect():
        causes.setdefault(row[0], {})[row[1]] = row[2]
    return Table(
        tuple(
            ConnectionsOfClient(
                row["client"], row["opened"], row["open"], row["life"], row["bytes"], causes.get(row["client"], {})
            )
            for row in shown
        ),
        total,
    )


def happenings(captured: Captured) -> Events:
    """Returns the section on events, in order of time: sessions, gaps, nodes, clocks."""
    listed = captured.events.filter(F.col(c.KIND).isin(*_LISTED))
    ordered = listed.orderBy(c.AT, c.SESSION, c.CONNECTION).select("*", ns(c.AT).alias("_ns"))
    shown, total = firsts(ordered, MAX_ROWS)
    return Events(events=Table(tuple(map(_event, shown)), total))


def _event(row: Any) -> Event:
    where = None if row[c.CONNECTION] is None else f"{row[c.SESSION]}/{row[c.CONNECTION]}"
    return Event(row["_ns"], row[c.KIND], _sentence(row), where)


def _sentence(row: Any) -> str:
    match row[c.KIND]:
        case c.EVENT_SESSION:
            return f"session {row[c.SESSION]}: {row[c.CAUSE]}"
        case c.EVENT_GAP:
            lost = "an unknown number of" if row[c.FRAMES] is None else row[c.FRAMES]
            return f"{lost} frames are missing: {row[c.CAUSE]}"
        case c.EVENT_CLOCK:
            return "the wall clock was set"
    return _node(row[c.DETAIL])


def _node(detail: str | None) -> str:
    """Returns the sentence about a node: its address, and the listener that clients are told."""
    facts = json.loads(detail or "{}")
    return f"node {facts.get('node_id')} is at {facts.get('upstream')}; clients find it at {facts.get('listener')}"

"""The section on clients and their software."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import ns
from recorder.analysis.questions.bins import firsts
from recorder.analysis.summary.bounds import MAX_ROWS, MAX_TOP, Table, Top
from recorder.analysis.summary.sections.clients import Client, Clients, SoftwareTotals
from recorder.analysis.tables.clients import CUT, FATE, HELD_BACK, HOST, UNSURE, host
from recorder.analysis.tables.clients import clients as clients_by_version
from recorder.analysis.tables.exchanges import both_sizes
from recorder.capture import frames as c

_CONNECTION = [c.SESSION, c.CONNECTION]
_OF_CLIENT = [c.CLIENT_ID, "software", "software_version", c.PRINCIPAL, HOST]
# Fates of a client's versions, the worst first: the client has the worst of them.
_FATES = (CUT, HELD_BACK, UNSURE)
# versions that a row names
_MOST_VERSIONS = 5


def clients(captured: Captured, exchanges: DataFrame) -> Clients:
    """Returns the section on clients: their software, and whether newer brokers would refuse them."""
    used = clients_by_version(captured)
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
    joined = rows.join(sums, same, "left").select(*(rows[name] for name in rows.columns), "connections", "bytes")
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

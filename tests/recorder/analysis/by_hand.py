"""Builds the tables that rules read from exchanges and connections written by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.findings.tables import KEPT_COLUMNS, Tables, with_peers
from recorder.analysis.table_cache import Deferred
from recorder.analysis.tables.exchanges import EXCHANGES
from recorder.analysis.tables.frames import EVENTS_SCHEMA, SCHEMA
from recorder.facts.schema import Table, arrow_type

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = dict[str, Any]
# values that all exchanges share: Heartbeats of one client, answered within 2 ms and without an error
EXCHANGE = {
    "session": "s",
    "connection": 1,
    "exchange": 0,
    "cluster": "main",
    "node": 1,
    "client": "10.0.0.1:5000",
    "client_id": "app",
    "api_key": 12,
    "api": "Heartbeat",
    "api_version": 4,
    "latency_ns": 2_000_000,
    "outcome": "answered",
    "error_codes": [],
}
EVENT = {"session": "s", "cluster": "main", "at_ns": 0, "mono_ns": 0, "detail": "{}"}


def each_second(count: float, seconds: Iterable[float] = (0, 60), **facts: Any) -> list[Row]:
    """`count` exchanges a second from the first to the last second after noon, with these facts.

    A fact that is callable is given the number of the row.
    """
    first, last = seconds
    rows = []
    for number in range(round((last - first) * count)):
        own = {name: fact(number) if callable(fact) else fact for name, fact in facts.items()}
        rows.append(EXCHANGE | {"exchange": number, "at": NOON + timedelta(seconds=first + number / count)} | own)
    return rows


def life(
    connection: int,
    opened: float,
    lasted: float | None,
    cause: str = "client",
    *,
    size: int | None = None,
    decision: Row | None = None,
    **facts: Any,
) -> list[Row]:
    """The events of a connection. `size`: its bytes; `decision`: what the proxy saw when it ended the connection."""
    detail = json.dumps({"client": "10.0.0.1:5000"} | facts)
    own = EVENT | {"connection": connection}
    rows = [own | {"kind": "opened", "at": NOON + timedelta(seconds=opened), "detail": detail}]
    if lasted is not None:
        told = json.dumps({"open": 0} | ({} if decision is None else {"decision": decision}))
        at = NOON + timedelta(seconds=opened + lasted)
        rows.append(own | {"kind": "closed", "at": at, "cause": cause, "bytes": size, "detail": told})
    return rows


def tables_of(spark: SparkSession, exchanges: list[Row], events: Iterable[Row] = (), **others: object) -> Tables:
    """Builds the tables from these exchanges and events; other tables are given by name (`offers`, `joins`, ...)."""
    found = Tables(_captured(spark, list(events)), _exchanges(spark, exchanges))
    for name, table in others.items():
        setattr(found, name, table)
    return found


def table_of(spark: SparkSession, declared: Table, rows: list[Row]) -> DataFrame:
    """Builds a table with all columns that it declares; a value that a row lacks is null."""
    schema = pa.schema([(column.name, arrow_type(column.kind)) for column in declared.columns])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema))


def _captured(spark: SparkSession, events: list[Row]) -> Captured:
    names = [column.split()[0] for column in EVENTS_SCHEMA.split(", ")]
    rows = [tuple(event.get(name) for name in names) for event in events]
    frames = Deferred(lambda: spark.createDataFrame([], SCHEMA))
    return Captured(spark, frames, Deferred(lambda: spark.createDataFrame(rows, EVENTS_SCHEMA)))


def _exchanges(spark: SparkSession, rows: list[Row]) -> DataFrame:
    columns = [column for column in EXCHANGES.columns if column.name in KEPT_COLUMNS]
    schema = pa.schema([(column.name, arrow_type(column.kind)) for column in columns])
    answered = [{t.ANSWERED_AT: row["at"] if row["outcome"] == "answered" else None} | row for row in rows]
    return with_peers(spark.createDataFrame(pa.Table.from_pylist(answered, schema))).persist()


def frame(spark: SparkSession, columns: str, rows: Iterable[Row]) -> DataFrame:
    """Builds a table with these columns, in Spark's notation; a value that a row lacks is null."""
    names = [column.split()[0].rstrip(":") for column in re.split(r", (?![^<]*>)", columns)]
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], columns)

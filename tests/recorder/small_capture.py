"""Provides a small capture with an exchange or event of each kind: answered, failed, one-way, masked, a gap, ..."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy.wire import apis, catalog
from proxy.wire.keys import DESCRIBE_CONFIGS, FETCH, METADATA, PRODUCE, SASL_AUTHENTICATE
from recorder.capture.frames import events_schema, frames_schema

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = dict[str, Any]


def row(second: float, connection: int, sequence: int, frame: bytes, **other: Any) -> Row:
    """Returns a request's row at noon and `second`, with the values of `other`."""
    at = NOON + timedelta(seconds=second)
    at_ns = round(at.timestamp() * 1_000_000) * 1000
    facts = {"session": "20261121T120000Z-abc", "connection": connection, "sequence": sequence, "dialect": "kafka"}
    facts |= {"kind": "request", "made_by": "client", "at": at, "at_ns": at_ns, "node": 1, "awaits": True}
    facts |= dict.fromkeys(("masked", "omitted", "note", "principal", "listener"))
    facts |= dict.fromkeys(("latency_ns", "queued_ns", "transfer_ns"))
    facts |= {"client": f"127.0.0.1:5000{connection}", "client_id": "app", "size": len(frame), "stored": len(frame)}
    return facts | {"frame": frame, "exchange": sequence // 2, "correlation_id": 7} | other


def request(second: float, connection: int, sequence: int, key: int, version: int, **other: Any) -> Row:
    values = other.pop("values", {})
    frame = catalog.encode_request(key, version, 7, "app", values)
    return row(second, connection, sequence, frame, **_api(key, version), **other)


def response(second: float, connection: int, sequence: int, key: int, version: int, **other: Any) -> Row:
    frame = catalog.encode_response(key, version, 7, other.pop("values", {}))
    told = {"kind": "response", "made_by": "broker", "awaits": None, "latency_ns": 1_500_000, "request_size": 20}
    return row(second, connection, sequence, frame, **(told | _api(key, version) | other))


def _api(key: int, version: int) -> Row:
    return {"api_key": key, "api": apis.api_name(key), "api_version": version}


def masked(row: Row, secret: bytes) -> Row:
    """Returns the row as a capture keeps it: with the secret blanked."""
    start = row["frame"].index(secret)
    blanked = row["frame"].replace(secret, bytes(len(secret)))
    return row | {"frame": blanked, "masked": [{"start": start, "length": len(secret)}]}


def fetch_values(code: int, records: bytes = b"") -> Row:
    return {
        "responses": [{"topic": "t", "partitions": [{"partition_index": 0, "error_code": code, "records": records}]}]
    }


def everything() -> list[Row]:
    secret = {"auth_bytes": b"\0me\0hunter2"}
    config = {"results": [{"resource_name": "b", "configs": [{"name": "password", "value": "hunter2"}]}]}
    unknown = {"api_key": 2000, "api": None, "api_version": 3, "note": "unknown_api"}
    return [
        request(0, 1, 0, METADATA, 12),
        response(0.01, 1, 1, METADATA, 12, values={"cluster_id": "demo", "controller_id": 1}),
        request(1, 1, 2, FETCH, 12, values={"session_id": 3}),
        response(1.5, 1, 3, FETCH, 12, values=fetch_values(1, b"r" * 100), latency_ns=250_000_000),
        request(2, 1, 4, PRODUCE, 9, values={"acks": 0}, awaits=False),
        request(3, 1, 6, FETCH, 12),
        masked(request(0.5, 2, 0, SASL_AUTHENTICATE, 2, values=secret, client_id="admin"), b"\0me\0hunter2"),
        response(0.6, 2, 1, SASL_AUTHENTICATE, 2, client_id="admin"),
        masked(response(4, 2, 3, DESCRIBE_CONFIGS, 4, values=config, client_id="admin"), b"hunter2"),
        row(5, 2, 4, b"\7\320\0\3\0\0\0\7\0\3app-secret", **unknown),
        row(6, 3, 0, bytes(30), kind="token", exchange=None, masked=[{"start": 0, "length": 30}], client_id=None),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A capture with a row of each kind."""
    gap = {"session": "20261121T120000Z-abc", "connection": 1, "at": NOON, "at_ns": int(NOON.timestamp()) * 10**9}
    gap |= {"kind": "gap", "cause": "queue_full", "frames": 12, "bytes": 3456}
    write(tmp_path, "frames", everything())
    write(tmp_path, "events", [gap, {**gap, "kind": "opened", "frames": None}])
    return tmp_path


def write(
    folder: Path,
    kind: str,
    rows: list[Row],
    part: str = "date=2026-11-21/hour=12",
    first: int = 1,
    row_group_size: int = 4,
) -> None:
    schema = frames_schema() if kind == "frames" else events_schema()
    place = folder / kind / part
    place.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, place / f"{rows[0]['session']}-{first}-{first}.parquet", row_group_size=row_group_size)


@pytest.fixture
def written() -> Callable[..., None]:
    return write


@pytest.fixture
def make_request() -> Callable[..., Row]:
    return request


@pytest.fixture
def make_response() -> Callable[..., Row]:
    return response

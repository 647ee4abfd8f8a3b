"""Builds captures by hand, row by row."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy.wire import apis, catalog
from recorder.capture import body_stream
from recorder.capture.frames import events_schema, frames_schema

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * 10**9
SESSION = "20261121T120000Z-abc"
Row = dict[str, Any]


def row(ns: int, connection: int, sequence: int, frame: bytes, **other: Any) -> Row:
    """Returns a frame's row. Its last byte arrived `ns` after noon, when the session's own clock began."""
    facts = {"session": SESSION, "cluster": "main", "connection": connection, "sequence": sequence, "dialect": "kafka"}
    facts |= {"kind": "request", "made_by": "client", "at": NOON, "at_ns": NOON_NS + ns, "mono_ns": ns}
    facts |= {"first_mono_ns": ns, "node": 1, "awaits": True, "exchange": sequence // 2, "correlation_id": 7}
    facts |= dict.fromkeys(("masked", "omitted", "note", "principal", "listener"))
    facts |= {"client": f"127.0.0.1:5000{connection}", "client_id": "app", "size": len(frame), "stored": len(frame)}
    return facts | {"frame": frame} | other


def request(ns: int, connection: int, number: int, key: int, version: int, values: Row, **other: Any) -> Row:
    """Returns the request of an exchange."""
    frame = catalog.encode_request(key, version, 7, other.get("client_id", "app"), values)
    return row(ns, connection, 2 * number, frame, **_api(key, version), **other)


def response(ns: int, connection: int, number: int, key: int, version: int, values: Row, **other: Any) -> Row:
    """Returns the response of an exchange."""
    frame = catalog.encode_response(key, version, 7, values)
    told = {"kind": "response", "made_by": "broker", "awaits": None, "request_size": 20}
    return row(ns, connection, 2 * number + 1, frame, **(told | _api(key, version) | other))


def event(ns: int, connection: int | None, kind: str, **other: Any) -> Row:
    facts = {"session": SESSION, "cluster": "main", "connection": connection, "kind": kind, "mono_ns": ns}
    return facts | {"at": NOON, "at_ns": NOON_NS + ns} | other


def _api(key: int, version: int) -> Row:
    return {"api_key": key, "api": apis.api_name(key), "api_version": version}


def checksums(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the blocks of frames whose checksums are computed from now on."""
    sizes: list[int] = []

    def crc32(data: bytes, before: int = 0) -> int:
        sizes.append(len(data))
        return zlib.crc32(data, before)

    monkeypatch.setattr(body_stream, "zlib", SimpleNamespace(crc32=crc32))
    return sizes


def write(
    folder: Path, frames: Sequence[Row], events: Sequence[Row] = (), group: int = 3, segment: int = 1, **stored: Any
) -> Path:
    """Writes these rows: a file for each session, `group` rows in a row group. `stored`: options of pyarrow."""
    for kind, rows, schema in (("frames", frames, frames_schema()), ("events", events, events_schema())):
        place = folder / kind / "date=2026-11-21" / "hour=12"
        place.mkdir(parents=True, exist_ok=True)
        for session in sorted({each["session"] for each in rows}):
            table = pa.Table.from_pylist([each for each in rows if each["session"] == session], schema)
            pq.write_table(table, place / f"{session}-{segment}-{segment}.parquet", row_group_size=group, **stored)
    return folder


# how the recorder stores frames, for `write`: pages of one encoding, with checksums
AS_RECORDED: Row = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True}

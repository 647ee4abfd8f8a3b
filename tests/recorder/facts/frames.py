"""Builds frames by hand, and the rows that a decoder makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from proxy.wire import api_name, catalog
from recorder.capture.frames import frames_schema
from recorder.facts.rows import Decoder, decoded

Row = dict[str, Any]


def request(key: int, version: int, values: Mapping[str, Any], **other: Any) -> Row:
    """Returns a request's row."""
    return _row("request", key, version, catalog.encode_request(key, version, 1, "app", values), other)


def response(key: int, version: int, values: Mapping[str, Any], **other: Any) -> Row:
    """Returns a response's row."""
    return _row("response", key, version, catalog.encode_response(key, version, 1, values), other)


def _row(kind: str, key: int, version: int, frame: bytes, other: Row) -> Row:
    row = {"session": "s", "connection": 1, "sequence": 0, "exchange": 0, "dialect": "kafka", "kind": kind}
    row |= {"api_key": key, "api": api_name(key), "api_version": version, "client_id": "app", "frame": frame}
    return row | {"size": len(frame), "stored": len(frame)} | other


def rows(decoder: Decoder, *frames: Row) -> list[Row]:
    """Returns all rows that the decoder makes, as dicts of all columns."""
    table = pa.Table.from_pylist(list(frames), frames_schema()).select(decoder.reads)
    return [row for batch in decoded(table.to_batches(), decoder) for row in batch.to_pylist()]


def own(decoder: Decoder, *frames: Row) -> list[Row]:
    """Returns the rows without the frame's columns and without nulls."""
    frame_columns = {column.name for column in decoder.frame_columns}
    return [
        {name: value for name, value in row.items() if name not in frame_columns and value is not None}
        for row in rows(decoder, *frames)
    ]

"""Tests of sessions, connections and gaps, taken from events."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recorder.analysis.tables import happenings
from recorder.analysis.tables.happenings import connections, gaps, sessions

pytestmark = pytest.mark.real
Build = Callable[..., Any]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FACTS = {"client": "10.0.0.7:1", "listener": "l:1", "upstream": "b:9092", "node": 2, "tls": True, "dialect": "kafka"}


def at(second: int) -> datetime:
    return NOON + timedelta(seconds=second)


def of_session(cause: str, second: int) -> dict[str, Any]:
    return {"connection": None, "kind": "session", "cause": cause, "at": at(second)}


GAP = {"kind": "gap", "cause": "queue_full", "frames": 6, "bytes": 60, "mono_ns": 5, "at": at(3)}
GAP |= {"detail": json.dumps({"until_mono_ns": 25, "lost": {}})}
OPENED = {"kind": "opened", "at": at(1), "detail": json.dumps(FACTS)}
CLOSED = {"kind": "closed", "cause": "client", "at": at(9), "frames": 10, "bytes": 99, "detail": '{"open": 2}'}


def test_a_session_has_its_ends(captured: Build, request_row: Build) -> None:
    events = [of_session("started", 0), of_session("ended", 60), OPENED, OPENED | {"connection": 2}, GAP]
    (row,) = sessions(captured(request_row(0), events=events)).collect()
    assert (row.ended_at - row.started_at).total_seconds() == 60
    assert (row.cause, row.connections, row.gaps) == ("ended", 2, 1)


def test_a_session_that_continues_has_no_end(captured: Build, request_row: Build) -> None:
    (row,) = sessions(captured(request_row(0), events=[of_session("started", 0)])).collect()
    assert (row.ended_at, row.cause) == (None, None)


def test_a_connection_has_its_facts_its_ends_and_its_losses(captured: Build, request_row: Build) -> None:
    found = connections(captured(request_row(0), events=[OPENED, GAP, CLOSED]))
    assert found.columns == happenings.CONNECTIONS.names
    row = found.collect()[0].asDict()
    told = FACTS | {"cause": "client", "frames": 10, "bytes": 99, "open_exchanges": 2, "gaps": 1, "frames_lost": 6}
    assert {name: row[name] for name in told} == told
    assert (row["closed_at"] - row["opened_at"]).total_seconds() == 8


def test_a_connection_with_a_gap_of_unknown_size_has_unknown_losses(captured: Build, request_row: Build) -> None:
    events = [OPENED, GAP, GAP | {"frames": None, "cause": "spool_damaged"}]
    (row,) = connections(captured(request_row(0), events=events)).collect()
    assert (row.gaps, row.frames_lost, row.closed_at) == (2, None, None)


def test_a_gap_has_its_length_and_one_of_a_session_no_connection(captured: Build, request_row: Build) -> None:
    whole = GAP | {"connection": None, "frames": None, "detail": '{"connections": 3}'}
    found = gaps(captured(request_row(0), events=[GAP, whole, OPENED]))
    assert found.columns == happenings.GAPS.names
    told = sorted(((row.connection, row.lasted_ns, row.frames, row.connections) for row in found.collect()), key=str)
    assert told == [(1, 20, 6, None), (None, None, None, 3)]


def test_a_capture_without_events_has_no_happenings(captured: Build, request_row: Build) -> None:
    found = captured(request_row(0))
    assert [table(found).count() for table in (sessions, connections, gaps)] == [0, 0, 0]

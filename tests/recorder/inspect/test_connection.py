"""Tests of the description of a connection, made from its events and frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.wire.errors import OverBudget
from recorder.inspect.commands import inspect
from recorder.inspect.connection import ENTRY_SIZE, as_json, as_text, connections
from recorder.query.columns import rows_of_ids

Write = Callable[..., None]
Make = Callable[..., dict[str, Any]]
SESSION = "20261121T120000Z-abc"
NOON_NS = 1795262400 * 10**9
DECIDED = '{"event": "request is longer than the limit", "setting": "limits.request", "length": 9, "open": 1}'


def event(second: int, kind: str, connection: int = 1, **other: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("cause", "frames", "bytes", "detail"))
    at = {"at_ns": NOON_NS + second * 10**9, "session": SESSION, "connection": connection}
    return at | {"kind": kind} | nothing | other


@pytest.fixture
def connected(tmp_path: Path, written: Write, make_request: Make, make_response: Make) -> Path:
    """A connection with a login, three exchanges (one failed in two partitions, one without body), a gap, an end."""
    failed = {"topics": [{"error_code": 5, "name": "t", "partitions": []}] * 2}
    gone = {"frame": b"\0\0\0\7", "omitted": [{"start": 4, "length": 20}]}
    rows = [make_request(1, 1, 0, 3, 12), make_response(2, 1, 1, 3, 12, values=failed)]
    rows += [make_request(3, 1, 2, 3, 12), make_response(4, 1, 3, 3, 12) | gone]
    rows += [make_request(5, 1, 4, 1, 12), make_request(6, 2, 0, 3, 12)]
    written(tmp_path, "frames", rows)
    opened = '{"client": "127.0.0.1:50001", "node": 2, "tls": true, "dialect": "kafka", "principal": "CN=orders"}'
    events = [
        event(0, "opened", detail=opened),
        event(1, "login", detail='{"token": true, "mechanism": "PLAIN", "ended": false}'),
        event(1, "login", detail='{"principal": "alice", "mechanism": "PLAIN", "by": "broker"}'),
        event(5, "gap", cause="queue_full", frames=12, bytes=345, detail="{}"),
        event(8, "half_closed", detail='{"by": "client"}'),
        event(9, "closed", cause="bad_length", frames=17, bytes=999, detail=DECIDED),
        event(9, "opened", connection=2, detail="{}"),
    ]
    written(tmp_path, "events", events)
    return tmp_path


def test_a_connection_is_described_by_its_client_events_and_apis(connected: Path) -> None:
    (found,) = connections(connected, rows_of_ids(connections=(1,)))
    assert list(as_text(found)) == [
        f"{SESSION}/1  connection, 5 frames, {found.bytes} B",
        "  client 127.0.0.1:50001, node 2, tls yes, dialect kafka, principal alice",
        "  2026-11-21 12:00:00.000000 opened",
        "  2026-11-21 12:00:01.000000 login principal alice, mechanism PLAIN",
        "  2026-11-21 12:00:05.000000 gap queue_full, 12 frames lost",
        "  2026-11-21 12:00:08.000000 half closed by client",
        "  2026-11-21 12:00:09.000000 closed bad_length, request is longer than the limit, setting limits.request, "
        "length 9",
        "  Metadata: 2 exchanges, LEADER_NOT_AVAILABLE x2, 1 unread (omitted)",
        "  Fetch: 1 exchange, 1 unanswered",
    ]


def test_a_connections_json_has_every_event_with_its_detail(connected: Path) -> None:
    (found,) = connections(connected, rows_of_ids(connections=(1,)))
    told = as_json(found)
    assert (told["id"], told["principal"], told["node"], told["frames"]) == (f"{SESSION}/1", "alice", 2, 5)
    assert (told["first"], told["last"]) == ("2026-11-21T12:00:01.000000Z", "2026-11-21T12:00:05.000000Z")
    assert told["apis"]["Metadata"]["errors"] == {"LEADER_NOT_AVAILABLE": 2}
    assert told["apis"]["Metadata"]["unread"] == {"omitted": 1}
    assert [one["kind"] for one in told["events"]] == ["opened", "login", "login", "gap", "half_closed", "closed"]
    assert told["events"][-1] | {"cause": "bad_length", "frames": 17, "bytes": 999} == told["events"][-1]


def test_a_connection_without_frames_is_described_by_its_events(connected: Path, written: Write) -> None:
    written(connected, "events", [event(20, "opened", connection=7, detail='{"client": "c:1"}')], first=2)
    (found,) = connections(connected, rows_of_ids(connections=(7,)))
    assert list(as_text(found)) == [
        f"{SESSION}/7  connection, 0 frames, 0 B",
        "  client c:1",
        "  2026-11-21 12:00:20.000000 opened",
    ]


def test_the_same_number_in_two_sessions_asks_for_one(connected: Path, written: Write, make_request: Make) -> None:
    written(connected, "frames", [make_request(9, 1, 0, 3, 12, session="20261122T000000Z-def")])
    result = CliRunner().invoke(inspect, ["show", str(connected), "1"])
    assert result.exit_code == 2
    assert f"1 is in several sessions: put one before it ({SESSION}, 20261122T000000Z-def)" in result.stderr
    result = CliRunner().invoke(inspect, ["show", str(connected), "20261122T/1"])
    assert result.stdout.startswith("20261122T000000Z-def/1  connection, 1 frame, ")


@pytest.mark.parametrize("many", ["sessions", "apis", "events"])
def test_a_connections_description_is_kept_within_a_limit(
    connected: Path, written: Write, make_request: Make, many: str
) -> None:
    rows = [
        make_request(20, 7, 0, 3, 12, awaits=False) | ({"session": f"s-{n}"} if many == "sessions" else {})
        for n in range(50)
    ]
    rows = [row | ({"api": str(n), "exchange": n} if many == "apis" else {}) for n, row in enumerate(rows)]
    written(connected, "frames", rows, first=2)
    if many == "events":
        written(connected, "events", [event(20, "opened", connection=7)] * 50, first=2)
    wanted = rows_of_ids(connections=(7,))
    assert connections(connected, wanted, most=100 * ENTRY_SIZE)
    with pytest.raises(OverBudget, match="telling of connections makes more than"):
        connections(connected, wanted, most=40 * ENTRY_SIZE)


def test_an_error_names_some_of_many_sessions(connected: Path, written: Write, make_request: Make) -> None:
    rows = [make_request(20, 7, 0, 3, 12, session=f"s-{n:03}") for n in range(50)]
    written(connected, "frames", rows, first=2)
    for named in ("7", "7/0", "7/e0"):
        result = CliRunner().invoke(inspect, ["show", str(connected), named])
        assert (result.exit_code, result.stderr.count("s-0"), result.stderr.count(", ...)")) == (2, 20, 1)

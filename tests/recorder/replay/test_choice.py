"""Tests of choosing exchanges: the filters have the names and meanings of those of `inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import FETCH, HEARTBEAT, METADATA, PRODUCE
from recorder.query.columns import rows_of_frames
from recorder.query.shorthand import filter_of
from recorder.reading.capture import Capture
from recorder.reading.rows import rows
from recorder.replay.choice import Choice, choose
from recorder.replay.options import Options
from recorder.replay.plan import Origin
from recorder.replay.stream import RequestRecorded, happenings
from tests.recorder.replay.captures import NOON_NS, SESSION, request, write
from tests.tables import each_row

OTHER = "20261121T120000Z-xyz"
HOUR = 3600 * 10**9
CLIENTS = (
    "app",
    "127.0.0.1",
    "127.0.0.1:50001",
    "127.0.0.1:5000",
    "127.0",
    "[::1]",
    "[::1]:7",
    "::1",
    "::1:7",
    "0::1",
    "",
    "nobody",
)


def played(folder: Path, choice: Choice, sessions: tuple[str, ...] = ()) -> list[Origin]:
    found = (row.exchange for row in happenings(folder, sessions) if isinstance(row, RequestRecorded))
    return sorted(exchange.origin for exchange in found if choice.plays(exchange))


def asked(ns: int, connection: int, number: int, **other: Any) -> dict[str, Any]:
    return request(ns, connection, number, METADATA, 12, {"topics": None}, **other)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of several sessions, connections, clients and times."""
    frames = [asked(10 * number, connection, number) for number in (1, 2) for connection in (1, 2)]
    frames.append(asked(30, 3, 0, client="[::1]:7", client_id="other"))
    # its wall clock was set back by an hour in between, and its monotonic clock began earlier
    times = [{"mono_ns": ns, "first_mono_ns": ns, "at_ns": NOON_NS + at} for ns, at in ((1000, 5), (1010, 15 - HOUR))]
    frames += [asked(0, 1, number, session=OTHER, client_id=None, **each) for number, each in enumerate(times)]
    return write(tmp_path_factory.mktemp("capture"), frames)


@pytest.mark.real
@given(data=st.data())
def test_the_choice_is_that_of_inspect(folder: Path, data: st.DataObject) -> None:
    ns = st.none() | st.sampled_from([NOON_NS + at for at in (-HOUR, 0, 5, 10, 15, 20, 30, 40)])
    since, until = data.draw(ns), data.draw(ns)
    clients = tuple(data.draw(st.lists(st.sampled_from(CLIENTS), max_size=2)))
    connections = data.draw(st.lists(st.integers(1, 4), max_size=2))
    sessions = tuple(data.draw(st.lists(st.sampled_from([SESSION, OTHER, "2026", "x"]), max_size=2)))
    flags: dict[str, Any] = {"connection": connections, "client": clients}
    wanted = rows_of_frames(filter_of({"session": sessions, **flags}, since_ns=since, until_ns=until).node)
    expected = sorted(Origin(row["session"], row["connection"], row["exchange"]) for row in rows(folder, wanted))
    choice = Choice(Options(), filter_of(flags, since_ns=since, until_ns=until))
    assert played(folder, choice, sessions) == expected


@each_row(
    ("choice", "leaves_out"),
    [
        (Choice(Options()), False),
        (Choice(Options(only=("Fetch",))), True),
        (Choice(Options(), filter_of({"connection": [1]})), True),
        (Choice(Options(), filter_of({"client": ["app"]})), True),
        (Choice(Options(), filter_of({}, since_ns=0)), True),
        (Choice(Options(), filter_of({}, until_ns=0)), True),
        (Choice(Options(), filter_of({}, where=["error"])), True),
    ],
)
def test_only_a_choice_with_a_filter_leaves_exchanges_out(choice: Choice, leaves_out: bool) -> None:
    assert choice.leaves_out == leaves_out


@pytest.mark.parametrize("client", ["[::1]:7", "[::1]", "::1", "::1:7", "0:0::1"])
def test_inspect_and_replay_find_a_client_by_every_spelling_of_its_ipv6_address(folder: Path, client: str) -> None:
    (row,) = rows(folder, rows_of_frames(filter_of({"client": [client]}).node))
    assert row["client_id"] == "other"
    assert len(played(folder, Choice(Options(), filter_of({"client": [client]})))) == 1


@each_row(
    ("only", "keys"),
    [
        ((), {PRODUCE, FETCH, METADATA, HEARTBEAT, 999}),
        (("Produce", "fetch"), {PRODUCE, FETCH}),
        (("*TCH",), {FETCH}),
        (("?etch", "Meta*"), {FETCH, METADATA}),
        (("consumer*",), set()),
        (("*e*", "!heartbeat"), {PRODUCE, FETCH, METADATA}),
    ],
    ids=["all", "names", "end", "one letter", "none of these", "all but one"],
)
def test_apis_are_chosen_by_patterns_of_their_names(only: tuple[str, ...], keys: set[int]) -> None:
    assert {key for key in (PRODUCE, FETCH, METADATA, HEARTBEAT, 999) if Options(only=only).chooses(key)} == keys


@pytest.mark.parametrize(
    ("text", "connections"),
    [
        ("api == Metadata and node == 1", [1, 1, 2, 2, 3, 1, 1]),
        ("connection > 1", [2, 2, 3]),
        ("client != app", [3, 1, 1]),
        ("size > 1000", []),
        ("sent < 1000 and connection == 2", [2, 2]),
        ("outcome == unanswered and not topic ~ '*'", [1, 1, 2, 2, 3, 1, 1]),
        ("error", []),
    ],
)
def test_a_filter_chooses_what_inspect_lists(folder: Path, text: str, connections: list[int]) -> None:
    wanted = filter_of({}, where=[text])
    listed = [pair.head for pair in Capture(folder, []).exchanges(wanted)]
    assert sorted(row["connection"] for row in listed) == sorted(connections)
    choice = choose(folder, Options(), wanted, lambda note: None)
    assert sorted(origin.connection for origin in played(folder, choice)) == sorted(connections)

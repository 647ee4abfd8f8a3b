"""Tests of connections that a log only names: little is kept of each, and their number is bounded."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.files import Folder
from recorder.capture import spool, storage
from recorder.capture.assembly import Assembly
from recorder.capture.connection_state import ConnectionState
from recorder.capture.entry_json import InvalidEntryError, decoded
from recorder.capture.progress import Progress, read_state, write_progress
from recorder.capture.ranges import RangeFiles
from recorder.capture.spool import LONGEST_NAME, MAX_OPEN, Entry, EntryKind
from recorder.capture.unknown_connections import UnknownConnections
from tests.recorder.capture.logged import opened
from tests.recorder.capture.looks import event_rows
from tests.recorder.capture.traffic import as_json

MANY = 5_000
# bytes of memory for each connection; a log has 40 or fewer for each, beside the row of its end
MAX_EACH = 1_000


def inventory(numbers: dict[int, int], *, connections: int = 0) -> Entry:
    told = {"open": [*numbers.items()], "closed": {"connections": connections, "frames": 0, "bytes": 0}, "clusters": []}
    return Entry(EntryKind.INVENTORY, 0, -1, 0, 5, json.dumps(told).encode(), (), 0)


def entry(kind: EntryKind, connection: int, number: int = 0, **told: object) -> Entry:
    return Entry(kind, 0, connection, 0, 5, json.dumps(told).encode() if told else b"", (), number)


@pytest.fixture
def assembly(tmp_path: Path) -> Assembly:
    made = Assembly()
    made.begin_range(RangeFiles(tmp_path, "s", 1, None), 1_000)
    return made


def named_in_an_inventory() -> Iterator[Entry]:
    yield inventory(dict.fromkeys(range(MANY), 1))


def heard_once() -> Iterator[Entry]:
    return (entry(EntryKind.END_OF_STREAM, number, 3) for number in range(MANY))


def with_bytes() -> Iterator[Entry]:
    return (Entry(EntryKind.BYTES, 0, number, 9, 5, b"x", (), 3) for number in range(MANY))


@pytest.mark.parametrize("log", [named_in_an_inventory, heard_once, with_bytes])
def test_a_connection_of_which_nothing_is_known_takes_little_memory(
    assembly: Assembly, log: Callable[[], Iterator[Entry]]
) -> None:
    entries = list(log())
    tracemalloc.start()
    try:
        for one in entries:
            assembly.feed(one)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(assembly.unknown) == MANY
    assert taken / MANY < MAX_EACH


def test_no_more_are_known_than_a_proxy_may_have_open(assembly: Assembly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.capture.assembly.MAX_OPEN", 10)
    for number in range(50):
        kind = EntryKind.OPENED if number % 2 else EntryKind.END_OF_STREAM
        assembly.feed(entry(kind, number, **opened()) if number % 2 else entry(kind, number))
    assert len(assembly.connections) + len(assembly.unknown) == 10
    # the other connections' entries are part of the log that is lost
    assert assembly.invalid_bytes > 40 * 30


def test_an_inventory_names_no_more_either() -> None:
    with pytest.raises(InvalidEntryError):
        decoded(inventory(dict.fromkeys(range(MAX_OPEN + 1), 1)))


def test_an_unknown_connections_first_entry_shows_its_earlier_losses(assembly: Assembly, tmp_path: Path) -> None:
    """Entries that arrived in between make no difference to the connection's losses."""
    assembly.feed(inventory({1: 4, 2: 7}))
    assembly.feed(Entry(EntryKind.BYTES, 0, 1, 100, 6, b"x" * 20, (), 4))
    assembly.feed(Entry(EntryKind.BYTES, 1, 1, 300, 7, b"x" * 5, (), 5))
    assembly.feed(entry(EntryKind.CLOSED, 2, 7, cause="drained", sequence=9, offsets=[50, 60]))
    assembly.finish()
    storage.publish(assembly.events.sink.finish(), storage.ignore_step)  # type: ignore[attr-defined]
    told = [(row["connection"], row["frames"], row["bytes"]) for row in event_rows(tmp_path, "gap")]
    assert sorted(told) == [(1, None, 120 + 305), (2, 9, 110)]


def test_a_connection_with_known_facts_is_not_an_unknown_one() -> None:
    unknown = UnknownConnections()
    known = ConnectionState(1, None, {"client": "c"})
    lost = ConnectionState.of_unknown(2, 5, is_new=False)
    lost.next_entry = 8
    assert not unknown.add_if_unknown(known)
    assert unknown.add_if_unknown(lost)
    assert [*unknown] == [2]
    again = unknown.pop_state(2)
    assert again.state(bytearray()) == lost.state(bytearray())
    assert len(unknown) == 0


def test_unknown_connections_are_saved_and_restored(assembly: Assembly, session: Folder) -> None:
    assembly.feed(inventory({1: 4, 2: 7}))
    assembly.feed(Entry(EntryKind.BYTES, 0, 1, 100, 6, b"x" * 20, (), 4))
    assembly.feed(entry(EntryKind.OPENED, 3, 0, **opened()))
    write_progress(session, Progress(1), assembly)
    restored = Assembly()
    read_state(session, 1, restored)
    assert (len(restored.connections), len(restored.unknown)) == (1, 2)
    assert as_json(restored.state(bytearray())) == as_json(assembly.state(bytearray()))


def test_a_long_name_is_short_wherever_it_is_kept(assembly: Assembly, tmp_path: Path) -> None:
    long = "x" * 100_000
    names = dict.fromkeys(("client", "listener", "cluster", "principal", "upstream"), long)
    assembly.feed(entry(EntryKind.OPENED, 1, 0, **opened(**names)))
    for number in range(200):
        assembly.feed(entry(EntryKind.END_OF_STREAM, 1, number + 1))
    conn = assembly.connections[1]
    assert {len(conn.opening[name]) for name in names} == {LONGEST_NAME}
    assert sum(len(name or "") for name in conn.shared_columns()[2:6]) == 4 * LONGEST_NAME
    assembly.finish()
    storage.publish(assembly.events.sink.finish(), storage.ignore_step)  # type: ignore[attr-defined]
    assert {len(row["cluster"]) for row in event_rows(tmp_path, "half_closed")} == {LONGEST_NAME}
    head = spool.SegmentHead("s", 1, 1, 1, 0, long, 60, 0)
    assert spool.decode_head(spool.encode_head(head)[0]).head.cluster == long[:LONGEST_NAME]

"""Tests of row groups: they hold the added rows, and their size is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.capture import columns
from recorder.capture import frames as c
from recorder.capture.columns import ConnectionColumns, EventRows, FrameRows, FrameType, RowNumbers, SharedDictionaries

CLOCK_NS = 1_700_000_000_000_000_000


def group() -> FrameRows:
    shared = SharedDictionaries()
    assert shared.connections.index_of(ConnectionColumns(4, None, "l", "c", "alice")) == 0
    assert shared.frame_types.index_of(FrameType("request", "client", 3, "Metadata", 9)) == 0
    assert shared.frame_types.index_of(FrameType("token", "client", None, None, None)) == 1
    assert shared.client_ids.index_of(None) == 0
    assert shared.client_ids.index_of("id") == 1
    return FrameRows("s", None, shared, CLOCK_NS)


def add(rows: FrameRows, frame: bytes, frame_type: int = 0, client: int = 1) -> None:
    exchange = None if frame_type else 7
    rows.numbers += RowNumbers(
        0, frame_type, client, 5, exchange, 1_234, 1_000, True, -9, len(frame), None, None, None, None
    )
    rows.body += frame


def test_a_row_has_its_own_numbers_and_those_it_shares() -> None:
    rows = group()
    add(rows, b"frame")
    (row,) = rows.table().to_pylist()
    assert {
        name: row[name] for name in ("session", "connection", "sequence", "exchange", "client_id", "principal")
    } == {
        "session": "s",
        "connection": 4,
        "sequence": 5,
        "exchange": 7,
        "client_id": "id",
        "principal": "alice",
    }
    assert (row["api"], row["api_key"], row["kind"], row["made_by"]) == ("Metadata", 3, "request", "client")
    assert (row["at_ns"], row["mono_ns"], row["first_mono_ns"]) == (CLOCK_NS + 1_234, 1_234, 1_000)
    assert row["at"].microsecond == 1
    assert (row["node"], row["cluster"], row["note"], row["masked"], row["omitted"]) == (None,) * 5


def test_a_row_group_with_long_names_has_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_NAMES", 10_000)
    rows = group()
    assert rows.shared.client_ids.index_of("i" * 2_000) == 2
    while rows.has_room(5):
        add(rows, b"frame", client=2)
    assert len(rows) == 10_000 // (2_000 + len("lcalice" + c.KAFKA)) + 1


def test_a_row_group_with_many_spans_has_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_SPANS", 100)
    rows = group()
    while rows.has_room(5):
        add(rows, b"frame")
        rows.set_rare_values(5, [(at, 1) for at in range(30)], [], None)
    assert len(rows) == 4


@given(st.lists(st.none() | st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3), min_size=1))
def test_spans_are_those_of_their_rows(wanted: list[list[tuple[int, int]] | None]) -> None:
    rows = group()
    for spans in wanted:
        add(rows, b"frame")
        rows.set_rare_values(5, spans or [], [], None)
    found = [row["masked"] and [tuple(span.values()) for span in row["masked"]] for row in rows.table().to_pylist()]
    assert found == [spans or None for spans in wanted]


def test_a_row_that_no_exchange_owns_has_nulls() -> None:
    rows = group()
    add(rows, b"token", frame_type=1, client=0)
    (row,) = rows.table().to_pylist()
    assert (row["kind"], row["exchange"], row["api"], row["api_key"], row["client_id"]) == (
        "token",
        None,
        None,
        None,
        None,
    )


def test_bodies_stand_beside_their_rows() -> None:
    rows = group()
    for frame in (b"", b"one", b"", b"three"):
        add(rows, frame)
    table = rows.table()
    assert table.column("frame").to_pylist() == [b"", b"one", b"", b"three"]
    assert table.column("stored").to_pylist() == [0, 3, 0, 5]


def test_rare_values_are_set_on_their_row_alone() -> None:
    rows = group()
    add(rows, b"first")
    add(rows, b"0123456789")
    # two spans of the frame were never kept
    rows.body[-10:] = b"1234789"
    rows.set_rare_values(7, [(2, 3)], [(0, 1), (5, 2)], "why")
    add(rows, b"last")
    table = rows.table().to_pylist()
    assert [row["frame"] for row in table] == [b"first", b"1234789", b"last"]
    assert [row["stored"] for row in table] == [5, 7, 4]
    assert [row["size"] for row in table] == [5, 10, 4]
    assert table[1]["omitted"] == [{"start": 0, "length": 1}, {"start": 5, "length": 2}]
    assert [row["masked"] for row in table] == [None, [{"start": 2, "length": 3}], None]
    assert [row["note"] for row in table] == [None, "why", None]


def test_the_last_row_can_be_corrected() -> None:
    rows = group()
    add(rows, b"a")
    add(rows, b"b")
    rows.correct_newest("frame_type_index", 1)
    assert [row["kind"] for row in rows.table().to_pylist()] == ["request", "token"]


def test_a_group_takes_no_more_than_its_bytes_but_any_frame_when_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_BYTES", 10)
    rows = group()
    assert rows.has_room(1_000)
    add(rows, b"x" * 6)
    assert rows.has_room(4)
    assert not rows.has_room(5)


def test_a_group_takes_no_more_than_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_ROWS", 2)
    rows = group()
    add(rows, b"")
    assert rows.has_room(0)
    add(rows, b"")
    assert not rows.has_room(0)


def test_events_are_rows_too() -> None:
    rows = EventRows("s", "prod")
    rows.add("closed", 3, 10, CLOCK_NS, cause="drained", frames=2, size=20, detail="{}")
    rows.add("session", None, 11, CLOCK_NS)
    first, second = rows.table().to_pylist()
    assert (first["connection"], first["cause"], first["frames"], first["bytes"]) == (3, "drained", 2, 20)
    assert (second["at_ns"], second["connection"], second["cluster"]) == (CLOCK_NS + 11, None, "prod")
    assert rows.table().schema.equals(c.events_schema())


def test_an_empty_group_is_an_empty_table() -> None:
    assert len(EventRows("s", None).table()) == 0
    assert group().table().schema.equals(c.frames_schema())

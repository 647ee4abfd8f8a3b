"""Tests of counts over several files."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from proxy.wire.errors import OverBudget
from recorder.inspect.masked import LOGINS, SETTINGS, UNREADABLE
from recorder.inspect.summary import LINE_SIZE, ROW_SIZE, Session, Summary, as_json, as_tables, summarize
from tests.recorder.replay.drawn import drawn

Write = Callable[..., None]
Make = Callable[..., dict[str, Any]]


def test_files_are_added_up(folder: Path, written: Write, make_request: Make) -> None:
    written(folder, "frames", [make_request(-5, 1, 90, 1, 12), make_request(9, 4, 0, 1, 12)], first=2)
    found = summarize(folder)
    assert found.apis["Fetch"]["request"][0] == 4
    (session,) = found.sessions.values()
    assert (session.frames, len(session.connections)) == (13, 4)
    assert session.last_ns - session.first_ns == 14 * 10**9


def test_gaps_are_listed_oldest_first(folder: Path, written: Write) -> None:
    gap = {"session": "s", "at_ns": 1, "kind": "gap", "cause": "disk_full", "frames": None, "bytes": None}
    written(folder, "events", [{**gap, "at_ns": 2**62}, gap], first=2)
    assert [found["at_ns"] for found in summarize(folder).gaps] == sorted(
        found["at_ns"] for found in summarize(folder).gaps
    )
    assert len(summarize(folder).gaps) == 3


def test_proxy_made_and_cut_frames_are_out_of_the_ordinary(
    tmp_path: Path, written: Write, make_request: Make, make_response: Make
) -> None:
    cut = make_request(0, 1, 0, 1, 12, omitted=[{"start": 9, "length": 1}])
    written(tmp_path, "frames", [cut, make_response(1, 1, 1, 1, 12, made_by="proxy")])
    assert summarize(tmp_path).notes == {"partly left out": 1, "made by the proxy": 1}


def test_masked_frames_are_counted_by_what_is_in_them(
    tmp_path: Path, written: Write, make_request: Make, make_response: Make
) -> None:
    masked = [{"start": 9, "length": 1}]
    unknown = make_request(3, 1, 3, 36, 0, masked=masked) | {"api_key": 9999, "api": None, "note": "unreadable"}
    token = make_request(1, 1, 1, 36, 0, masked=masked) | {"api_key": None, "api": None, "kind": "token"}
    kinds = [
        make_request(0, 1, 0, 36, 2, masked=masked),
        token,
        make_response(2, 1, 2, 44, 1, masked=masked),
        unknown,
        make_request(4, 1, 4, 44, 1),
    ]
    written(tmp_path, "frames", kinds)
    found = summarize(tmp_path)
    assert found.masked == {LOGINS: 2, SETTINGS: 1, UNREADABLE: 1}
    assert "masked" not in found.notes
    assert as_json(found)["masked"] == found.masked
    assert f"{LOGINS} 2" in at_80_columns(found)
    assert f"{SETTINGS} 1" in at_80_columns(found)


def test_frames_of_no_exchange_are_neither_an_api_nor_requests(
    tmp_path: Path, written: Write, make_request: Make
) -> None:
    others = [
        make_request(number, 1, number, 36, 0) | {"api_key": None, "api": None, "kind": kind, "size": 100}
        for number, kind in enumerate(["bytes", "bytes", "token"])
    ]
    written(tmp_path, "frames", [make_request(9, 1, 9, 1, 12), *others])
    lines = at_80_columns(summarize(tmp_path))
    (by_api,) = (lines[at + 1 : at + 3] for at, line in enumerate(lines) if line == "Frames by API")
    assert [line.split()[0] for line in by_api] == ["API", "Fetch"]
    at = lines.index("Frames of no exchange: inspect frames --kind")
    assert lines[at + 1 : at + 4] == ["kind frames bytes", "token 1 100 B", "bytes 2 200 B"]


def test_tables_that_would_be_empty_are_left_out(tmp_path: Path, written: Write, make_request: Make) -> None:
    written(tmp_path, "frames", [make_request(0, 1, 0, 1, 12)])
    missing, *others = as_tables(summarize(tmp_path), 100)
    assert str(missing).startswith("Nothing is missing: ")
    assert [drawn([table], 100).splitlines()[0].rstrip() for table in others] == ["Sessions", "Frames by API"]


def at_80_columns(found: Summary) -> list[str]:
    paper = StringIO()
    screen = Console(width=80, file=paper)
    for table in as_tables(found, 80):
        screen.print(table)
    assert "…" not in paper.getvalue()
    return [" ".join(line.split()) for line in paper.getvalue().splitlines()]


def test_a_terminal_of_80_columns_shows_every_header_and_each_session_on_one_line() -> None:
    day = 86400 * 10**9
    sessions = {"20261121T130500Z-abcdef": Session(0, day, 1_234_567, 99_900_000, {1, 2})}
    gap = {"at_ns": 1, "session": "20261121T130500Z-abcdef", "connection": None, "cause": "disk_full"}
    found = Summary(sessions=sessions, gaps=[gap | {"frames": 12_345, "bytes": 99_900_000}])
    lines = at_80_columns(found)
    assert "session first frame (UTC) last frame conns frames bytes" in lines
    assert "20261121T130500Z 1970-01-01 00:00:00 1970-01-02 00:00:00 2 1 234 567 99.9 MB" in lines
    assert "gap at (UTC) session cause conn lost frames lost bytes" in lines
    assert "1970-01-01 00:00:00 20261121T130500Z disk_full 12 345 99.9 MB" in lines


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_shows_which_session_and_how_much_and_names_the_rest(width: int) -> None:
    sessions = {"20261121T130500Z-abcdef": Session(0, 1, 1_234_567, 99_900_000, {1, 2})}
    paper = StringIO()
    for table in as_tables(Summary(sessions=sessions), width):
        Console(width=width, file=paper).print(table)
    said = paper.getvalue()
    assert max(map(len, said.splitlines())) <= width
    assert all(word in said for word in ("20261121T130500Z", "1 234 567", "99.9 MB", "no room here for: "))


def test_the_first_of_many_gaps_are_listed() -> None:
    gap = {"at_ns": 1, "session": "s", "connection": 1, "cause": "queue_full", "frames": 1, "bytes": 1}
    lines = at_80_columns(Summary(gaps=[gap] * 1000))
    assert "The first 20 of 1 000 gaps" in lines
    assert lines.count("1970-01-01 00:00:00 s queue_full 1 1 1 B") == 20


def test_sessions_of_the_same_second_keep_their_whole_names_and_a_day_is_not_repeated() -> None:
    names = ["20261121T130500Z-abcdef", "20261121T130500Z-bcdefa"]
    lines = at_80_columns(Summary(sessions={name: Session(0, 10**9, 1, 1) for name in names}))
    for name in names:
        assert f"{name} 1970-01-01 00:00:00 00:00:01 0 1 1 B" in lines


@pytest.mark.parametrize("many", ["apis", "connections", "notes", "gaps", "causes"])
def test_a_summarys_counts_are_kept_within_a_limit(
    tmp_path: Path, written: Write, make_request: Make, many: str
) -> None:
    """A few kilobytes of Parquet may hold millions of names."""
    rows = [make_request(0, 1, 0, 1, 12)]
    if many in ("apis", "connections", "notes"):
        other = {"apis": "api", "connections": "connection", "notes": "note"}[many]
        rows = [rows[0] | {other: n if other == "connection" else str(n)} for n in range(200)]
    else:
        gap = {"session": "s", "at_ns": 1, "kind": "gap"}
        written(tmp_path, "events", [gap | {"cause": str(n) if many == "causes" else "x"} for n in range(200)])
    written(tmp_path, "frames", rows)
    assert summarize(tmp_path, most=250 * (LINE_SIZE + ROW_SIZE))
    with pytest.raises(OverBudget, match="counting what is in the capture makes more than"):
        summarize(tmp_path, most=90 * ROW_SIZE)

"""Counts over several files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from recorder.inspect.summary import as_tables, summarize

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


def test_tables_that_would_be_empty_are_left_out(tmp_path: Path, written: Write, make_request: Make) -> None:
    written(tmp_path, "frames", [make_request(0, 1, 0, 1, 12)])
    assert [table.title for table in as_tables(summarize(tmp_path))] == ["Sessions", "Frames by API"]

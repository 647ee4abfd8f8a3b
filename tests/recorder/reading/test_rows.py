"""Tests of reading frames in order of arrival, over files, hours and sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.wire.errors import OverBudget
from recorder.query.columns import Rows, rows_of_ids
from recorder.reading.rows import all_bodies, of_exchanges, of_responses, rows

Make = Callable[..., dict[str, Any]]
HOUR = 3600


def test_sessions_hours_and_files_are_merged_by_time(
    tmp_path: Path, written: Callable[..., None], make_request: Make
) -> None:
    def add(session: str, first: int, seconds: list[int], part: str) -> None:
        made = [make_request(second, 1, second, 3, 12, session=session) for second in seconds]
        written(tmp_path, "frames", made, part, first)

    add("a-1", 2, [30, 20], "date=2026-11-21/hour=12")
    add("a-1", 1, [10, 0], "date=2026-11-21/hour=12")
    add("a-1", 10, [HOUR + 5], "date=2026-11-21/hour=13")
    add("a-1", 9, [HOUR + 1], "date=2026-11-21/hour=13")
    add("b-2", 1, [5, HOUR + 3], "date=2026-11-21/hour=12")
    found = [row["sequence"] for row in rows(tmp_path, rows_of_ids())]
    assert found == [0, 5, 10, 20, 30, HOUR + 1, HOUR + 3, HOUR + 5]


def test_bodies_are_read_only_if_requested(folder: Path) -> None:
    assert next(rows(folder, rows_of_ids()))["frame"] is None
    assert next(rows(folder, rows_of_ids(), bodies=all_bodies))["frame"]
    kinds = {row["kind"] for row in rows(folder, rows_of_ids(), bodies=of_responses) if row["frame"] is not None}
    assert kinds == {"response"}
    asked = {row["api"] for row in rows(folder, rows_of_ids(kinds=("request",)), bodies=of_exchanges) if row["frame"]}
    assert asked == {"Fetch"}


def test_an_hour_outside_the_wanted_time_is_not_opened(folder: Path) -> None:
    (folder / "frames" / "date=2026-11-21" / "hour=15").mkdir()
    (folder / "frames" / "date=2026-11-21" / "hour=15" / "s-1-1.parquet").write_bytes(b"no parquet")
    noon_to_one = Rows(since_ns=1795262400 * 10**9, until_ns=1795262400 * 10**9 + 10**12)
    assert len(list(rows(folder, noon_to_one))) == 11


def test_files_that_are_not_finished_are_skipped(folder: Path) -> None:
    (folder / "frames" / "date=2026-11-21" / "hour=12" / ".s-9-9.parquet").write_bytes(b"half a file")
    assert len(list(rows(folder, rows_of_ids()))) == 11


def test_each_frame_has_its_own_body_whatever_row_group_it_stands_in(
    tmp_path: Path, written: Callable[..., None], make_request: Make
) -> None:
    """Rows of a file are sorted; bodies come from the rows' original positions."""
    seconds = [*range(30, 0, -3), *range(0, 30, 3)]
    made = [make_request(second, 1, second, 3, 12, client_id=str(second)) for second in seconds]
    for row in made:
        row["frame"] = f"body of {row['sequence']}".encode()
    written(tmp_path, "frames", made)
    for first in (None, 12):
        wanted = rows_of_ids() if first is None else rows_of_ids(sequences=(first,))
        found = list(rows(tmp_path, wanted, bodies=all_bodies))
        assert found
        assert [row["frame"] for row in found] == [f"body of {row['sequence']}".encode() for row in found]


def of_sessions(
    folder: Path, written: Callable[..., None], make_request: Make, *, number: int, same_hour: bool, size: int = 4
) -> None:
    """Writes sessions of 200 frames each, in one hour or one after the other."""
    for at in range(number):
        hour = 12 if same_hour else 12 + at
        made = [make_request(HOUR * (hour - 12) + n, 1, n, 3, 12, session=f"s-{at}") for n in range(200)]
        for n, row in enumerate(made):
            row["frame"] = n.to_bytes(4, "big") * (size // 4)
        written(folder, "frames", made, f"date=2026-11-21/hour={hour}")


# the most that the heads of 200 such frames take
HEADS_SIZE = 200 * 400


@pytest.mark.real
def test_sessions_that_are_open_at_a_time_are_charged_together(
    tmp_path: Path, written: Callable[..., None], make_request: Make
) -> None:
    of_sessions(tmp_path, written, make_request, number=6, same_hour=True)
    assert len(list(rows(tmp_path, rows_of_ids(), most=6 * HEADS_SIZE))) == 1200
    with pytest.raises(OverBudget):
        list(rows(tmp_path, rows_of_ids(), most=HEADS_SIZE))


@pytest.mark.real
def test_a_session_is_opened_when_its_hour_has_come(
    tmp_path: Path, written: Callable[..., None], make_request: Make
) -> None:
    of_sessions(tmp_path, written, make_request, number=6, same_hour=False)
    found = list(rows(tmp_path, rows_of_ids(), most=HEADS_SIZE))
    assert [row["session"] for row in found] == [f"s-{at}" for at in range(6) for _ in range(200)]


@pytest.mark.real
def test_bodies_are_charged_as_long_as_they_are_there(
    tmp_path: Path, written: Callable[..., None], make_request: Make
) -> None:
    of_sessions(tmp_path, written, make_request, number=2, same_hour=False, size=30_000)
    # of two row groups with four rows each
    most = HEADS_SIZE + 2 * 4 * 31_000
    assert sum(len(row["frame"]) for row in rows(tmp_path, rows_of_ids(), bodies=all_bodies, most=most)) == 400 * 30_000
    assert len(list(rows(tmp_path, rows_of_ids(), most=HEADS_SIZE))) == 400
    with pytest.raises(OverBudget):
        list(rows(tmp_path, rows_of_ids(), bodies=all_bodies, most=HEADS_SIZE))

"""Tests of planning: tasks cover each byte once, and only files whose hours may hold wanted rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.analysis import scan
from recorder.analysis.scan import is_within, planned
from recorder.capture.frames import HOUR_NS
from recorder.capture.reader import file_at
from recorder.facts.answers import fixed
from tests.tables import each_row

FILES = st.lists(st.tuples(st.uuids().map(str), st.integers(0, 1 << 26)), max_size=20, unique_by=lambda file: file[0])
TIMES = st.none() | st.integers(-2 * HOUR_NS, 28 * HOUR_NS)


@given(FILES, st.integers(1, 8))
def test_tasks_cover_each_byte_of_each_file_once(files: list[tuple[str, int]], cores: int) -> None:
    pieces = [piece for task in planned(files, cores) for piece in task]
    for path, size in files:
        ranges = sorted((one.start, one.end) for one in pieces if one.path == path)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == size
        assert all(end == start for (_, end), (start, _) in pairwise(ranges))
    assert all(sum(one.end - one.start for one in task) <= scan.LARGEST_TASK for task in planned(files, cores))


@each_row(
    ("total", "cores", "tasks"),
    [
        (1 << 20, 2, 2),  # no core is idle
        (64 << 20, 2, 4),  # a smaller task would take longer to start than to run
        (1 << 30, 2, 8),
        (1 << 30, 16, 64),
        (8 << 30, 2, 64),  # a larger task would leave a core idle for long
    ],
)
def test_tasks_are_some_for_each_core_within_the_bounds_of_their_sizes(total: int, cores: int, tasks: int) -> None:
    assert len(planned([("file", total)], cores)) == tasks


@pytest.mark.parametrize(("cores", "tasks"), [(1, 64), (100, 100)])
def test_tasks_are_small_where_there_may_be_more_cores(cores: int, tasks: int) -> None:
    assert len(planned([("file", 1 << 30)], cores, may_grow=True)) == tasks


def test_a_capture_without_files_is_no_task() -> None:
    assert planned([], 4) == []


@given(st.integers(0, 24 * HOUR_NS - 1), TIMES, TIMES)
def test_the_file_of_a_wanted_row_is_planned(at_ns: int, since_ns: int | None, until_ns: int | None) -> None:
    file = file_at(Path(f"frames/date=1970-01-01/hour={at_ns // HOUR_NS:02}/s-1-1.parquet"))
    is_wanted = (since_ns is None or at_ns >= since_ns) and (until_ns is None or at_ns <= until_ns)
    assert is_within(file, since_ns, until_ns) or not is_wanted


def test_files_of_other_hours_are_not_planned() -> None:
    file = file_at(Path("frames/date=1970-01-02/hour=03/s-1-1.parquet"))
    begin = 27 * HOUR_NS
    assert file.hour_ns == begin
    assert not is_within(file, begin + HOUR_NS, None)
    assert not is_within(file, None, begin - 1)
    assert is_within(file, begin + HOUR_NS - 1, None)
    assert is_within(file, None, begin)


def test_all_fixed_fields_lie_within_the_bytes_that_are_read() -> None:
    codes = [places.code + 2 for places in fixed().values() if places.code is not None]
    throttles = [places.throttle + 4 for places in fixed().values() if places.throttle is not None]
    assert codes
    assert throttles
    assert max(*codes, *throttles) <= scan.BEGINNING

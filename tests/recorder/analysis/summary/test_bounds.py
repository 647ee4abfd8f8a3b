"""Tests of tables and timelines: they keep to their bounds for any input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.analysis.summary.bounds import MAX_BINS, MAX_MARKS, MAX_ROWS, MAX_TOP, Marks, Series, Table, Timeline, Top

DAY_NS = 86_400 * 10**9
MOMENTS = st.integers(0, 2**62)


@pytest.mark.parametrize(("kind", "most"), [(Top, MAX_TOP), (Table, MAX_ROWS), (Marks, MAX_MARKS)], ids=str)
def test_a_table_keeps_its_first_rows_and_says_how_many_there_were(kind: type[Table[int]], most: int) -> None:
    found = kind(tuple(range(most + 7)))
    assert (found.rows, found.total) == (tuple(range(most)), most + 7)


def test_a_total_that_was_counted_elsewhere_stays() -> None:
    assert Table((1, 2), total=9_000).total == 9_000


def test_a_total_is_never_less_than_the_rows() -> None:
    assert Table((1, 2), total=0).total == 2


def test_a_series_has_no_more_values_than_there_are_bins() -> None:
    assert len(Series("lag", (1.0,) * 500).values) == MAX_BINS


@given(MOMENTS, MOMENTS)
def test_a_timeline_holds_both_ends_in_bins_that_suffice(one: int, other: int) -> None:
    first, last = sorted((one, other))
    line = Timeline.over(first, last)
    assert 1 <= line.bins <= MAX_BINS
    assert line.first_at_ns <= first
    assert last < line.last_at_ns
    assert (line.bin_of(first), line.bin_of(last)) == (0, line.bins - 1)


@given(MOMENTS, st.integers(0, 200 * DAY_NS), MOMENTS)
def test_each_moment_lies_in_its_bin(first: int, length: int, at: int) -> None:
    line = Timeline.over(first, first + length)
    found = line.bin_of(at)
    inside = min(max(at, line.first_at_ns), line.last_at_ns - 1)
    assert line.begin_ns(found) <= inside < line.begin_ns(found) + line.bin_ns


@pytest.mark.parametrize(("bins", "bin_ns"), [(0, 1), (MAX_BINS + 1, 1), (1, 0)], ids=["none", "many", "empty"])
def test_a_timeline_beyond_the_bound_is_refused(bins: int, bin_ns: int) -> None:
    with pytest.raises(ValueError, match="a report has 1 to 120"):
        Timeline(0, bin_ns, bins)


def test_the_end_before_the_beginning_is_one_bin() -> None:
    assert Timeline.over(10 * DAY_NS, 0).bins == 1

"""Tests of one side of a comparison: the time by which counts are divided."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recorder.analysis.change.facts import together_ns
from tests.tables import each_row

SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda both: tuple(sorted(both))))


@each_row(
    ("spans", "found"),
    [([], 0), ([(5, 9)], 4), ([(0, 10), (5, 12)], 12), ([(0, 10), (20, 25)], 15), ([(0, 10), (2, 3)], 10)],
    ids=["none", "one", "workers", "a pause", "within"],
)
def test_pauses_between_sessions_do_not_count_and_sessions_at_a_time_count_once(
    spans: list[tuple[int, int]], found: int
) -> None:
    assert together_ns(spans) == found


@given(SPANS)
def test_the_recorded_time_is_that_in_which_any_session_recorded(spans: list[tuple[int, int]]) -> None:
    assert together_ns(spans) == len({at for first, last in spans for at in range(first, last)})

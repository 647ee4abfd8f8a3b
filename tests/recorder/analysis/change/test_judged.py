"""Tests of what counts as a change, and of too few cases to judge."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.analysis.change.judged import (
    ENOUGH,
    Cases,
    Change,
    is_beyond_chance,
    less_is_better,
    neutral,
    of_shares,
    together,
)
from tests.tables import each_row

OPPOSITE = {
    Change.WORSE: Change.BETTER,
    Change.BETTER: Change.WORSE,
    Change.NEW: Change.GONE,
    Change.GONE: Change.NEW,
    Change.MORE: Change.LESS,
    Change.LESS: Change.MORE,
}
MEASURE = st.floats(0, 1e9)
TOLERANCE = st.floats(0, 3)
CASES = st.integers(0, 10_000).flatmap(lambda of: st.builds(Cases, st.integers(0, of), st.just(of)))


def opposite(change: Change) -> Change:
    """Returns the change that results if the captures change places."""
    return OPPOSITE.get(change, change)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [(10, 13, Change.WORSE), (13, 10, Change.BETTER), (10, 12, Change.UNCHANGED), (0.1, 0.19, Change.UNCHANGED)],
    ids=["slower", "faster", "within tolerance", "below what a thread's waking takes"],
)
def test_a_latency_counts_beyond_the_tolerance(before: float, after: float, found: Change) -> None:
    assert less_is_better(before, after, 0.2, 0.1) is found


@each_row(
    ("before", "after", "found"),
    [
        (Cases(0, 1000), Cases(50, 1000), Change.NEW),
        (Cases(50, 1000), Cases(0, 1000), Change.GONE),
        (Cases(50, 1000), Cases(200, 1000), Change.WORSE),
        (Cases(200, 1000), Cases(50, 1000), Change.BETTER),
        (Cases(500, 10_000), Cases(50, 1000), Change.UNCHANGED),
        (Cases(1, 10), Cases(0, 12), Change.UNKNOWN),
        (Cases(5, 10), Cases(0, 0), Change.UNKNOWN),
        (Cases(4, 100), Cases(7, 100), Change.UNCHANGED),
    ],
    ids=["new", "gone", "worse", "better", "longer", "few", "not asked", "chance"],
)
def test_errors_are_judged_by_their_share_of_all_answers(before: Cases, after: Cases, found: Change) -> None:
    assert of_shares(before, after, 0.2) is found


def test_chance_hardly_makes_a_difference_that_counts() -> None:
    """Draws 2,000 pairs of samples of one share."""
    chance = random.Random(1)
    pairs = [[Cases(sum(chance.random() < 0.1 for _ in range(200)), 200) for _ in range(2)] for _ in range(2000)]
    assert sum(is_beyond_chance(*pair) for pair in pairs) <= 20


@given(MEASURE, MEASURE, TOLERANCE)
def test_the_other_way_round_worse_is_better(before: float, after: float, tolerance: float) -> None:
    for judge in (less_is_better, neutral):
        assert judge(after, before, tolerance) is opposite(judge(before, after, tolerance))


@given(CASES, CASES, TOLERANCE)
def test_the_other_way_round_new_errors_are_gone(before: Cases, after: Cases, tolerance: float) -> None:
    assert of_shares(after, before, tolerance) is opposite(of_shares(before, after, tolerance))


@given(CASES)
def test_an_equal_share_is_no_change(cases: Cases) -> None:
    assert of_shares(cases, cases, 0) in (Change.UNCHANGED, Change.UNKNOWN)


def test_percentiles_need_ten_answers_beyond_them() -> None:
    assert ENOUGH == {"p50_ms": 20, "p95_ms": 200, "p99_ms": 1000}


@each_row(
    ("changes", "found"),
    [
        ((Change.UNCHANGED, Change.BETTER, Change.UNKNOWN), Change.BETTER),
        ((Change.BETTER, Change.WORSE), Change.MIXED),
        ((Change.MORE, Change.LESS), Change.CHANGED),
        ((Change.UNKNOWN, Change.UNKNOWN), Change.UNKNOWN),
        ((Change.UNCHANGED, Change.UNKNOWN), Change.UNCHANGED),
    ],
    ids=["better", "mixed", "neither good nor bad", "unknown", "unchanged"],
)
def test_an_unknown_change_does_not_hide_a_known_one(changes: tuple[Change, ...], found: Change) -> None:
    assert together(changes) is found

"""Tests of durations in bins against the durations themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.durations import PARTS, Durations
from tests.recorder.replay.some_results import durations

NANOSECONDS = st.lists(st.integers(0, 1 << 50), min_size=1)


def true_quantile(each: list[int], share: float) -> int:
    """Returns the smallest duration that this share of all does not exceed."""
    return next(one for one in sorted(each) if sum(other <= one for other in each) >= share * len(each))


@given(NANOSECONDS, st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_the_true_one_or_up_to_a_bin_above_it(each: list[int], share: float) -> None:
    found, true = durations(each).quantile(share), true_quantile(each, share)
    assert found is not None
    assert true <= found <= max(each)
    assert found - true <= true / PARTS


@given(NANOSECONDS)
def test_bins_and_the_longest_duration_are_all_there_is(each: list[int]) -> None:
    found = durations(each)
    assert found.count == len(each)
    assert Durations(dict(found.in_order()), found.most_ns) == found


@given(NANOSECONDS)
def test_bins_are_few_however_many_durations_there_are(each: list[int]) -> None:
    assert len(durations(each * 3).bins) <= PARTS * 51


def test_no_durations_have_no_quantile() -> None:
    assert Durations().quantile(0.5) is None


def test_a_duration_that_two_clocks_make_negative_counts_as_none() -> None:
    assert durations([-5]) == durations([0])


@pytest.mark.parametrize("bins", [{-1: 1}, {65: 1}, {4: 0}], ids=["negative", "within a bin", "empty"])
def test_bad_bins_are_refused(bins: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="no bins"):
        Durations(bins)

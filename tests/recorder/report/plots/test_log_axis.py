"""Tests of logarithmic axes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.report.plots.log_axis import decades, domain, stepped

MILLISECONDS = st.floats(1e-6, 1e7)


@given(st.lists(MILLISECONDS, min_size=1))
def test_an_axis_shows_all_values_and_names_some(values: list[float]) -> None:
    first, last = domain(values)
    assert all(first < value < last for value in values)
    assert all(first <= value <= last for value in decades((first, last)))


@pytest.mark.parametrize(
    ("over", "named"),
    [((0.5, 50), [0.5, 1, 2, 5, 10, 20, 50]), ((0.4, 600), [1, 10, 100]), ((0.9, 1.1), [1])],
    ids=["two powers", "three powers", "less than one"],
)
def test_an_axis_names_powers_of_ten_and_2_and_5_between_few(over: tuple[float, float], named: list[float]) -> None:
    assert decades(over) == pytest.approx(named)


@given(st.lists(MILLISECONDS, min_size=1, max_size=5))
def test_an_axis_of_steps_has_all_values_between_two_of_its_labels(values: list[float]) -> None:
    first, last = stepped(values)
    labels = decades((first, last))
    assert first <= min(values) <= max(values) < last
    assert len(labels) >= 2
    assert (min(labels) <= min(values)) == (first in labels)

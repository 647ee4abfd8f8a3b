"""Tests of series in sentences."""

from __future__ import annotations

import pytest

from recorder.analysis.summary.bounds import Series, Timeline
from recorder.report.series import busiest, counted


def test_a_single_error_is_not_called_usual() -> None:
    once = Series("NOT_LEADER", (0, 1, 0))
    assert (
        busiest(Timeline(0, 10**9, 3), once, counted("error"))
        == "1 error, from 00:00:01 on for 1 s; none before or after."
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((None, 9, None, 24, 0, 2), "Nothing in 3 of 6 bins of 1 s, at most 24 errors in one (from 00:00:03 on)."),
        ((1, 9, None, 24, 2, 2), "Usually 2 errors in 1 s, and up to 24 errors (from 00:00:03 on)."),
        ((1, 9), "Nothing in 4 of 6 bins of 1 s, at most 9 errors in one (from 00:00:01 on)."),
    ],
    ids=["half-empty", "mostly-filled", "short"],
)
def test_what_is_usual_is_told_of_all_bins(values: tuple[float | None, ...], said: str) -> None:
    assert busiest(Timeline(0, 10**9, 6), Series("NOT_LEADER", values), counted("error")) == said

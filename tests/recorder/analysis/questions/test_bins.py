"""Tests of series along the report's timeline."""

from __future__ import annotations

from recorder.analysis.questions.bins import series
from recorder.analysis.summary.bounds import Timeline


def test_a_series_has_a_value_for_each_bin() -> None:
    assert series("p99", Timeline(0, 10**9, 6), [(1, 5.0), (4, None)]).values == (None, 5.0, None, None, None, None)

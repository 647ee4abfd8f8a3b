"""Tests of plots along the timeline, as specifications."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.analysis.summary.bounds import MAX_BINS, Series, Timeline
from recorder.analysis.summary.sections.latency import HeatCell
from recorder.report.plots.over_time import Canvas, bars, heat, level_of, lines
from recorder.report.plots.shapes import HEAT, Line
from tests.recorder.report.plots.specs import rows
from tests.sweeps import examples

# 2026-11-20 13:05:00 UTC
START = 1_795_179_900 * 10**9
LINE = Timeline(START, 60 * 10**9, 4)
CANVAS = Canvas(LINE, 300, 100)
START_MS = START // 10**6
VALUES = st.lists(st.none() | st.floats(0, 1e12), min_size=4, max_size=4).map(tuple)


def encoding(spec: dict[str, Any], channel: str) -> dict[str, Any]:
    found: dict[str, Any] = spec["layer"][-1]["encoding"][channel]
    return found


def test_a_line_has_a_point_in_the_middle_of_each_bin_and_a_break_where_nothing_is_known() -> None:
    spec = lines(CANVAS, [Line(Series("p99", (1.0, None, 3.0, 4.0)), "red")], "ms")
    found = [((row["at"] - START_MS) // 1000, row["value"]) for row in rows(spec)]
    assert found == [(30, 1.0), (90, None), (150, 3.0), (210, 4.0)]


def test_a_value_between_unknown_ones_is_a_point_since_a_line_would_not_show_it() -> None:
    spec = lines(CANVAS, [Line(Series("p99", (1.0, None, 3.0, 4.0)), "red")], "ms")
    assert [row["value"] for row in rows(spec, 1)] == [1.0]


def test_all_plots_begin_and_end_with_the_capture() -> None:
    for spec in (
        lines(CANVAS, [Line(Series("", (1.0,)), "red")], "ms"),
        bars(CANVAS, [(Series("", (1,)), "red")], "x"),
    ):
        assert encoding(spec, "x")["scale"] == {"domain": [START_MS, START_MS + 240_000], "nice": False, "type": "utc"}


@pytest.mark.parametrize(
    ("seconds", "shown"), [(60, "%H:%M:%S"), (3600, "%H:%M"), (7 * 86_400, "%d %b")], ids=["minute", "hour", "week"]
)
def test_times_are_written_as_a_day_has_24_hours(seconds: int, shown: str) -> None:
    canvas = Canvas(Timeline.over(START, START + seconds * 10**9), 300, 100)
    assert encoding(lines(canvas, [Line(Series("", (1.0,)), "red")], "ms"), "x")["axis"]["format"] == shown


@examples(15)
@given(VALUES, VALUES)
def test_bars_stand_upon_each_other_and_are_as_high_as_their_values(low: Any, high: Any) -> None:
    spec = bars(CANVAS, [(Series("a", low), "red"), (Series("b", high), "blue")], "bytes")
    found = rows(spec)
    for at in range(LINE.bins):
        begin = START_MS + at * 60_000
        here = [row for row in found if begin <= row["from"] < begin + 60_000]
        total = sum(value or 0 for value in (low[at], high[at]))
        assert math.isclose(max((row["high"] for row in here), default=0), total, rel_tol=1e-9)
        assert [row["high"] for row in here[:-1]] == [row["low"] for row in here[1:]]


def test_lost_stretches_lie_behind_the_bars_over_their_whole_bins() -> None:
    spec = bars(CANVAS, [(Series("", (5, 5, 1, 5)), "blue")], "requests", Series("", (None, 0, 7, None)))
    assert [(row["from"] - START_MS, row["to"] - START_MS) for row in rows(spec)] == [(120_000, 180_000)]


def test_without_a_loss_nothing_is_marked() -> None:
    assert len(bars(CANVAS, [(Series("", (5,)), "blue")], "requests", Series("", (None, 0)))["layer"]) == 1


def test_cells_lie_at_their_time_and_latency_in_the_colour_of_their_number() -> None:
    """Cells begin a twentieth of a bin early, under their neighbours."""
    cells = [HeatCell(0, 1, 2, 1), HeatCell(3, 64, 128, 1000)]
    found = [
        (row["from"] - START_MS + 3_000, row["low"], row["high"], row["colour"]) for row in rows(heat(CANVAS, cells))
    ]
    assert found == [(0, 1, 2, HEAT[0]), (180_000, 64, 128, HEAT[-1])]


def test_heat_cells_outside_the_plot_are_dropped() -> None:
    cells = [HeatCell(0, 0, 1, 5), HeatCell(99, 1, 2, 5), HeatCell(0, 4, 4, 5)]
    assert rows(heat(CANVAS, cells)) == []


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_a_larger_count_is_never_paler(one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert 0 <= level_of(less, more) <= level_of(more, more) == len(HEAT) - 1


def test_a_series_is_no_longer_than_the_timeline() -> None:
    spec = lines(CANVAS, [Line(Series("", (1.0,) * MAX_BINS), "red")], "ms")
    assert len(rows(spec)) == LINE.bins

"""Tests of plots with lanes, as specifications."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from recorder.analysis.summary.bounds import Timeline
from recorder.report.plots.drawing import svg
from recorder.report.plots.lanes import bars, cells, lanes
from recorder.report.plots.shapes import Bar, Cells, Lane, Piece, Span
from tests.hostile_text import TEXT
from tests.recorder.report.pages import Page, fetched, obeyed
from tests.recorder.report.plots.specs import rows
from tests.sweeps import examples

SECOND = 10**9
LINE = Timeline(0, SECOND, 10)


def test_bars_share_one_scale() -> None:
    shown = [Bar("a", "", (Piece(200, "red"),)), Bar("b", "", (Piece(50, "red"), Piece(100, "blue")))]
    assert [row["x2"] for row in rows(bars(shown, 1000))] == [1000, 250, 500]


def test_a_tiny_value_has_a_visible_bar() -> None:
    shown = [Bar("a", "", (Piece(10**12, "red"),)), Bar("b", "", (Piece(1, "red"), Piece(0, "blue")))]
    assert [row["x2"] for row in rows(bars(shown, 300))] == [300, 1]


def test_a_lane_is_as_high_as_its_largest_value_whatever_the_others() -> None:
    shown = [Lane("a", "", (1.0, 2.0)), Lane("b", "", (1_000_000.0,))]
    found = [row for row in rows(lanes(LINE, shown, 100)) if row["colour"] == "var(--blue)"]
    heights = [row["y2"] - row["y"] for row in found]
    assert heights[1] == heights[2] == 2 * heights[0]


def test_a_stretch_lies_where_it_was_and_is_seen_however_short() -> None:
    shown = [Lane("a", "", (), (Span(2 * SECOND, 5 * SECOND, "red"), Span(9 * SECOND, 9 * SECOND, "red")))]
    found = [(row["x"], row["x2"]) for row in rows(lanes(LINE, shown, 100)) if row["colour"] == "red"]
    assert found == [(20, 50), (90, 92)]


def test_a_stretch_beyond_the_capture_ends_with_it() -> None:
    shown = [Lane("a", "", (), (Span(-5 * SECOND, 99 * SECOND, "red"),))]
    (found,) = [(row["x"], row["x2"]) for row in rows(lanes(LINE, shown, 100)) if row["colour"] == "red"]
    assert found == (0, 100)


def test_lanes_have_a_time_axis_whose_labels_stand_at_their_times() -> None:
    """`LINE` lasts ten seconds from 1970 on."""
    spec = lanes(LINE, [Lane("a", "", (1.0,)), Lane("b", "", (1.0,))], 300)
    labels = rows(spec, 3)
    assert [(row["name"], row["x"]) for row in labels] == [("00:00:05", 150)]
    assert all(row["y"] < labels[0]["y"] for row in rows(spec, 1))


@examples(30)
@given(st.integers(0, 2**62), st.sampled_from([1, SECOND, 3600 * SECOND, 10**7 * SECOND]), st.integers(1, 120))
def test_labels_of_times_never_overlap_nor_leave_the_drawing(first: int, step: int, bins: int) -> None:
    for width in (300, 1000):
        found = [row["x"] for row in rows(lanes(Timeline(first, step, bins), [Lane("a", "", ())], width), 3)]
        assert all(30 <= x <= width - 30 for x in found)
        assert all(later - earlier >= 80 for earlier, later in pairwise(found))


@examples(15)
@given(st.integers(1, 120), st.integers(1, 400))
def test_every_partition_has_a_square_of_its_own_within_the_width(number: int, width: int) -> None:
    found = rows(cells([Cells("a", "", ("red",) * number), Cells("b", "", ("red",))], width))
    assert len({(row["x"], row["y"]) for row in found}) == number + 1
    assert all(row["x2"] <= max(width, 13) for row in found)


def test_rows_of_the_same_name_stay_apart() -> None:
    """Names that are equal when shortened once shared a row."""
    shown = [Bar("x" * 400 + str(at), "", (Piece(1, "red"),)) for at in range(3)]
    assert len({row["y"] for row in rows(bars(shown, 300))}) == 3


def test_a_name_leaves_room_for_what_stands_beside_it() -> None:
    (found,) = (row["name"] for row in rows(bars([Bar("x" * 400, "12 345 records", (Piece(1, "red"),))], 300), 1))
    assert 10 < len(found) < 40
    assert found.endswith("…")


def test_names_in_a_drawing_are_text() -> None:
    evil = f"</svg><script>alert(1)</script><image href='http://evil.example/x'/>{TEXT}"
    shown = [Lane(evil, evil[:20], (1.0,))], [Bar(evil, "", (Piece(1, "red"),))], [Cells(evil, "", ("red",))]
    for spec in (lanes(LINE, shown[0], 900), bars(shown[1], 900), cells(shown[2], 900)):
        drawn = svg(spec, evil)
        assert (obeyed(drawn), fetched(drawn)) == ([], [])
        assert Page(drawn).named("image", "script") == []


@examples(10)
@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=12), min_size=8, max_size=8))
def test_any_name_can_be_drawn(names: list[str]) -> None:
    shown = [Bar(name, "", (Piece(1, "red"),)) for name in names]
    assert svg(bars(shown, 300), names[0]).startswith("<svg")

"""Tests of dumbbell plots: specifications as data, and drawings as markup that may be in a page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recorder.report.plots.drawing import svg
from recorder.report.plots.dumbbells import MOST_ROWS, Pair, dumbbells
from tests.hostile_text import TEXT
from tests.recorder.report.pages import Page, fetched, obeyed
from tests.sweeps import examples

PAIRS = [Pair("Produce", 2.0, 3.0), Pair("Fetch", 4.0, 3.5)]
OVER = (0.5, 50.0)


def layers(spec: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Returns each mark, with its beginning and its end."""
    found = [(layer["mark"]["type"], layer["encoding"]) for layer in spec["layer"]]
    return [(mark, at["x"]["field"], at.get("x2", {}).get("field")) for mark, at in found]


def test_a_line_goes_from_the_first_point_to_the_second_one() -> None:
    assert layers(dumbbells("p50", PAIRS, OVER)) == [
        ("rule", "first", "second"),
        ("point", "first", None),
        ("point", "second", None),
    ]


def test_both_points_of_a_dumbbell_are_distinguishable_without_colours() -> None:
    _, first, second = (layer["mark"] for layer in dumbbells("p50", PAIRS, OVER)["layer"])
    assert (first["filled"], second["filled"]) == (False, True)


def test_rows_stand_in_the_order_in_which_they_are_given() -> None:
    spec = dumbbells("p50", PAIRS, OVER)
    assert [row["label"] for row in next(iter(spec["datasets"].values()))] == ["Produce", "Fetch"]
    assert {layer["encoding"]["y"]["sort"] for layer in spec["layer"]} == {None}


def test_the_axis_is_logarithmic_and_the_same_for_all_plots() -> None:
    x = dumbbells("p50", PAIRS, OVER)["layer"][0]["encoding"]["x"]
    assert (x["scale"]["type"], x["scale"]["domain"], x["scale"]["nice"]) == ("log", [0.5, 50.0], False)


def test_a_plot_has_no_more_rows_than_are_distinguishable() -> None:
    spec = dumbbells("p50", [Pair(str(at), 1.0, 1.0) for at in range(MOST_ROWS + 5)], OVER)
    assert len(next(iter(spec["datasets"].values()))) == MOST_ROWS


@pytest.mark.real
def test_a_drawing_is_in_the_pages_colours_and_says_what_it_shows() -> None:
    drawn = svg(dumbbells("p50", PAIRS, OVER), "Produce takes longer")
    (attributes,) = Page(drawn).named("svg")
    assert (attributes["role"], attributes["aria-label"]) == ("img", "Produce takes longer")
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawn)) - {"none", "transparent"}
    assert colours <= {f"var(--{name})" for name in ("ink", "muted", "line", "recorded", "replayed")}


def test_names_in_a_drawing_are_text() -> None:
    evil = f"</svg><script>alert(1)</script><image href='http://evil.example/x'/>{TEXT}"
    drawn = svg(dumbbells(evil, [Pair(evil, 1.0, 2.0)], OVER), evil + '" onload="alert(1)')
    assert (obeyed(drawn), fetched(drawn)) == ([], [])
    assert Page(drawn).named("image", "script") == []


@pytest.mark.real
@examples(20)
@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=12), min_size=MOST_ROWS, max_size=MOST_ROWS))
@example(["if"] * MOST_ROWS)
def test_any_name_can_be_drawn(names: list[str]) -> None:
    """A character that XML lacks, or a lone surrogate, would end the process."""
    assert svg(dumbbells(names[0], [Pair(name, 1.0, 2.0) for name in names], OVER), names[0]).startswith("<svg")

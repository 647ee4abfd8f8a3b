"""Tests of making drawings smaller without a visible change."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from recorder.report.plots.drawing import smaller

COLOURS = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(st.tuples(st.integers(0, 99), COLOURS), max_size=12)


def path(at: int, colour: str) -> str:
    return f'<path aria-hidden="true" d="M{at},0h1v1h-1Z" fill="{colour}" stroke-width="0"/>'


def seen(markup: str) -> list[tuple[str, str]]:
    """Returns each closed path with its colour, in the order of drawing."""
    found = re.findall(r'<path d="([^"]*)" fill="(\w)"', markup)
    return [(piece, colour) for pieces, colour in found for piece in re.findall(r"M[^Z]*Z", pieces)]


@given(PATHS)
def test_every_piece_is_drawn_in_its_colour_and_order(paths: list[tuple[int, str]]) -> None:
    drawn = smaller("<g>" + "".join(path(*one) for one in paths) + "</g>")
    assert seen(drawn) == [(f"M{at},0h1v1h-1Z", colour) for at, colour in paths]


def test_neighbours_that_differ_in_nothing_but_their_place_are_one_path() -> None:
    drawn = smaller(path(1, "a") + path(2, "a") + path(3, "b"))
    assert drawn.count("<path") == 2


def test_a_path_with_a_place_of_its_own_stays_alone() -> None:
    moved = '<path d="M0,0" transform="translate(3,4)" fill="a"/><path d="M0,0" fill="a"/>'
    assert smaller(moved) == moved


def test_text_stays_as_it_is_whatever_it_looks_like() -> None:
    text = '<text>1.23456 role="img" class="x" &lt;path d="M0,0"/></text>'
    assert smaller(text) == text


def test_thousandths_of_a_pixel_are_enough() -> None:
    assert smaller('<path d="M1.23456,6.78h1" fill="a"/>') == '<path d="M1.234,6.78h1" fill="a"/>'

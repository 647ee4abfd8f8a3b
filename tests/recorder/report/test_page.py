"""Tests of the frame of all pages, and of inserting values into it."""

from __future__ import annotations

import re

import pytest
from jinja2 import UndefinedError

from recorder.report.page import breakable, page
from tests.hostile_text import TEXT, obeyed
from tests.recorder.report.pages import Page, fetched
from tests.tables import each_row

EVIL = f"</title></style><script>alert(1)</script>{TEXT}"


def palettes() -> list[dict[str, str]]:
    """Returns the colours by name: in light mode, in dark mode, on paper."""
    blocks = re.findall(r":root \{(.*?)\}", page("page.html", title="x"), re.DOTALL)
    return [dict(re.findall(r"--([a-z]+): (#\w+)", block)) for block in blocks]


def test_a_value_is_text_and_never_markup() -> None:
    found = page("page.html", title=EVIL)
    assert "<script" not in found
    assert obeyed(found.replace("\n", " ")) == []


def test_a_page_fetches_nothing() -> None:
    found = page("page.html", title=EVIL)
    policy = next(one["content"] for one in Page(found).named("meta") if "http-equiv" in one)
    assert fetched(found) == []
    assert (policy or "").startswith("default-src 'none'")


def test_each_element_of_the_page_frame_is_closed() -> None:
    found = Page(page("page.html", title="a report"))
    assert (found.unclosed, found.astray) == ([], [])


@each_row(
    ("name", "shown"),
    [
        ("FindCoordinator", "Find<wbr>Coordinator"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_<wbr>TOPIC_<wbr>OR_<wbr>PARTITION"),
        ("clickstream.raw", "clickstream.<wbr>raw"),
        ("OffsetForLeaderEpoch, waiting", "Offset<wbr>For<wbr>Leader<wbr>Epoch, waiting"),
        ("kafka-python 1.4.7", "kafka-python 1.4.7"),
        ("aB<b>\N{RIGHT-TO-LEFT OVERRIDE}", "a<wbr>B&lt;b&gt;\\u202e"),
    ],
)
def test_a_name_may_break_between_its_parts(name: str, shown: str) -> None:
    assert breakable(name) == shown


def test_every_colour_is_there_in_light_in_dark_and_on_paper() -> None:
    light, dark, paper = palettes()
    assert light.keys() == dark.keys() == paper.keys()


def test_every_colour_that_is_used_is_there() -> None:
    found = page("page.html", title="x")
    assert set(re.findall(r"var\((--[a-z]+)\)", found)) <= set(re.findall(r"--[a-z]+(?=:)", found))


def test_a_value_that_was_forgotten_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        page("page.html")


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    long = colour if len(colour) == 7 else "#" + "".join(letter * 2 for letter in colour[1:])
    parts = [int(long[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("at", [0, 1, 2], ids=["light", "dark", "paper"])
def test_text_stands_out_from_its_ground(at: int) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    colours = dict(
        re.findall(r"--([a-z]+): (#\w+)", re.findall(r":root \{(.*?)\}", page("page.html", title="x"), re.DOTALL)[at])
    )
    for ground in ("paper", "panel"):
        for ink in ("ink", "muted", "good", "warn", "bad"):
            light, dark = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


@pytest.mark.parametrize("at", [0, 1, 2], ids=["light", "dark", "paper"])
def test_marks_of_plots_stand_out_from_the_page(at: int) -> None:
    """WCAG 2.2, 1.4.11: 3 to 1."""
    colours = palettes()[at]
    for mark in ("blue", "teal", "amber", "rose", "violet", "grey", "bad", "warn"):
        light, dark = sorted((luminance(colours[mark]), luminance(colours["paper"])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, mark

"""Tests of a comparison as a page and as Markdown: all changes, and hostile names."""

from __future__ import annotations

import re
from functools import cache

import pytest

from recorder.analysis.change.facts import CaptureFacts
from recorder.analysis.change.whole import Changes, changes
from recorder.report.change_plots import latency_plots
from recorder.report.change_sections import lead, sections, verdict
from recorder.report.changes import html, markdown
from tests import hostile_text
from tests.recorder.report import some_sides as sides
from tests.recorder.report.pages import Page, fetched, obeyed

PAIRS = {
    "lively": (sides.monday, sides.tuesday),
    "same": (sides.monday, sides.monday),
    "hostile": (sides.hostile, sides.tuesday),
    "nothing": (sides.nothing, sides.nothing),
}


def found_in(name: str) -> Changes:
    """Compares one of the pairs."""
    before, after = PAIRS[name]
    return changes(before(), after())


@cache
def page_of(name: str) -> str:
    """Draws a pair's page, once."""
    return html(found_in(name))


@pytest.mark.parametrize("name", PAIRS)
def test_a_page_fetches_nothing_runs_only_our_script_and_is_well_formed(name: str) -> None:
    written = page_of(name)
    page = Page(written)
    assert fetched(written) == []
    assert obeyed(re.sub(r"<script>.*?</script>", "", written, flags=re.DOTALL)) == []
    assert (page.unclosed, page.astray) == ([], [])


@pytest.mark.parametrize("write", [html, markdown], ids=["html", "markdown"])
def test_names_that_mean_harm_are_shown_as_text(write: object) -> None:
    written = page_of("hostile") if write is html else markdown(found_in("hostile"))
    assert hostile_text.WORD in written
    assert not re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", written)
    assert not [line for line in written.splitlines() if line.startswith(hostile_text.FORGED)]


def test_the_page_begins_with_the_verdict_and_what_it_is_made_of() -> None:
    words = Page(page_of("lively")).words
    assert "Better and worse Findings: 1 new, 1 worse, 1 gone; APIs: 1 slower, 1 faster;" in words
    for said in ("captures/monday", "captures/tuesday", "At least 120 frames are missing", "findings new or worse"):
        assert said in words


def test_findings_that_came_say_what_to_do_and_what_shows_them_in_the_later_capture() -> None:
    written = page_of("lively")
    assert written.count('<article class="finding') == 2
    assert "kafka-wiretap inspect show captures/tuesday s/4/e8" in written


def test_both_sides_of_a_percentile_are_drawn_where_they_are_compared() -> None:
    drawn = latency_plots(found_in("lively"))
    assert [str(one).count("Produce") > 0 for one in drawn] == [True, True, True]
    assert "p50 of the latency, before and after: Produce 3.10 to 5.00 ms, Fetch 1.10 to 1.10 ms" in str(drawn[0])
    assert latency_plots(found_in("nothing")) == []


def test_a_capture_beside_itself_says_that_nothing_differs() -> None:
    found = found_in("same")
    assert (verdict(found), lead(found)) == (
        "No difference",
        "Nothing differs by more than 20 %, or than by chance.",
    )


def test_the_first_section_says_which_differences_count_as_none_and_why() -> None:
    captures = sections(changes(CaptureFacts(), CaptureFacts(), 0.5))[0]
    assert captures.lead == (
        "Differences of up to 50 % are ignored (--tolerance). So are latencies that differ by up to 0.1 ms (threads "
        "wake up that late), and shares of errors that differ by chance.",
    )


def test_client_ids_are_counted_by_that_name() -> None:
    (side_by_side,) = sections(found_in("lively"))[0].listings
    assert "client ids" in [row.what for row in side_by_side.rows]


def test_captures_of_few_exchanges_are_too_little_to_tell() -> None:
    few = CaptureFacts(frames=2, apis=(sides.work("Fetch", 1, 1, 1, 1),))
    found = changes(few, few)
    assert verdict(found) == "Too little to tell"
    assert "enough exchanges" in lead(found)


def test_markdown_leaves_out_what_is_unchanged() -> None:
    told = markdown(found_in("lively"))
    assert told.startswith("# Better and worse\n")
    assert "| better | Produce | NOT\\_LEADER\\_OR\\_FOLLOWER | 5 % | 0.43 % | 60 | 10 | 1 200 | 2 340 |" in told
    assert "| changed | Produce | v9 | v12 |" in told
    assert "v11 56.25 %" not in told


def test_every_section_says_something_of_captures_of_nothing() -> None:
    empty = CaptureFacts()
    assert all(one.nothing or one.listings for one in sections(changes(empty, empty)))

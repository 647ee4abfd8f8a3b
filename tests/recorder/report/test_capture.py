"""Tests of a capture's page: every section with much, little and nothing, and hostile names."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256

import pytest

from recorder.analysis.summary.bounds import Table, Top
from recorder.analysis.summary.sections.findings import Finding, Findings, Severity
from recorder.analysis.summary.sections.groups import Group, Groups
from recorder.analysis.summary.whole import SECTIONS, Summary
from recorder.report.capture import MAX_BYTES, html
from recorder.report.every_section import sections
from tests import hostile_text
from tests.recorder.report import some_summaries as summaries
from tests.recorder.report.pages import Page, fetched, obeyed

NAMES = ["lively", "quiet", "nothing", "judged_nowhere", "hostile"]


@cache
def page_of(name: str) -> str:
    """Draws the page of one of the summaries, once."""
    return html(getattr(summaries, name)(), "my capture")


@pytest.fixture(scope="module", params=NAMES)
def each(request: pytest.FixtureRequest) -> str:
    """The page of one of the summaries."""
    return page_of(request.param)


@pytest.fixture(scope="module")
def lively() -> Page:
    return Page(page_of("lively"))


def test_a_capture_page_fetches_nothing(each: str) -> None:
    assert fetched(each) == []


def test_the_only_script_is_ours_and_the_policy_names_its_hash(each: str) -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", each, re.DOTALL)
    assert script.startswith('"use strict";')
    policy = next(one["content"] or "" for one in Page(each).named("meta") if "http-equiv" in one)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_a_page_runs_no_script_but_ours(each: str) -> None:
    assert obeyed(re.sub(r"<script>.*?</script>", "", each, flags=re.DOTALL)) == []


def test_each_element_of_a_capture_page_is_closed(each: str) -> None:
    found = Page(each)
    assert (found.unclosed, found.astray) == ([], [])


def test_every_section_has_a_place_that_the_contents_lead_to(each: str) -> None:
    page = Page(each)
    places = [one["id"] for one in page.named("section")]
    assert [(one["href"] or "").removeprefix("#") for one in page.named("a")] == places
    assert set(places) == {*SECTIONS}


def test_hostile_names_are_shown_as_text() -> None:
    found = page_of("hostile")
    assert "<img src=http://evil.example/x" in Page(found).text
    assert Page(found).named("img", "image") == []
    assert hostile_text.obeyed(found) == []


def test_a_page_has_no_colour_that_is_not_there(each: str) -> None:
    assert set(re.findall(r"var\((--[a-z0-9]+)\)", each)) <= set(re.findall(r"--[a-z0-9]+(?=:)", each))


def test_the_verdict_stands_first_and_findings_before_everything_else(lively: Page) -> None:
    words = lively.words
    said = [
        "6 findings: 3 critical, 2 warnings, 1 notice",
        "Produce on node 2 took 412 ms at p99",
        "kafka-wiretap inspect show 'my capture' 12/e4117 # 13:40:00, 981 ms",
        "kafka-python 1.4.7 sends Produce v2",
        "Which API was slow, and when?",
    ]
    places = [words.index(sentence) for sentence in said]
    assert places == sorted(places)


def test_each_plot_asks_and_says_what_it_shows(lively: Page) -> None:
    labels = [one["aria-label"] or "" for one in lively.named("svg")]
    assert all(len(label) > 15 for label in labels)
    assert len(lively.named("figure")) == 12
    # two for each of eleven plots, for wide and narrow screens; six of one that is always small
    assert len(labels) == 11 * 2 + 6


def test_a_note_stands_below_a_table_only_if_its_column_is_shown() -> None:
    group = Group("g", last_lag=3, most_lag=5, last_lag_ms=9.0)
    page = html(Summary(groups=Groups(groups=Top((group,), 1))))
    assert "<span>Lag: records between" in page
    # on a phone not even this one
    assert '<span class="spare">Behind: how long ago' in page
    assert "Stalled:" not in page


def test_a_section_without_rows_has_a_sentence() -> None:
    words = Page(page_of("nothing")).words
    assert "Nothing to report" in words
    assert "No consumer group was seen." in words
    assert "No response holds an error." in words
    assert Page(page_of("nothing")).named("table", "svg") == []


def test_a_section_that_could_not_be_judged_says_why() -> None:
    words = Page(page_of("quiet")).words
    assert words.count("Not judged: the capture holds no bodies.") == 5


@pytest.mark.real
@pytest.mark.parametrize("name", [name for name in SECTIONS if name != "findings"])
def test_each_section_alone_makes_a_page(name: str) -> None:
    """No section may need values of another one."""
    whole = summaries.lively()
    alone = Summary(timeline=whole.timeline, **{name: getattr(whole, name)})
    filled = [section.id for section in sections(alone) if not section.nothing]
    assert filled == [name]
    assert Page(html(alone)).unclosed == []


@pytest.mark.long
def test_a_page_keeps_to_its_size_whatever_the_names() -> None:
    page = html(summaries.largest())
    assert 1_000_000 < len(page.encode()) <= MAX_BYTES
    assert re.search(r"the first \d+ of 1 000 000 000", page)
    assert "further findings are left out here" in page


@pytest.mark.parametrize(
    ("severities", "tone"),
    [("", "good"), (["notice"], "note"), (["notice", "critical"], "bad"), (["warning", "notice"], "warn")],
    ids=["none", "notice", "critical", "warning"],
)
def test_the_verdict_has_the_colour_of_the_worst_finding(severities: list[str], tone: str) -> None:
    """Gaps come first, however harmless they are."""
    rows = tuple(Finding("gaps", Severity(one), "", "a sentence", "") for one in severities)
    assert Page(html(Summary(findings=Findings(Table(rows))))).named("h1") == [{"class": tone}]

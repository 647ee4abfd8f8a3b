"""Tests of a capture's page: every section with much, little and nothing, and hostile names."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import fields
from functools import cache
from hashlib import sha256

import pytest

from recorder.analysis.summary.bounds import Marks, Series, Table, Timeline, Top
from recorder.analysis.summary.sections.errors import Errors
from recorder.analysis.summary.sections.findings import Finding, Findings, Severity, Unit
from recorder.analysis.summary.sections.groups import Group, Groups
from recorder.analysis.summary.sections.latency import HeatCell, Latency, LatencyOfApi
from recorder.analysis.summary.sections.method import Method, Threshold
from recorder.analysis.summary.sections.partitions import Partition, Partitions
from recorder.analysis.summary.sections.topics import Topics, TopicTotals
from recorder.analysis.summary.whole import Summary
from recorder.report.capture import MAX_BYTES, html, markdown
from recorder.report.capture_plots import plots
from recorder.report.sections.every import sections
from recorder.report.sections.traffic import slowest
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
    assert set(places) == {one.name for one in fields(Summary)} - {"timeline"}


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


def test_the_sentence_on_unread_topics_is_right_for_one_topic() -> None:
    rows = TopicTotals("a", written_bytes=1), TopicTotals("b", written_bytes=1, read_bytes=1)
    (plot,) = plots(Summary(topics=Topics(totals=Top(rows))))["topics"]
    assert plot.answer == "1 of 2 topics was written and never read: a."


def test_what_nobody_answered_counts_as_written_in_the_plot() -> None:
    (plot,) = plots(Summary(topics=Topics(totals=Top((TopicTotals("logs", unanswered_bytes=1),)))))["topics"]
    assert plot.answer == "1 of 1 topic was written and never read: logs."


def test_topics_tell_what_was_refused_sent_again_or_not_answered_only_if_there_is_any() -> None:
    sound = TopicTotals("a", written_bytes=2000, written_records=2)
    assert "refused" not in text_of(sound)
    told = text_of(sound, TopicTotals("b", refused_records=6, retried_records=0, unanswered_records=3))
    assert "2.0 kB written, 0 B read; records refused: 6; records without an answer: 3." in told
    assert "sent again" not in told


def text_of(*totals: TopicTotals) -> str:
    """The section of topics as Markdown."""
    return markdown(Summary(topics=Topics(totals=Top(totals))))


def test_the_share_of_long_answers_does_not_depend_on_the_levels_of_the_heat_map() -> None:
    cells = Marks((HeatCell(0, 1, 2, 4_000), HeatCell(0, 65.536, 131.072, 1_000)))
    *_, heat = plots(Summary(timeline=Timeline(0, 10**9, 3), latency=Latency(heat=cells, long=3)))["latency"]
    assert heat.answer == "3 of 5 000 answers (0.06 %) took 100 ms or longer."


def test_a_single_error_is_not_called_usual() -> None:
    once = Series("NOT_LEADER", (0, 1, 0))
    (plot,) = plots(Summary(timeline=Timeline(0, 10**9, 3), errors=Errors(over_time=Top((once,), 1))))["errors"]
    assert plot.answer == "1 error, from 00:00:01 on for 1 s; none before or after."


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
    errors = Errors(over_time=Top((Series("NOT_LEADER", values),), 1))
    (plot,) = plots(Summary(timeline=Timeline(0, 10**9, 6), errors=errors))["errors"]
    assert plot.answer == said


def of_api(api: str, responses: int, p50_ms: float, p95_ms: float, p99_ms: float) -> LatencyOfApi:
    return LatencyOfApi(api, None, responses, p50_ms, p95_ms, p99_ms)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [
                of_api("Produce", 1_000, 1, 2, 3),
                of_api("Fetch", 5_000, 2, 3, 4),
                of_api("ListOffsets", 18, 9, 400, 501),
            ],
            "Of 2 APIs with 1 000 or more answers, Fetch is the slowest at p99: 4 ms, half of them within 2 ms",
        ),
        (
            [of_api("Produce", 5_000, 1, 2, 3), of_api("Fetch", 200, 2, 3, 4), of_api("ListOffsets", 18, 9, 400, 501)],
            "Of 2 APIs with 200 or more answers, Fetch is the slowest at p95: 3 ms, half of them within 2 ms",
        ),
        (
            [of_api("Produce", 20, 1, 2, 3), of_api("Fetch", 20, 2, 3, 4), of_api("ListOffsets", 18, 9, 400, 501)],
            "Of 2 APIs with 20 or more answers, Fetch is the slowest at p50: 2 ms",
        ),
        (
            [of_api("Produce", 5_000, 1, 2, 3), of_api("ListOffsets", 18, 9, 400, 501)],
            "No two APIs have enough answers to be compared",
        ),
    ],
    ids=["p99", "p95", "p50", "too-few"],
)
def test_an_api_is_called_slow_only_with_enough_answers(rows: list[LatencyOfApi], said: str) -> None:
    assert slowest(tuple(rows)) == said


@pytest.mark.parametrize(
    ("lag", "age_ms", "is_behind"), [(0, 0, False), (16, 360, False), (16, 10_000, True), (16, None, True)]
)
def test_a_group_that_will_commit_soon_is_not_behind(lag: int, age_ms: float | None, is_behind: bool) -> None:
    group = Group("g", last_lag=lag, most_lag=lag, last_lag_ms=age_ms)
    alone = Summary(timeline=Timeline(0, 10**9, 3), groups=Groups(groups=Top((group,), 1)))
    (plot,) = plots(alone)["groups"]
    late = "behind by 10 s or more at the end"
    assert plot.answer == (f"{late.capitalize()}: g (1 of 1 group)." if is_behind else f"No group is {late}.")
    words = Page(html(alone)).words
    assert f"1 group, {int(is_behind)} {late}." in words
    assert f"{int(is_behind)} behind by 10 s" in words


def test_thresholds_say_which_rules_must_last_and_how_many_cases_these_need() -> None:
    rows = Threshold("unanswered", 0.01, Unit.SHARE, must_last=True), Threshold("gaps", 1)
    words = Page(html(Summary(method=Method(thresholds=Table(rows))))).words
    assert "unanswered 1 % in 3 of 5 windows" in words
    assert "gaps 1 \N{EN DASH}" in words
    assert "A rule that must last also needs 5 cases, and 100 chances if its measure is a share." in words


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
@pytest.mark.parametrize("name", [one.name for one in fields(Summary) if one.name not in ("timeline", "findings")])
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


@pytest.mark.parametrize(
    ("skews", "answer"),
    [
        ((1.0, 1.1, 0.9), "Each partition with traffic carries about an even share of its topic."),
        ((1.6, 0.8, 0.8), "orders 0 carries 1.6 \N{MULTIPLICATION SIGN} an even share of its topic."),
        (
            (1.2, 1.2, 0.6),
            "No partition carries over a quarter more than an even share of its topic. "
            "Three quarters of an even share or less: 1 of 3 partitions.",
        ),
        (
            (1.0, None),
            "Each partition with traffic carries about an even share of its topic. No traffic: 1 of 2 partitions.",
        ),
        ((None,), "No traffic: 1 of 1 partition."),
    ],
)
def test_the_sentence_above_the_partitions_speaks_of_every_shade_below_it(
    skews: tuple[float | None, ...], answer: str
) -> None:
    rows = tuple(Partition("orders", at, skew=skew) for at, skew in enumerate(skews))
    (plot,) = plots(Summary(partitions=Partitions(partitions=Marks(rows))))["partitions"]
    assert plot.answer == answer


def test_partitions_that_are_short_of_replicas_are_counted_above_their_squares() -> None:
    rows = Partition("orders", 0, skew=1.0, replicas=3, in_sync=2), Partition("orders", 1, skew=1.0)
    (plot,) = plots(Summary(partitions=Partitions(partitions=Marks(rows))))["partitions"]
    assert plot.answer.endswith("Short of replicas: 1 partition.")

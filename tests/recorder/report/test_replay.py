"""Tests of a replay's page."""

from __future__ import annotations

from collections import Counter

import pytest

from recorder.replay.durations import Durations
from recorder.replay.outcome import ApiCounts, Result
from recorder.replay.plan import Reason
from recorder.replay.results.report import CLOSING, OPENING, of_json
from recorder.report.replay import html
from tests import hostile_text
from tests.recorder.replay import some_results as results
from tests.recorder.report.pages import Page, fetched, obeyed

NAMES = ["equal", "different", "interrupted", "hostile"]


@pytest.fixture(scope="module", params=NAMES)
def each(request: pytest.FixtureRequest) -> str:
    """The page of one of the results."""
    return html(getattr(results, request.param)(), "report.html")


@pytest.fixture(scope="module")
def different() -> Page:
    return Page(html(results.different(), "my report.html"))


def test_a_replay_page_fetches_nothing_and_runs_no_foreign_script(each: str) -> None:
    assert (fetched(each), obeyed(each)) == ([], [])


def test_each_element_of_a_replay_page_is_closed(each: str) -> None:
    found = Page(each)
    assert (found.unclosed, found.astray) == ([], [])


def test_hostile_names_are_shown_as_text() -> None:
    found = html(results.hostile(), "report.html")
    assert "<img src=http://evil.example/x" in Page(found).text
    assert Page(found).named("img") == []
    assert hostile_text.obeyed(found) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_page_holds_the_report_as_json(name: str) -> None:
    result: Result = getattr(results, name)()
    inside = html(result, "report.html").partition(OPENING)[2].partition(CLOSING)[0]
    assert of_json(inside) == result


def test_the_verdict_stands_first(different: Page) -> None:
    said = "kafka-wiretap replay Mismatched 125 of 298 277 answers and 2 of 10 streams of records differ"
    assert said in different.words


def test_each_kind_of_mismatch_has_the_command_that_shows_it(different: Page) -> None:
    assert "kafka-wiretap replay show 'my report.html' 1 " in different.words
    assert "kafka-wiretap replay show 'my report.html' 10 " in different.words
    assert different.words.count("kafka-wiretap replay show 'my report.html'") == 2


def test_every_table_that_has_something_to_tell_is_there(different: Page) -> None:
    titles = ["Requests by API", "Answers that differ", "Records read", "Withheld", "Latency", "How late requests left"]
    places = [different.words.index(title) for title in [*titles, "Made by the replay itself"]]
    assert places == sorted(places)


def test_a_replay_in_order_has_no_tables_of_what_went_wrong() -> None:
    words = Page(html(results.equal(), "report.html")).words
    assert "Answers that differ" not in words
    assert "parts of others" not in words


def test_a_report_of_a_replay_at_max_speed_has_no_lateness() -> None:
    result = results.equal()
    result.late, result.lateness = Durations(), {}
    result.add_late(0, {})
    words = Page(html(result, "report.html")).words
    assert "late at p99" not in words
    assert "How late requests left" not in words


def test_requests_withheld_by_options_are_no_share_of_unplayable_ones() -> None:
    result = results.equal()
    result.apis = {"CreateTopics": ApiCounts(recorded=100, withheld=Counter({Reason.NEEDS_ADMIN.value: 2}))}
    assert "withheld2by design" in Page(html(result, "report.html")).words
    result.apis["CreateTopics"].withheld = Counter({Reason.MASKED.value: 2})
    assert "withheld22 %" in Page(html(result, "report.html")).words


def test_what_the_recording_refused_and_what_may_be_there_twice_stand_on_the_page(different: Page) -> None:
    assert "refused in the recording1 311and 7 parts of others" in different.words
    assert "Refused in the recording, so not sent: 1 311 requests and 7 parts of others." in different.words
    assert "May be there twice: 1 230 records, by topic: payments 1 200, audit 30." in different.words
    equal = Page(html(results.equal(), "report.html")).words
    assert "efused in the recording" not in equal
    assert "there twice" not in equal


def test_a_plot_a_percentile_says_what_it_shows(different: Page) -> None:
    labels = [one["aria-label"] or "" for one in different.named("svg")]
    assert [label.split()[0] for label in labels] == ["p50", "p95", "p99"]
    assert all("Produce" in label and "empty polls" not in label for label in labels)


def test_a_replay_of_nothing_has_a_page() -> None:
    words = Page(html(Result(results.SOURCE, results.TARGET), "report.html")).words
    assert "no request of the recording was sent" in words


def test_what_is_from_before_the_recording_and_the_last_waits_stand_on_the_page(different: Page) -> None:
    assert "1 204 records, 3 offsets, 17 requests of members: the target can't have them" in different.words
    assert "12 sthe target's answer to Heartbeat" in different.words

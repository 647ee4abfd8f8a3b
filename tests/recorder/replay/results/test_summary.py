"""Tests of the summary on a terminal: its content and its width."""

from __future__ import annotations

import pytest

from recorder.replay.outcome import BeforeKind, FromBefore, Result, Unanswered
from recorder.replay.results.summary import summary
from recorder.terminal import typed
from tests.recorder.replay import some_results as results
from tests.recorder.replay.drawn import WIDTHS, check, drawn
from tests.tables import each_row


def of(result: Result, width: int = 160, report: str | None = None) -> str:
    return drawn(summary(result, width, report), width)


@each_row("width", WIDTHS)
@each_row("name", ["equal", "different", "interrupted", "hostile"])
def test_the_summary_fits_and_does_not_control_the_terminal(name: str, width: int) -> None:
    check(of(getattr(results, name)(), width), width)


def test_colours_are_this_programs_own() -> None:
    check_colours = drawn(summary(results.hostile(), 160), 160, terminal=True)
    assert "\x1b]" not in check_colours
    assert "\x1b[2J" not in check_colours


def test_a_replay_in_order_has_no_tables_of_what_went_wrong() -> None:
    text = of(results.equal())
    assert "verdict   as recorded: 298 724 answers and 84 015 records in 6 streams" in text
    assert not {"Withheld", "Answers that differ", "missing"} & set(text.splitlines())


def test_mismatches_that_are_alike_stand_once() -> None:
    lines = [line.split() for line in of(results.different()).splitlines()]
    listed = [line for line in lines if "OffsetCommit" in line and "error" in line]
    assert [line[:2] for line in listed] == [["1", "99"]]


def test_the_command_shows_both_answers_where_there_is_a_report() -> None:
    assert of(results.different(), report="my report.json").splitlines()[-1] == (
        f"{typed()} replay show 'my report.json' 1"
    )


def test_without_a_report_the_command_shows_what_was_recorded() -> None:
    assert of(results.different()).splitlines()[-1] == (
        f"{typed()} inspect show /var/lib/kafka-wiretap/capture {results.SESSION}/4/e8"
    )


def test_the_command_can_be_copied_where_the_path_does_not_lead_to_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.replay.results.summary.typed", lambda: ".venv/bin/kafka-wiretap")
    for report in (None, "report.html"):
        assert of(results.different(), report=report).splitlines()[-1].startswith(".venv/bin/kafka-wiretap ")


def test_withheld_partitions_of_sent_requests_are_reported() -> None:
    line = next(line for line in of(results.different()).splitlines() if "the target has no such topic" in line)
    assert line.split()[:2] == ["12", "96"]


def test_requests_that_were_sent_and_have_no_answer_stand_with_their_reason() -> None:
    result = results.equal()
    produce, metadata = result.apis["Produce"], result.apis["Metadata"]
    produce.answered, produce.silent, metadata.answered = produce.answered - 26, 26, metadata.answered - 2
    lines = [" ".join(line.split()) for line in of(result).splitlines()]
    at = lines.index("Sent, without an answer")
    assert lines[at + 2 : at + 4] == [
        f"26 {Unanswered.SILENT} Produce 26",
        f"2 {Unanswered.NOT_AWAITED} Metadata 2",
    ]
    assert "without an answer" not in of(results.equal())


def test_an_interrupted_replay_says_how_far_it_came() -> None:
    assert "32 % of the recording; interrupted" in of(results.interrupted())


def test_the_summary_names_what_is_left_open_on_the_target() -> None:
    assert "transaction billing-7 (EndTxn: no answer)" in of(results.different())
    assert "Left open" not in of(results.equal())


def test_records_that_the_target_may_have_twice_are_reported() -> None:
    told = "May be there twice: 1 230 records, by topic: payments 1 200, audit 30."
    assert told in " ".join(of(results.different()).split())
    assert "there twice" not in of(results.equal())


def test_what_the_recording_refused_is_told_apart_from_what_could_not_be_played() -> None:
    told = "Refused in the recording, so not sent: 1 311 requests and 7 parts of others."
    assert told in " ".join(of(results.different()).split())
    assert "Refused" not in of(results.equal())


def test_what_is_from_before_the_recording_stands_by_topic_and_apart_from_differences() -> None:
    lines = [" ".join(line.split()) for line in of(results.different()).splitlines()]
    (at,) = [number for number, line in enumerate(lines) if line.startswith("From before the recording")]
    assert "1 204 records, 3 offsets, 17 requests of members" in lines[at]
    assert lines[at + 2 : at + 5] == ["1 204 records payments", "3 offsets payments", "17 requests of members audit"]
    assert "before" not in of(results.equal())


def test_the_verdict_names_the_topics_of_records_from_before() -> None:
    result = results.equal()
    result.before = (FromBefore(BeforeKind.RECORDS, "orders", 12),)
    assert "in 6 streams are as recorded; 12 records of 1 topic (orders) are from before the recording" in of(
        result, 300
    )


def test_the_last_waits_stand_with_their_cause() -> None:
    lines = [" ".join(line.split()) for line in of(results.different()).splitlines()]
    assert "12 s the target's answer to Heartbeat" in lines[lines.index("Nothing moved, waiting for") :]

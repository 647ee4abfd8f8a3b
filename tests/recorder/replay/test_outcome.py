"""Tests of the outcome of a result."""

from __future__ import annotations

from collections import Counter

import pytest

from recorder.replay.outcome import MOST_MISMATCHES, Cause, Ending, Result, Stream, Verdict
from recorder.replay.plan import Reason, unplayable_percent
from tests.recorder.replay import some_results as results


def test_a_replay_in_which_nothing_differs_ends_with_0() -> None:
    assert (results.equal().verdict, results.equal().exit_code) == (Verdict.EQUAL, 0)


def test_answers_and_streams_that_differ_are_counted_together() -> None:
    # 122 of OffsetCommit, 3 of Produce, 2 streams, and the lost ones
    found = results.different()
    assert found.differences == 127 + found.totals.lost


@pytest.mark.parametrize(("fewer", "verdict", "exit_code"), [(1, Verdict.MISMATCHED, 1), (0, Verdict.TOLERATED, 0)])
def test_a_replay_with_only_allowed_mismatches_exits_with_0(fewer: int, verdict: Verdict, exit_code: int) -> None:
    result = results.different()
    result.max_mismatches = result.differences - fewer
    assert (result.verdict, result.exit_code) == (verdict, exit_code)


def test_an_unread_record_is_no_mismatch() -> None:
    assert not Stream("a", "t", 0, equal=1, unread=5).differs


def test_a_record_from_before_the_recording_is_no_mismatch() -> None:
    assert not Stream("a", "t", 0, equal=1, before=5).differs


def test_requests_of_what_is_from_before_the_recording_are_not_counted_as_unplayable() -> None:
    result = results.equal()
    counts = result.apis["Heartbeat"]
    counts.sent, counts.withheld = 0, Counter({Reason.FROM_BEFORE.value: counts.recorded})
    assert (result.verdict, result.exit_code) == (Verdict.EQUAL, 0)


def test_more_withheld_than_allowed_ends_with_1() -> None:
    result = results.equal()
    counts = result.apis["Fetch"]
    counts.sent, counts.withheld = 0, Counter({"the target has no such topic": counts.recorded})
    assert (result.verdict, result.exit_code) == (Verdict.WITHHELD, 1)


def test_a_replay_that_ended_early_is_unfinished_whatever_it_found() -> None:
    result = results.equal()
    result.ending = Ending.TOO_LATE
    assert (result.verdict, result.exit_code) == (Verdict.UNFINISHED, 1)


def test_a_replay_that_sent_nothing_has_found_nothing() -> None:
    result = Result(results.SOURCE, results.TARGET)
    assert (result.verdict, result.exit_code) == (Verdict.NOTHING, 1)


def test_all_mismatches_are_counted_and_the_first_ones_kept() -> None:
    result = Result(results.SOURCE, results.TARGET)
    for at in range(MOST_MISMATCHES + 5):
        result.add_mismatch(results.commit_mismatch(at))
    assert result.apis["OffsetCommit"].mismatches == {"error": MOST_MISMATCHES + 5}
    assert [one.exchange for one in result.mismatches] == list(range(8, 8 + MOST_MISMATCHES))


def test_a_punctual_request_is_counted_under_no_cause() -> None:
    result = Result(results.SOURCE, results.TARGET)
    result.add_late(0, {Cause.REPLAY: 0})
    result.add_late(7, {Cause.REPLAY: 7})
    assert (result.late.count, result.lateness[Cause.REPLAY].count) == (2, 1)


def test_retries_that_the_target_has_already_do_not_count_as_unplayable() -> None:
    repeated, masked = Counter({Reason.REPEATED.value: 3}), Counter({Reason.MASKED.value: 3})
    assert unplayable_percent(repeated, 10) == 0
    assert unplayable_percent(masked, 10) == 30

"""Tests of one mismatch on a terminal: both responses as trees, with marks at the differences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.budget import Budget
from proxy.wire.catalog import encode_response
from proxy.wire.keys import OFFSET_COMMIT
from recorder.replay.outcome import Difference, Frame, Mismatch, Result
from recorder.replay.results.show import JUDGED, LEFT_OUT, MOST_LINES, SAME, aligned, whole_mismatch
from tests.recorder.replay import some_results as results
from tests.recorder.replay.drawn import WIDTHS, check, drawn
from tests.tables import each_row


def of(found: Mismatch, width: int = 160) -> str:
    result = Result(results.SOURCE, results.TARGET, mismatches=[found])
    return drawn(whole_mismatch(result, 1, width, Budget()), width)


def marks(found: Mismatch) -> dict[str, str]:
    """Returns the marks, by the field's name in the recorded response."""
    return {row.recorded.strip(" -").partition(":")[0]: row.mark for row in aligned(found, Budget())}


def test_compared_and_ignored_fields_have_different_marks() -> None:
    found = marks(results.commit_mismatch())
    assert (found["error_code"], found["throttle_time_ms"], found["name"]) == (JUDGED, LEFT_OUT, SAME)


def test_equal_looking_fields_are_judged_if_some_differences_were_not_kept() -> None:
    assert marks(replace(results.commit_mismatch(), more=1))["throttle_time_ms"] == JUDGED


def test_a_difference_of_a_struct_is_one_of_its_fields() -> None:
    found = replace(results.commit_mismatch(), differences=(Difference("topics[0]", "1 topic", "none"),))
    assert marks(found)["error_code"] == JUDGED


def test_a_masked_value_is_marked_though_both_look_alike() -> None:
    assert marks(results.secret_mismatch())["value"] == JUDGED
    assert results.SECRET not in of(results.secret_mismatch())


def test_lines_that_are_alike_stand_beside_each_other() -> None:
    assert all(row.recorded == row.replayed for row in aligned(results.commit_mismatch(), Budget()) if row.mark == SAME)


def test_a_wide_terminal_has_both_answers_beside_each_other() -> None:
    line = next(
        line for line in of(results.commit_mismatch()).splitlines() if "ILLEGAL_GENERATION" in line and "→" not in line
    )
    assert line.split() == ["error_code:", "0", JUDGED, "error_code:", "22", "ILLEGAL_GENERATION"]


def test_a_narrow_terminal_has_one_below_the_other() -> None:
    lines = of(results.commit_mismatch(), 60).splitlines()
    assert [line.split() for line in lines if line.startswith(JUDGED + "  ")] == [
        [JUDGED, "error_code:", "0"],
        [JUDGED, "error_code:", "22", "ILLEGAL_GENERATION"],
    ]


@each_row("width", WIDTHS)
@each_row("at", [0, 1, 10])
def test_a_mismatch_fits_and_does_not_control_the_terminal(at: int, width: int) -> None:
    check(drawn(whole_mismatch(results.hostile(), at + 1, width, Budget()), width), width)


def test_an_answer_that_never_came_is_named_and_differs_as_a_whole() -> None:
    assert "(none)" in of(results.produce_mismatch())
    assert {row.mark for row in aligned(results.produce_mismatch(), Budget())} == {JUDGED}


def test_an_answer_that_was_not_kept_is_shown_as_such() -> None:
    assert "not kept: it may hold a secret" in of(replace(results.commit_mismatch(), replayed=Frame(b"", 90)))


def test_a_cut_answer_says_how_much_there_was_and_shows_its_bytes() -> None:
    text = of(replace(results.commit_mismatch(), replayed=Frame(b"\0\0\0\1\x7f", 70_000)))
    assert "only the first 5 bytes of 70000 bytes were kept" in text
    assert "00 00 00 01 7f" in text


@pytest.mark.parametrize("number", [0, -1, 101])
def test_a_mismatch_that_the_report_lacks_is_named_with_those_that_it_has(number: int) -> None:
    result = results.different()
    with pytest.raises(LookupError, match=f"no mismatch {number}: the report has mismatches 1 to 100"):
        next(whole_mismatch(result, number, 80, Budget()))


@given(st.integers(), st.integers(), st.integers(), st.binary(max_size=60), st.binary(max_size=60))
def test_no_frame_of_a_report_breaks_it(key: int, version: int, target: int, recorded: bytes, replayed: bytes) -> None:
    found = Mismatch(
        *("s", 1, 1, "x", key, version, "values"),
        target_version=target,
        request=Frame(recorded, len(recorded)),
        recorded=Frame(recorded, len(recorded)),
        replayed=Frame(replayed, len(replayed)),
    )
    check(of(found, 100), 100)


def test_long_answers_are_compared_up_to_a_line() -> None:
    partitions = [{"partition_index": at, "error_code": 0} for at in range(MOST_LINES)]
    answer = encode_response(OFFSET_COMMIT, 6, 1, {"topics": [{"name": "t", "partitions": partitions}]})
    found = replace(results.commit_mismatch(), recorded=Frame(answer, len(answer)), replayed=None)
    assert "more lines than are compared" in of(found)

"""Tests of numbers in words, and of grouping similar mismatches."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace

import pytest

from recorder.replay.outcome import ApiCounts, Assigned, Difference, Result, Stream, Verdict
from recorder.replay.results import words
from tests.recorder.replay import some_results as results
from tests.tables import each_row


def test_mismatches_are_alike_whatever_their_element() -> None:
    first = results.commit_mismatch()
    other = replace(first, differences=(replace(first.differences[0], path="topics[7].partitions[2].error_code"),))
    unlike = replace(first, differences=(replace(first.differences[0], replayed="3"),))
    found = words.alike([first, unlike, other])
    assert [(one.number, one.times) for one in found] == [(1, 2), (2, 1)]


@pytest.mark.parametrize("name", ["0", "a.b", "a]b", "[]"], ids=["number", "dot", "end", "both"])
def test_a_field_is_the_same_whatever_its_element_is_called(name: str) -> None:
    assert words.field_of(f"topics[{name}].partitions[3].error_code") == "topics.partitions.error_code"


def test_a_command_can_be_typed_whatever_the_files_name_is() -> None:
    typed = words.command(results.different(), 3, "my report; rm -rf ~.json")
    assert shlex.split(typed)[3:] == ["my report; rm -rf ~.json", "3"]


def test_every_verdict_has_a_sentence() -> None:
    result = results.different()
    for allowed, partial in ((0, 1.0), (10_000, 1.0), (10_000, 0.1)):
        result.max_mismatches, result.partial = allowed, partial
        assert words.verdict(result)
    assert {one.value for one in Verdict} >= {str(result.verdict)}


STREAM = Stream("c", "t", 0, equal=5)


@each_row(
    ("answered", "differ", "streams", "lost", "groups", "told"),
    [
        (31, 0, 0, 0, 0, "31 answers and 15 records in 3 streams are as recorded"),
        (31, 1, 0, 0, 0, "1 of 31 answers differs"),
        (1200, 2, 0, 0, 0, "2 of 1 200 answers differ"),
        (1, 1, 0, 0, 0, "1 of 1 answer differs"),
        (31, 0, 1, 0, 0, "the answers are as recorded, but 1 of 3 streams of records differs"),
        (31, 0, 2, 0, 0, "the answers are as recorded, but 2 of 3 streams of records differ"),
        (31, 1, 1, 0, 0, "1 of 31 answers and 1 of 3 streams of records differ"),
        (31, 0, 0, 0, 1, "the answers are as recorded, but the assignments of 1 group differ"),
        (31, 2, 1, 0, 3, "2 of 31 answers, 1 of 3 streams of records and the assignments of 3 groups differ"),
        (31, 0, 0, 1, 0, "the answers are as recorded, but 1 request was lost"),
        (0, 0, 0, 2, 0, "2 requests were lost"),
        (31, 2, 0, 2, 0, "2 of 31 answers differ, and 2 requests were lost"),
        (
            31,
            0,
            1,
            2,
            0,
            "the answers are as recorded, but 1 of 3 streams of records differs, and 2 requests were lost",
        ),
    ],
)
def test_the_verdict_names_the_differences_in_one_sentence(
    answered: int, differ: int, streams: int, lost: int, groups: int, told: str
) -> None:
    found = Result(
        results.SOURCE,
        results.TARGET,
        apis={"Fetch": ApiCounts(answered=answered, mismatches=Counter({"value": differ}), lost=lost)},
        streams=[*[replace(STREAM, missing=1)] * streams, *[STREAM] * (3 - streams)],
        assigned=[Assigned("g", ("a 0",))] * groups,
    )
    assert words.differing(found) == told


@pytest.mark.parametrize(
    ("topic", "api", "told"),
    [
        ("t", "Fetch", "; before the replay, the target had records in 1 topic (t) of those that differ"),
        ("other", "OffsetFetch", "; before the replay, the target had offsets of 1 group (g)"),
        (
            "t",
            "OffsetFetch",
            "; before the replay, the target had records in 1 topic (t) of those that differ"
            " and offsets of 1 group (g)",
        ),
        ("other", "Fetch", ""),
    ],
    ids=["records", "offsets", "both", "neither"],
)
def test_the_verdict_names_earlier_records_and_offsets_that_may_explain_differences(
    topic: str, api: str, told: str
) -> None:
    found = Result(
        results.SOURCE,
        results.TARGET,
        apis={api: ApiCounts(answered=2, mismatches=Counter({"value": 1}))},
        streams=[replace(STREAM, topic=topic, extra=1), STREAM],
        had_records=("t",),
        had_offsets=("g",),
    )
    assert words.verdict(found) == (
        f"1 of 2 answers and 1 of 2 streams of records differ; --max-mismatches allows 0{told}"
    )


@pytest.mark.parametrize(
    ("streams", "told"),
    [
        ([STREAM, STREAM], "10 records in 2 streams are equal"),
        ([STREAM, replace(STREAM, reordered=2)], "10 records are equal; 1 of 2 streams differs"),
        ([STREAM, replace(STREAM, unread=2)], "10 records are equal; 1 of 2 streams was not read to the end"),
        ([replace(STREAM, missing=1, unread=2)] * 2, "10 records are equal; 2 of 2 streams differ"),
    ],
    ids=["equal", "reordered", "unread", "missing and unread"],
)
def test_streams_that_are_not_equal_are_not_called_equal(streams: list[Stream], told: str) -> None:
    assert words.records_read(Result(results.SOURCE, results.TARGET, streams=streams)) == told


@pytest.mark.parametrize(("answered", "told"), [(0, "0 answers are"), (1, "1 answer is"), (2, "2 answers are")])
def test_answers_that_are_as_recorded_are_counted(answered: int, told: str) -> None:
    found = Result(results.SOURCE, results.TARGET, apis={"Fetch": ApiCounts(answered=answered)})
    assert words.differing(found) == f"{told} as recorded"


def test_a_missing_side_of_a_difference_is_named_nothing() -> None:
    assert words.difference(Difference("topics[0]", "", "orders")) == "topics[0]: nothing → orders"


@pytest.mark.parametrize(
    ("path", "sides", "told"),
    [
        ("topics[0].error_code", ("0", "22"), "0 → 22 ILLEGAL_GENERATION"),
        ("error_code", ("-1", ""), "-1 UNKNOWN_SERVER_ERROR → nothing"),
        ("error_code", ("null", "99999"), "null → 99999 ERROR_99999"),
        ("topics[0].partition_index", ("1", "2"), "1 → 2"),
    ],
    ids=["code", "unknown", "no code", "other field"],
)
def test_the_code_of_an_error_has_its_name(path: str, sides: tuple[str, str], told: str) -> None:
    assert words.difference(Difference(path, *sides)) == f"{path}: {told}"


def test_a_streams_differences_are_counted() -> None:
    assert words.stream(Stream("c", "t", 0, missing=1, unread=2000)) == "1 missing, 2 000 unread"


def test_partitions_assigned_on_one_side_alone_are_named() -> None:
    assert words.assigned(Assigned("g", ("a 0", "a 1"), ("b 2",))) == "only recorded: a 0, a 1; only replayed: b 2"
    result = replace(results.equal(), max_mismatches=0, assigned=[Assigned("g", ("a 0",))])
    assert "the assignments of 1 group differ; --max-mismatches allows 0" in words.verdict(result)


@pytest.mark.parametrize(
    ("answered", "uncompared", "verdict", "told"),
    [
        (21, 0, Verdict.EQUAL, "21 answers are as recorded"),
        (21, 20, Verdict.EQUAL, "1 answer is as recorded; the capture lacks the recorded answers to 20"),
        (
            21,
            21,
            Verdict.UNCOMPARED,
            "21 requests sent, no answer compared; the capture lacks the recorded answers to 21",
        ),
        (0, 0, Verdict.UNCOMPARED, "21 requests sent, no answer compared"),
    ],
)
def test_answers_that_were_not_compared_are_not_said_to_be_as_recorded(
    answered: int, uncompared: int, verdict: Verdict, told: str
) -> None:
    counts = ApiCounts(recorded=21, sent=21, answered=answered, uncompared=uncompared, silent=21 - answered)
    found = Result(results.SOURCE, results.TARGET, apis={"Metadata": counts})
    assert found.verdict is verdict
    assert found.exit_code == (verdict is Verdict.UNCOMPARED)
    assert words.verdict(found) == told

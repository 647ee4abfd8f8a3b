"""Tests of what a capture proves to be from before its beginning, and of what it does not prove."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.keys import DELETE_TOPICS, FETCH, JOIN_GROUP, METADATA, OFFSET_COMMIT, PRODUCE, SHARE_FETCH
from proxy.wire.records import with_base_offset
from recorder.replay.beginnings import Beginnings
from recorder.replay.choice import Choice
from recorder.replay.cluster import Cluster
from recorder.replay.comparison.from_before import BeforeRecording
from recorder.replay.comparison.terms import NOWHERE
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.stream import AnswerRecorded, RequestRecorded
from recorder.replay.survey import survey
from tests.recorder.replay.simple import FETCH_VERSION, PRODUCE_VERSION, batch, fetch, fetched, produce, produced
from tests.recorder.replay.simulation import MS, Recording

ID = b"i" * 16


def begun(recording: Recording) -> Beginnings:
    recording.happenings.sort(key=lambda happening: happening.ns)
    return survey(recording.happenings, Choice(Options()).plays, lambda _: None).beginnings


def end(recording: Recording) -> int:
    return begun(recording).end("a", 0)


def writes(recording: Recording, at: float, base: int, *, took: float = 1, **told: Any) -> None:
    exchange = recording.asks(at, 1, PRODUCE, PRODUCE_VERSION, produce())
    recording.answers(at + took, exchange, produced(base=base, **told))


def writes_silently(recording: Recording, at: float, *values: bytes) -> None:
    recording.asks(at, 2, PRODUCE, PRODUCE_VERSION, produce(data=batch(*values), acks=0), awaits=False)


def reads(recording: Recording, at: float, high_watermark: int) -> None:
    told = fetched()
    told["responses"][0]["partitions"][0]["high_watermark"] = high_watermark
    recording.exchanges(at, 3, FETCH, FETCH_VERSION, fetch(), told)


def shares(recording: Recording, at: float, offset: int) -> None:
    """A share group reads one record."""
    partition = {"partition_index": 0, "error_code": 0, "records": with_base_offset(batch(), offset)}
    told = {"error_code": 0, "responses": [{"topic_id": ID, "partitions": [partition | {"acquired_records": []}]}]}
    asked = {"group_id": "g", "member_id": "m", "share_session_epoch": 1}
    topic = {"error_code": 0, "name": "a", "topic_id": ID, "is_internal": False, "partitions": []}
    recording.exchanges(at, 4, SHARE_FETCH, 1, asked, told)
    recording.exchanges(90 + at, 4, METADATA, 12, {"topics": None}, {"brokers": [], "topics": [topic]})


@pytest.mark.parametrize("is_told_before", [False, True])
def test_a_generation_that_takes_a_static_leader_back_is_from_before_unless_an_earlier_answer_tells_it(
    is_told_before: bool,
) -> None:
    recording = Recording()
    asked = {"group_id": "g", "member_id": "", "group_instance_id": "i", "protocol_type": "consumer", "protocols": []}
    told = {"error_code": 0, "generation_id": 5, "protocol_type": "consumer", "protocol_name": "p", "members": []}
    told |= {"leader": "l", "member_id": "l"}
    if is_told_before:
        recording.exchanges(0, 5, JOIN_GROUP, 9, asked, told | {"skip_assignment": False})
    recording.exchanges(10, 6, JOIN_GROUP, 9, asked, told | {"skip_assignment": True})
    found = begun(recording)
    (back,) = [row.exchange for row in recording.happenings if isinstance(row, RequestRecorded) and row.ns >= 10 * MS]
    (answer,) = [row for row in recording.happenings if isinstance(row, AnswerRecorded) and row.origin == back.origin]
    back.take_answer(answer.ns, answer.frame)
    expected = BeforeRecording(found, Names("", {}, Cluster())).told_by(back)
    assert (NOWHERE in expected.follow) is not is_told_before


def test_records_below_the_lowest_base_offset_of_the_recording_are_from_before() -> None:
    recording = Recording()
    writes(recording, 0, 12, took=10)
    writes(recording, 1, 10)
    assert end(recording) == 10


def test_without_a_produce_the_first_high_watermark_counts_and_no_later_one() -> None:
    recording = Recording()
    reads(recording, 0, 10)
    reads(recording, 10, 20)
    assert end(recording) == 10


def test_without_a_produce_or_a_high_watermark_all_that_a_share_group_read_counts() -> None:
    recording = Recording()
    shares(recording, 0, 10)
    shares(recording, 10, 20)
    assert end(recording) == 21


def test_what_a_share_group_read_behind_a_produce_or_a_high_watermark_proves_nothing() -> None:
    written, silent, unanswered, fetched_too = Recording(), Recording(), Recording(), Recording()
    writes(written, 5, 15)
    writes_silently(silent, 5, b"v")
    unanswered.asks(5, 1, PRODUCE, PRODUCE_VERSION, produce())
    reads(fetched_too, 5, 12)
    for recording in (written, silent, unanswered, fetched_too):
        shares(recording, 0, 10)
        shares(recording, 10, 20)
    assert [end(each) for each in (written, silent, unanswered, fetched_too)] == [15, 11, 11, 11]


def test_a_high_watermark_behind_a_produce_proves_no_more_than_its_base_offset() -> None:
    recording = Recording()
    writes(recording, 0, 10)
    reads(recording, 10, 20)
    assert end(recording) == 10


def test_records_that_a_produce_with_acks_0_may_have_written_are_not_from_before() -> None:
    recording = Recording()
    writes_silently(recording, 0, b"one", b"two")
    reads(recording, 10, 20)
    assert end(recording) == 18


def test_behind_a_produce_without_an_answer_nothing_is_proven() -> None:
    recording = Recording()
    recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, produce())
    reads(recording, 10, 20)
    assert end(recording) == 0


@pytest.mark.parametrize(("code", "proven"), [(7, 0), (6, 20)], ids=["timeout", "not the leader"])
def test_behind_a_produce_that_was_refused_only_a_refusal_without_a_write_proves_anything(
    code: int, proven: int
) -> None:
    recording = Recording()
    writes(recording, 0, -1, code=code)
    reads(recording, 10, 20)
    assert end(recording) == proven


def test_a_base_offset_below_an_end_told_before_is_of_an_earlier_try() -> None:
    recording = Recording()
    reads(recording, 0, 20)
    writes(recording, 10, 4)
    writes(recording, 20, 20)
    assert end(recording) == 20


def test_a_topic_that_was_deleted_begins_anew() -> None:
    recording = Recording()
    reads(recording, 0, 20)
    deleted = {"responses": [{"name": "a", "error_code": 0}]}
    recording.exchanges(5, 1, DELETE_TOPICS, 3, {"topic_names": ["a"], "timeout_ms": 1}, deleted)
    writes(recording, 10, 0)
    assert end(recording) == 0


def test_nothing_is_from_before_of_a_partition_whose_end_nobody_told() -> None:
    assert Beginnings().end("a", 0) == 0


def test_a_committed_offset_is_from_before_until_the_recording_has_a_commit() -> None:
    recording = Recording()
    partition = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": ""}
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    values |= {"topics": [{"name": "a", "partitions": [partition]}]}
    recording.asks(50, 1, OFFSET_COMMIT, 7, values)
    found = begun(recording)
    assert [found.is_commit("g", ("a", 0), ms * 10**6) for ms in (49, 51)] == [True, False]
    assert found.is_commit("h", ("a", 0), 10**9)
    assert found.is_commit("g", ("a", 1), 10**9)

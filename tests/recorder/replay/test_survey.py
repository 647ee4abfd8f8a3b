"""Tests of the first pass over a capture."""

from __future__ import annotations

import pytest

from proxy.wire.keys import CREATE_TOPICS, DESCRIBE_TOPIC_PARTITIONS, METADATA, PRODUCE, SHARE_FETCH
from recorder.replay.plan import Exchange, Reason, Withheld
from recorder.replay.survey import Survey, survey
from tests.recorder.replay.simple import PRODUCE_VERSION, batch, produce
from tests.recorder.replay.simulation import MS, Recording, Values

CREATE_VERSION, SHARE_VERSION, BY_ID = 5, 1, 13
ID = b"i" * 16


def found(recording: Recording, refused: bool = False) -> Survey:
    def withheld(exchange: Exchange) -> Withheld | None:
        return Withheld(Reason.NEEDS_ADMIN) if refused and exchange.api_key == CREATE_TOPICS else None

    return survey(recording.happenings, lambda _: True, withheld)


def creates(recording: Recording, at: float, code: int = 0, **other: object) -> None:
    topic: Values = {"name": "a", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    asked = {"topics": [topic], "timeout_ms": 1, "validate_only": False} | other
    told = {"name": "a", "error_code": code, "error_message": None, "num_partitions": 1, "replication_factor": 1}
    recording.exchanges(at, 1, CREATE_TOPICS, CREATE_VERSION, asked, {"topics": [told | {"configs": []}]})


def uses(recording: Recording, at: float) -> None:
    recording.asks(at, 2, PRODUCE, PRODUCE_VERSION, produce())


def test_a_topic_that_the_recording_makes_before_it_uses_it_is_created() -> None:
    recording = Recording()
    creates(recording, 0)
    uses(recording, 10)
    assert found(recording).created == {"a"}


def test_a_topic_that_was_there_is_not_created() -> None:
    used, refused, looked = Recording(), Recording(), Recording()
    uses(used, 0)
    creates(used, 10)
    creates(refused, 0, code=36)
    creates(looked, 0, validate_only=True)
    assert [found(each).created for each in (used, refused, looked)] == [set(), set(), set()]


def test_a_topic_whose_creation_is_withheld_is_not_created() -> None:
    recording = Recording()
    creates(recording, 0)
    assert found(recording, refused=True).created == set()


def test_topics_that_the_recording_calls_internal_are_kafkas_own() -> None:
    recording = Recording()
    told = {"error_code": 0, "topic_id": ID, "partitions": []}
    topics = [told | {"name": name, "is_internal": name == "__ours"} for name in ("__ours", "__theirs")]
    topics.append(told | {"error_code": 29, "name": None, "is_internal": True})
    recording.exchanges(0, 1, METADATA, 12, {"topics": None}, {"brokers": [], "topics": topics})
    listed = [told | {"name": "__listed", "is_internal": True}]
    recording.exchanges(2, 3, DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []}, {"topics": listed, "next_cursor": None})
    assert found(recording).internal == {"__ours", "__listed"}


# before the other answers, or behind them: a client that goes on knows the id from before the recording
NAMED_AT = pytest.mark.parametrize("named_at", [0, 99], ids=["named before", "named later"])


def names(recording: Recording, at: float) -> None:
    topic = {"error_code": 0, "name": "a", "topic_id": ID, "is_internal": False, "partitions": []}
    broker = {"node_id": 1, "host": "h", "port": 1}
    recording.exchanges(at, 1, METADATA, 12, {"topics": None}, {"brokers": [broker], "topics": [topic]})
    recording.happenings.sort(key=lambda happening: happening.ns)


@NAMED_AT
def test_a_share_group_begins_at_the_lowest_offsets_that_its_members_acquired(named_at: float) -> None:
    recording = Recording()
    for at, member, first in ((10, "m", 8), (20, "n", 3), (30, "m", 9)):
        acquired = [{"first_offset": first, "last_offset": first, "delivery_count": 1}]
        partition = {"partition_index": 2, "records": b"", "acquired_records": acquired}
        told = {"responses": [{"topic_id": ID, "partitions": [partition]}]}
        asked = {"group_id": "g", "member_id": member}
        recording.exchanges(at, at, SHARE_FETCH, SHARE_VERSION, asked, told)
    names(recording, named_at)
    assert found(recording).first_acquired == {"g": {("a", 2): 3}}


def produces(recording: Recording, at: float, base: int, answered_at: float | None = None) -> None:
    topic: Values = {"topic_id": ID, "partition_data": [{"index": 2, "records": batch()}]}
    asked = recording.asks(at, 1, PRODUCE, BY_ID, {"acks": -1, "timeout_ms": 1, "topic_data": [topic]})
    partition = {"index": 2, "error_code": 0, "base_offset": base}
    told = {"responses": [{"topic_id": ID, "partition_responses": [partition]}]}
    recording.answers(at + 1 if answered_at is None else answered_at, asked, told)


@NAMED_AT
def test_the_first_offset_of_a_partition_is_the_first_that_an_answer_to_produce_tells(named_at: float) -> None:
    recording = Recording()
    for at, base in ((10, 7), (20, 8)):
        produces(recording, at, base)
    names(recording, named_at)
    assert found(recording).first_offsets == {("a", 2): 7}


def test_what_was_produced_before_the_first_request_that_is_played_tells_no_first_offset() -> None:
    recording = Recording()
    produces(recording, 0, 3)
    # answered after the first request that is played
    produces(recording, 5, 4, answered_at=15)
    names(recording, 6)
    produces(recording, 10, 5)
    recording.happenings.sort(key=lambda happening: happening.ns)
    chosen = survey(recording.happenings, lambda exchange: exchange.wall_ns >= 10 * MS, lambda _: None)
    assert chosen.first_offsets == {("a", 2): 5}

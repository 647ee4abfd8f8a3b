"""Tests of assignments by heartbeats: a group's are equal on both sides for any members and times."""

from __future__ import annotations

from proxy.wire.keys import CONSUMER_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from recorder.replay.comparison.assigned import Assignments
from recorder.replay.outcome import Assigned
from recorder.replay.plan import Exchange, Values
from tests.recorder.replay.simulated import TARGET_IDS, TOPIC_IDS, exchange, names

HEARTBEAT: Values = {
    "throttle_time_ms": 0,
    "error_code": 0,
    "error_message": None,
    "member_id": "m",
    "member_epoch": 1,
    "heartbeat_interval_ms": 5000,
}


def answer(given: dict[str, list[int]] | None, ids: dict[str, bytes]) -> Values:
    topics = [{"topic_id": ids[topic], "partitions": indices} for topic, indices in (given or {}).items()]
    return HEARTBEAT | {"assignment": None if given is None else {"topic_partitions": topics}}


def heartbeat(number: int, given: dict[str, list[int]] | None, member: str = "m") -> Exchange:
    values = {"group_id": "g", "member_id": member, "member_epoch": 1, "instance_id": None, "rack_id": None}
    values |= {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "server_assignor": None}
    values |= {"topic_partitions": None, "subscribed_topic_regex": None}
    return exchange(number, CONSUMER_GROUP_HEARTBEAT, 1, values, answer(given, TOPIC_IDS))


def played(*pairs: tuple[dict[str, list[int]] | None, dict[str, list[int]] | None]) -> Assignments:
    room = Assignments(names("p-"))
    for number, (recorded, target) in enumerate(pairs):
        room.answered(heartbeat(number, recorded), {}, answer(target, TARGET_IDS), 0)
    return room


def test_partitions_may_be_given_in_any_parts_and_order() -> None:
    room = played(({"a": [0, 1]}, {"a": [1]}), (None, {"b": [0]}), ({"b": [0]}, {"a": [0]}))
    assert not [*room.differing()]


def test_a_partition_that_one_side_alone_gave_is_a_difference_of_its_group() -> None:
    room = played(({"a": [0, 1]}, {"a": [1]}), (None, {"b": [2]}))
    assert [*room.differing()] == [Assigned("g", ("a 0",), ("b 2",))]


def test_assignments_in_answers_to_made_heartbeats_count() -> None:
    room = played(({"a": [0]}, None))
    room.add_target_answer(CONSUMER_GROUP_HEARTBEAT, "g", answer({"a": [0]}, TARGET_IDS))
    assert not [*room.differing()]


def test_a_group_with_a_topic_that_the_recording_never_named_is_not_compared() -> None:
    room = Assignments(names())
    each = heartbeat(0, {"a": [0]})
    told = HEARTBEAT | {"assignment": {"topic_partitions": [{"topic_id": b"?" * 16, "partitions": [0]}]}}
    unknown = exchange(0, CONSUMER_GROUP_HEARTBEAT, 1, each.decoded(), told)
    room.answered(unknown, {}, answer({"a": [0]}, TARGET_IDS), 0)
    assert not [*room.differing()]


def test_tasks_of_streams_are_compared_by_their_role() -> None:
    room = Assignments(names())
    task = {"subtopology_id": "0", "partitions": [0]}
    empty: Values = {"group_id": "g", "active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    recorded, target = empty | {"active_tasks": [task]}, empty | {"standby_tasks": [task]}

    class Recorded:
        api_key, request, answer = STREAMS_GROUP_HEARTBEAT, {"group_id": "g"}, recorded

    room.answered(Recorded(), {}, target, 0)  # type: ignore[arg-type]
    assert [*room.differing()] == [Assigned("g", ("active_tasks 0 0",), ("standby_tasks 0 0",))]

"""Tests of the versions at which a request's meaning changes, not only its fields."""

from __future__ import annotations

import pytest

from proxy.wire.keys import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_CONFIG_RESOURCES,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from proxy.wire.records import Compression, Record, write_batch, write_message_set
from recorder.replay.plan import Reason, Values, Withheld
from recorder.replay.versions.choosing import (
    response,
)
from tests.recorder.replay.crossing import ID, LOGS, NAME, NO_ID, NO_TOPICS, parts, produced, sent, through, withheld
from tests.strategies import must_codec


def test_topics_requested_by_id_are_requested_by_name_before_metadata_12() -> None:
    values = {"topics": [{"topic_id": ID, "name": None}]}
    assert sent(METADATA, 12, 9, values, LOGS)["topics"] == [{"name": NAME}]
    assert sent(METADATA, 12, 10, values, LOGS)["topics"] == [{"name": NAME, "topic_id": NO_ID}]
    assert withheld(METADATA, 12, 9, values, NO_TOPICS).reason is Reason.NO_TOPIC
    assert withheld(METADATA, 12, 9, {"topics": [{"name": None}]}, LOGS).reason is Reason.NO_TOPIC


def test_all_topics_are_none_named_in_metadata_0_and_null_later() -> None:
    assert sent(METADATA, 0, 4, {"topics": []})["topics"] is None
    assert sent(METADATA, 4, 0, {"topics": None})["topics"] == []
    assert withheld(METADATA, 4, 0, {"topics": []}) == Withheld(Reason.NO_CROSSING, "topics")
    assert sent(METADATA, 0, 4, {"topics": [{"name": "a"}]})["topics"] == [{"name": "a"}]


def test_a_value_that_a_translator_set_for_the_chosen_version_stays() -> None:
    values = {"topics": [], "allow_auto_topic_creation": False}
    assert sent(METADATA, 0, 4, values)["allow_auto_topic_creation"] is False


def test_transactional_requests_never_go_up_to_transactions_v2() -> None:
    values = {"transactional_id": "tx", "topic_data": []}
    assert withheld(PRODUCE, 11, 12, values).reason is Reason.NO_CROSSING
    assert sent(PRODUCE, 11, 12, {"transactional_id": None})
    assert withheld(TXN_OFFSET_COMMIT, 4, 5, {}).reason is Reason.NO_CROSSING
    assert withheld(END_TXN, 4, 5, {}).reason is Reason.NO_CROSSING


def of_one_partition(data: bytes | None) -> Values:
    return {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": data}]}]}


def records_of(values: Values) -> bytes:
    (topic,) = values["topic_data"]
    (partition,) = topic["partition_data"]
    return bytes(partition["records"])


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_become_a_batch_from_produce_3_on(magic: int) -> None:
    data = write_message_set([Record(0, 5, b"k", b"v"), Record(1, 6)], magic=magic)
    found = records_of(sent(PRODUCE, magic, 3, of_one_partition(data)))
    times = (5, 6) if magic else (-1, -1)
    assert found == write_batch([Record(0, times[0], b"k", b"v"), Record(1, times[1])])


def test_batches_never_become_message_sets() -> None:
    assert withheld(PRODUCE, 3, 2, of_one_partition(produced(3, 0))).reason is Reason.NO_CROSSING


def test_messages_of_magic_1_never_go_to_produce_0_and_1() -> None:
    assert withheld(PRODUCE, 2, 1, of_one_partition(produced(2, 0))).reason is Reason.NO_CROSSING
    assert sent(PRODUCE, 2, 1, of_one_partition(produced(0, 0)))


def test_zstd_is_withheld_below_produce_7() -> None:
    zstd, gzip = (write_batch([Record(0, 1)], codec=codec) for codec in (Compression.ZSTD, Compression.GZIP))
    assert withheld(PRODUCE, 7, 6, of_one_partition(zstd)) == Withheld(Reason.NO_CROSSING, "zstd")
    assert records_of(sent(PRODUCE, 7, 6, of_one_partition(gzip))) == gzip


@pytest.mark.parametrize("data", [b"x" * 40, bytes(100), produced(2, 0)[:-1]], ids=["noise", "zeros", "cut"])
def test_records_that_cannot_be_read_are_withheld(data: bytes) -> None:
    assert withheld(PRODUCE, 2, 3, of_one_partition(data)).reason is Reason.OPAQUE
    assert withheld(PRODUCE, 7, 6, of_one_partition(data)).reason is Reason.OPAQUE


@pytest.mark.parametrize("data", [None, b""], ids=["null", "empty"])
def test_no_records_stay_no_records(data: bytes | None) -> None:
    found = sent(PRODUCE, 2, 3, of_one_partition(data))
    assert found["topic_data"][0]["partition_data"][0]["records"] == data


def test_the_offsets_of_groups_are_fetched_one_by_one_before_version_8() -> None:
    groups: list[Values] = [
        {"group_id": "a", "topics": [{"name": NAME, "partition_indexes": [1]}]},
        {"group_id": "b", "topics": None},
    ]
    asked = {"groups": groups, "require_stable": True}
    first, second = parts(OFFSET_FETCH, 9, 7, asked)
    assert first == {"group_id": "a", "topics": groups[0]["topics"], "require_stable": True}
    assert second == {"group_id": "b", "topics": None, "require_stable": True}
    answers = [
        {"throttle_time_ms": 3, "topics": [{"name": NAME, "partitions": [{"committed_offset": 5}]}], "error_code": 0},
        {"throttle_time_ms": 1, "topics": [], "error_code": 30},
    ]
    told = response(OFFSET_FETCH, 7, 9, answers, NO_TOPICS, asked)
    assert told["throttle_time_ms"] == 3
    assert [(one["group_id"], one["error_code"]) for one in told["groups"]] == [("a", 0), ("b", 30)]
    assert told["groups"][0]["topics"][0]["partitions"][0]["committed_offset"] == 5
    assert withheld(OFFSET_FETCH, 9, 6, asked) == Withheld(Reason.LOST_FIELD, "require_stable")


def test_the_offsets_of_groups_of_topics_by_id_are_joined_from_answers_by_name() -> None:
    asked = {"groups": [{"group_id": "a", "topics": [{"topic_id": ID, "partition_indexes": [1]}]}]}
    (one,) = parts(OFFSET_FETCH, 10, 5, asked, LOGS)
    assert one["topics"] == [{"name": NAME, "partition_indexes": [1]}]
    told = response(OFFSET_FETCH, 5, 10, [{"topics": [{"name": NAME}]}], LOGS, asked)
    assert told["groups"][0]["topics"][0]["topic_id"] == ID


def test_the_offsets_of_a_group_are_fetched_among_groups_from_version_8_on() -> None:
    values = {"group_id": "a", "topics": [{"name": NAME, "partition_indexes": [1]}]}
    above = sent(OFFSET_FETCH, 5, 8, values)
    assert above["groups"] == [{"group_id": "a", "topics": values["topics"]}]
    assert parts(OFFSET_FETCH, 8, 5, above) == [through(must_codec("request", OFFSET_FETCH, 5), values)]
    told = {"groups": [{"group_id": "a", "topics": [{"name": NAME}], "error_code": 16}]}
    assert response(OFFSET_FETCH, 8, 5, told, NO_TOPICS)["error_code"] == 16
    assert response(OFFSET_FETCH, 8, 5, told, NO_TOPICS)["topics"][0]["name"] == NAME
    assert response(OFFSET_FETCH, 8, 5, {"groups": []}, NO_TOPICS)["error_code"] == -1


def test_coordinators_are_looked_for_one_by_one_before_version_4() -> None:
    asked = {"key_type": 1, "coordinator_keys": ["a", "b"]}
    assert parts(FIND_COORDINATOR, 4, 3, asked) == [{"key": "a", "key_type": 1}, {"key": "b", "key_type": 1}]
    answers = [{"node_id": 1, "host": "h", "port": 9}, {"error_code": 15, "error_message": "no", "node_id": -1}]
    told = response(FIND_COORDINATOR, 3, 4, answers, NO_TOPICS, asked)
    assert [(one["key"], one["node_id"], one["error_code"]) for one in told["coordinators"]] == [
        ("a", 1, 0),
        ("b", -1, 15),
    ]
    nothings: tuple[Values, ...] = ({"coordinator_keys": []}, {})
    for nothing in nothings:
        assert withheld(FIND_COORDINATOR, 4, 3, nothing) == Withheld(Reason.NO_CROSSING, "coordinator_keys")


def test_a_coordinator_is_looked_for_among_others_from_version_4_on() -> None:
    assert sent(FIND_COORDINATOR, 0, 4, {"key": "a"}) == {"key_type": 0, "coordinator_keys": ["a"]}
    told = response(FIND_COORDINATOR, 4, 1, {"coordinators": [{"key": "a", "node_id": 2}]}, NO_TOPICS)
    assert (told["node_id"], "key" in told) == (2, False)
    assert response(FIND_COORDINATOR, 4, 1, {"coordinators": []}, NO_TOPICS)["error_code"] == -1


def test_members_leave_one_by_one_before_version_3() -> None:
    asked = {"group_id": "g", "members": [{"member_id": "a", "reason": "bye"}, {"member_id": "b"}]}
    assert parts(LEAVE_GROUP, 5, 2, asked) == [{"group_id": "g", "member_id": "a"}, {"group_id": "g", "member_id": "b"}]
    told = response(LEAVE_GROUP, 2, 5, [{"error_code": 0}, {"error_code": 25}], NO_TOPICS, asked)
    assert (told["error_code"], [one["error_code"] for one in told["members"]]) == (0, [0, 25])
    told = response(LEAVE_GROUP, 2, 5, [{"error_code": 0}, {"error_code": 16}], NO_TOPICS, asked)
    assert (told["error_code"], told["members"]) == (16, []), "an error of the group"
    static = {"members": [{"member_id": "", "group_instance_id": "i"}]}
    assert withheld(LEAVE_GROUP, 3, 2, static) == Withheld(Reason.LOST_FIELD, "members.group_instance_id")


def test_a_member_leaves_among_others_from_version_3_on() -> None:
    above = sent(LEAVE_GROUP, 1, 3, {"group_id": "g", "member_id": "a"})
    assert above == {"group_id": "g", "members": [{"member_id": "a", "group_instance_id": None}]}
    assert response(LEAVE_GROUP, 3, 1, {"members": [{"error_code": 25}]}, NO_TOPICS)["error_code"] == 25
    assert response(LEAVE_GROUP, 3, 1, {"error_code": 16, "members": []}, NO_TOPICS)["error_code"] == 16


def test_a_join_of_version_0_waits_for_others_as_long_as_its_session_lasts() -> None:
    assert sent(JOIN_GROUP, 0, 4, {"session_timeout_ms": 9000})["rebalance_timeout_ms"] == 9000
    assert sent(JOIN_GROUP, 3, 4, {"session_timeout_ms": 9000, "rebalance_timeout_ms": 5})["rebalance_timeout_ms"] == 5


@pytest.mark.parametrize(("special", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_newer_special_offsets_are_withheld(special: int, first: int) -> None:
    values = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": special}]}]}
    assert withheld(LIST_OFFSETS, 11, first - 1, values).reason is Reason.NO_CROSSING
    assert sent(LIST_OFFSETS, 11, first, values)
    values["topics"][0]["partitions"][0]["timestamp"] = -2  # type: ignore[index]
    assert sent(LIST_OFFSETS, 11, 1, values)


def test_a_fetch_session_that_continues_is_withheld_before_version_7() -> None:
    assert withheld(FETCH, 7, 6, {"session_id": 5, "session_epoch": 3}).reason is Reason.NO_CROSSING
    for epoch in (-1, 0):
        assert sent(FETCH, 7, 6, {"session_epoch": epoch})


def test_topics_to_delete_are_named_before_version_6() -> None:
    values = {"topics": [{"name": None, "topic_id": ID}, {"name": "a", "topic_id": NO_ID}], "timeout_ms": 5}
    assert sent(DELETE_TOPICS, 6, 5, values, LOGS) == {"topic_names": [NAME, "a"], "timeout_ms": 5}
    assert withheld(DELETE_TOPICS, 6, 5, values, NO_TOPICS).reason is Reason.NO_TOPIC
    above = sent(DELETE_TOPICS, 5, 6, {"topic_names": ["a"], "timeout_ms": 5}, LOGS)
    assert above == {"topics": [{"name": "a", "topic_id": NO_ID}], "timeout_ms": 5}


def test_counts_of_the_brokers_own_choice_are_withheld_before_create_topics_4() -> None:
    topic = {"name": "a", "num_partitions": -1, "replication_factor": 1}
    assert withheld(CREATE_TOPICS, 4, 3, {"topics": [topic]}).reason is Reason.NO_CROSSING
    assert sent(CREATE_TOPICS, 4, 3, {"topics": [topic | {"num_partitions": 2}]})
    assigned = topic | {"replication_factor": -1, "assignments": [{"partition_index": 0, "broker_ids": [1]}]}
    assert sent(CREATE_TOPICS, 4, 3, {"topics": [assigned]})


def test_a_synced_member_of_an_old_version_says_no_protocol_type() -> None:
    assert withheld(SYNC_GROUP, 4, 5, {}) == Withheld(Reason.NO_CROSSING, "protocol_type")


def test_resources_of_version_0_are_those_of_clients_metrics() -> None:
    assert sent(LIST_CONFIG_RESOURCES, 0, 1, {})["resource_types"] == [16]
    assert sent(LIST_CONFIG_RESOURCES, 1, 0, {"resource_types": [16]}) == {}
    assert withheld(LIST_CONFIG_RESOURCES, 1, 0, {"resource_types": []}).reason is Reason.NO_CROSSING

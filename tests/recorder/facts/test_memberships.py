"""Tests of the requests and responses of groups' members, in each protocol."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire import api_name, catalog, embedded, keys, uuid_text, versions
from recorder.facts.group_offsets import GROUP_STEPS
from recorder.facts.group_rows import COLUMNS, JOINING, GroupRow
from recorder.facts.memberships import HEARTBEAT_ANSWERS, HEARTBEAT_REQUESTS, HEARTBEATS
from tests.recorder.facts.frames import own, request, response
from tests.strategies import KINDS

ID = bytes(range(16))
WANTS = embedded.encode_blob(
    "ConsumerProtocolSubscription",
    1,
    {"topics": ["u", "t"], "owned_partitions": [{"topic": "t", "partitions": [1, 0]}]},
)
GETS = embedded.encode_blob(
    "ConsumerProtocolAssignment", 1, {"assigned_partitions": [{"topic": "t", "partitions": [2, 10]}]}
)
MEMBER = {"group_id": "g", "member_id": "m"}


def test_columns_and_values_are_in_the_same_order() -> None:
    assert tuple(column.name for column in (*COLUMNS, *JOINING)) == GroupRow._fields


def test_a_member_that_joins_says_what_it_wants_has_and_why() -> None:
    protocol = {"name": "range", "metadata": WANTS}
    values = MEMBER | {"protocol_type": "consumer", "protocols": [protocol], "reason": "why", "group_instance_id": "i"}
    (row,) = own(GROUP_STEPS, request(keys.JOIN_GROUP, 9, values))
    assert row == {
        "part": "", "step": "join", "protocol": "classic", "group_id": "g", "member_id": "m", "instance_id": "i",
        "subscription": ["t", "u"], "owned": ["t-0", "t-1"], "reason": "why",
    }  # fmt: skip


def test_the_leaders_answer_names_all_members_static_ones_by_instance() -> None:
    members = [{"member_id": "m"}, {"member_id": "n", "group_instance_id": "i"}]
    told = {"generation_id": 4, "protocol_name": "range", "leader": "m", "member_id": "m", "members": members}
    (row,) = own(GROUP_STEPS, response(keys.JOIN_GROUP, 9, told))
    assert row == {
        "part": "", "member_id": "m", "generation": 4, "assignor": "range", "is_leader": True, "members": ["i", "m"],
        "error_code": 0,
    }  # fmt: skip


def test_a_refused_join_has_no_generation_and_the_id_that_it_is_given() -> None:
    (row,) = own(GROUP_STEPS, response(keys.JOIN_GROUP, 4, {"error_code": 79, "member_id": "m"}))
    assert row == {"part": "", "member_id": "m", "error_code": 79}


def test_a_leader_gives_and_a_member_gets_partitions() -> None:
    given = MEMBER | {"generation_id": 4, "assignments": [{"member_id": "m", "assignment": GETS}]}
    (asked,) = own(GROUP_STEPS, request(keys.SYNC_GROUP, 3, given))
    assert (asked["step"], asked["generation"], asked["given"]) == ("sync", 4, ["t-10", "t-2"])
    (told,) = own(GROUP_STEPS, response(keys.SYNC_GROUP, 3, {"assignment": GETS}))
    assert told == {"part": "", "assignment": ["t-10", "t-2"], "error_code": 0}


@pytest.mark.parametrize("blob", [b"", b"\x00", b"\xff" * 9, GETS + b"more"], ids=["none", "cut", "wild", "longer"])
def test_assignments_of_other_than_consumers_are_not_read(blob: bytes) -> None:
    assert own(GROUP_STEPS, response(keys.SYNC_GROUP, 3, {"assignment": blob})) == [{"part": "", "error_code": 0}]


def test_assignments_of_another_group_type_are_not_read() -> None:
    told = {"assignment": GETS, "protocol_type": "connect"}
    assert own(GROUP_STEPS, response(keys.SYNC_GROUP, 5, told)) == [{"part": "", "error_code": 0}]


@pytest.mark.parametrize("version", [2, 5], ids=["one", "several"])
def test_each_leaving_member_has_its_own_error(version: int) -> None:
    asked = MEMBER | {"members": [{"member_id": "m", "reason": "bye"}, {"member_id": "", "group_instance_id": "i"}]}
    told = {"members": [{"member_id": "m"}, {"member_id": "", "group_instance_id": "i", "error_code": 25}]}
    left = own(GROUP_STEPS, request(keys.LEAVE_GROUP, version, asked))
    answers = own(GROUP_STEPS, response(keys.LEAVE_GROUP, version, told))
    by_part = {row["part"]: row["error_code"] for row in answers}
    found = [(row.get("member_id"), row.get("instance_id"), by_part[row["part"]]) for row in left]
    assert found == ([("m", None, 0), (None, "i", 25)] if version == 5 else [("m", None, 0)])


def test_a_heartbeat_has_an_answer_only_where_it_has_an_error() -> None:
    (row,) = own(HEARTBEAT_REQUESTS, request(keys.HEARTBEAT, 4, MEMBER | {"generation_id": 7}))
    assert (row["step"], row["generation"], row["is_news"]) == ("heartbeat", 7, False)
    assert own(HEARTBEAT_ANSWERS, response(keys.HEARTBEAT, 4, {"error_code": 0})) == []
    assert own(HEARTBEAT_ANSWERS, response(keys.HEARTBEAT, 4, {"error_code": 27})) == [{"part": "", "error_code": 27}]


@pytest.mark.parametrize(
    ("epoch", "step"), [(0, "join"), (5, "heartbeat"), (-1, "leave"), (-2, "leave")], ids=["0", "5", "-1", "-2"]
)
def test_newer_members_join_and_leave_by_heartbeats(epoch: int, step: str) -> None:
    for key in HEARTBEATS[1:]:
        (row,) = own(HEARTBEAT_REQUESTS, request(key, 1, MEMBER | {"member_epoch": epoch}))
        assert (row["step"], row.get("generation"), row["is_news"]) == (step, epoch if epoch > 0 else None, epoch <= 0)


def test_a_newer_member_says_what_it_wants_and_has() -> None:
    own_partitions = [{"topic_id": ID, "partitions": [1]}]
    wants = {"subscribed_topic_names": ["t"], "subscribed_topic_regex": "a.*", "topic_partitions": own_partitions}
    (row,) = own(HEARTBEAT_REQUESTS, request(keys.CONSUMER_GROUP_HEARTBEAT, 1, MEMBER | {"member_epoch": 3} | wants))
    assert (row["subscription"], row["owned"], row["is_news"]) == (["t", "/a.*/"], [f"{uuid_text(ID)}-1"], True)


def test_an_answer_to_a_newer_member_has_its_epoch_and_partitions() -> None:
    told = {"member_epoch": 3, "assignment": {"topic_partitions": [{"topic_id": ID, "partitions": [0]}]}}
    (row,) = own(HEARTBEAT_ANSWERS, response(keys.CONSUMER_GROUP_HEARTBEAT, 1, told))
    assert row == {"part": "", "generation": 3, "assignment": [f"{uuid_text(ID)}-0"], "error_code": 0}
    assert own(HEARTBEAT_ANSWERS, response(keys.SHARE_GROUP_HEARTBEAT, 1, {"member_epoch": 3})) == []


def test_streams_members_have_tasks() -> None:
    topology = {"epoch": 1, "subtopologies": [{"subtopology_id": "0", "source_topics": ["in"]}]}
    tasks = [{"subtopology_id": "0", "partitions": [3, 1]}]
    asked = MEMBER | {"member_epoch": 0, "topology": topology, "active_tasks": []}
    (row,) = own(HEARTBEAT_REQUESTS, request(keys.STREAMS_GROUP_HEARTBEAT, 0, asked))
    assert (row["protocol"], row["subscription"], row["owned"]) == ("streams", ["in"], [])
    (told,) = own(
        HEARTBEAT_ANSWERS, response(keys.STREAMS_GROUP_HEARTBEAT, 0, {"member_epoch": 2, "active_tasks": tasks})
    )
    assert told["assignment"] == ["0_1", "0_3"]


@pytest.mark.parametrize("key", HEARTBEATS, ids=map(api_name, HEARTBEATS))
def test_each_version_of_a_heartbeat_is_read(key: int) -> None:
    for version in versions(key):
        assert "unread" not in own(HEARTBEAT_REQUESTS, request(key, version, {}))[0], version
        assert not any("unread" in row for row in own(HEARTBEAT_ANSWERS, response(key, version, {}))), version


def test_each_version_of_all_steps_is_read() -> None:
    for side, asked in zip(KINDS, GROUP_STEPS.selectors[:2], strict=True):
        for key in asked.api_keys or ():
            for version in versions(key):
                make: Any = request if side == "request" else response
                assert catalog.must(side, key, version)
                assert not any("unread" in row for row in own(GROUP_STEPS, make(key, version, {}))), (key, version)

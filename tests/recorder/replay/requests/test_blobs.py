"""Tests of renaming topics in members' blobs: nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import embedded
from recorder.replay.requests.blobs import renamed

SUBSCRIBED, ASSIGNED = "ConsumerProtocolSubscription", "ConsumerProtocolAssignment"


def subscription(data: bytes, protocol: str | None = "range", protocol_type: str | None = "consumer") -> bytes:
    return renamed("JoinGroupRequest", "protocols.metadata", data, lambda name: "p-" + name, protocol_type, protocol)


def values_in(name: str, data: bytes) -> Any:
    found = embedded.decode_blob(name, data)
    assert isinstance(found, embedded.Embedded)
    return found.values


@pytest.mark.parametrize("version", embedded.versions(SUBSCRIBED))
def test_subscribed_and_owned_topics_are_renamed_in_every_version(version: int) -> None:
    owned = [{"topic": "b", "partitions": [1]}]
    blob = embedded.encode_blob(SUBSCRIBED, version, {"topics": ["a", "b"], "owned_partitions": owned})
    found = values_in(SUBSCRIBED, subscription(blob))
    assert found["topics"] == ["p-a", "p-b"]
    assert found.get("owned_partitions", [{"topic": "p-b", "partitions": [1]}]) == [{"topic": "p-b", "partitions": [1]}]


def test_assigned_topics_are_renamed() -> None:
    assigned = [{"topic": "a", "partitions": [0, 1]}]
    blob = embedded.encode_blob(ASSIGNED, 1, {"assigned_partitions": assigned})
    data = renamed("SyncGroupRequest", "assignments.assignment", blob, str.upper, None, None)
    assert values_in(ASSIGNED, data)["assigned_partitions"] == [{"topic": "A", "partitions": [0, 1]}]


def test_user_data_of_the_sticky_assignor_is_renamed_too() -> None:
    sticky = embedded.codec("StickyUserData", 1)
    assert sticky
    user_data = sticky.encode({"previous_assignment": [{"topic": "a", "partitions": [2]}], "generation": 3})
    blob = embedded.encode_blob(SUBSCRIBED, 0, {"topics": ["a"], "user_data": user_data})
    found = values_in(SUBSCRIBED, subscription(blob, "sticky"))
    decoded = sticky.decode(found["user_data"])[0]
    assert decoded == {"previous_assignment": [{"topic": "p-a", "partitions": [2]}], "generation": 3}


def test_fields_of_newer_versions_stay() -> None:
    newest = embedded.versions(SUBSCRIBED)[-1]
    blob = embedded.encode_blob(SUBSCRIBED, newest, {"topics": ["a"]})
    found = subscription((newest + 5).to_bytes(2, "big") + blob[2:] + b"newer")
    assert found[:2] == (newest + 5).to_bytes(2, "big")
    assert found.endswith(b"newer")
    assert b"p-a" in found


@given(st.binary(max_size=60), st.sampled_from([None, "consumer", "connect", "sr"]))
def test_an_unreadable_blob_is_not_renamed(data: bytes, protocol_type: str | None) -> None:
    found = subscription(data, "stream", protocol_type)
    assert found == data or b"p-" in found


def test_another_protocols_bytes_stay() -> None:
    blob = embedded.encode_blob(SUBSCRIBED, 0, {"topics": ["a"]})
    assert subscription(blob, protocol_type="sr") == blob
    assert subscription(b"") == b""

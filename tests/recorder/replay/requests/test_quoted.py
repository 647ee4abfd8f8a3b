"""Tests of values that a request takes from an earlier response: it has those of the target's response."""

from __future__ import annotations

from typing import Any

import pytest

from proxy import wire
from proxy.wire.keys import DESCRIBE_TOPIC_PARTITIONS, GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY, SYNC_GROUP
from proxy.wire.places import NO_ID
from recorder.replay.cluster import Cluster
from recorder.replay.mapping import Pairs
from recorder.replay.names import Names
from recorder.replay.plan import Exchange, Origin, Peer, Values
from recorder.replay.requests.quoted import QuotedValues

OURS, THEIRS = b"o" * 16, b"t" * 16


def told(api_key: int, answer: Values, connection: int = 1) -> Exchange:
    frame = wire.encode_response(api_key, 0, 1, answer)
    return Exchange(Origin("s", connection, 1), api_key, 0, b"", 0, 0, Peer("h", None), answer_frame=frame)


@pytest.fixture
def answers() -> QuotedValues:
    return QuotedValues(Names("", {}, Cluster()), Pairs())


def put(answers: QuotedValues, api_key: int, values: Values, connection: int = 1) -> Any:
    answers.put(told(api_key, {}, connection), values)
    return values


def cursor(topic: str, partition: int) -> Values:
    return {"topic_name": topic, "partition_index": partition}


def test_a_page_begins_where_the_targets_last_one_ended(answers: QuotedValues) -> None:
    paged = told(DESCRIBE_TOPIC_PARTITIONS, {"next_cursor": cursor("orders", 9)})
    answers.learn(paged, {}, {"next_cursor": cursor("orders", 4)})
    asks = {"cursor": cursor("orders", 9)}
    assert put(answers, DESCRIBE_TOPIC_PARTITIONS, dict(asks))["cursor"] == cursor("orders", 4)
    assert put(answers, DESCRIBE_TOPIC_PARTITIONS, dict(asks), connection=2)["cursor"] is None


def test_a_page_that_the_target_does_not_have_is_the_first(answers: QuotedValues) -> None:
    paged = told(DESCRIBE_TOPIC_PARTITIONS, {"next_cursor": cursor("orders", 9)})
    answers.learn(paged, {}, {"next_cursor": None})
    assert put(answers, DESCRIBE_TOPIC_PARTITIONS, {"cursor": cursor("orders", 9)})["cursor"] is None


def test_telemetry_is_pushed_under_the_ids_that_the_target_gave(answers: QuotedValues) -> None:
    subscribed = told(GET_TELEMETRY_SUBSCRIPTIONS, {"client_instance_id": OURS, "subscription_id": 5})
    answers.learn(subscribed, {}, {"error_code": 0, "client_instance_id": THEIRS, "subscription_id": 6})
    pushed = put(answers, PUSH_TELEMETRY, {"client_instance_id": OURS, "subscription_id": 5})
    assert pushed == {"client_instance_id": THEIRS, "subscription_id": 6}


def test_telemetry_ids_that_were_not_assigned_are_zero(answers: QuotedValues) -> None:
    refused = told(GET_TELEMETRY_SUBSCRIPTIONS, {"client_instance_id": OURS})
    answers.learn(refused, {}, {"error_code": 35, "client_instance_id": THEIRS, "subscription_id": 6})
    pushed = put(answers, PUSH_TELEMETRY, {"client_instance_id": OURS, "subscription_id": 5})
    assert pushed == {"client_instance_id": NO_ID, "subscription_id": 0}
    assert put(answers, GET_TELEMETRY_SUBSCRIPTIONS, {"client_instance_id": NO_ID}) == {"client_instance_id": NO_ID}


def test_a_protocol_that_no_join_named_stays(answers: QuotedValues) -> None:
    values = {"group_id": "g", "protocol_name": "range"}
    assert put(answers, SYNC_GROUP, dict(values)) == values


def test_nothing_is_learnt_where_the_recording_has_no_answer(answers: QuotedValues) -> None:
    lost = told(DESCRIBE_TOPIC_PARTITIONS, {})
    lost.answer_frame = None
    answers.learn(lost, {}, {"next_cursor": cursor("orders", 4)})
    assert put(answers, DESCRIBE_TOPIC_PARTITIONS, {"cursor": cursor("orders", 4)})["cursor"] is None

"""Tests of translating names and ids: no value of the recorded cluster is left in a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from proxy import wire
from proxy.wire import embedded
from proxy.wire.keys import (
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_ACLS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SHARE_FETCH,
    SYNC_GROUP,
)
from proxy.wire.primitives import uuid_text
from recorder.replay.cluster import Cluster
from recorder.replay.mapping import Pairs, ValueKind
from recorder.replay.names import Names
from recorder.replay.plan import Dropped, Exchange, Reason, Values, Withheld
from recorder.replay.requests import fields
from recorder.replay.requests.apis import Treatment, treatment
from recorder.replay.requests.nodes import Nodes
from recorder.replay.requests.routing import parts
from recorder.replay.requests.translate_names import NamesTranslator
from tests.recorder.replay.targets import asked
from tests.strategies import at_path, must_codec, values_of
from tests.tables import each_row

SENT = [key for key in wire.api_keys() if treatment(key) not in (Treatment.NEVER, Treatment.OWN)]
RECORDED, TARGETS, UNKNOWN = b"r" * 16, b"t" * 16, b"u" * 16
NAMED = {ValueKind.TOPIC_NAME, ValueKind.GROUP, ValueKind.TRANSACTION, ValueKind.INSTANCE}


def target(prefix: str = "") -> Cluster:
    """A target with one topic, `orders` under the prefix, whose present epoch is 7."""
    found = Cluster(nodes={1: ("h", 1)})
    found.name_topic(prefix + "orders", TARGETS)
    found.leaders[prefix + "orders", 0] = 1
    found.leader_epochs[prefix + "orders", 0] = 7
    return found


def translator(prefix: str = "") -> NamesTranslator:
    cluster = target(prefix)
    return NamesTranslator(Names(prefix, {RECORDED: "orders"}, cluster), cluster, Pairs())


def translated(
    api_key: int, version: int, values: Values, prefix: str = ""
) -> tuple[Values, Withheld | None, Exchange]:
    """Translates a request that was on the wire."""
    frame = wire.encode_request(api_key, version, 1, None, values)
    found = wire.decode_request(frame)
    assert isinstance(found, tuple)
    exchange = asked(api_key, version)
    return found[1], translator(prefix).request(exchange, found[1], 0), exchange


def sent(api_key: int, version: int, values: Values, prefix: str = "") -> Values:
    found, withheld, _ = translated(api_key, version, values, prefix)
    assert withheld is None
    return found


# every request


@each_row("api_key", SENT)
def test_any_request_is_translated_and_routed_and_can_be_written(api_key: int) -> None:
    for version in wire.versions(api_key):
        codec = must_codec("request", api_key, version)
        for seed in range(6):
            values = values_of(codec, seed)
            if translator("p-").request(asked(api_key, version), values, 0) is None:
                codec.encode(values)
                found = parts(asked(api_key, version), values, target(), Nodes([1, 2], {}))
                assert [codec.encode(part.values) for part in found] if isinstance(found, list) else found


@each_row("api_key", SENT)
def test_without_a_prefix_every_name_stays(api_key: int) -> None:
    for version in wire.versions(api_key):
        rows = fields.of("request", api_key, version)
        codec = must_codec("request", api_key, version)
        recorded, values = known_ids(values_of(codec, 1)), known_ids(values_of(codec, 1))
        assert translator().request(asked(api_key, version), values, 0) is None
        kept = NAMED | {ValueKind.TOPIC_PATTERN, ValueKind.RESOURCE, ValueKind.MEMBER_METADATA, ValueKind.ASSIGNMENT}
        for path in (path for path, what in rows.items() if what in kept):
            assert at_path(recorded, path) == at_path(values, path)


def known_ids(value: Any) -> Any:
    """Returns the values with a known topic id for each, and without keys of share state."""
    if isinstance(value, Mapping):
        known = {name: known_ids(one) for name, one in value.items()}
        known |= {"topic_id": RECORDED} if "topic_id" in known else {}
        return known | ({"key_type": 0} if "key_type" in known else {})
    return [known_ids(one) for one in value] if isinstance(value, list) else value


# ids


def produced(*ids: bytes) -> Values:
    return {"topic_data": [{"topic_id": id_, "partition_data": [{"index": 0}, {"index": 3}]} for id_ in ids]}


def test_a_topic_id_becomes_the_targets_id_of_its_name() -> None:
    assert sent(PRODUCE, 13, produced(RECORDED))["topic_data"][0]["topic_id"] == TARGETS


def test_partitions_of_an_unknown_id_are_withheld_and_the_rest_is_sent() -> None:
    values, withheld, exchange = translated(PRODUCE, 13, produced(UNKNOWN, RECORDED))
    assert withheld is None
    assert [topic["topic_id"] for topic in values["topic_data"]] == [TARGETS]
    assert exchange.dropped == [Dropped(UNKNOWN, index, Reason.NO_TOPIC) for index in (0, 3)]


def test_a_request_of_which_nothing_remains_is_withheld() -> None:
    assert translated(PRODUCE, 13, produced(UNKNOWN))[1] == Withheld(Reason.NO_TOPIC)


def test_a_topic_that_the_target_lost_is_withheld_by_its_name() -> None:
    exchange, values = asked(PRODUCE, 13), produced(RECORDED)
    lost = NamesTranslator(Names("", {RECORDED: "orders"}, Cluster()), Cluster(), Pairs())
    assert lost.request(exchange, values, 0) == Withheld(Reason.NO_TOPIC)
    assert exchange.dropped[0] == Dropped("orders", 0, Reason.NO_TOPIC)


def test_a_group_keeps_the_topics_that_the_target_knows_at_any_depth() -> None:
    topics = [{"topic_id": id_, "partition_indexes": [1]} for id_ in (UNKNOWN, RECORDED)]
    values = sent(OFFSET_FETCH, 10, {"groups": [{"group_id": "g", "topics": topics}]})
    assert [topic["topic_id"] for topic in values["groups"][0]["topics"]] == [TARGETS]


@pytest.mark.parametrize(
    ("api_key", "values"),
    [
        (FETCH, {"session_id": 5, "session_epoch": 1, "topics": [{"topic_id": UNKNOWN, "partitions": [{}]}]}),
        (SHARE_FETCH, {"share_session_epoch": -1, "topics": [{"topic_id": UNKNOWN, "partitions": [{}]}]}),
        (CONSUMER_GROUP_HEARTBEAT, {"topic_partitions": [{"topic_id": UNKNOWN, "partitions": [0]}]}),
    ],
    ids=["fetch", "share", "member"],
)
def test_a_session_continues_without_the_topics_that_the_target_lacks(api_key: int, values: Values) -> None:
    assert translated(api_key, wire.versions(api_key)[-1], values)[1] is None


@pytest.mark.parametrize(
    ("api_key", "values"),
    [
        (FETCH, {"session_epoch": 0, "topics": [{"topic_id": UNKNOWN, "partitions": [{}]}]}),
        (SHARE_FETCH, {"share_session_epoch": 0, "topics": [{"topic_id": UNKNOWN, "partitions": [{}]}]}),
    ],
    ids=["fetch", "share"],
)
def test_a_session_does_not_begin_without_a_topic(api_key: int, values: Values) -> None:
    assert translated(api_key, wire.versions(api_key)[-1], values)[1] == Withheld(Reason.NO_TOPIC)


def test_a_request_that_names_no_topics_is_sent() -> None:
    assert sent(METADATA, 12, {"topics": None})["topics"] is None
    assert sent(METADATA, 12, {"topics": []})["topics"] == []


def test_topics_are_called_by_name_where_their_id_is_zero() -> None:
    topics = [{"name": "orders", "topic_id": bytes(16)}, {"name": None, "topic_id": RECORDED}]
    assert sent(DELETE_TOPICS, 6, {"topics": topics}, "p-")["topics"] == [
        {"name": "p-orders", "topic_id": bytes(16)},
        {"name": None, "topic_id": TARGETS},
    ]


# values that a client can't know


def test_metadata_creates_no_topics() -> None:
    assert sent(METADATA, 4, {"topics": None, "allow_auto_topic_creation": True})["allow_auto_topic_creation"] is False


def test_a_fetch_says_nothing_of_the_recorded_cluster() -> None:
    partition = {"current_leader_epoch": 3, "last_fetched_epoch": 2, "fetch_offset": 9, "log_start_offset": 4}
    state = {"replica_id": -1, "replica_epoch": 4}
    topics = [
        {"topic_id": RECORDED, "partitions": [partition | {"high_watermark": 5, "replica_directory_id": UNKNOWN}]}
    ]
    values = sent(FETCH, 18, {"cluster_id": "c", "rack_id": "r", "replica_state": state, "topics": topics})
    assert (values["cluster_id"], values["rack_id"]) == (None, "")
    assert values["replica_state"] == {"replica_id": -1, "replica_epoch": -1}
    [found] = values["topics"][0]["partitions"]
    defaults = must_codec("request", FETCH, 18).decode(
        must_codec("request", FETCH, 18).encode({"topics": [{"partitions": [{}]}]})
    )[0]["topics"][0]["partitions"][0]
    assert found == defaults | {"fetch_offset": 9}


def test_a_members_rack_stays() -> None:
    assert sent(CONSUMER_GROUP_HEARTBEAT, 1, {"rack_id": "r"})["rack_id"] == "r"


def test_leader_epochs_are_unknown_and_the_epoch_that_is_asked_for_is_the_targets() -> None:
    offsets = {"topics": [{"name": "orders", "partitions": [{"current_leader_epoch": 3, "timestamp": -1}]}]}
    assert sent(LIST_OFFSETS, 5, offsets)["topics"][0]["partitions"][0]["current_leader_epoch"] == -1
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "current_leader_epoch": 3, "leader_epoch": 2}]}]
    [found] = sent(OFFSET_FOR_LEADER_EPOCH, 3, {"topics": topics}, "p-")["topics"]
    assert found == {
        "topic": "p-orders",
        "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 7}],
    }


def test_an_epoch_that_the_target_does_not_tell_is_not_guessed() -> None:
    cluster, exchange = target(), asked(OFFSET_FOR_LEADER_EPOCH, 3)
    cluster.leader_epochs["orders", 0] = -1
    values = {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 2}]}]}
    names = NamesTranslator(Names("", {}, cluster), cluster, Pairs())
    assert names.request(exchange, values, 0) == Withheld(Reason.NO_EPOCH)
    assert exchange.dropped == [Dropped("orders", 0, Reason.NO_EPOCH)]


# the prefix in special places


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_coordinators_are_looked_up_under_the_prefix(version: int) -> None:
    values = sent(FIND_COORDINATOR, version, {"key": "g", "coordinator_keys": ["g"]}, "p-")
    assert values.get("key", values.get("coordinator_keys")) in ("p-g", ["p-g"])


def test_a_share_groups_key_has_the_targets_topic_id() -> None:
    def key(group: str, topic_id: bytes) -> str:
        return f"{group}:{uuid_text(topic_id)}:4"

    keys = [key("a:b", RECORDED), key("a:b", UNKNOWN), "not:such a:key", "neither"]
    values, withheld, exchange = translated(FIND_COORDINATOR, 6, {"key_type": 2, "coordinator_keys": keys}, "p-")
    assert (withheld, values["coordinator_keys"]) == (None, [key("p-a:b", TARGETS)])
    assert [dropped.topic for dropped in exchange.dropped] == keys[1:]
    assert translated(FIND_COORDINATOR, 6, {"key_type": 2, "coordinator_keys": keys[1:]})[1] == Withheld(
        Reason.NO_TOPIC
    )


def test_only_resources_that_are_topics_or_groups_have_the_prefix() -> None:
    resources = [{"resource_type": kind, "resource_name": "1"} for kind in (2, 4, 8, 16, 32)]
    found = sent(DESCRIBE_CONFIGS, 4, {"resources": resources}, "p-")["resources"]
    assert [resource["resource_name"] for resource in found] == ["p-1", "1", "1", "1", "p-1"]


def test_a_rule_for_all_topics_becomes_one_for_those_with_the_prefix() -> None:
    creations = [{"resource_type": 2, "resource_name": "*"}]
    found = sent(CREATE_ACLS, 3, {"creations": creations}, "p-")["creations"]
    assert [(rule["resource_name"], rule["resource_pattern_type"]) for rule in found] == [("p-", 4)]
    assert sent(CREATE_ACLS, 3, {"creations": creations})["creations"][0]["resource_name"] == "*"


def test_patterns_of_names_are_behind_the_prefix_and_absent_ones_stay() -> None:
    assert (
        sent(CONSUMER_GROUP_HEARTBEAT, 1, {"subscribed_topic_regex": "a|b"}, "p.")["subscribed_topic_regex"]
        == r"p\.(?:a|b)"
    )
    assert sent(CONSUMER_GROUP_HEARTBEAT, 1, {"subscribed_topic_regex": ""}, "p-")["subscribed_topic_regex"] == ""
    assert sent(LIST_TRANSACTIONS, 2, {"transactional_id_pattern": None}, "p-")["transactional_id_pattern"] is None


def test_topics_in_members_blobs_are_behind_the_prefix() -> None:
    blob = embedded.encode_blob("ConsumerProtocolSubscription", 1, {"topics": ["orders", "__consumer_offsets"]})
    joins = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": blob}]}
    metadata = sent(JOIN_GROUP, 5, joins, "p-")["protocols"][0]["metadata"]
    decoded = embedded.decode_blob("ConsumerProtocolSubscription", metadata)
    assert isinstance(decoded, embedded.Embedded)
    assert decoded.values["topics"] == ["p-orders", "__consumer_offsets"]
    assert sent(JOIN_GROUP, 5, joins)["protocols"][0]["metadata"] == blob


def test_the_group_with_an_empty_name_is_behind_the_prefix_where_kafka_has_it() -> None:
    assert sent(OFFSET_COMMIT, 2, {"group_id": ""}, "p-")["group_id"] == "p-"
    assert sent(FIND_COORDINATOR, 3, {"key": ""}, "p-")["key"] == "p-"
    assert sent(JOIN_GROUP, 2, {"group_id": ""}, "p-")["group_id"] == ""
    assert sent(INIT_PRODUCER_ID, 0, {"transactional_id": None}, "p-")["transactional_id"] is None


def test_translating_twice_from_the_recording_gives_the_same() -> None:
    names, exchange = translator("p-"), asked(OFFSET_COMMIT, 9)
    first, second = (values_of(must_codec("request", OFFSET_COMMIT, 9), 3) for _ in range(2))
    assert names.request(exchange, first, 0) is names.request(exchange, second, 0) is None
    assert first == second


def test_the_protocol_that_a_member_names_is_the_one_that_the_target_elected() -> None:
    frame = wire.encode_response(JOIN_GROUP, 7, 1, {"protocol_type": "consumer", "protocol_name": "range"})
    joined, names = asked(JOIN_GROUP, 7), translator("p-")
    joined.answer_frame = frame
    names.answered(joined, {"group_id": "p-g"}, {"protocol_name": "roundrobin"}, 0)
    values: Values = {"group_id": "g", "protocol_name": "range", "protocol_type": "consumer", "assignments": []}
    assert names.request(asked(SYNC_GROUP, 5), values, 0) is None
    assert values["protocol_name"] == "roundrobin"

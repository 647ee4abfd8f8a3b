"""Tests of `--prefix` over all requests: each name in a sent frame has the prefix, or the request is withheld."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from proxy import wire
from proxy.wire.apis import message
from proxy.wire.keys import (
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_ACLS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    ELECT_LEADERS,
    FETCH,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    STREAMS_GROUP_HEARTBEAT,
)
from proxy.wire.language import Field
from recorder.replay.cluster import Cluster
from recorder.replay.mapping import Pairs
from recorder.replay.names import Names
from recorder.replay.plan import Reason, Values, Withheld
from recorder.replay.requests.apis import Treatment, refusal_of_values, treatment
from recorder.replay.requests.translate_names import NamesTranslator
from tests.recorder.replay.targets import asked
from tests.strategies import must_codec, swept_versions, values_of
from tests.tables import each_row

SENT = [key for key in wire.api_keys() if treatment(key) not in (Treatment.NEVER, Treatment.OWN)]
PREFIX = "p-"
KAFKAS = ("__consumer_offsets", "__share_group_state", "__of_a_vendor")
RECORDED = ("orders", "__debezium-heartbeat.db", "__team-billing", "__tx-billing", "p-orders", *KAFKAS)
RECORDED_IDS = {bytes([index + 1] * 16): name for index, name in enumerate(RECORDED)}
# the fields that name something without a mark of the catalog
UNMARKED = frozenset(
    {"resource_name", "resource_name_filter", "key", "coordinator_keys"} | {"group_instance_id", "instance_id"}
)
EXPRESSIONS = frozenset({"subscribed_topic_regex", "source_topic_regex", "transactional_id_pattern"})
MARKED = frozenset({"topic_name", "topic_id", "group_id", "transactional_id"})


class Found(NamedTuple):
    """A field with a name: the struct that holds it, the field, and its path."""

    struct: Values
    field: Field
    path: str


def names_in(values: Values, fields: Sequence[Field], api_key: int, above: str = "") -> Iterator[Found]:
    """Finds the names of topics, groups, transactional ids and resources, by the catalog."""
    for field in (field for field in fields if values.get(field.name) is not None):
        found, path = values[field.name], above + field.name
        is_key = field.name not in ("key", "coordinator_keys") or api_key == FIND_COORDINATOR
        if field.fields:
            for each in found if field.is_array else [found]:
                yield from names_in(each, field.fields, api_key, path + ".")
        elif field.type in ("string", "uuid") and (
            MARKED & {*field.marks} or (field.name in UNMARKED and is_key) or field.name in EXPRESSIONS
        ):
            yield Found(values, field, path)


def drawn(api_key: int, version: int, seed: int) -> Values:
    """A request whose names are drawn from the recorded ones."""
    random, schema = Random(seed), message("request", api_key)
    values = values_of(must_codec("request", api_key, version), seed)
    assert schema is not None
    for struct, field, _ in [*names_in(values, schema.fields, api_key)]:
        of = [*RECORDED_IDS] if field.type == "uuid" else [*RECORDED]
        struct[field.name] = [random.choice(of) for _ in struct[field.name]] if field.is_array else random.choice(of)
    if api_key == FIND_COORDINATOR and "key_type" in values:
        values["key_type"] = random.choice([0, 1])
    for array, kind in (("resources", "resource_type"), ("creations", "resource_type")):
        for each in values.get(array) or ():
            each[kind] = random.choice([2, 4, 32] if array == "resources" else [2, 3, 4, 5])
    for each in values.get("filters") or [values]:
        if "resource_type_filter" in each:
            each["resource_type_filter"] = random.choice([1, 2, 3, 5])
    for each in (values, values.get("replica_state")):
        if each and "replica_id" in each:
            each["replica_id"] = -1
    return values


def sent(api_key: int, version: int, values: Values) -> Values | Withheld:
    """A request as it would be on the wire, or why it is not."""
    cluster = Cluster()
    for recorded_id, name in RECORDED_IDS.items():
        cluster.name_topic(name if name in KAFKAS else PREFIX + name, bytes([recorded_id[0] + 100] * 16))
    names = Names(PREFIX, RECORDED_IDS, cluster, {"__of_a_vendor"})
    exchange = asked(api_key, version)
    reason = refusal_of_values(exchange, values, names.is_kafkas)
    refused = Withheld(reason) if reason else NamesTranslator(names, cluster, Pairs()).request(exchange, values, 0)
    if refused is not None:
        return refused
    frame = wire.encode_request(api_key, version, 1, None, values)
    found = wire.decode_request(frame)
    assert isinstance(found, tuple)
    return found[1]


def is_within(found: Found, name: Any, *, changes: bool) -> bool:
    """True for a name that is the replay's, or one of Kafka's own topics in a request that changes none."""
    if isinstance(name, bytes):
        topic = RECORDED_IDS[bytes([name[0] - 100] * 16)]
        return topic not in KAFKAS or not changes
    if found.field.name in EXPRESSIONS:
        return str(name).startswith(re.escape(PREFIX) + "(?:")
    is_topic = "topic_name" in found.field.marks or 2 in (
        found.struct.get("resource_type"),
        found.struct.get("resource_type_filter"),
    )
    if "resource_type" in found.struct and found.struct["resource_type"] == 4 and not changes:
        return True
    return name.startswith(PREFIX) or (is_topic and name in KAFKAS and not changes)


def changes_topics(api_key: int) -> bool:
    return treatment(api_key) in (Treatment.ADMIN, Treatment.DELETES)


@each_row("api_key", SENT)
def test_every_name_in_a_sent_frame_has_the_prefix_or_is_a_topic_of_kafkas_own(api_key: int) -> None:
    schema, was_sent = message("request", api_key), False
    assert schema is not None
    for version in swept_versions(api_key):
        for seed in range(20):
            values = sent(api_key, version, drawn(api_key, version, seed))
            if isinstance(values, Withheld):
                continue
            was_sent = True
            for found in names_in(values, schema.fields, api_key):
                holds = found.struct[found.field.name]
                # a group's coordinator changes no topics when it changes the group's offsets
                changes = changes_topics(api_key) and "group_id" not in values
                for name in holds if found.field.is_array else [holds]:
                    assert is_within(found, name, changes=changes), (version, found.path, name)
    assert was_sent or api_key == ALTER_CLIENT_QUOTAS


def test_names_that_begin_like_kafkas_own_get_the_prefix() -> None:
    topics = [{"name": "__debezium-heartbeat.db", "partitions": []}]
    commit = sent(OFFSET_COMMIT, 8, {"group_id": "__team-billing", "topics": topics})
    assert isinstance(commit, dict)
    assert (commit["group_id"], commit["topics"][0]["name"]) == ("p-__team-billing", "p-__debezium-heartbeat.db")
    begins = sent(INIT_PRODUCER_ID, 4, {"transactional_id": "__tx-billing"})
    assert isinstance(begins, dict)
    assert begins["transactional_id"] == "p-__tx-billing"


KAFKAS_TOPIC = {"name": "__consumer_offsets"}
BEYOND: dict[str, tuple[int, int, Values]] = {
    "quotas": (ALTER_CLIENT_QUOTAS, 1, {"entries": [], "validate_only": False}),
    "settings of a broker": (
        INCREMENTAL_ALTER_CONFIGS,
        1,
        {"resources": [{"resource_type": 4, "resource_name": "1", "configs": []}]},
    ),
    "settings of all brokers": (
        ALTER_CONFIGS,
        2,
        {"resources": [{"resource_type": 4, "resource_name": "", "configs": []}]},
    ),
    "metrics that clients push": (
        INCREMENTAL_ALTER_CONFIGS,
        1,
        {"resources": [{"resource_type": 16, "resource_name": "all", "configs": []}]},
    ),
    "settings of Kafka's own topic": (
        ALTER_CONFIGS,
        2,
        {"resources": [{"resource_type": 2, "resource_name": "__transaction_state", "configs": []}]},
    ),
    "all partitions": (ELECT_LEADERS, 2, {"topic_partitions": None}),
    "a topic of Kafka's own, elected": (
        ELECT_LEADERS,
        2,
        {"topic_partitions": [{"topic": "__consumer_offsets", "partitions": [0]}]},
    ),
    "a topic of Kafka's own, made": (CREATE_TOPICS, 5, {"topics": [KAFKAS_TOPIC]}),
    "a topic of Kafka's own, extended": (CREATE_PARTITIONS, 3, {"topics": [KAFKAS_TOPIC]}),
    "a topic of Kafka's own, moved": (ALTER_PARTITION_REASSIGNMENTS, 0, {"topics": [KAFKAS_TOPIC]}),
    "a topic of Kafka's own, deleted": (DELETE_TOPICS, 5, {"topic_names": ["orders", "__consumer_offsets"]}),
    "a topic that the recording calls internal": (DELETE_TOPICS, 5, {"topic_names": ["__of_a_vendor"]}),
    "a topic of Kafka's own, deleted by its id": (
        DELETE_TOPICS,
        6,
        {"topics": [{"name": None, "topic_id": next(of for of, name in RECORDED_IDS.items() if name in KAFKAS)}]},
    ),
    "records of a topic of Kafka's own": (DELETE_RECORDS, 2, {"topics": [KAFKAS_TOPIC]}),
    "a rule for the cluster": (
        CREATE_ACLS,
        3,
        {"creations": [{"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 3}]},
    ),
    "all rules": (
        DELETE_ACLS,
        3,
        {"filters": [{"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}]},
    ),
    "rules for any topic": (
        DELETE_ACLS,
        1,
        {"filters": [{"resource_type_filter": 2, "resource_name_filter": None, "pattern_type_filter": 3}]},
    ),
    "an expression that matches others' topics": (
        CONSUMER_GROUP_HEARTBEAT,
        1,
        {"group_id": "g", "subscribed_topic_regex": "orders)|(?:.*"},
    ),
    "a topology that makes Kafka's own topic": (
        STREAMS_GROUP_HEARTBEAT,
        0,
        {
            "group_id": "g",
            "topology": {
                "subtopologies": [
                    {
                        "state_changelog_topics": [{"name": "__share_group_state"}],
                        "source_topics": [],
                        "source_topic_regex": [],
                    }
                ]
            },
        },
    ),
}


@each_row("name", BEYOND)
def test_requests_that_reach_beyond_the_prefix_are_withheld(name: str) -> None:
    found = sent(*BEYOND[name])
    assert isinstance(found, Withheld)
    assert found.reason is Reason.BEYOND_PREFIX
    assert found.what


WITHIN: dict[str, tuple[int, int, Values]] = {
    "reading Kafka's own topic": (FETCH, 11, {"topics": [{"topic": "__consumer_offsets", "partitions": []}]}),
    "describing a broker": (DESCRIBE_CONFIGS, 4, {"resources": [{"resource_type": 4, "resource_name": "1"}]}),
    "forgetting what a group has read of Kafka's own topic": (
        OFFSET_DELETE,
        0,
        {"group_id": "g", "topics": [{"name": "__consumer_offsets", "partitions": []}]},
    ),
    "a group's settings": (
        INCREMENTAL_ALTER_CONFIGS,
        1,
        {"resources": [{"resource_type": 32, "resource_name": "__consumer_offsets", "configs": []}]},
    ),
    "a rule of its own": (
        DELETE_ACLS,
        3,
        {"filters": [{"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 1}]},
    ),
}


@each_row("name", WITHIN)
def test_requests_that_change_only_what_the_prefix_names_are_sent(name: str) -> None:
    assert isinstance(sent(*WITHIN[name]), dict)


@each_row("name", BEYOND)
def test_without_a_prefix_the_same_requests_are_sent(name: str) -> None:
    api_key, version, values = BEYOND[name]
    cluster = Cluster()
    for recorded_id, topic in RECORDED_IDS.items():
        cluster.name_topic(topic, recorded_id)
    decoded = wire.decode_request(wire.encode_request(api_key, version, 1, None, values))
    assert isinstance(decoded, tuple)
    names = NamesTranslator(Names("", RECORDED_IDS, cluster), cluster, Pairs())
    assert names.request(asked(api_key, version), decoded[1], 0) is None

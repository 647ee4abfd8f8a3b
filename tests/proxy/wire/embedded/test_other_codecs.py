"""Tests of blobs of other clients, aiokafka and kafka-python: theirs are read here, and ours there."""

from typing import Any

from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import metadata as kafka_python

from proxy.wire import embedded
from proxy.wire.compile.layout import layout
from proxy.wire.embedded import Embedded, decode_blob, encode_blob, expand
from tests.proxy.wire.test_kafka_python import ours, theirs
from tests.strategies import extremes, values_of
from tests.tables import each_row

NAMES = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")
TOPICS = st.lists(st.text(min_size=1, max_size=20), max_size=3, unique=True)
PARTITIONS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4)
ASSIGNED = st.dictionaries(st.text(min_size=1, max_size=20), PARTITIONS, max_size=3)
USER_DATA = st.none() | st.binary(max_size=30)


@each_row(("name", "version"), [(name, version) for name in NAMES for version in embedded.versions(name)])
def test_kafka_python_writes_and_reads_the_consumer_protocol_as_we_do(name: str, version: int) -> None:
    container, codec = getattr(kafka_python, name), embedded.codec(name, version)
    assert codec
    struct = layout(codec.message, version)
    for values in [extremes(codec), *(values_of(codec, seed) for seed in range(20))]:
        blob = encode_blob(name, version, values)
        assert theirs(struct, version, container, values).encode(version=version) == blob
        assert ours(struct, version, container.decode(blob)) == values
        assert decode_blob(name, blob) == Embedded(name, version, values)


@given(TOPICS, USER_DATA)
def test_aiokafka_writes_and_reads_subscriptions_as_we_do(topics: list[str], user_data: bytes | None) -> None:
    values = {"topics": topics, "user_data": user_data}
    blob = encode_blob("ConsumerProtocolSubscription", 0, values)
    assert ConsumerProtocolMemberMetadata(0, topics, user_data).encode() == blob
    read = ConsumerProtocolMemberMetadata.decode(blob)
    assert (read.version, read.subscription, read.user_data) == (0, topics, user_data)


@given(ASSIGNED, USER_DATA)
def test_aiokafka_writes_and_reads_assignments_as_we_do(
    assigned: dict[str, list[int]], user_data: bytes | None
) -> None:
    partitions = [{"topic": topic, "partitions": numbers} for topic, numbers in assigned.items()]
    values = {"assigned_partitions": partitions, "user_data": user_data}
    blob = encode_blob("ConsumerProtocolAssignment", 0, values)
    assert ConsumerProtocolMemberAssignment(0, list(assigned.items()), user_data).encode() == blob
    assert dict(ConsumerProtocolMemberAssignment.decode(blob).assignment) == assigned


@given(ASSIGNED, st.integers(-1, 2**31 - 1))
def test_user_data_of_aiokafkas_sticky_assignor_is_shown(assigned: dict[str, list[int]], generation: int) -> None:
    held = [TopicPartition(topic, number) for topic, numbers in assigned.items() for number in numbers]
    blob = StickyPartitionAssignor._metadata(["t"], held, generation).encode()
    asked: dict[str, Any] = {"protocol_type": "consumer", "protocols": [{"name": "sticky", "metadata": blob}]}
    shown = expand("request", 11, asked)["protocols"][0]["metadata"]["values"]["user_data"]
    assert shown == {
        "message": "StickyUserData",
        "version": 1,
        "values": {
            "previous_assignment": [{"topic": topic, "partitions": numbers} for topic, numbers in assigned.items()],
            "generation": generation,
        },
    }

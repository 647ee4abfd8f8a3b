"""Tests of embedded messages against Kafka: the definitions in the broker's jars, and the Java classes made of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from proxy.wire import embedded
from proxy.wire.compile.layout import Slot, Struct, layout
from tests.brokers.jars import clients_jar
from tests.java.kafka_json import KafkaJson, kafka_json
from tests.proxy.wire.embedded.data_definitions import data_definitions, data_of
from tests.proxy.wire.kafka_definitions import Definition, OnTheWire, field_name, fields_of, ours, theirs, version_range
from tests.proxy.wire.test_java import Json
from tests.strategies import JAVA_TAGS, extremes, values_of, without_unknown_tags

__all__ = ["kafka_json"]

pytestmark = pytest.mark.real

# coded by hand in Kafka or its clients: there is no definition
HAND_CODED = {
    "AssignmentInfo",
    "ConnectAssignment",
    "ConnectWorkerState",
    "CooperativeStickyUserData",
    "StickyUserData",
}
# in kafka-streams, which no broker has
STREAMS = {"SubscriptionInfoData"}
# written by the early-access share groups of 4.0 alone
EARLY = {"ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"}
# generated since 4.4; `test_the_clients_of_other_releases_have_the_same_fields` sees those that clients have
NEWER = {"AbortedTxn", "UnregisterControllerRecord"}
NEWER_TAGS = {
    "StreamsGroupMetadataValue": {"stored_description_topology_epoch", "failed_description_topology_epoch"},
}
# the last release with ZooKeeper, the last with early-access share groups, the newest
CLIENTS_RELEASES = ("3.9.2", "4.0.2", "4.4.0")

DEFINED = sorted(set(embedded.names()) - HAND_CODED - STREAMS - EARLY - NEWER)
every_version = pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name in DEFINED for version in embedded.versions(name)]
)


def ours_of(name: str, version: int) -> tuple[OnTheWire, ...]:
    """Returns our fields without the tagged fields of later releases, which need no version of their own."""
    message = embedded.message(name)
    assert message
    return tuple(field for field in ours(message, version) if field.name not in NEWER_TAGS.get(name, ()))


def test_the_broker_has_no_message_that_is_missing_here() -> None:
    assert sorted(data_definitions()) == DEFINED


def test_versions_flexibility_and_number_are_those_of_the_definition() -> None:
    for name in DEFINED:
        definition, message = data_definitions()[name].definition, embedded.message(name)
        assert message
        assert message.versions == version_range(definition["validVersions"]), name
        assert message.flexible == version_range(definition.get("flexibleVersions")), name
        assert message.key == definition.get("apiKey"), name


@every_version
def test_every_field_is_that_of_the_definition(name: str, version: int) -> None:
    assert ours_of(name, version) == theirs(data_definitions()[name].definition, version)


@pytest.mark.parametrize("release", CLIENTS_RELEASES)
def test_the_clients_of_other_releases_have_the_same_fields(release: str) -> None:
    compared = 0
    for data in data_of(clients_jar(release)):
        for version in version_range(data.definition["validVersions"]):
            assert ours_of(data.definition["name"], version) == theirs(data.definition, version)
            compared += 1
    assert compared >= 10


class DataJson(Json):
    """Values of a data message as Kafka's JSON."""

    def __init__(self, definition: Definition, version: int, *, written: bool):
        self.definition, self.version, self.written = definition, version, written


def known_to(
    definition: Definition, version: int, struct: Struct, values: Mapping[str, Any], above: Definition | None = None
) -> dict[str, Any]:
    """Returns values without the tagged fields of later releases."""
    kafkas = {field_name(definition, one) for one in fields_of(definition, version, above)}
    later = {slot.name for slot in struct.tagged} - kafkas
    return {name: value for name, value in values.items() if name not in later}


def samples(name: str, version: int) -> list[dict[str, Any]]:
    codec = embedded.codec(name, version)
    assert codec
    defaults = codec.decode(codec.encode({}))[0]
    return [defaults, extremes(codec), *(values_of(codec, f"java {seed}", unknown_tags=JAVA_TAGS) for seed in range(3))]


@every_version
def test_java_writes_and_reads_every_version_as_we_do(kafka_json: KafkaJson, name: str, version: int) -> None:
    codec = embedded.codec(name, version)
    assert codec
    definition, java_class = data_definitions()[name]
    full = layout(codec.message, version)
    names = set(known_to(definition, version, full, {slot.name: 0 for slot in full}))

    def known_slots(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        return tuple(slot for slot in slots if slot.name in names)

    struct = Struct(known_slots(full.slots), known_slots(full.tagged), full.flexible, full.names)
    for drawn in samples(name, version):
        values = known_to(definition, version, full, drawn)
        body, known = codec.encode(values), without_unknown_tags(values)
        asked = DataJson(definition, version, written=False).struct(struct, known)
        said = kafka_json.data_both_ways(java_class, version, asked, body)
        assert said.encoded == codec.encode(known)
        assert said.rewritten == body
        assert said.body == DataJson(definition, version, written=True).struct(struct, values)

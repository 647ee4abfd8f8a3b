"""Tests against Kafka's own Java classes: the same bytes for the same values, in both directions.

Each version of the catalog is compared with a release: that of the brokers if it knows the version, else a newer or
older one. Values are passed as JSON, by the names in Kafka's definitions. That JSON has no place for unknown tagged
fields: whether Java keeps them shows in what it writes after reading.
"""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from proxy.wire import apis
from proxy.wire.apis import MessageKind
from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.headers import request_header_version, response_header_version
from tests.brokers.jars import clients_jar
from tests.java.kafka_json import KafkaError, kafka_json_of
from tests.proxy.wire.interpreter import default_of
from tests.proxy.wire.kafka_definitions import Definition, definitions, field_name, fields_of, version_range
from tests.strategies import EVERY_MESSAGE, JAVA_TAGS, extremes, must_codec, values_of, without_unknown_tags

pytestmark = pytest.mark.real

# The first release that knows a version is compared: that of the brokers, the newest, the last with ZooKeeper's apis
# and old minimum versions, the last with early-access share groups.
RELEASES = ("4.3.1", "4.4.0", "3.9.2", "4.0.2")
# These releases have another layout than the catalog; see the drift test.
ANOTHER_LAYOUT = {("3.9.2", "response", 87, 0), ("4.0.2", "response", 87, 0)}
FEW, MANY = 2, 25

every_api = pytest.mark.parametrize("key", apis.api_keys(), ids=lambda key: apis.api_name(key) or str(key))


class Case(NamedTuple):
    """One version of a message, and a release that knows it."""

    release: str
    kind: MessageKind
    key: int
    version: int


@cache
def definitions_of(release: str) -> dict[tuple[int, MessageKind], Definition]:
    return definitions(clients_jar(release))


def knows(release: str, kind: MessageKind, key: int, version: int) -> bool:
    definition = definitions_of(release).get((key, kind))
    known = definition is not None and version in version_range(definition["validVersions"])
    return known and (release, kind, key, version) not in ANOTHER_LAYOUT


def cases(key: int, most: int) -> Iterator[Case]:
    """Yields every version of the api, in up to `most` releases each."""
    for kind, at, version in EVERY_MESSAGE:
        if at == key:
            releases = [release for release in RELEASES if knows(release, kind, key, version)]
            assert releases, f"no release knows {kind} {key} v{version}"
            yield from (Case(release, kind, key, version) for release in releases[:most])


def samples(codec: Codec, count: int) -> Iterator[dict[str, Any]]:
    """Draws all defaults, then everything as large as possible, then any values."""
    yield codec.decode(codec.encode({}))[0]
    yield extremes(codec)
    for seed in range(count):
        yield values_of(codec, f"java {seed}", unknown_tags=JAVA_TAGS)


class Json:
    """Our values as Kafka's JSON, with the names of one version in one release.

    `written`: as Java writes it, without tagged fields with their defaults, and with the size of records only.
    """

    def __init__(self, case: Case, *, written: bool):
        self.definition, self.version = definitions_of(case.release)[case.key, case.kind], case.version
        self.written = written

    def struct(self, struct: Struct, values: Mapping[str, Any], above: Definition | None = None) -> dict[str, Any]:
        kafkas = {field_name(self.definition, one): one for one in fields_of(self.definition, self.version, above)}
        found = {}
        for slot in struct:
            value, kafkas_field = values[slot.name], kafkas[slot.name]
            if not (self.written and slot.tag is not None and value == default_of(slot.field, self.version)):
                name = kafkas_field["name"][0].lower() + kafkas_field["name"][1:]
                sizes = self.written and slot.type == "records" and value is not None
                found[f"{name}SizeInBytes" if sizes else name] = self._value(slot, value, kafkas_field)
        return found

    def _value(self, slot: Slot, value: Any, kafkas_field: Definition) -> Any:
        if isinstance(value, list):
            return [self._value(slot, one, kafkas_field) for one in value]
        if slot.struct and value is not None:
            return self.struct(slot.struct, value, kafkas_field)
        if slot.type == "records" and self.written and value is not None:
            return len(value)
        if isinstance(value, bytes):
            return urlsafe_b64encode(value)[:22].decode() if slot.type == "uuid" else b64encode(value).decode()
        return value


def compare(case: Case, values: dict[str, Any]) -> None:
    """Compares both directions. Java's bytes for the values are ours, so Java reads back only our own bytes."""
    codec = must_codec(case.kind, case.key, case.version)
    struct, body, known = layout(codec.message, case.version), codec.encode(values), without_unknown_tags(values)
    asked = Json(case, written=False).struct(struct, known)
    said = kafka_json_of(case.release).both_ways(case.kind, case.key, case.version, asked, body)
    assert said.encoded == codec.encode(known), case
    assert codec.decode(said.encoded) == (known, len(said.encoded)), case
    assert said.rewritten == body, case
    assert codec.decode(said.rewritten) == (values, len(body)), case
    assert said.body == Json(case, written=True).struct(struct, values), case


@every_api
def test_java_writes_and_reads_every_version_as_we_do(key: int) -> None:
    for case in cases(key, 1):
        for values in samples(must_codec(case.kind, key, case.version), FEW):
            compare(case, values)


@pytest.mark.long
@every_api
def test_every_release_writes_and_reads_many_values_as_we_do(key: int) -> None:
    for case in cases(key, len(RELEASES)):
        for values in samples(must_codec(case.kind, key, case.version), MANY):
            compare(case, values)


@pytest.mark.parametrize("release", RELEASES)
def test_header_versions_are_those_of_kafka(release: str) -> None:
    for api in kafka_json_of(release).apis():
        versions = range(api.lowest, api.highest + 1)
        ours = tuple(
            (request_header_version(api.key, version), response_header_version(api.key, version))
            for version in versions
        )
        assert ours == api.headers, api


def test_the_other_layout_of_a_share_groups_summary_is_not_read_as_ours() -> None:
    """`ReadShareGroupStateSummaryResponse` v0 of 4.0 is four bytes shorter for each partition, which its end shows."""
    values = {"results": [{"partitions": [{"partition": 1, "state_epoch": 2, "leader_epoch": 3, "start_offset": 4}]}]}
    body = must_codec("response", 87, 0).encode(values)
    kafka_json_of("4.3.1").decode("response", 87, 0, body)
    with pytest.raises(KafkaError):
        kafka_json_of("4.0.2").both_ways("response", 87, 0, {"results": []}, body)

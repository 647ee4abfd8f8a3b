"""The catalog says what Kafka's own definitions say: an alarm for the day on which they part."""

import pytest

from proxy.wire import apis
from proxy.wire.language import Message
from tests.brokers.kafka import kafka_home
from tests.proxy.wire.kafka_definitions import Definition, definitions, ours, theirs, version_range

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def kafkas() -> dict[tuple[int, str], Definition]:
    return definitions(kafka_home() / "libs")


def our_message(key: int, kind: str) -> Message:
    message = apis.message("request" if kind == "request" else "response", key)
    assert message is not None, f"the catalog lacks api {key}"
    return message


def test_every_api_of_kafka_is_in_the_catalog(kafkas: dict[tuple[int, str], Definition]) -> None:
    assert {key for key, _ in kafkas} <= set(apis.apis())
    assert len(kafkas) > 180


def test_the_catalog_has_every_version_of_kafka(kafkas: dict[tuple[int, str], Definition]) -> None:
    for (key, kind), definition in kafkas.items():
        missing = set(version_range(definition["validVersions"])) - set(our_message(key, kind).versions)
        assert not missing, definition["name"]


def test_versions_are_flexible_from_the_same_on(kafkas: dict[tuple[int, str], Definition]) -> None:
    for (key, kind), definition in kafkas.items():
        if definition["validVersions"] != "none":
            assert our_message(key, kind).flexible == version_range(definition["flexibleVersions"]), definition["name"]


def test_every_field_of_every_version_is_the_same(kafkas: dict[tuple[int, str], Definition]) -> None:
    """Name, type, order, versions, nullability, tag and default."""
    compared = 0
    for (key, kind), definition in kafkas.items():
        for version in version_range(definition["validVersions"]):
            assert ours(our_message(key, kind), version) == theirs(definition, version), (definition["name"], version)
            compared += 1
    assert compared > 500


def test_apis_have_kafkas_names(kafkas: dict[tuple[int, str], Definition]) -> None:
    for (key, kind), definition in kafkas.items():
        if definition["validVersions"] != "none":
            assert our_message(key, kind).name == definition["name"]

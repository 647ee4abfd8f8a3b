"""Tests of the oracle of Kafka's message classes, on which other tests rely."""

import pytest

from tests.java.kafka_json import KafkaError, KafkaJson, kafka_json_of

pytestmark = pytest.mark.real

FIND_COORDINATOR_V0 = bytes.fromhex("0000 00000007 0002 6831 00002384")


def test_a_body_is_read_and_written_back_to_the_same_bytes(kafka_json: KafkaJson) -> None:
    decoded = kafka_json.decode("response", 10, 0, FIND_COORDINATOR_V0)
    assert decoded.body == {"errorCode": 0, "nodeId": 7, "host": "h1", "port": 9092}
    assert decoded.read == len(FIND_COORDINATOR_V0)
    assert kafka_json.encode("response", 10, 0, decoded.body) == FIND_COORDINATOR_V0


def test_requests_are_distinguished_from_responses(kafka_json: KafkaJson) -> None:
    assert kafka_json.decode("request", 10, 0, b"\x00\x01g").body == {"key": "g"}


def test_unknown_tagged_fields_are_given_by_number(kafka_json: KafkaJson) -> None:
    body = bytes.fromhex("00000000 0000 00 01 7f02abcd")  # UnregisterBroker: throttle time, error, no message, one tag
    assert kafka_json.decode("response", 64, 0, body).tags == {127: b"\xab\xcd"}


def test_the_oracle_reports_how_many_bytes_it_read(kafka_json: KafkaJson) -> None:
    assert kafka_json.decode("response", 10, 0, FIND_COORDINATOR_V0 + b"rest").read == len(FIND_COORDINATOR_V0)


@pytest.mark.parametrize("body", [b"", FIND_COORDINATOR_V0[:-1]])
def test_bytes_that_end_early_are_an_error_and_the_next_question_is_answered(
    kafka_json: KafkaJson, body: bytes
) -> None:
    with pytest.raises(KafkaError):
        kafka_json.decode("response", 10, 0, body)
    assert kafka_json.decode("response", 10, 0, FIND_COORDINATOR_V0).body["host"] == "h1"


def test_both_ways_decodes_and_encodes_in_one_call(kafka_json: KafkaJson) -> None:
    values = {"errorCode": 1, "nodeId": 2, "host": "h", "port": 3}
    expected = bytes.fromhex("0001 00000002 0001 68 00000003")
    read = {"errorCode": 0, "nodeId": 7, "host": "h1", "port": 9092}
    assert kafka_json.both_ways("response", 10, 0, values, FIND_COORDINATOR_V0) == (expected, FIND_COORDINATOR_V0, read)
    with pytest.raises(KafkaError, match="4 bytes left over"):
        kafka_json.both_ways("response", 10, 0, values, FIND_COORDINATOR_V0 + b"rest")


def test_messages_of_data_are_asked_by_their_class(kafka_json: KafkaJson) -> None:
    name = "org.apache.kafka.coordinator.group.generated.GroupMetadataKey"
    said = kafka_json.data_both_ways(name, 0, {"group": "g"}, b"\x00\x01h")
    assert said == (b"\x00\x01g", b"\x00\x01h", {"group": "h"})
    with pytest.raises(KafkaError, match="ClassNotFoundException"):
        kafka_json.data_both_ways("no.such.Class", 0, {}, b"")


def test_error_codes_have_names_and_say_whether_trying_again_may_help(kafka_json: KafkaJson) -> None:
    errors = kafka_json.errors()
    assert errors[-1] == ("UNKNOWN_SERVER_ERROR", False)
    assert errors[6] == ("NOT_LEADER_OR_FOLLOWER", True)


def test_every_release_is_asked_in_a_jvm_of_its_own(kafka_json: KafkaJson) -> None:
    produce = [(api.lowest, api.highest) for release in ("3.9.2", "4.3.1") for api in kafka_json_of(release).apis()[:1]]
    assert produce == [(0, 11), (3, 13)]
    assert kafka_json_of("4.3.1") is kafka_json


def test_an_api_or_version_that_kafka_lacks_is_an_error(kafka_json: KafkaJson) -> None:
    with pytest.raises(KafkaError, match="key"):
        kafka_json.decode("response", 9999, 0, b"")
    with pytest.raises(KafkaError):
        kafka_json.encode("response", 10, 99, {})


def test_the_listing_says_every_api_with_its_versions_and_headers(kafka_json: KafkaJson) -> None:
    apis = {api.key: api for api in kafka_json.apis()}
    assert apis[18].name == "ApiVersions"
    assert apis[18].headers == ((1, 0), (1, 0), (1, 0), (2, 0), (2, 0))
    assert (apis[3].lowest, apis[3].highest) == (0, 13)

"""Tests of values as trees: ids become text, masked values are named as such, packed ones are opened."""

import sys
from typing import Any

import pytest
from hypothesis import given
from opentelemetry.proto.metrics.v1 import metrics_pb2

from proxy.tools.tree import Masked, Shown, hide, message_tree
from proxy.wire import catalog, embedded, records, telemetry
from proxy.wire.apis import MessageKind
from proxy.wire.keys import (
    ALTER_CONFIGS,
    BROKER_REGISTRATION,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    ENVELOPE,
    FETCH,
    METADATA,
    PRODUCE,
    PUSH_TELEMETRY,
    SYNC_GROUP,
)
from tests.strategies import messages, must_codec

TOPIC_ID = bytes(range(16))
OPEN, MASKED = Shown(), Shown(mask=True)


def tree(kind: MessageKind, key: int, version: int, values: dict[str, Any], shown: Shown = OPEN) -> dict[str, Any]:
    """Returns the tree of these values after a pass over the wire."""
    codec = must_codec(kind, key, version)
    return message_tree(codec.message, version, codec.decode(codec.encode(values))[0], shown)


def test_ids_are_printed_as_kafkas_tools_do() -> None:
    values = {"topics": [{"name": "t", "topic_id": TOPIC_ID, "partitions": []}]}
    assert tree("response", METADATA, 12, values)["topics"][0]["topic_id"] == "AAECAwQFBgcICQoLDA0ODw"


def test_ids_in_an_array_are_printed_too() -> None:
    shown = tree("request", BROKER_REGISTRATION, 2, {"log_dirs": [TOPIC_ID, bytes(16)]})
    assert shown["log_dirs"] == ["AAECAwQFBgcICQoLDA0ODw", "AAAAAAAAAAAAAAAAAAAAAA"]


def test_unknown_tags_are_kept() -> None:
    assert tree("request", METADATA, 12, {"_tags": {77: b"new"}})["_tags"] == {77: b"new"}


@given(messages())
def test_hidden_values_are_nowhere_in_the_tree(drawn: tuple[catalog.Codec, dict[str, Any]]) -> None:
    codec, values = drawn
    decoded, _ = codec.decode(codec.encode(values))
    shown = message_tree(codec.message, codec.version, decoded, MASKED)
    assert list(shown) == list(decoded)
    # no setting has a name from these values
    kind, key = codec.message.kind, codec.message.key
    assert kind != "data"
    assert key is not None
    for path in catalog.secrets(kind, key, codec.version):
        assert all(value is None or isinstance(value, Masked) or len(value) == 0 for value in _at(shown, path))


def _at(value: Any, path: str) -> list[Any]:
    if value is None or isinstance(value, Masked):
        return [value]
    if isinstance(value, list):
        return [found for one in value for found in _at(one, path)]
    name, _, rest = path.partition(".")
    return _at(value[name], rest) if rest else [value[name]]


def test_settings_that_are_known_to_be_plain_are_shown_unless_they_have_been_blanked() -> None:
    told = [("cleanup.policy", "compact"), ("ssl.key.password", "p"), ("a.vendors", "v"), ("retention.ms", "\0\0")]
    settings = [{"name": name, "value": value} for name, value in told]
    values = {"topics": [{"name": "cleanup.policy", "configs": settings}]}
    (topic,) = tree("request", CREATE_TOPICS, 7, values, MASKED)["topics"]
    assert [one["value"] for one in topic["configs"]] == ["compact", Masked(1), Masked(1), Masked(2)]


def test_settings_that_a_broker_calls_sensitive_are_not_shown_nor_their_synonyms() -> None:
    synonyms = [{"name": "log.cleanup.policy", "value": "delete"}]
    settings = [
        {"name": "cleanup.policy", "value": "delete", "is_sensitive": sensitive, "synonyms": synonyms}
        for sensitive in (False, True)
    ]
    (result,) = tree("response", DESCRIBE_CONFIGS, 4, {"results": [{"configs": settings}]}, MASKED)["results"]
    values = [(one["value"], one["synonyms"][0]["value"]) for one in result["configs"]]
    assert values == [("delete", "delete"), (Masked(6), Masked(6))]


def test_a_brokers_error_message_about_a_setting_is_masked() -> None:
    values = {"responses": [{"error_message": "no p", "resource_name": "cleanup.policy"}]}
    (told,) = tree("response", ALTER_CONFIGS, 2, values, MASKED)["responses"]
    assert told["error_message"] == Masked(4)


def test_an_empty_value_is_not_masked() -> None:
    assert [hide(b""), hide(""), hide("é"), hide(b"abc"), hide(7)] == [b"", "", Masked(2), Masked(3), Masked(None)]


def test_group_members_blobs_are_decoded() -> None:
    blob = embedded.encode_blob("ConsumerProtocolAssignment", 1, {"assigned_partitions": [{"topic": "t"}]})
    shown = tree("response", SYNC_GROUP, 5, {"protocol_type": "consumer", "assignment": blob})["assignment"]
    assert (shown["message"], shown["version"]) == ("ConsumerProtocolAssignment", 1)
    assert shown["values"]["assigned_partitions"] == [{"topic": "t", "partitions": []}]


def test_pushed_telemetry_is_decoded() -> None:
    scope = metrics_pb2.ScopeMetrics(metrics=[metrics_pb2.Metric(name="org.apache.kafka.producer.x")])
    pushed = metrics_pb2.MetricsData(resource_metrics=[metrics_pb2.ResourceMetrics(scope_metrics=[scope])])
    values = {"metrics": pushed.SerializeToString()}
    (resource,) = tree("request", PUSH_TELEMETRY, 0, values)["metrics"]["resource_metrics"]
    assert resource["scope_metrics"] == [{"metrics": [{"name": "org.apache.kafka.producer.x"}]}]
    assert tree("request", PUSH_TELEMETRY, 0, {"metrics": b"\xff"})["metrics"] == b"\xff"


def test_telemetry_that_a_package_is_missing_for_stays_bytes_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry._otlp.cache_clear()
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    shown = tree("request", PUSH_TELEMETRY, 0, {"metrics": b"\n\0"})["metrics"]
    telemetry._otlp.cache_clear()
    assert shown["bytes"] == b"\n\0"
    assert shown["why"].endswith("pip install opentelemetry-proto")


def test_bad_blobs_stay_bytes() -> None:
    shown = tree("response", SYNC_GROUP, 5, {"protocol_type": "consumer", "assignment": b"\1"})
    assert shown["assignment"] == b"\1"


def test_a_forwarded_request_is_opened_with_its_own_secrets_masked() -> None:
    inner = catalog.encode_request(36, 2, 1, "me", {"auth_bytes": b"secret"})
    shown = tree("request", ENVELOPE, 0, {"request_data": inner, "client_host_address": b"\x7f\0\0\1"})
    assert shown["request_data"]["values"] == {"auth_bytes": b"secret"}
    assert tree("request", ENVELOPE, 0, {"request_data": inner}, MASKED)["request_data"] == Masked(None)


def produced(batch: bytes, topic: str = "t") -> dict[str, Any]:
    """Returns a Produce request with these records."""
    return {"topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]}


def opened(batch: bytes, shown: Shown = OPEN, topic: str = "t") -> list[dict[str, Any]]:
    told = tree("request", PRODUCE, 9, produced(batch, topic), shown)
    found: list[dict[str, Any]] = told["topic_data"][0]["partition_data"][0]["records"]
    return found


def test_record_batches_are_opened() -> None:
    (told,) = opened(records.write_batch([records.Record(0, 5, b"k", b"v", (("h", None),)), records.Record(1)]))
    assert (told["base_offset"], told["last_offset"], told["count"], told["codec"]) == (0, 1, 2, "none")
    assert told["records"][0] == {
        "offset": 0,
        "timestamp": 5,
        "key": b"k",
        "value": b"v",
        "headers": [{"name": "h", "value": None}],
    }
    assert "headers" not in told["records"][1]


def test_offsets_in_a_log_of_the_brokers_are_opened() -> None:
    key = b"\0\1\0\1g\0\1t" + bytes(4)
    (told,) = opened(records.write_batch([records.Record(0, 5, key, None)]), topic="__consumer_offsets")
    (record,) = told["records"]
    assert record["key"]["message"] == "OffsetCommitKey"
    assert record["key"]["values"] == {"group": "g", "topic": "t", "partition": 0}
    (told,) = opened(records.write_batch([records.Record(0, 5, key, None)]))
    assert told["records"][0]["key"] == key


def test_a_password_hash_in_the_metadata_log_is_masked() -> None:
    codec = embedded.codec("UserScramCredentialRecord", 0)
    assert codec is not None
    value = b"\1\x0b\0" + codec.encode({"name": "me", "salt": b"salt", "stored_key": b"key"})
    topics: Any = {"responses": [{"topic_id": bytes(15) + b"\1", "partitions": [{"records": b""}]}]}
    topics["responses"][0]["partitions"][0]["records"] = records.write_batch([records.Record(0, 5, None, value)])
    for shown, salt in ((MASKED, Masked(4)), (OPEN, b"salt")):
        (batch,) = tree("response", FETCH, 13, topics, shown)["responses"][0]["partitions"][0]["records"]
        assert batch["records"][0]["value"]["values"]["salt"] == salt

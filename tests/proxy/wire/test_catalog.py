"""Tests of the package's functions: codecs, whole frames, secrets."""

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest

from proxy.wire import apis, catalog
from proxy.wire.catalog import Codec, UnknownMessage
from proxy.wire.compile.layout import layout
from proxy.wire.errors import Malformed, Truncated, WireError
from proxy.wire.headers import RequestHead, ResponseHead
from proxy.wire.keys import API_VERSIONS, FETCH, METADATA, SASL_HANDSHAKE
from proxy.wire.language import parse
from tests.proxy.wire.interpreter import Writer
from tests.strategies import EVERY_MESSAGE, field_paths, must_codec
from tests.tables import each_row


def test_a_codec_is_made_once() -> None:
    assert catalog.codec("request", METADATA, 12) is catalog.codec("request", METADATA, 12)
    codec = must_codec("request", METADATA, 12)
    assert codec.project(("topics.name",)) is codec.project(("topics.name",))


def test_paths_may_stand_in_a_list_but_never_alone() -> None:
    codec = must_codec("request", METADATA, 12)
    assert codec.project(["topics.name"]) is codec.project(("topics.name",))
    with pytest.raises(TypeError, match=r"^paths stand in a tuple: \('topics.name',\)$"):
        codec.project("topics.name")


@pytest.mark.parametrize("kind", ["Request", "data", "name"])
def test_an_unknown_message_kind_is_an_error(kind: apis.MessageKind) -> None:
    with pytest.raises(ValueError, match=f"a request or a response, not '{kind}'"):
        catalog.codec(kind, METADATA, 12)


def test_a_message_that_the_catalog_lacks_has_no_codec() -> None:
    assert catalog.codec("request", METADATA, 14) is None
    assert catalog.codec("request", 500, 0) is None


def test_a_request_is_written_and_read_with_its_head() -> None:
    frame = catalog.encode_request(METADATA, 12, 7, "me", {"topics": None})
    assert frame == b"\0\x03\0\x0c\0\0\0\x07\0\x02me\0" + b"\0\x01\0\0"
    expected = {
        "topics": None,
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
    }
    assert catalog.decode_request(memoryview(frame)) == (RequestHead(METADATA, 12, 7, "me", 13), expected)


def test_a_response_is_written_and_read_with_its_head() -> None:
    frame = catalog.encode_response(API_VERSIONS, 3, 7, {"api_keys": [{"api_key": 3, "max_version": 12}]})
    decoded = catalog.decode_response(frame, API_VERSIONS, 3)
    assert not isinstance(decoded, UnknownMessage)
    head, values = decoded
    assert head == ResponseHead(7, 4)
    assert values["api_keys"] == [{"api_key": 3, "min_version": 0, "max_version": 12}]
    assert values["finalized_features_epoch"] == -1


# responses of brokers of 2.8 and 0.10 to version 5: with the one supported api, or none
@each_row("named", [b"\0\x12\0\0\0\x03", b""])
@each_row("version", [3, 5, 99])
def test_a_refused_question_for_versions_is_answered_as_in_version_0(named: bytes, version: int) -> None:
    frame = b"\0\0\0\x07\0\x23" + (len(named) // 6).to_bytes(4) + named
    offers = [{"api_key": API_VERSIONS, "min_version": 0, "max_version": 3}] if named else []
    values = {"error_code": 35, "api_keys": offers}
    assert catalog.decode_response(memoryview(frame), API_VERSIONS, version) == (ResponseHead(7, 4), values)


def test_a_brokers_own_form_of_refusal_is_read_in_the_requested_version() -> None:
    refusal = {"error_code": 35, "api_keys": [{"api_key": API_VERSIONS, "max_version": 3}], "throttle_time_ms": 1}
    for version in range(1, 6):
        frame = catalog.encode_response(API_VERSIONS, version, 7, refusal)
        decoded = catalog.decode_response(frame, API_VERSIONS, version)
        assert not isinstance(decoded, UnknownMessage)
        _, values = decoded
        assert values["throttle_time_ms"] == 1
    for end in range(4, 10):
        with pytest.raises(WireError):
            catalog.decode_response(b"\0\0\0\x07\0\x23\xff\xff\xff\xff"[:end], API_VERSIONS, 0)


def test_an_unknown_message_is_a_value() -> None:
    for frame, expected in [
        (b"\x03\xe8\0\x05\0\0\0\x07\0\x02me?", UnknownMessage("request", 1000, 5, 7, "me", 12)),
        (b"\0\x03\0\x63\0\0\0\x07\0\x02me\0?", UnknownMessage("request", METADATA, 99, 7, "me", 13)),
        (b"\0\x11\0\x63\0\0\0\x07\xff\xff?", UnknownMessage("request", SASL_HANDSHAKE, 99, 7, None, 10)),
    ]:
        assert catalog.decode_request(frame) == expected
    answer = b"\0\0\0\x07\0?"
    assert catalog.decode_response(answer, METADATA, 99) == UnknownMessage("response", METADATA, 99, 7, None, 5)
    assert catalog.decode_response(answer, 1000, 5) == UnknownMessage("response", 1000, 5, 7, None, 4)


def test_a_codec_is_pickled_by_name_and_found_again() -> None:
    found = must_codec("response", METADATA, 12)
    found.decode(found.encode({}))
    found.project(("brokers.host",))
    assert pickle.loads(pickle.dumps(found)) is found
    assert copy.deepcopy({"codec": found})["codec"] is found
    data = pickle.dumps(must_codec("request", METADATA, 12))
    assert len(data) < 100
    catalog.codec.cache_clear()
    assert repr(pickle.loads(data)) == "<Codec MetadataRequest v12>"
    with pytest.raises(ValueError, match="no request of api 3 version 99 in the catalog"):
        pickle.loads(data.replace(b"K\x0c", b"K\x63"))  # from a newer catalog


def test_a_codec_of_a_custom_message_is_pickled_whole() -> None:
    (message,) = parse("ARequest  key 1  versions 0-1  flexible 1+\n  a: string?  v1+  = null  group_id\n  b: []int8\n")
    found = Codec(message, 1)
    found.encode({})
    again = pickle.loads(pickle.dumps(found))
    assert (again.message, again.version) == (message, 1)
    values = {"a": "x", "b": [1, 2]}
    assert again.decode(found.encode(values))[0] == values


NO_KEYS = [("Metadata", TypeError), (True, TypeError), (3.0, TypeError), (None, TypeError), (1 << 15, Malformed)]


@each_row(("number", "error"), [*NO_KEYS, (-32769, Malformed)])
def test_an_impossible_key_or_version_is_an_error(number: Any, error: type[Exception]) -> None:
    """Also a value that equals a key: earlier calls make no difference."""
    assert catalog.codec("request", 1, 1) is not None
    for ask in (
        lambda: catalog.codec("request", number, 1),
        lambda: catalog.codec("request", 3, number),
        lambda: apis.versions(number),
        lambda: apis.known(number, 1),
        lambda: apis.known(1, number),
        lambda: apis.api_name(number),
        lambda: apis.is_flexible(number, 1),
        lambda: catalog.marked("request", number, 1, "node_id"),
        lambda: catalog.secrets("request", number, 1),
        lambda: catalog.decode_response(bytes(9), number, 1),
        lambda: catalog.decode_response(bytes(9), 3, number),
    ):
        with pytest.raises(error, match=r"is a number, not|is an int16, which"):
            ask()


def test_a_name_that_stands_for_a_key_is_answered_with_how_to_get_it() -> None:
    with pytest.raises(TypeError, match=r"an api key is a number, not 'Metadata': api_key\('Metadata'\) tells it"):
        catalog.codec("request", "Metadata", 12)


def test_an_unknown_message_can_not_be_written() -> None:
    with pytest.raises(ValueError, match="no request of api 3 version 99"):
        catalog.encode_request(METADATA, 99, 1, None, {})
    with pytest.raises(ValueError, match="no response of api 3 version 99"):
        catalog.encode_response(METADATA, 99, 1, {})


def test_a_frame_cut_short_is_truncated() -> None:
    frame = catalog.encode_request(METADATA, 12, 7, "me", {"topics": [{"name": "t"}]})
    for size in range(len(frame)):
        with pytest.raises(Truncated):
            catalog.decode_request(frame[:size])


def test_a_walk_over_a_frame_begins_at_the_correlation_id() -> None:
    for version, head in [(12, b"\0\0\0\x01\0"), (12, b"\0\0\0\x01\x01\x05\x02ab"), (11, b"\0\0\0\x01")]:
        codec = must_codec("response", FETCH, version)
        body = codec.encode({"responses": [{"partitions": [{"records": b"r" * 999}]}]})
        assert catalog.walk_response(FETCH, version, "responses").feed(head + body) == len(head) + 10


def test_the_header_of_api_versions_has_no_tags_to_walk_over() -> None:
    frame = catalog.encode_response(API_VERSIONS, 3, 1, {})
    assert catalog.walk_response(API_VERSIONS, 3, "api_keys").feed(frame) == 6


def test_a_walk_answers_once() -> None:
    walk = catalog.walk_response(METADATA, 0, "brokers")
    assert walk.feed(b"\0\0") is None
    assert walk.feed(b"\0\0") == 2
    with pytest.raises(ValueError, match="answered already"):
        walk.feed(b"\0")


def test_a_walks_error_has_its_place_in_all_that_was_fed() -> None:
    frame = b"\0\0\0\1" + b"\0" + b"\0\0\0\0" + b"\xff" * 5
    for size in range(1, len(frame) + 1):
        walk = catalog.walk_response(METADATA, 12, "controller_id")
        with pytest.raises(Malformed) as caught:
            _ = [walk.feed(frame[at : at + size]) for at in range(0, len(frame), size)]
        assert (caught.value.api, caught.value.version, caught.value.offset) == ("Metadata", 12, len(frame))


def test_a_walk_needs_a_known_message_and_a_place_to_stop() -> None:
    with pytest.raises(ValueError, match="no response of api 3 version 99"):
        catalog.walk_response(METADATA, 99, "brokers")
    with pytest.raises(ValueError, match="FetchResponse v16 has no 'node_endpoints' to stop at"):
        catalog.walk_response(FETCH, 16, "node_endpoints")
    with pytest.raises(ValueError, match="has no 'tags'"):
        catalog.walk_response(FETCH, 11, "tags")


def test_values_may_be_of_another_version_but_not_unknown() -> None:
    newest = must_codec("response", METADATA, 13)
    values, _ = newest.decode(newest.encode({"topics": [{"name": "t", "topic_id": b"i" * 16}]}))
    old = must_codec("response", METADATA, 1)
    assert old.decode(old.encode(values))[0]["topics"][0]["name"] == "t"
    with pytest.raises(Malformed, match="Metadata v13: unknown fields: topicz"):
        newest.encode({"topicz": []})


@each_row(
    "values",
    [
        {"controller_id": 2**31},
        {"controller_id": "one"},
        {"cluster_id": 7},
        {"brokers": None},
        {"brokers": 7},
        {"brokers": [None]},
        {"brokers": [{"host": None}]},
        {"topics": [{"topic_id": b"short"}]},
        {"topics": [{"partitions": [{"replica_nodes": ["x"]}]}]},
        {"cluster_id": "x" * 32768},
        {"_tags": {1: "text"}},
    ],
)
def test_values_that_do_not_fit_are_malformed(values: dict[str, object]) -> None:
    for version in (13, 8):
        if version == 13 or not {"topics", "_tags"} & values.keys():
            with pytest.raises(Malformed, match=f"Metadata v{version}"):
                must_codec("response", METADATA, version).encode(values)


def test_a_tag_is_not_given_twice() -> None:
    with pytest.raises(Malformed, match="tag 0 is given twice"):
        must_codec("response", FETCH, 16).encode({"node_endpoints": [{}], "_tags": {0: b""}})


def test_unknown_tags_survive_wherever_they_stand() -> None:
    codec = must_codec("response", METADATA, 12)
    values, _ = codec.decode(codec.encode({"brokers": [{}], "topics": [{"partitions": [{}]}]}))
    for struct in (values, values["brokers"][0], values["topics"][0], values["topics"][0]["partitions"][0]):
        struct["_tags"] = {9: b"nine", 300: b"", 2**32 - 1: b"z" * 200}
    data = codec.encode(values)
    assert data == Writer(codec.message, 12).write(values)
    assert codec.decode(data) == (values, len(data))


def test_credentials_and_config_values_are_secret() -> None:
    assert catalog.secrets("request", 36, 0) == ("auth_bytes",)
    assert catalog.secrets("response", 36, 2) == ("error_message", "auth_bytes")
    assert catalog.secrets("request", 51, 0) == ("upsertions.salt", "upsertions.salted_password")
    assert catalog.secrets("response", 38, 1) == ("token_id", "hmac")
    assert catalog.secrets("response", 41, 1) == ("tokens.token_id", "tokens.hmac")
    assert catalog.secrets("request", 39, 2) == catalog.secrets("request", 40, 2) == ("hmac",)
    assert catalog.secrets("request", 58, 0) == ("request_data",)
    assert catalog.secrets("response", 58, 0) == ("response_data",)
    assert catalog.secrets("response", 59, 0) == ("topics.partitions.unaligned_records",)
    assert catalog.secrets("request", 33, 0) == catalog.secrets("request", 44, 0) == ("resources.configs.value",)
    assert catalog.secrets("request", 19, 0) == ("topics.configs.value",)
    assert catalog.secrets("response", 19, 7) == ("topics.error_message", "topics.configs.value")
    assert catalog.secrets("response", 33, 0) == catalog.secrets("response", 44, 0) == ("responses.error_message",)
    assert catalog.secrets("response", 51, 0) == ("results.error_message",)
    assert catalog.secrets("response", 32, 4) == ("results.configs.value", "results.configs.synonyms.value")


def test_secrets_are_those_of_the_version() -> None:
    assert catalog.secrets("response", 19, 0) == ()
    assert catalog.secrets("response", 19, 4) == ("topics.error_message",)
    assert catalog.secrets("response", 32, 0) == ("results.configs.value",)
    assert catalog.secrets("request", 1000, 0) == ()


def test_few_messages_hold_secrets() -> None:
    holders = {(kind, key) for kind, key, version in EVERY_MESSAGE if catalog.secrets(kind, key, version)}
    assert len(holders) == 18
    assert all(catalog.may_hold_secrets(kind, key) == ((kind, key) in holders) for kind, key, _ in EVERY_MESSAGE)
    assert not catalog.may_hold_secrets("request", 0)
    assert not catalog.may_hold_secrets("response", 1000)


def test_marked_finds_the_fields_of_a_mark() -> None:
    assert catalog.marked("response", METADATA, 0, "address") == ("brokers.host", "brokers.port")
    assert "topics.topic_id" in catalog.marked("response", METADATA, 12, "topic_id")
    assert catalog.marked("request", 8, 2, "group_id") == ("group_id",)
    assert catalog.marked("request", 8, 2, "group_id", "topic_name") == ("group_id", "topics.name")
    with pytest.raises(ValueError, match="adress: marks are address, "):
        catalog.marked("response", METADATA, 0, "adress")


NAMES = {
    "group_id": "group_id",
    "member_id": "member_id",
    "partition_index": "partition",
    "topic_id": "topic_id",
    "topic_name": "topic_name",
    "transactional_id": "transactional_id",
}
NAMES |= dict.fromkeys(["node_id", "broker_id", "leader_id", "replica_id", "voter_id"], "node_id")


@each_row("name", NAMES)
def test_a_field_of_that_name_is_marked_in_every_message(name: str) -> None:
    for kind, key, version in EVERY_MESSAGE:
        codec = must_codec(kind, key, version)
        paths = [path for path in field_paths(layout(codec.message, version)) if path.rpartition(".")[2] == name]
        assert set(paths) <= set(catalog.marked(kind, key, version, NAMES[name])), codec


def test_every_address_that_a_client_dials_is_marked() -> None:
    newest = [(key, apis.versions(key)[-1]) for key in apis.api_keys()]
    marked = {(key, catalog.marked("response", key, version, "address")) for key, version in newest}
    pairs = ("host", "port")
    expected = {0: "node_endpoints", 1: "node_endpoints", 3: "brokers", 10: "coordinators", 60: "brokers"}
    expected |= {78: "node_endpoints", 79: "node_endpoints"}
    assert {key: paths for key, paths in marked if paths} == {
        key: tuple(f"{list_}.{name}" for name in pairs) for key, list_ in expected.items()
    }
    assert catalog.marked("response", 10, 0, "address") == pairs


def test_the_room_opens_no_socket_and_no_event_loop() -> None:
    code = "import sys, proxy.wire.catalog; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"trio", "socket", "pyarrow", "asyncio"} & set(loaded)


def test_an_error_of_the_family_is_a_value_error() -> None:
    assert issubclass(WireError, ValueError)


def test_a_peer_that_tries_all_keys_and_versions_fills_no_memory():
    for key in range(20_000, 20_000 + 2 * catalog.CACHE_SIZE):
        assert catalog.codec("request", key, 0) is None
    assert catalog.codec.cache_info().currsize <= catalog.CACHE_SIZE

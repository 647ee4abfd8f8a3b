"""Tests of the fields that hold blobs, and of their decoded form."""

from typing import Any

from proxy.wire import apis, catalog, embedded
from proxy.wire.apis import MessageKind
from proxy.wire.compile.layout import layout
from proxy.wire.embedded import Embedded, decode_field, encode_blob, expand, expand_data
from proxy.wire.embedded.fields import HOLDERS, STICKY_DATA, Content
from proxy.wire.keys import ENVELOPE
from proxy.wire.language import Message
from tests.strategies import field_paths
from tests.tables import each_row

SUBSCRIPTION = "ConsumerProtocolSubscription"
SUBSCRIBED: dict[str, Any] = {"topics": ["t"], "user_data": None}
ASSIGNED = {"assigned_partitions": [{"topic": "t", "partitions": [1]}], "user_data": None}
WORKER = {"url": "http://w1:8083/", "config_offset": 5}
SUBSCRIPTION_BLOB = encode_blob(SUBSCRIPTION, 0, SUBSCRIBED)
ASSIGNMENT_BLOB = encode_blob("ConsumerProtocolAssignment", 0, ASSIGNED)
WORKER_BLOB = encode_blob("ConnectWorkerState", 0, WORKER)


def shown(message: str, values: dict[str, Any], version: int = 0, **more: object) -> dict[str, Any]:
    return {"message": message, "version": version, "values": values, **more}


def message_of(name: str) -> Message:
    kinds: dict[str, MessageKind] = {"Request": "request", "Response": "response"}
    for ending, kind in kinds.items():
        key = apis.api_key(name.removesuffix(ending))
        if name.endswith(ending) and key is not None:
            found = apis.message(kind, key)
            assert found
            return found
    found = embedded.message(name)
    assert found
    return found


@each_row("holder", HOLDERS, ids=lambda holder: f"{holder.message}.{holder.path}")
def test_each_holder_of_the_table_is_a_bytes_field(holder: Any) -> None:
    message = message_of(holder.message)
    for version in message.versions:
        struct = layout(message, version)
        paths = field_paths(struct)
        if holder.path in paths:
            assert codec_of_bytes(message, version, holder.path)
    assert holder.path in paths, "in the newest version"
    if holder.protocol:
        inner = [path.rpartition(".")[2] for path in paths]
        assert holder.protocol in inner


def codec_of_bytes(message: Message, version: int, path: str) -> bool:
    fields = message.fields
    for name in path.split("."):
        (found,) = [field for field in fields if field.name == name and version in field.versions]
        fields = found.fields
    return found.type == "bytes"


def test_a_join_is_shown_with_what_the_member_wants() -> None:
    values = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": SUBSCRIPTION_BLOB}]}
    before = repr(values)
    out = expand("request", 11, values)
    assert out["protocols"] == [{"name": "range", "metadata": shown(SUBSCRIPTION, SUBSCRIBED)}]
    assert repr(values) == before, "what was given stays as it is"


def test_a_real_frame_is_shown_whole() -> None:
    values = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": SUBSCRIPTION_BLOB}]}
    decoded = catalog.decode_request(catalog.encode_request(11, 9, 1, "me", values))
    assert isinstance(decoded, tuple)
    out = expand("request", 11, decoded[1])
    assert out == decoded[1] | {"protocols": [{"name": "range", "metadata": shown(SUBSCRIPTION, SUBSCRIBED)}]}


def test_every_member_and_assignment_of_described_groups_is_shown_by_its_groups_type() -> None:
    def group(type_: str, metadata: bytes, assignment: bytes) -> dict[str, Any]:
        member = {"member_metadata": metadata, "member_assignment": assignment}
        return {"protocol_type": type_, "protocol_data": "range", "members": [member]}

    out = expand(
        "response",
        15,
        {
            "groups": [
                group("consumer", SUBSCRIPTION_BLOB, ASSIGNMENT_BLOB),
                group("connect", WORKER_BLOB, b""),
                group("sr", b'{"host": "r1"}', ASSIGNMENT_BLOB),
            ]
        },
    )
    found = [(m["member_metadata"], m["member_assignment"]) for group in out["groups"] for m in group["members"]]
    assert found == [
        (shown(SUBSCRIPTION, SUBSCRIBED), shown("ConsumerProtocolAssignment", ASSIGNED)),
        (shown("ConnectWorkerState", WORKER), b""),
        (b'{"host": "r1"}', ASSIGNMENT_BLOB),
    ]


@each_row(
    ("blob", "expected"),
    [
        (SUBSCRIPTION_BLOB, shown(SUBSCRIPTION, SUBSCRIBED)),
        (WORKER_BLOB, shown("ConnectWorkerState", WORKER)),
        (SUBSCRIPTION_BLOB + b"?", SUBSCRIPTION_BLOB + b"?"),
        (b"\x00\x63" + SUBSCRIPTION_BLOB[2:], b"\x00\x63" + SUBSCRIPTION_BLOB[2:]),
        (b"", b""),
        (b"any bytes", b"any bytes"),
    ],
)
def test_a_blob_without_a_protocol_type_is_read_as_the_message_that_it_fits_exactly(
    blob: bytes, expected: object
) -> None:
    out = expand("response", 11, {"protocol_type": None, "members": [{"metadata": blob}]})
    assert out["members"] == [{"metadata": expected}]


def test_a_caller_may_give_the_protocol_type() -> None:
    newest = SUBSCRIBED | {"owned_partitions": [], "generation_id": 3, "rack_id": None}
    tail = bytes.fromhex("00000000 00000003 ffff")
    values = {"members": [{"metadata": b"\x00\x63" + SUBSCRIPTION_BLOB[2:] + tail + b"new"}]}
    out = expand("response", 11, values, protocol_type="consumer")
    assert out["members"][0]["metadata"] == shown(SUBSCRIPTION, newest, 99, rest=b"new")


def test_an_assignment_is_shown() -> None:
    out = expand("response", 14, {"protocol_type": "consumer", "assignment": ASSIGNMENT_BLOB})
    assert out["assignment"] == shown("ConsumerProtocolAssignment", ASSIGNED)
    sent = expand("request", 14, {"assignments": [{"member_id": "m", "assignment": ASSIGNMENT_BLOB}]})
    assert sent["assignments"] == [{"member_id": "m", "assignment": shown("ConsumerProtocolAssignment", ASSIGNED)}]


STICKY = {"previous_assignment": [{"topic": "t", "partitions": [0, 1]}]}


@each_row(
    ("assignor", "name", "version", "values"),
    [
        ("sticky", "StickyUserData", 0, STICKY),
        ("sticky", "StickyUserData", 1, STICKY | {"generation": 4}),
        ("cooperative-sticky", "CooperativeStickyUserData", 0, {"generation": 4}),
        *(
            ("stream", "SubscriptionInfoData", version, {"version": version, "process_id": b"p" * 16})
            for version in range(1, 12)
        ),
    ],
)
def test_user_data_is_shown_by_its_assignor(assignor: str, name: str, version: int, values: dict[str, Any]) -> None:
    codec = embedded.codec(name, version)
    assert codec
    data = codec.encode(values)
    blob = encode_blob(SUBSCRIPTION, 1, {"topics": ["t"], "user_data": data})
    out = expand("request", 11, {"protocol_type": "consumer", "protocols": [{"name": assignor, "metadata": blob}]})
    expected = shown(name, codec.decode(data)[0], version)
    assert out["protocols"][0]["metadata"]["values"]["user_data"] == expected
    assert decode_field(SUBSCRIPTION, "user_data", data, protocol=assignor) == Embedded(
        name, version, expected["values"]
    )


def test_user_data_of_an_unknown_assignor_or_in_another_shape_stays_bytes() -> None:
    assert decode_field(SUBSCRIPTION, "user_data", bytes(4), protocol="our-own") is None
    assert decode_field(SUBSCRIPTION, "user_data", bytes(4)) is None
    for assignor in (*STICKY_DATA, "stream"):
        assert decode_field(SUBSCRIPTION, "user_data", b"\0\0\0\x01?", protocol=assignor) is None


def test_a_worker_of_connect_is_shown_with_what_it_has() -> None:
    has = {"error": 0, "leader": "w1", "leader_url": "u", "config_offset": 1, "assignment": []}
    has |= {"revoked": None, "delay": 0}
    blob = encode_blob("ConnectWorkerState", 1, WORKER | {"allocation": encode_blob("ConnectAssignment", 1, has)})
    out = expand("request", 11, {"protocol_type": "connect", "protocols": [{"name": "sessioned", "metadata": blob}]})
    assert out["protocols"][0]["metadata"]["values"] == WORKER | {"allocation": shown("ConnectAssignment", has, 1)}


def test_a_forwarded_request_is_shown_with_its_principal() -> None:
    inner = catalog.encode_request(3, 12, 7, "me", {"topics": None})
    principal = {"type": "User", "name": "alice", "token_authenticated": False}
    out = expand(
        "request",
        58,
        {"request_data": inner, "request_principal": encode_blob("DefaultPrincipalData", 0, principal)},
    )
    decoded = catalog.decode_request(inner)
    assert isinstance(decoded, tuple)
    assert out == {
        "request_data": shown("MetadataRequest", decoded[1], 12, correlation_id=7, client_id="me"),
        "request_principal": shown("DefaultPrincipalData", principal),
    }


def test_a_forwarded_response_is_decoded_by_the_forwarded_api_and_version() -> None:
    inner = catalog.encode_response(12, 4, 7, {"error_code": 27})
    values = {"response_data": inner, "error_code": 0}
    assert expand("response", 58, values) == values
    assert expand("response", 58, values, asked=(12, 4))["response_data"] == shown(
        "HeartbeatResponse", {"throttle_time_ms": 0, "error_code": 27}, 4, correlation_id=7
    )
    assert expand("response", 58, values, asked=(12, 99)) == values
    assert expand("response", 58, {"response_data": b"?"}, asked=(12, 4)) == {"response_data": b"?"}


def test_an_unreadable_forwarded_request_stays_bytes() -> None:
    for data in (b"", b"****", catalog.encode_request(3, 12, 7, "me", {"topics": None})[:-2], b"\x7f\0" + bytes(8)):
        assert expand("request", 58, {"request_data": data}) == {"request_data": data}


def test_values_of_log_records_are_shown_too() -> None:
    members = [{"subscription": SUBSCRIPTION_BLOB, "assignment": ASSIGNMENT_BLOB}]
    out = expand_data("GroupMetadataValue", {"protocol_type": "consumer", "protocol": "range", "members": members})
    assert out["members"] == [
        {
            "subscription": shown(SUBSCRIPTION, SUBSCRIBED),
            "assignment": shown("ConsumerProtocolAssignment", ASSIGNED),
        }
    ]
    classic = {"supported_protocols": [{"name": "range", "metadata": SUBSCRIPTION_BLOB}]}
    found = expand_data("ConsumerGroupMemberMetadataValue", {"classic_member_metadata": classic})
    assert found["classic_member_metadata"]["supported_protocols"][0]["metadata"] == shown(SUBSCRIPTION, SUBSCRIBED)
    nobody = {"classic_member_metadata": None}
    assert expand_data("ConsumerGroupMemberMetadataValue", nobody) == nobody


def test_messages_without_blobs_are_copied_unchanged() -> None:
    values = {"topics": [{"name": "t"}]}
    assert expand("request", 3, values) == values
    assert expand("request", 3, values) is not values
    assert expand("request", 9999, values) == values
    assert decode_field("MetadataRequest", "topics", b"") is None


def test_contents_are_all_in_the_table() -> None:
    assert {holder.content for holder in HOLDERS} == set(Content)


def test_an_envelope_in_an_envelope_stays_bytes() -> None:
    inner = catalog.encode_request(ENVELOPE, 0, 1, None, {"request_data": b"", "client_host_address": b""})
    assert expand("request", ENVELOPE, {"request_data": inner})["request_data"] == inner

"""Tests of group members' blobs: unknown newer versions, missing fields, remaining bytes."""

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import embedded
from proxy.wire.embedded import Embedded, Unknown, decode_blob, encode_blob
from proxy.wire.embedded.blobs import ONLY_GROW
from proxy.wire.errors import Malformed, Truncated, WireError
from tests.strategies import values_of
from tests.sweeps import examples
from tests.tables import each_row

BLOBS = [*sorted(ONLY_GROW), "DefaultPrincipalData", "OffsetCommitValue"]
EVERY_BLOB = [(name, version) for name in BLOBS for version in embedded.versions(name)]

TASKS = [{"connector": "files", "tasks": [-1, 0, 1]}]
ASSIGNMENT = {"error": 1, "leader": "w1", "leader_url": "http://w1:8083/", "config_offset": 9, "assignment": TASKS}


def some_values(name: str, version: int, seed: object = 0) -> dict[str, Any]:
    codec = embedded.codec(name, version)
    assert codec is not None
    return values_of(codec, seed)


@each_row(("name", "version"), EVERY_BLOB)
def test_a_blob_is_a_version_and_the_message(name: str, version: int) -> None:
    values = some_values(name, version)
    blob = encode_blob(name, version, values)
    assert int.from_bytes(blob[:2]) == version
    assert decode_blob(name, blob) == Embedded(name, version, values)


def test_a_subscription_is_read_byte_by_byte() -> None:
    blob = bytes.fromhex("0001 00000001 0001 74 00000002 abcd 00000001 0001 74 00000002 00000000 00000007")
    assert decode_blob("ConsumerProtocolSubscription", memoryview(blob)) == Embedded(
        "ConsumerProtocolSubscription",
        1,
        {"topics": ["t"], "user_data": b"\xab\xcd", "owned_partitions": [{"topic": "t", "partitions": [0, 7]}]},
    )


@each_row("name", sorted(ONLY_GROW))
def test_a_newer_version_is_read_with_the_newest_known_layout(name: str) -> None:
    newest = embedded.versions(name)[-1]
    values = some_values(name, newest)
    blob = struct.pack(">h", newest + 5) + encode_blob(name, newest, values)[2:] + b"what is new"
    assert decode_blob(name, blob) == Embedded(name, newest + 5, values, b"what is new")


def test_a_newer_version_of_any_other_message_is_unknown() -> None:
    assert decode_blob("DefaultPrincipalData", b"\x00\x07whatever") == Unknown("DefaultPrincipalData", None, 7)


@each_row("name", BLOBS)
def test_a_version_that_never_was_is_unknown(name: str) -> None:
    assert decode_blob(name, b"\xff\xfe" + bytes(40)) == Unknown(name, None, -2)


def test_bytes_after_an_embedded_message_are_kept() -> None:
    found = decode_blob("ConsumerProtocolAssignment", bytes(10) + b"more")
    assert isinstance(found, Embedded)
    assert found.rest == b"more"


@each_row(
    ("missing", "defaults"),
    [
        (("delay",), {"delay": 0}),
        (("revoked", "delay"), {"revoked": None, "delay": 0}),
        (("assignment", "revoked", "delay"), {"assignment": None, "revoked": None, "delay": 0}),
    ],
)
@each_row("version", [1, 2])
def test_the_last_fields_of_connects_assignment_may_be_missing(
    version: int, missing: tuple[str, ...], defaults: dict[str, Any]
) -> None:
    values = ASSIGNMENT | {"revoked": [], "delay": 300_000}
    whole = encode_blob("ConnectAssignment", version, values)
    codec = embedded.codec("ConnectAssignment", version)
    assert codec is not None
    ((_, start, _),) = codec.project((missing[0],))(whole, 2)[missing[0]]
    assert decode_blob("ConnectAssignment", whole[:start]) == Embedded("ConnectAssignment", version, values | defaults)


def test_the_allocation_of_a_connect_worker_may_be_missing() -> None:
    blob = encode_blob("ConnectWorkerState", 0, {"url": "http://w1:8083/", "config_offset": 5})
    found = decode_blob("ConnectWorkerState", b"\x00\x01" + blob[2:])
    assert found == Embedded(
        "ConnectWorkerState", 1, {"url": "http://w1:8083/", "config_offset": 5, "allocation": None}
    )


@each_row("version", [0, 1, 2])
@each_row("name", ["ConnectAssignment", "ConnectWorkerState"])
def test_a_field_of_connect_that_is_cut_is_never_taken_for_a_missing_one(name: str, version: int) -> None:
    codec = embedded.codec(name, version)
    assert codec is not None
    values = (
        {"url": "w", "allocation": b"12345678"} if name == "ConnectWorkerState" else ASSIGNMENT | {"revoked": TASKS}
    )
    blob = encode_blob(name, version, values)
    optional = ("allocation", "assignment", "revoked", "delay") if version else ()
    known = [path for path in optional if path in codec.decode(blob, 2)[0]]
    boundaries = {spans[0][1] for spans in codec.project(tuple(known))(blob, 2).values()}
    for size in set(range(len(blob))) - boundaries:
        with pytest.raises(Truncated):
            decode_blob(name, blob[:size])


@each_row(("name", "version"), EVERY_BLOB)
def test_a_blob_cut_short_is_truncated(name: str, version: int) -> None:
    if not name.startswith("Connect"):
        blob = encode_blob(name, version, some_values(name, version))
        for size in range(len(blob)):
            with pytest.raises(Truncated):
                decode_blob(name, blob[:size])


def test_an_unknown_embedded_message_or_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="no embedded message Metadata in the catalog"):
        decode_blob("Metadata", bytes(20))
    with pytest.raises(ValueError, match="ConsumerProtocolAssignment version 9"):
        encode_blob("ConsumerProtocolAssignment", 9, {})
    with pytest.raises(Malformed):
        encode_blob("ConsumerProtocolAssignment", 0, {"no_such_field": 1})


@examples(200)
@given(st.sampled_from(BLOBS), st.binary(max_size=80))
def test_any_bytes_are_a_message_or_unknown_or_an_error_of_the_family(name: str, data: bytes) -> None:
    with suppress(WireError):
        found = decode_blob(name, data)
        assert isinstance(found, Unknown) or found.name == name

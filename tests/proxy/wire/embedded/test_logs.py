"""Tests of records of internal topics and of control batches."""

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import embedded
from proxy.wire.embedded import Embedded, LogRecord, Unknown, decode_control, decode_record
from proxy.wire.embedded.logs import CONTROL_TYPES, LOGS
from proxy.wire.embedded.schemas import numbered
from proxy.wire.errors import Truncated, WireError
from proxy.wire.primitives import uvarint
from tests.strategies import values_of
from tests.sweeps import examples
from tests.tables import each_row

COORDINATOR_LOGS = ("__consumer_offsets", "__share_group_state", "__transaction_state")
FRAMED_LOGS = ("__cluster_metadata", "__remote_log_metadata")


def encoded(name: str, version: int, seed: object = 0) -> tuple[dict[str, Any], bytes]:
    codec = embedded.codec(name, version)
    assert codec is not None
    values = values_of(codec, seed)
    return values, codec.encode(values)


def int16s(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}h", *numbers)


@pytest.mark.parametrize("topic", COORDINATOR_LOGS)
def test_each_type_of_a_coordinators_log_is_read_in_each_version(topic: str) -> None:
    keys, values = numbered(topic[2:], "Key"), numbered(topic[2:], "Value")
    for number, name in keys.items():
        key, key_bytes = encoded(name, 0)
        for version in embedded.versions(values[number]):
            value, value_bytes = encoded(values[number], version)
            found = decode_record(topic, int16s(number) + key_bytes, int16s(version) + value_bytes)
            assert found == LogRecord(Embedded(name, 0, key), Embedded(values[number], version, value))


@pytest.mark.parametrize("topic", FRAMED_LOGS)
def test_each_type_of_a_framed_log_is_read_in_each_version(topic: str) -> None:
    for number, name in numbered(topic[2:]).items():
        for version in embedded.versions(name):
            values, data = encoded(name, version)
            frame = uvarint(1) + uvarint(number) + uvarint(version) + data
            assert decode_record(topic, None, frame) == LogRecord(None, Embedded(name, version, values))


def test_an_offset_commit_is_read_byte_by_byte() -> None:
    key = bytes.fromhex("0001 0001 67 0001 74 00000005")
    value = bytes.fromhex("0003 0000000000000009 ffffffff 0000 0000018bcfe56800")
    assert decode_record("__consumer_offsets", memoryview(key), memoryview(value)) == LogRecord(
        Embedded("OffsetCommitKey", 0, {"group": "g", "topic": "t", "partition": 5}),
        Embedded(
            "OffsetCommitValue",
            3,
            {"offset": 9, "leader_epoch": -1, "metadata": "", "commit_timestamp": 1_700_000_000_000},
        ),
    )


def test_a_value_of_null_is_a_tombstone() -> None:
    found = decode_record("__consumer_offsets", bytes.fromhex("0002 0001 67"), None)
    assert found == LogRecord(Embedded("GroupMetadataKey", 0, {"group": "g"}), None)
    assert decode_record("__cluster_metadata", None, None) == LogRecord(None, None)


@pytest.mark.parametrize("topic", COORDINATOR_LOGS)
def test_a_type_of_a_later_kafka_is_unknown(topic: str) -> None:
    found = decode_record(topic, int16s(999) + b"?", int16s(0) + b"?")
    assert found == LogRecord(Unknown(None, 999, None), Unknown(None, 999, None))


def test_a_value_of_a_later_version_is_unknown_and_its_key_is_read() -> None:
    found = decode_record("__transaction_state", bytes.fromhex("0000 0001 78"), int16s(7) + b"?")
    assert found == LogRecord(
        Embedded("TransactionLogKey", 0, {"transactional_id": "x"}), Unknown("TransactionLogValue", None, 7)
    )


def test_a_record_without_the_key_that_names_its_type_is_unknown() -> None:
    assert decode_record("__consumer_offsets", None, b"v") == LogRecord(None, Unknown(None, None, None))


def test_metadata_in_another_frame_or_of_another_type_or_version_is_unknown() -> None:
    assert decode_record("__cluster_metadata", None, b"\x02???") == LogRecord(None, Unknown(None, None, None))
    assert decode_record("__cluster_metadata", None, b"\x01\x81\x01\x05") == LogRecord(None, Unknown(None, 129, 5))
    found = decode_record("__cluster_metadata", None, b"\x01\x03\x63")
    assert found == LogRecord(None, Unknown("PartitionRecord", None, 99))


def test_records_of_other_topics_are_not_decoded() -> None:
    assert decode_record("orders", b"k", b"v") is None


@each_row("number", sorted(CONTROL_TYPES))
def test_each_type_of_a_control_batch_is_read_in_each_version(number: int) -> None:
    name = CONTROL_TYPES[number]
    key = Embedded("ControlRecordTypeSchema", 0, {"type": number})
    for version in embedded.versions(name):
        values, data = encoded(name, version)
        if "version" in values:
            values["version"], data = version, int16s(version) + data[2:]
        else:
            data = int16s(version) + data
        found = decode_control(int16s(0, number), data)
        assert found == LogRecord(key, Embedded(name, version, values))
    assert decode_control(int16s(0, number), None) == LogRecord(key, None)


def test_a_marker_that_ends_a_transaction_is_read_byte_by_byte() -> None:
    assert decode_control(bytes.fromhex("0000 0001"), bytes.fromhex("0000 00000007")) == LogRecord(
        Embedded("ControlRecordTypeSchema", 0, {"type": 1}), Embedded("EndTxnMarker", 0, {"coordinator_epoch": 7})
    )


def test_a_control_record_of_a_later_type_is_unknown() -> None:
    found = decode_control(int16s(0, 77), b"?")
    assert found == LogRecord(Embedded("ControlRecordTypeSchema", 0, {"type": 77}), Unknown(None, 77, None))
    assert decode_control(int16s(-1, 0), b"?").value == Unknown(None, None, None)


@each_row("topic", sorted(LOGS))
def test_bytes_that_end_too_early_are_truncated(topic: str) -> None:
    with pytest.raises(Truncated, match=f"^{topic} at byte [01]: "):
        decode_record(topic, b"\0", b"")
    with pytest.raises(Truncated):
        decode_record(topic, int16s(0) + b"\0", b"\x01\0\0")


def test_a_control_record_that_ends_too_early_is_truncated() -> None:
    for key in (None, b"", b"\0"):
        with pytest.raises(Truncated, match=r"^ControlRecordTypeSchema at byte"):
            decode_control(key, b"")
    with pytest.raises(Truncated, match=r"^EndTxnMarker at byte 1: "):
        decode_control(int16s(0, 1), b"\0")


@examples(200)
@given(st.sampled_from(sorted(LOGS)), st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_record_or_an_error_of_the_family(topic: str, key: bytes, value: bytes | None) -> None:
    with suppress(WireError):
        assert isinstance(decode_record(topic, key, value), LogRecord)
    with suppress(WireError):
        assert isinstance(decode_control(key, value), LogRecord)

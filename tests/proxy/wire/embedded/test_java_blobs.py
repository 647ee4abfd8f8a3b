"""Tests of blobs with a layout or frame that Kafka codes by hand, as its own classes write them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import tests
from proxy.wire import embedded
from proxy.wire.embedded import (
    Embedded,
    LogRecord,
    decode_blob,
    decode_control,
    decode_field,
    decode_record,
    encode_blob,
)
from proxy.wire.embedded.logs import CONTROL_TYPES
from tests.brokers import jars
from tests.java.jvm import class_path

pytestmark = pytest.mark.real

SOURCE = Path(tests.__file__).parent / "java" / "KafkaBlobs.java"
WORKER = {"url": "http://w1:8083/", "config_offset": 5}
ASSIGNED = {
    "error": 1,
    "leader": "w1",
    "leader_url": "http://w1:8083/",
    "config_offset": 5,
    "assignment": [{"connector": "files", "tasks": [-1, 0, 7]}],
}
MORE = {"revoked": [{"connector": "sink", "tasks": [-1]}], "delay": 300_000}


@pytest.fixture(scope="module")
def blobs() -> dict[str, bytes]:
    """The Java program's output, by label."""
    command = [jars.java(), "-XX:TieredStopAtLevel=1", "-cp", class_path(jars.VERSION), str(SOURCE)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {label: bytes.fromhex(text) for label, text in (line.split(" ") for line in printed.splitlines())}


def same(blob: bytes, name: str, version: int, values: dict[str, Any]) -> None:
    """Asserts that the blob is read and written."""
    assert decode_blob(name, blob) == Embedded(name, version, values)
    assert encode_blob(name, version, values) == blob


def test_eager_workers_of_connect_are_read_and_written_as_it_does(blobs: dict[str, bytes]) -> None:
    same(blobs["metadata-0"], "ConnectWorkerState", 0, WORKER)
    same(blobs["assignment-0"], "ConnectAssignment", 0, ASSIGNED)


@pytest.mark.parametrize("version", [1, 2])
def test_cooperative_workers_of_connect_are_read_and_written_as_it_does(blobs: dict[str, bytes], version: int) -> None:
    assignment = blobs[f"assignment-{version}"]
    same(assignment, "ConnectAssignment", version, ASSIGNED | MORE)
    same(blobs[f"metadata-{version}"], "ConnectWorkerState", version, WORKER | {"allocation": assignment})
    same(blobs[f"new-metadata-{version}"], "ConnectWorkerState", version, WORKER | {"allocation": None})
    nothing = ASSIGNED | {"error": 0, "assignment": [], "revoked": [], "delay": 0}
    same(blobs[f"no-assignment-{version}"], "ConnectAssignment", version, nothing)


@pytest.mark.parametrize(
    ("assignor", "name", "version", "values"),
    [
        (
            "sticky",
            "StickyUserData",
            1,
            {"previous_assignment": [{"topic": "t", "partitions": [0, 3]}], "generation": 7},
        ),
        ("cooperative-sticky", "CooperativeStickyUserData", 0, {"generation": 7}),
    ],
)
def test_user_data_of_the_sticky_assignors_is_read_and_written_as_they_do(
    blobs: dict[str, bytes], assignor: str, name: str, version: int, values: dict[str, Any]
) -> None:
    found = decode_field("ConsumerProtocolSubscription", "user_data", blobs[assignor], protocol=assignor)
    assert found == Embedded(name, version, values)
    codec = embedded.codec(name, version)
    assert codec
    assert codec.encode(values) == blobs[assignor]


def test_a_principal_is_read_and_written_as_brokers_do(blobs: dict[str, bytes]) -> None:
    values = {"type": "User", "name": "alice", "token_authenticated": True}
    same(blobs["principal"], "DefaultPrincipalData", 0, values)


def test_the_end_of_a_transaction_is_read(blobs: dict[str, bytes]) -> None:
    assert decode_control(blobs["control-COMMIT"], blobs["commit-value"]) == LogRecord(
        Embedded("ControlRecordTypeSchema", 0, {"type": 1}), Embedded("EndTxnMarker", 0, {"coordinator_epoch": 9})
    )


def test_control_records_have_kafkas_types(blobs: dict[str, bytes]) -> None:
    messages = {
        "control-ABORT": "EndTxnMarker",
        "control-COMMIT": "EndTxnMarker",
        "control-LEADER_CHANGE": "LeaderChangeMessage",
        "control-SNAPSHOT_HEADER": "SnapshotHeaderRecord",
        "control-SNAPSHOT_FOOTER": "SnapshotFooterRecord",
        "control-KRAFT_VERSION": "KRaftVersionRecord",
        "control-KRAFT_VOTERS": "VotersRecord",
    }
    keys = {label: decode_control(blob, None).key for label, blob in blobs.items() if label.startswith("control-")}
    types = {label: key.values["type"] for label, key in keys.items() if isinstance(key, Embedded)}
    assert {label: CONTROL_TYPES[number] for label, number in types.items()} == messages


def test_a_record_of_the_remote_log_is_read(blobs: dict[str, bytes]) -> None:
    found = decode_record("__remote_log_metadata", None, blobs["remote-delete"])
    assert found
    where = {"name": "t", "id": bytes(7) + b"\x01" + bytes(7) + b"\x02", "partition": 3}
    assert found.value == Embedded(
        "RemotePartitionDeleteMetadataRecord",
        0,
        {
            "topic_id_partition": where,
            "broker_id": 5,
            "event_timestamp_ms": 123,
            "remote_partition_delete_state": 2,
        },
    )

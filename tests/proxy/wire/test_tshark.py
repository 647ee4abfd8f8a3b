"""Tests against Wireshark's dissector, an independent implementation: it reads our frames as we mean them.

All exchanges are in one capture file, as one TCP connection to port 9092, and tshark prints what it reads. Versions
newer than its dissector can't be compared: the tables list those that Wireshark 4.0 reads. It knows no api from
DescribeClientQuotas (48) on. The tests leave out what it misreads: before their flexible versions JoinGroup, SyncGroup,
SaslAuthenticate and half of the delegation tokens' messages; all of CreateTopics, CreatePartitions, ElectLeaders and
the reassignments of partitions; and the responses of WriteTxnMarkers, DeleteAcls and AlterReplicaLogDirs.
"""

import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proxy.wire import apis, catalog
from proxy.wire.apis import MessageKind
from proxy.wire.headers import request_header_version
from proxy.wire.language import Field
from tests.strategies import KINDS, must_codec, values_of

pytestmark = pytest.mark.real

# api -> versions whose request and response tshark reads
DISSECTED = {
    "Produce": range(9),
    "Fetch": range(12),
    "ListOffsets": range(6),
    "Metadata": range(10),
    "LeaderAndIsr": range(5),
    "StopReplica": range(3),
    "UpdateMetadata": range(4, 7),
    "ControlledShutdown": range(4),
    "OffsetCommit": range(9),
    "OffsetFetch": range(8),
    "FindCoordinator": range(1, 4),
    "JoinGroup": range(6, 8),
    "Heartbeat": range(5),
    "LeaveGroup": range(5),
    "SyncGroup": range(4, 6),
    "DescribeGroups": range(5, 6),
    "ListGroups": range(4),
    "SaslHandshake": range(2),
    "ApiVersions": range(4),
    "DeleteTopics": range(3, 5),
    "DeleteRecords": range(2),
    "InitProducerId": range(4),
    "OffsetForLeaderEpoch": range(4),
    "AddPartitionsToTxn": range(2),
    "AddOffsetsToTxn": range(2),
    "EndTxn": range(2),
    "TxnOffsetCommit": range(4),
    "DescribeAcls": range(3),
    "CreateAcls": range(3),
    "DescribeConfigs": range(3),
    "AlterConfigs": range(2),
    "DescribeLogDirs": range(2),
    "SaslAuthenticate": range(2, 3),
    "CreateDelegationToken": range(2, 3),
    "RenewDelegationToken": range(2, 3),
    "ExpireDelegationToken": range(2, 3),
    "DescribeDelegationToken": range(2, 3),
    "DeleteGroups": range(3),
    "IncrementalAlterConfigs": range(2),
    "OffsetDelete": range(1),
}
# versions of which tshark reads only one of both
REQUESTS = {
    "DescribeGroups": range(5),
    "DeleteTopics": range(3),
    "WriteTxnMarkers": range(1),
    "DeleteAcls": range(3),
    "AlterReplicaLogDirs": range(2),
    "CreateDelegationToken": range(2),
    "DescribeDelegationToken": range(2),
}
RESPONSES = {
    "FindCoordinator": range(1),
    "RenewDelegationToken": range(2),
    "ExpireDelegationToken": range(2),
}
SEEDS = range(4)
CLIENT_ID, CLIENT_PORT, KAFKA_PORT = "wiretap", 50_000, 9092
PARTITIONS = ("partition_index", "partition", "index", "partition_indexes", "partitions")
# tshark's name of a field -> the fields of the message language with that meaning
BODY: Mapping[str, Callable[[Field], bool]] = {
    "kafka.topic_name": lambda field: "topic_name" in field.marks,
    "kafka.consumer_group": lambda field: "group_id" in field.marks,
    "kafka.error": lambda field: field.name.endswith("error_code"),
    "kafka.host": lambda field: field.name in ("host", "host_name"),
    "kafka.port": lambda field: field.name == "port",
    "kafka.partition_id": lambda field: field.name in PARTITIONS and not field.fields,
}
# fields that tshark shows under other names
ELSEWHERE = {"forgotten_topics_data", "creations", "acls", "matching_acls"}
HEAD = ["kafka.api_key", "kafka.request.version", "kafka.response.version", "kafka.correlation_id"]
SENDER = "kafka.client_id"
COMPLAINTS = "_ws.expert.message"
BETWEEN_VALUES = "|"


@dataclass(frozen=True, slots=True)
class Frame:
    """One of our frames: its values, and its bytes after the length."""

    kind: MessageKind
    key: int
    version: int
    correlation_id: int
    values: dict[str, Any]

    @property
    def data(self) -> bytes:
        if self.kind == "request":
            return catalog.encode_request(self.key, self.version, self.correlation_id, CLIENT_ID, self.values)
        return catalog.encode_response(self.key, self.version, self.correlation_id, self.values)

    def body(self) -> dict[str, list[str]]:
        """Returns what tshark should show of the body: every value in wire order."""
        found = list(leaves(must_codec(self.kind, self.key, self.version).message.fields, self.values))
        return {name: [str(value) for field, value in found if meant(field)] for name, meant in BODY.items()}


def leaves(fields: Iterable[Field], values: Mapping[str, Any]) -> Iterator[tuple[Field, Any]]:
    """Yields every value that is no struct, with its field, in wire order, without nulls."""
    for field in fields:
        value = values.get(field.name)
        if value is None or field.name in ELSEWHERE:
            continue
        for one in value if isinstance(value, list) else [value]:
            if field.fields:
                yield from leaves(field.fields, one)
            else:
                yield field, one


def exchanges() -> Iterator[Frame]:
    """Yields request and response in turn, each pair with its own correlation id."""
    correlation_id = 0
    for table in (DISSECTED, REQUESTS, RESPONSES):
        for name, version in ((name, version) for name, versions in table.items() for version in versions):
            key = apis.api_key(name)
            assert key is not None
            for seed in SEEDS:
                correlation_id += 1
                for kind in KINDS:
                    values = values_of(must_codec(kind, key, version), f"tshark {seed}", tame=True)
                    yield Frame(kind, key, version, correlation_id, plain(values))


def plain(value: Any, name: str = "") -> Any:
    """The value without what the dissector has opinions about beyond its place in the frame: records must be some, an
    answer must be awaited, versions offered must be known to it; and it takes emptiness for absence.
    """
    if name == "records":
        return RECORDS
    if name == "acks":
        return 1
    if name in ("api_key", "min_version", "max_version"):
        return 0
    if isinstance(value, dict):
        return {inner: plain(one, inner) for inner, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {"": "some", b"": b"some"}.get(value, value) if isinstance(value, str | bytes) else value


def _records() -> bytes:
    """Returns a batch with one record, without key and headers: length, attributes, times, offset, value."""
    record = b"\0\0\0\x01\x0corange\0"
    record = bytes([2 * len(record)]) + record
    behind_checksum = struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", 0, 9 + len(behind_checksum), 0, 2, 0) + behind_checksum


RECORDS = _records()


def write_pcap(file: Path, frames: Sequence[Frame]) -> None:
    """Writes one packet for each frame, raw IPv4, with the sequence numbers of one connection."""
    written = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 101)]
    sent = dict.fromkeys(KINDS, 1)
    for number, frame in enumerate(frames):
        payload = struct.pack(">i", len(frame.data)) + frame.data
        from_client = frame.kind == "request"
        ports = (CLIENT_PORT, KAFKA_PORT) if from_client else (KAFKA_PORT, CLIENT_PORT)
        ours, theirs = sent[frame.kind], sent["response" if from_client else "request"]
        tcp = struct.pack(">HHIIBBHHH", *ports, ours, theirs, 5 << 4, 0x18, 0xFFFF, 0, 0) + payload
        home = bytes([127, 0, 0, 1])
        packet = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, home, home) + tcp
        written += [struct.pack("<IIII", number, 0, len(packet), len(packet)), packet]
        sent[frame.kind] += len(payload)
    file.write_bytes(b"".join(written))


def dissected(file: Path) -> list[dict[str, list[str]]]:
    """Returns tshark's output for each packet: field -> values."""
    names = [*HEAD, SENDER, COMPLAINTS, *BODY]
    wanted = [part for name in names for part in ("-e", name)]
    how = ["-d", f"tcp.port=={KAFKA_PORT},kafka", "-T", "fields", "-E", f"aggregator={BETWEEN_VALUES}"]
    command = ["tshark", "-n", "-r", str(file), *how, *wanted]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split("\t") for line in said.rstrip("\n").split("\n")]
    return [{n: one.split(BETWEEN_VALUES) if one else [] for n, one in zip(names, line, strict=True)} for line in lines]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Frame, dict[str, list[str]]]]:
    """Returns our frames that it can read, with its output for each."""
    frames, file = list(exchanges()), tmp_path_factory.mktemp("tshark") / "frames.pcap"
    write_pcap(file, frames)
    return [(frame, seen) for frame, seen in zip(frames, dissected(file), strict=True) if readable(frame)]


def readable(frame: Frame) -> bool:
    """True if the tables have the version. If only half of an exchange can be read, the file has the other half too."""
    name = apis.api_name(frame.key) or ""
    alone = REQUESTS if frame.kind == "request" else RESPONSES
    return any(frame.version in table.get(name, ()) for table in (DISSECTED, alone))


def test_tshark_has_nothing_to_complain_of(told: list[tuple[Frame, dict[str, list[str]]]]) -> None:
    assert [(frame, seen[COMPLAINTS]) for frame, seen in told if seen[COMPLAINTS]] == []


def test_heads_are_those_that_tshark_reads(told: list[tuple[Frame, dict[str, list[str]]]]) -> None:
    for frame, seen in told:
        version = [str(frame.version)]
        versions = [version, []] if frame.kind == "request" else [[], version]
        assert [seen[name] for name in HEAD] == [[str(frame.key)], *versions, [str(frame.correlation_id)]], frame
        sender = [CLIENT_ID] if request_header_version(frame.key, frame.version) > 0 else []
        assert frame.kind == "response" or seen[SENDER] == sender, frame


def test_bodies_hold_the_values_that_tshark_reads(told: list[tuple[Frame, dict[str, list[str]]]]) -> None:
    compared = dict.fromkeys(BODY, 0)
    for frame, seen in told:
        for name, values in frame.body().items():
            assert seen[name] == values, (name, frame)
            compared[name] += len(values)
    assert min(compared.values()) > 50, compared

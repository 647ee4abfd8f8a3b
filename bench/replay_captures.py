"""Captures for the bench of the replay, written by the recorder's own room of files; and what a broker answers in them.

All answers of one connection to one API are equal, so the fake broker can give them back: it is told them in a file.
The answers name what the requests quote (members, generations, offsets), so that a replay has nothing to withhold.
"""

import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proxy.wire import encode_request, encode_response, records
from proxy.wire.apis import api_name
from proxy.wire.keys import (
    API_VERSIONS,
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
)
from recorder.capture import frames as c
from recorder.capture.columns import ConnectionColumns, FrameType
from recorder.capture.ranges import RangeFiles
from recorder.capture.rows import RECORD_APIS
from recorder.capture.storage import ignore_step, publish

TOPIC, NODE, GENERATION = "bench", 0, 7
SESSION = "20261123T000000Z-bench"
# the version in which the recording has each API, and the only one that the broker offers
VERSIONS = {
    PRODUCE: 9,
    FETCH: 12,
    LIST_OFFSETS: 5,
    METADATA: 9,
    OFFSET_FETCH: 7,
    FIND_COORDINATOR: 3,
    JOIN_GROUP: 7,
    HEARTBEAT: 4,
    LEAVE_GROUP: 4,
    SYNC_GROUP: 5,
    DESCRIBE_GROUPS: 5,
    API_VERSIONS: 3,
}
# a subscription to no topic, and an assignment of none: version, topics, user data
_SUBSCRIPTION, _ASSIGNMENT = (struct.pack(">hii", 0, 0, -1),) * 2


def _batch(value: bytes) -> bytes:
    return records.write_batch([records.Record(0, timestamp=1, key=b"key", value=value)])


class Shot(NamedTuple):
    """A request and when it was sent and answered, in ns from the beginning."""

    at: int
    answered: int
    connection: int
    key: int
    values: dict[str, Any]


def small(connections: int, exchanges: int, gap_ns: int, depth: int = 1) -> Iterator[Shot]:
    """Members of a group each that beat, produce and fetch, one after the other; `gap_ns` between a connection's."""
    for at, connection, number in _times(connections, exchanges, gap_ns):
        key, values = _small(connection, number)
        yield Shot(at, at + depth * gap_ns - gap_ns // 2, connection, key, values)


def large(connections: int, exchanges: int, gap_ns: int, depth: int, size: int) -> Iterator[Shot]:
    """Produce requests with a batch of so many bytes that do not compress, `depth` in flight."""
    shuffled = random.Random(1)
    for at, connection, _ in _times(connections, exchanges, gap_ns):
        batch = _batch(shuffled.randbytes(size))
        yield Shot(at, at + depth * gap_ns - gap_ns // 2, connection, PRODUCE, _produce(connection, batch))


def _times(connections: int, exchanges: int, gap_ns: int) -> Iterator[tuple[int, int, int]]:
    for number in range(exchanges // connections):
        for connection in range(connections):
            yield number * gap_ns + gap_ns * connection // connections, connection, number


def _small(connection: int, number: int) -> tuple[int, dict[str, Any]]:
    member = {"group_id": _group(connection), "member_id": _member(connection), "group_instance_id": None}
    if number == 0:
        protocols = [{"name": "range", "metadata": _SUBSCRIPTION}]
        joins = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"}
        return JOIN_GROUP, {**member, "member_id": "", **joins, "protocols": protocols}
    if number == 1:
        assignments = [{"member_id": _member(connection), "assignment": _ASSIGNMENT}]
        syncs = {"generation_id": GENERATION, "protocol_type": "consumer", "protocol_name": "range"}
        return SYNC_GROUP, {**member, **syncs, "assignments": assignments}
    if number % 2:
        return HEARTBEAT, {**member, "generation_id": GENERATION}
    return (PRODUCE, _produce(connection, _batch(b"%0100d" % number))) if number % 4 else (FETCH, _fetch(connection))


def _produce(connection: int, batch: bytes) -> dict[str, Any]:
    partition = {"index": connection, "records": batch}
    topics = [{"name": TOPIC, "partition_data": [partition]}]
    return {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": topics}


def _fetch(connection: int) -> dict[str, Any]:
    partition = {"partition": connection, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1}
    partition |= {"log_start_offset": -1, "partition_max_bytes": 1 << 20}
    values: dict[str, Any] = {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
    }
    values |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    return values | {"topics": [{"topic": TOPIC, "partitions": [partition]}]}


def _group(connection: int) -> str:
    return f"group-{connection}"


def _member(connection: int) -> str:
    return f"member-{connection}"


def client_id(connection: int) -> str:
    """Each connection has one of its own, by which the broker knows whose answer it gives."""
    return f"client-{connection}"


def told(connections: int, port: int) -> bytes:
    """All answers, as the fake broker reads them."""
    found = bytearray()
    for connection in range(-1, connections):
        name = client_id(connection).encode() if connection >= 0 else b""
        for key, version in VERSIONS.items():
            # librdkafka's way of asking: what fails is asked again in version 0; the replay never needs it here
            body = encode_response(key, version, 0, answer(key, max(connection, 0), connections, port))[4:]
            found += struct.pack(">hhh", key, version, len(name)) + name + struct.pack(">i", len(body)) + body
    return bytes(found)


def answer(key: int, connection: int, connections: int, port: int = 9092) -> dict[str, Any]:
    """The values of a connection's answer."""
    throttle, ok = {"throttle_time_ms": 0}, {"throttle_time_ms": 0, "error_code": 0}
    member = {"member_id": _member(connection), "group_instance_id": None}
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    node = {"node_id": NODE, "host": "127.0.0.1", "port": port}
    index = {"partition_index": connection, "error_code": 0}
    joined = {"generation_id": GENERATION, "leader": _member(connection), "members": [member | {"metadata": b""}]}
    found: dict[int, dict[str, Any]] = {
        PRODUCE: throttle | {"responses": [{"name": TOPIC, "partition_responses": [_produced(connection)]}]},
        FETCH: ok | {"session_id": 0, "responses": [{"topic": TOPIC, "partitions": [index | _FETCHED]}]},
        LIST_OFFSETS: throttle
        | {"topics": [{"name": TOPIC, "partitions": [_listed(each) for each in range(connections)]}]},
        METADATA: throttle
        | {"brokers": [node | {"rack": None}], "cluster_id": "bench", "controller_id": NODE}
        | {"topics": [_described(connections)]},
        OFFSET_FETCH: ok | {"topics": []},
        FIND_COORDINATOR: ok | node | {"error_message": None},
        JOIN_GROUP: ok | {"member_id": _member(connection)} | protocol | joined,
        LEAVE_GROUP: ok | {"members": [member | {"error_code": 0}]},
        SYNC_GROUP: ok | protocol | {"assignment": _ASSIGNMENT},
        DESCRIBE_GROUPS: throttle | {"groups": []},
        API_VERSIONS: ok | {"api_keys": [_offered(*each) for each in VERSIONS.items()]},
    }
    return found.get(key, ok)


_FETCHED = {"high_watermark": 1, "last_stable_offset": 1, "log_start_offset": 0, "aborted_transactions": []}
_FETCHED |= {"preferred_read_replica": -1, "records": _batch(bytes(100))}


def _produced(index: int) -> dict[str, Any]:
    rest = {"log_append_time_ms": -1, "log_start_offset": 0, "record_errors": [], "error_message": None}
    return {"index": index, "error_code": 0, "base_offset": 0, **rest}


def _listed(index: int) -> dict[str, Any]:
    return {"partition_index": index, "error_code": 0, "timestamp": -1, "offset": 0, "leader_epoch": -1}


def _described(partitions: int) -> dict[str, Any]:
    found = [
        {"error_code": 0, "partition_index": index, "leader_id": NODE, "leader_epoch": 0}
        | {"replica_nodes": [NODE], "isr_nodes": [NODE], "offline_replicas": []}
        for index in range(partitions)
    ]
    return {"error_code": 0, "name": TOPIC, "is_internal": False, "partitions": found}


def _offered(key: int, version: int) -> dict[str, Any]:
    return {"api_key": key, "min_version": version, "max_version": version}


def write(folder: Path, shots: Iterator[Shot], connections: int) -> int:
    """Writes a capture of these; returns how many bytes of frames it has."""
    (folder / c.FRAMES_FOLDER).mkdir(parents=True)
    writer = _Writer(folder, connections)
    waiting: list[tuple[int, int, Shot]] = []
    for number, shot in enumerate(shots):
        while waiting and waiting[0][0] <= shot.at:
            writer.answered(waiting.pop(0)[2])
        writer.asked(shot, number)
        # answers come in the order of their requests
        waiting.append((shot.answered, number, shot))
    for _, _, shot in waiting:
        writer.answered(shot)
    return writer.finish()


class _Writer:
    """Rows of one range, whose clock is the wall's."""

    def __init__(self, folder: Path, connections: int) -> None:
        self._files = RangeFiles(folder, SESSION, 1, "main")
        self._clock_offset_ns = time.time_ns() // 3_600_000_000_000 * 3_600_000_000_000
        self._answers = {
            (key, connection): encode_response(key, version, 1, answer(key, connection, connections))
            for connection in range(connections)
            for key, version in VERSIONS.items()
        }
        self._numbers: dict[Shot | int, int] = {}
        self._open: dict[int, list[int]] = {}
        self._sequences: dict[int, int] = {}
        self._bytes = 0

    def asked(self, shot: Shot, number: int) -> None:
        """Adds a request."""
        version = VERSIONS[shot.key]
        frame = encode_request(shot.key, version, number, client_id(shot.connection), shot.values)
        exchange = self._numbers.get(shot.connection, 0)
        self._numbers[shot.connection] = exchange + 1
        self._open.setdefault(shot.connection, []).append(exchange)
        self._add(shot, c.REQUEST, c.BY_CLIENT, frame, shot.at, (exchange, True, number))

    def answered(self, shot: Shot) -> None:
        """Adds its answer."""
        exchange = self._open[shot.connection].pop(0)
        frame = self._answers[shot.key, shot.connection]
        self._add(shot, c.RESPONSE, c.BY_BROKER, frame, shot.answered, (exchange, None, 1))

    def _add(self, shot: Shot, kind: str, by: str, frame: bytes, at: int, facts: tuple[int, bool | None, int]) -> None:
        exchange, awaits, correlation_id = facts
        group = self._files.frame_rows(
            self._clock_offset_ns + at,
            self._clock_offset_ns,
            len(frame),
            carries_records=api_name(shot.key) in RECORD_APIS,
        )
        shared = self._files.shared
        sequence = self._sequences[shot.connection] = self._sequences.get(shot.connection, -1) + 1
        peers = ConnectionColumns(shot.connection, NODE, "bench", f"127.0.0.1:{40_000 + shot.connection}", None)
        group.numbers += (
            shared.connections.index_of(peers),
            shared.frame_types.index_of(FrameType(kind, by, shot.key, api_name(shot.key), VERSIONS[shot.key])),
            shared.client_ids.index_of(client_id(shot.connection)),
            sequence,
            exchange,
            *(at, at, awaits, correlation_id, len(frame)),
            *(None, None, None, None),
        )
        group.body += frame
        self._bytes += len(frame)

    def finish(self) -> int:
        """Makes the files visible."""
        publish(self._files.finish(), ignore_step)
        return self._bytes

"""Captures for the bench of the Spark toolbox, made of the wire's own frames; each of any length.

small_exchanges   heartbeats, produces and empty fetches: as small as exchanges get
fetched           answers to Fetch with a full batch each
mixed             what producers and consumers of a cluster exchange: about a kilobyte a frame, no two batches alike
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from proxy.wire import api_name, encode_request, encode_response, keys, records
from proxy.wire.keys import API_VERSIONS, FETCH, HEARTBEAT, METADATA, OFFSET_COMMIT, PRODUCE
from recorder.capture import frames as c
from recorder.capture.merging import split_by_records
from recorder.capture.partitions import range_name
from recorder.capture.storage import TableFile, ignore_step, publish

# exchanges that are written once and repeated with other numbers
BLOCK = 12_000
CONNECTIONS = 50
BEGAN_NS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 10**9
SESSION = "20261121T120000Z-bench"
HOUR = "frames/date=2026-11-21/hour=12"
VERSIONS = {API_VERSIONS: 3, HEARTBEAT: 4, PRODUCE: 9, FETCH: 11, METADATA: 9, OFFSET_COMMIT: 8}
# records in an answer, a batch of 16 KiB as a producer's default fills it
IN_BATCH, VALUE = 150, 100


def small_exchanges(folder: Path, count: int) -> Path:
    """A capture of heartbeats (half), produces and empty fetches (a quarter each)."""
    block = _table([row for number in range(BLOCK) for row in _exchange(number)])
    return _write(folder, (_shifted(block, at * BLOCK) for at in range(-(-count // BLOCK))))


def fetched(folder: Path, count: int) -> Path:
    """A capture of Fetch answers with one batch of IN_BATCH records each."""
    batch = records.write_batch([records.Record(n, 1000 + n, b"key-%03d" % n, bytes(VALUE)) for n in range(IN_BATCH)])
    partition = {"partition_index": 0, "high_watermark": IN_BATCH, "records": batch}
    frame = encode_response(FETCH, VERSIONS[FETCH], 1, {"responses": [{"topic": "bench", "partitions": [partition]}]})
    block = _table([_row(c.RESPONSE, FETCH, frame, number) | {c.CLIENT_ID: "client"} for number in range(500)])
    return _write(folder, (_shifted(block, at * 500) for at in range(-(-count // 500))))


def _exchange(number: int) -> Iterator[dict[str, Any]]:
    key = HEARTBEAT if number % 2 else PRODUCE if number % 4 else FETCH
    asked: dict[int, dict[str, Any]] = {
        HEARTBEAT: {"group_id": "g", "member_id": "m"},
        PRODUCE: {"acks": -1, "topic_data": [{"name": "bench", "partition_data": [{"index": 0, "records": _SMALL}]}]},
        FETCH: {"max_wait_ms": 500, "topics": [{"topic": "bench", "partitions": [{"partition": 0}]}]},
    }
    told: dict[int, dict[str, Any]] = {
        HEARTBEAT: {"error_code": 27 if number % 1000 == 1 else 0},
        PRODUCE: {"responses": [{"name": "bench", "partition_responses": [{"index": 0, "base_offset": number}]}]},
        FETCH: {"responses": [{"topic": "bench", "partitions": [{"partition_index": 0, "high_watermark": 1}]}]},
    }
    yield from _pair(key, number, asked[key], told[key])


def _pair(
    key: int, number: int, asked: dict[str, Any], told: dict[str, Any], client: str = "client"
) -> Iterator[dict[str, Any]]:
    """The rows of an exchange."""
    request = encode_request(key, VERSIONS[key], number, client, asked)
    shared: dict[str, Any] = {c.CLIENT_ID: client}
    yield _row(c.REQUEST, key, request, number) | shared
    shared |= {c.REQUEST_SIZE: len(request), c.LATENCY_NS: 1_000_000 + number * 997 % 9_000_000}
    yield _row(c.RESPONSE, key, encode_response(key, VERSIONS[key], number, told), number) | shared


_SMALL = records.write_batch([records.Record(0, 1000, value=bytes(100))])


def _row(kind: str, key: int, frame: bytes, number: int) -> dict[str, Any]:
    is_answer = kind == c.RESPONSE
    at_ns = BEGAN_NS + number * 1000 + is_answer
    row = {c.SESSION: SESSION, c.CLUSTER: "main", c.CONNECTION: number % CONNECTIONS}
    row |= {c.SEQUENCE: number // CONNECTIONS * 2 + is_answer, c.EXCHANGE: number // CONNECTIONS, c.DIALECT: c.KAFKA}
    row |= {c.KIND: kind, c.MADE_BY: c.BY_BROKER if is_answer else c.BY_CLIENT, c.AT_NS: at_ns, c.MONO_NS: at_ns}
    row |= {c.NODE: number % 3, c.CLIENT: f"10.0.0.{number % CONNECTIONS}:5000", c.API_KEY: key, c.API: api_name(key)}
    row |= {c.API_VERSION: VERSIONS[key], c.CORRELATION_ID: number, c.FRAME: frame}
    return row | {c.SIZE: len(frame), c.STORED: len(frame), c.AWAITS: None if is_answer else True, c.AT: at_ns // 1000}


def _table(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows, c.frames_schema())


def _shifted(block: Any, by: int) -> Any:
    """The block's rows as the exchanges that come `by` later."""
    turns = by // CONNECTIONS
    steps = {c.SEQUENCE: 2 * turns, c.EXCHANGE: turns, c.AT_NS: by * 1000, c.MONO_NS: by * 1000}
    for name, step in steps.items():
        at = block.schema.get_field_index(name)
        block = block.set_column(at, block.schema.field(at), pc.add(block[name], step))
    micros = pc.cast(pc.divide(block[c.AT_NS], 1000), block.schema.field(c.AT).type)
    return block.set_column(block.schema.get_field_index(c.AT), block.schema.field(c.AT), micros)


def _write(folder: Path, tables: Iterable[Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    hour, name = BEGAN_NS // c.HOUR_NS, range_name(SESSION, 1)
    file = TableFile(folder, c.FRAMES_FOLDER, hour, name, c.frames_schema())
    for table in tables:
        # row groups as the compactor makes them
        for part in split_by_records(table):
            if len(part):
                file.write(part)
    publish([file], ignore_step)
    return folder


# What a connection of the mix does in a turn; most of the bytes are records.
_TURN = (PRODUCE, PRODUCE, PRODUCE, PRODUCE, FETCH, FETCH, FETCH, FETCH, HEARTBEAT, OFFSET_COMMIT)
# the exchange of a connection's first turn in which it names its library
_NAMES_ITSELF = 8
NOT_LEADER = 6


class Mixture(NamedTuple):
    """What a mix consists of: with two batches of four exchanges in ten, a kilobyte a frame.

    `records`, `value`: records of a batch, and bytes of each. `topics`: connections take turns with them.
    `refused_every`: one Produce of so many is refused; 0: none.
    """

    records: int = 4
    value: int = 500
    topics: int = 1
    refused_every: int = 0


def mixed(folder: Path, megabytes: int, mixture: Mixture | None = None) -> Path:
    """A capture of about so many megabytes of frames. What a connection writes to its partition it reads back.

    All exchanges lie within an hour, so that it has sixty windows of a minute.
    """
    every = exchanges(megabytes, mixture or Mixture())
    blocks = iter(lambda: [row for pair in islice(every, BLOCK) for row in pair], [])
    return _write(folder, map(_table, blocks))


def exchanges(megabytes: int, mixture: Mixture) -> Iterator[list[dict[str, Any]]]:
    """The rows of the exchanges of a mix, in the order of time: of each its request and its answer."""
    count = megabytes * 1000 // 2
    mix = _Mix(count, mixture)
    return ([*mix.exchange(number)] for number in range(count))


def topic_of(connection: int, topics: int) -> str:
    """The topic of a connection."""
    return f"bench-{connection % topics}"


def key_of(connection: int, offset: int) -> bytes:
    """The key of the record at an offset of a connection's partition."""
    return b"%d-%d" % (connection, offset)


class _Mix:
    """The exchanges of a mix, by their numbers."""

    def __init__(self, count: int, mixture: Mixture) -> None:
        self._chance = random.Random(1)
        self._step_ns = c.HOUR_NS // count
        self._mixture = mixture
        self._produced_number = 0
        # by connection, the batches that were written in a turn, and are read in it
        self._written: dict[int, list[bytes]] = {number: [] for number in range(CONNECTIONS)}

    def exchange(self, number: int) -> Iterator[dict[str, Any]]:
        """The request and its answer."""
        place, connection = number // CONNECTIONS, number % CONNECTIONS
        key, offset = _TURN[place % len(_TURN)], place // len(_TURN) * 4 * self._mixture.records
        if place == _NAMES_ITSELF:
            key = API_VERSIONS
        asked, told = self._bodies(key, connection, offset)
        client = f"client-{connection}"
        for row in _pair(key, number, asked, told, client):
            row[c.AT_NS] = row[c.MONO_NS] = BEGAN_NS + number * self._step_ns + (row[c.KIND] == c.RESPONSE)
            row[c.AT] = row[c.AT_NS] // 1000
            yield row

    def _bodies(self, key: int, connection: int, begin: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Request and answer; `begin`: the end of the partition before the turn."""
        end = begin + 4 * self._mixture.records
        match key:
            case keys.PRODUCE:
                return self._produced(connection, begin)
            case keys.FETCH:
                return self._fetched(connection, end)
            case keys.API_VERSIONS:
                return {"client_software_name": "bench", "client_software_version": "1.0"}, {}
        member = {"group_id": f"group-{connection}", "member_id": "m"}
        if key == keys.HEARTBEAT:
            return member, {}
        topic = topic_of(connection, self._mixture.topics)
        committed = [{"partition_index": connection, "committed_offset": end}]
        done = {"topics": [{"name": topic, "partitions": [{"partition_index": connection}]}]}
        return member | {"topics": [{"name": topic, "partitions": committed}]}, done

    def _produced(self, connection: int, begin: int) -> tuple[dict[str, Any], dict[str, Any]]:
        written, topic = self._written[connection], topic_of(connection, self._mixture.topics)
        base = begin + len(written) * self._mixture.records
        batch = self._batch(connection, base)
        written.append(batch)
        self._produced_number += 1
        every = self._mixture.refused_every
        code = NOT_LEADER if every and self._produced_number % every == 0 else 0
        sent, told = [{"index": connection, "records": batch}], [{"index": connection, "base_offset": base}]
        asked = {"acks": -1, "topic_data": [{"name": topic, "partition_data": sent}]}
        if code:
            told = [{"index": connection, "base_offset": -1, "error_code": code}]
        return asked, {"responses": [{"name": topic, "partition_responses": told}]}

    def _fetched(self, connection: int, end: int) -> tuple[dict[str, Any], dict[str, Any]]:
        written, topic = self._written[connection], topic_of(connection, self._mixture.topics)
        base = end - len(written) * self._mixture.records
        batch = records.with_base_offset(written.pop(0), base)
        held = [{"partition_index": connection, "high_watermark": end, "records": batch}]
        wanted = [{"topic": topic, "partitions": [{"partition": connection, "fetch_offset": base}]}]
        return {"max_wait_ms": 500, "topics": wanted}, {"responses": [{"topic": topic, "partitions": held}]}

    def _batch(self, connection: int, base: int) -> bytes:
        number, size = self._mixture.records, self._mixture.value
        noise = self._chance.randbytes(number * size)
        values = (noise[at : at + size] for at in range(0, len(noise), size))
        return records.write_batch(
            [records.Record(n, 1000 + n, key_of(connection, base + n), value) for n, value in enumerate(values)]
        )

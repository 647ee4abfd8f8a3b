"""Captures for the bench of the Spark toolbox, made of the wire's own frames; each of any length.

small_exchanges   heartbeats, produces and empty fetches: as small as exchanges get
fetched           answers to Fetch with a full batch each
mixed             what producers and consumers of a cluster exchange: about a kilobyte a frame, no two batches alike
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from proxy.wire import api_name, encode_request, encode_response, keys, records
from proxy.wire.keys import FETCH, HEARTBEAT, METADATA, OFFSET_COMMIT, PRODUCE
from recorder.capture import frames as c
from recorder.capture.merging import split_by_records

# exchanges that are written once and repeated with other numbers
BLOCK = 12_000
CONNECTIONS = 50
BEGAN_NS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 10**9
HOUR = "frames/date=2026-11-21/hour=12"
VERSIONS = {HEARTBEAT: 4, PRODUCE: 9, FETCH: 11, METADATA: 9, OFFSET_COMMIT: 8}
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
    block = _table([_row(c.RESPONSE, FETCH, frame, number) for number in range(500)])
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


def _pair(key: int, number: int, asked: dict[str, Any], told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of an exchange."""
    request = encode_request(key, VERSIONS[key], number, "client", asked)
    yield _row(c.REQUEST, key, request, number)
    times = {c.REQUEST_SIZE: len(request), c.LATENCY_NS: 1_000_000 + number * 997 % 9_000_000}
    yield _row(c.RESPONSE, key, encode_response(key, VERSIONS[key], number, told), number) | times


_SMALL = records.write_batch([records.Record(0, 1000, value=bytes(100))])


def _row(kind: str, key: int, frame: bytes, number: int) -> dict[str, Any]:
    is_answer = kind == c.RESPONSE
    at_ns = BEGAN_NS + number * 1000 + is_answer
    row = {c.SESSION: "20261121T120000Z-bench", c.CLUSTER: "main", c.CONNECTION: number % CONNECTIONS}
    row |= {c.SEQUENCE: number // CONNECTIONS * 2 + is_answer, c.EXCHANGE: number // CONNECTIONS, c.DIALECT: c.KAFKA}
    row |= {c.KIND: kind, c.MADE_BY: c.BY_BROKER if is_answer else c.BY_CLIENT, c.AT_NS: at_ns, c.MONO_NS: at_ns}
    row |= {c.NODE: number % 3, c.CLIENT: f"10.0.0.{number % CONNECTIONS}:5000", c.API_KEY: key, c.API: api_name(key)}
    row |= {c.API_VERSION: VERSIONS[key], c.CLIENT_ID: "client", c.CORRELATION_ID: number, c.FRAME: frame}
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
    (folder / HOUR).mkdir(parents=True)
    file = folder / HOUR / "20261121T120000Z-bench-00000001-00000001.parquet"
    with pq.ParquetWriter(file, c.frames_schema(), compression="zstd") as writer:
        for table in tables:
            # row groups as the compactor makes them
            for part in split_by_records(table):
                if len(part):
                    writer.write_table(part, row_group_size=100_000)
    return folder


# What a connection of the mix does in a turn; most of the bytes are records.
_TURN = (PRODUCE, PRODUCE, PRODUCE, PRODUCE, FETCH, FETCH, FETCH, FETCH, HEARTBEAT, OFFSET_COMMIT)
# records of a batch, and bytes of each: with two batches of four exchanges in ten, a kilobyte a frame
_MIXED_RECORDS, _MIXED_VALUE = 4, 500
# all exchanges of a mix lie within this time, so that it has sixty windows


def mixed(folder: Path, megabytes: int) -> Path:
    """A capture of about so many megabytes of frames. What a connection writes to its partition it reads back."""
    count = megabytes * 1000 // 2
    mix = _Mix(count)
    blocks = (range(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK))
    return _write(folder, (_table([row for number in block for row in mix.exchange(number)]) for block in blocks))


class _Mix:
    """The exchanges of a mix, by their numbers."""

    def __init__(self, count: int) -> None:
        self._chance = random.Random(1)
        self._step_ns = c.HOUR_NS // count
        # by connection, the batches that were written in a turn, and are read in it
        self._written: dict[int, list[bytes]] = {number: [] for number in range(CONNECTIONS)}

    def exchange(self, number: int) -> Iterator[dict[str, Any]]:
        """The request and its answer."""
        place, connection = number // CONNECTIONS, number % CONNECTIONS
        key, offset = _TURN[place % len(_TURN)], place // len(_TURN) * 4 * _MIXED_RECORDS
        asked, told = self._bodies(key, connection, offset)
        for row in _pair(key, number, asked, told):
            row[c.AT_NS] = row[c.MONO_NS] = BEGAN_NS + number * self._step_ns + (row[c.KIND] == c.RESPONSE)
            row[c.AT] = row[c.AT_NS] // 1000
            yield row

    def _bodies(self, key: int, partition: int, begin: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Request and answer; `begin`: the end of the partition before the turn."""
        end = begin + 4 * _MIXED_RECORDS
        match key:
            case keys.PRODUCE:
                return self._produced(partition, begin)
            case keys.FETCH:
                return self._fetched(partition, end)
        member = {"group_id": f"group-{partition}", "member_id": "m"}
        if key == keys.HEARTBEAT:
            return member, {}
        committed = [{"partition_index": partition, "committed_offset": end}]
        done = {"topics": [{"name": "bench", "partitions": [{"partition_index": partition}]}]}
        return member | {"topics": [{"name": "bench", "partitions": committed}]}, done

    def _produced(self, partition: int, begin: int) -> tuple[dict[str, Any], dict[str, Any]]:
        written = self._written[partition]
        batch, base = self._batch(), begin + len(written) * _MIXED_RECORDS
        written.append(batch)
        sent, told = [{"index": partition, "records": batch}], [{"index": partition, "base_offset": base}]
        asked = {"acks": -1, "topic_data": [{"name": "bench", "partition_data": sent}]}
        return asked, {"responses": [{"name": "bench", "partition_responses": told}]}

    def _fetched(self, partition: int, end: int) -> tuple[dict[str, Any], dict[str, Any]]:
        written = self._written[partition]
        base = end - len(written) * _MIXED_RECORDS
        batch = records.with_base_offset(written.pop(0), base)
        held = [{"partition_index": partition, "high_watermark": end, "records": batch}]
        wanted = [{"topic": "bench", "partitions": [{"partition": partition, "fetch_offset": base}]}]
        return {"max_wait_ms": 500, "topics": wanted}, {"responses": [{"topic": "bench", "partitions": held}]}

    def _batch(self) -> bytes:
        noise = self._chance.randbytes(_MIXED_RECORDS * _MIXED_VALUE)
        values = (noise[at : at + _MIXED_VALUE] for at in range(0, len(noise), _MIXED_VALUE))
        return records.write_batch([records.Record(n, 1000 + n, value=value) for n, value in enumerate(values)])

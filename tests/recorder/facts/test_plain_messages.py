"""Tests that Produces and Fetches that are read many at once make the rows that they make one by one."""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from fuzz import corpus
from proxy.wire import apis, keys, records
from proxy.wire.apis import KINDS as SIDES
from proxy.wire.apis import MessageKind
from recorder.capture.frames import frames_schema
from recorder.facts.batches import BATCHES
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.plain_messages import APIS, plain_messages
from recorder.facts.rows import Decoder, DecoderIndex, decoded_together
from recorder.facts.tables import TABLES
from tests.recorder.facts.frames import Row, request, response, rows

KINDS = [(side, key, version) for side in (REQUEST, RESPONSE) for key in APIS for version in apis.versions(key)]
ONE_BY_ONE = tuple(replace(table, read_many=None) for table in TABLES)
FRAMES = 80
IDS = [bytes(16), bytes(15) + b"\1", bytes(range(16)), b"\xff" + bytes(15)]


def batches(chance: Random) -> bytes | None:
    """None, nothing, or batches of all codecs, some of them odd."""
    if chance.random() < 0.2:
        return chance.choice([None, b""])
    found = [batch(chance) for _ in range(chance.choice([1, 1, 1, 2, 5]))]
    if chance.random() < 0.1:
        found.append(found[-1][: chance.randrange(len(found[-1]))])
    return b"".join(found)


def batch(chance: Random) -> bytes:
    count = chance.choice([1, 2, 3, 40])
    made = [records.Record(7 + n, 1000 + n, b"k", chance.randbytes(chance.choice([1, 90]))) for n in range(count)]
    codec = chance.choice([*[records.Compression.NONE] * 3, records.Compression.GZIP, records.Compression.LZ4])
    found = records.write_batch(made, codec=codec)
    if chance.random() < 0.3:
        found = records.with_producer(found, chance.randrange(1 << 40), chance.randrange(1 << 15), 4)
    match chance.randrange(20):
        case 0:
            told = {"offset": 9, "timestamp": 1, "producer_id": 5, "producer_epoch": 9, "coordinator_epoch": 1}
            found = records.end_marker_batch(records.ControlType.COMMIT, **told)
        case 1:
            found = records.write_message_set(made[:1], magic=1)
        case 2:
            # a checksum that is wrong
            found = found[:-1] + bytes([found[-1] ^ 1])
    return found


def partition(side: str, key: int, chance: Random) -> dict[str, Any]:
    index = chance.randrange(100)
    if key == keys.PRODUCE and side == REQUEST:
        return {"index": index, "records": batches(chance)}
    code = 6 if chance.random() < 0.05 else 0
    leader = {"current_leader": {"leader_id": 3, "leader_epoch": 8}} if code else {}
    if key == keys.PRODUCE:
        return {"index": index, "error_code": code, "base_offset": chance.randrange(-1, 99), **leader}
    if side == REQUEST:
        asked = {"partition": index, "fetch_offset": chance.randrange(1 << 40), "current_leader_epoch": 5}
        return asked | {"log_start_offset": chance.choice([-1, 4])}
    ends = {"high_watermark": chance.choice([-1, 8, 99]), "last_stable_offset": chance.choice([-1, 8, 98])}
    aborted = chance.choice([None, [], [{"producer_id": 4, "first_offset": 5}]])
    return {
        "partition_index": index,
        "error_code": code,
        "aborted_transactions": aborted,
        "records": batches(chance),
        **ends,
        **leader,
    }


def message(side: str, key: int, chance: Random) -> dict[str, Any]:
    array, partitions = {
        (REQUEST, keys.PRODUCE): ("topic_data", "partition_data"),
        (RESPONSE, keys.PRODUCE): ("responses", "partition_responses"),
        (REQUEST, keys.FETCH): ("topics", "partitions"),
        (RESPONSE, keys.FETCH): ("responses", "partitions"),
    }[side, key]
    named = [
        {
            "name" if key == keys.PRODUCE else "topic": chance.choice(["", "t", "orders", "größe", "x" * 200]),
            "topic_id": chance.choice(IDS),
            partitions: [partition(side, key, chance) for _ in range(chance.choice([0, 1, 1, 1, 3]))],
        }
        for _ in range(chance.choice([0, 1, 1, 1, 2]))
    ]
    if chance.random() < 0.02:
        named *= 70
    values: dict[str, Any] = {array: named, "throttle_time_ms": chance.choice([0, 7]), "session_id": 12}
    if side == REQUEST and key == keys.PRODUCE:
        values |= {"acks": chance.choice([-1, 0, 1]), "transactional_id": chance.choice([None, None, None, "", "tx"])}
    if side == REQUEST and key == keys.FETCH:
        values |= {"isolation_level": chance.choice([0, 1]), "session_epoch": 3, "replica_id": chance.choice([-1, 2])}
        values |= {"replica_state": {"replica_id": chance.choice([-1, 2])}}
        if chance.random() < 0.1:
            values |= {"forgotten_topics_data": [{"topic": "t", "topic_id": IDS[2], "partitions": [1, 2]}]}
    return values | ({"error_code": 71} if chance.random() < 0.05 else {})


def frame(side: str, key: int, version: int, chance: Random) -> Row:
    known = {field.name for field in apis.message(side, key).fields}  # type: ignore[union-attr, arg-type]
    values = {name: value for name, value in message(side, key, chance).items() if name in known}
    return (request if side == REQUEST else response)(key, version, values)


def spoilt(row: Row, chance: Random) -> Row:
    data = bytearray(row["frame"])
    match chance.randrange(8):
        case 0:
            del data[chance.randrange(len(data)) :]
        case 1 | 2:
            data[chance.randrange(len(data))] = chance.choice([0, 1, 127, 128, 255])
        case 3:
            data += b"\0" * 3
        case 4:
            return row | chance.choice(SPOILT)
        case _:
            return row
    return row | {"frame": bytes(data), "size": len(data), "stored": len(data)}


SPOILT: list[Row] = [
    {"masked": [{"start": 4, "length": 9}]},
    {"masked": []},
    {"note": "cut: the client left"},
    {"frame": None},
    {"api_version": None},
    {"dropped": [{"start": 30, "length": 2}]},
]


def tables(frames: list[Row], decoders: tuple[Decoder, ...]) -> dict[str, list[Row]]:
    index = DecoderIndex(decoders, for_facts=True)
    table = pa.Table.from_pylist(frames, frames_schema()).select(index.reads)
    found: dict[str, list[Row]] = {decoder.name: [] for decoder in decoders}
    for decoder, made in decoded_together(table.to_batches(), index):
        found[decoder.name] += made.to_pylist()
    return found


@pytest.mark.real
@pytest.mark.parametrize(("side", "key", "version"), KINDS)
def test_many_at_once_make_the_rows_of_each(side: str, key: int, version: int) -> None:
    chance = Random(version)
    whole = [frame(side, key, version, chance) for _ in range(FRAMES)]
    assert tables(whole, TABLES) == tables(whole, ONE_BY_ONE)
    some = [spoilt(row, chance) for row in whole]
    assert tables(some, TABLES) == tables(some, ONE_BY_ONE)


def test_rows_of_several_kinds_stand_in_the_order_of_frames() -> None:
    chance = Random(1)
    frames = [frame(*KINDS[at], chance) for _ in range(FRAMES) for at in (2, 17, 30, 50)]
    found = tables(frames, TABLES)
    assert found == tables(frames, ONE_BY_ONE)
    assert len(found["frames"]) == len(frames)


@pytest.mark.parametrize(("side", "key", "version"), KINDS)
def test_the_usual_messages_are_read_many_at_once(side: str, key: int, version: int) -> None:
    data = records.write_batch([records.Record(n, value=b"v" * 9) for n in range(5)])
    held = {"index": 1, "partition": 1, "partition_index": 1, "records": data}
    fields = {field.name: field for field in apis.message(side, key).fields}  # type: ignore[union-attr, arg-type]
    array = fields[next(name for name in ("topic_data", "responses", "topics") if name in fields)]
    inner = next(field for field in array.fields if field.is_array)
    part = {field.name: held[field.name] for field in inner.fields if field.name in held}
    name = array.fields[0].name
    values = {array.name: [{name: "t", "topic_id": IDS[2], inner.name: [part, part]}]}
    made = (request if side == REQUEST else response)(key, version, values)
    table = pa.Table.from_pylist([made] * FRAMES, frames_schema())
    (batch,) = table.to_batches()
    (messages,) = plain_messages(batch, DecoderIndex(TABLES).reads_many)
    assert messages.numbers.tolist() == [*range(FRAMES)]
    assert len(messages.partition_numbers) == 2 * FRAMES


def test_a_slice_of_a_batch_is_read_as_the_batch_is() -> None:
    chance = Random(2)
    frames = [frame(REQUEST, keys.PRODUCE, 9, chance) for _ in range(FRAMES)]
    index = DecoderIndex(TABLES, for_facts=True)
    (batch,) = pa.Table.from_pylist(frames, frames_schema()).select(index.reads).to_batches()
    (part,) = (made for decoder, made in decoded_together([batch.slice(11)], index) if decoder.name == "frames")
    assert part.to_pylist() == tables(frames[11:], ONE_BY_ONE)["frames"]


def test_only_facts_need_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's executors may lack it, which decode frames of captures without facts."""
    monkeypatch.setitem(sys.modules, "recorder.facts.plain_messages", None)
    chance = Random(3)
    frames = [frame(REQUEST, keys.PRODUCE, 9, chance) for _ in range(FRAMES)]
    assert {row["side"] for row in rows(BATCHES, *frames)} == {"request"}
    with pytest.raises(ImportError):
        tables(frames, TABLES)


REAL = [(kind, *one) for kind in SIDES for one in corpus.frames(kind) if one[1] in APIS]


@pytest.mark.parametrize(("side", "name", "key", "version", "data"), REAL, ids=[f"{one[0]}-{one[1]}" for one in REAL])
def test_real_frames_make_the_rows_of_each(side: MessageKind, name: str, key: int, version: int, data: bytes) -> None:
    chance = Random(name)
    row = (request if side == REQUEST else response)(key, version, {})
    every = [row | {"frame": data, "size": len(data), "stored": len(data)} for _ in range(FRAMES)]
    assert tables(every, TABLES) == tables(every, ONE_BY_ONE)
    some = [spoilt(one, chance) for one in every]
    assert tables(some, TABLES) == tables(some, ONE_BY_ONE)

"""Tests of the tables of facts: from them follow the rows that each decoder of analysis makes of the frames."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import api_name, keys, records
from proxy.wire.headers import write_request_head, write_response_head
from recorder.capture import frames as c
from recorder.capture.frames import frames_schema
from recorder.facts.schema import arrow_type
from recorder.facts.tables import TABLES
from tests.recorder.facts.frames import Row, request, response
from tests.recorder.facts.twins import assert_tells_all, facts_of
from tests.strategies import messages
from tests.sweeps import examples

TWO = records.write_batch([records.Record(7, value=b"a"), records.Record(8, value=b"b")], producer_id=5)
IN_TRANSACTION = records.write_batch([records.Record(0, value=b"a")], producer_id=5, transactional=True)
MARKER = records.write_batch(
    [records.Record(9, key=bytes(4), value=bytes(6))], control=True, transactional=True, producer_id=5
)


def produce(data: bytes, version: int = 9, **more: Any) -> Row:
    partition = {"index": 3, "records": data}
    return request(
        keys.PRODUCE, version, {"acks": -1, "topic_data": [{"name": "t", "partition_data": [partition]}]} | more
    )


def fetch(data: bytes, version: int = 12, **told: Any) -> Row:
    partition = {"partition_index": 3, "high_watermark": 12, "last_stable_offset": 12, "records": data} | told
    return response(keys.FETCH, version, {"session_id": 4, "responses": [{"topic": "t", "partitions": [partition]}]})


# frames with records, and others that random values hardly make
CHOSEN = [
    produce(TWO),
    produce(IN_TRANSACTION, transactional_id="tx"),
    produce(b""),
    produce(TWO + bytes(40)),
    fetch(MARKER + bytes(40)),
    fetch(TWO),
    fetch(TWO + MARKER),
    fetch(TWO[:-3], error_code=6),
    fetch(TWO + TWO[:30]),
    fetch(TWO, high_watermark=9, last_stable_offset=9),
    fetch(b"", version=4),
    fetch(b"", current_leader={"leader_id": 2, "leader_epoch": 8}),
    response(keys.PRODUCE, 9, {"responses": [{"name": "t", "partition_responses": [{"index": 3, "error_code": 6}]}]}),
    # cut behind its codes
    response(keys.PRODUCE, 10, {}, frame=b"\0\0\0\1\0\1", note=c.CUT + "x"),
    response(keys.LIST_OFFSETS, 5, {"topics": [{"name": "t", "partitions": [{"partition_index": 3, "offset": 9}]}]}),
    response(
        keys.LIST_OFFSETS,
        0,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 3, "old_style_offsets": [9, 4]}]}]},
    ),
    request(keys.LIST_OFFSETS, 5, {"topics": [{"name": "t", "partitions": [{"partition_index": 3, "timestamp": -1}]}]}),
    request(
        keys.FETCH,
        12,
        {"session_id": 4, "session_epoch": 3, "forgotten_topics_data": [{"topic": "t", "partitions": [3]}]},
    ),
    request(keys.FETCH, 3, {"replica_id": 2, "topics": [{"topic": "t", "partitions": [{"partition": 3}]}]}),
]
SPOILT: list[Row] = [
    {"frame": None, "stored": 0},
    {"api_version": 99},
    {"masked": [{"start": 0, "length": 90}]},
    {"note": c.CUT + "the connection ended"},
    {"dialect": "kafka-0.7"},
]


@st.composite
def frames(draw: st.DrawFn) -> Row:
    """A request or a response, maybe one that can't be read, or only in part."""
    if draw(st.booleans()):
        row = draw(st.sampled_from(CHOSEN))
    else:
        codec, values = draw(messages())
        key, version = codec.message.key or 0, codec.version
        is_request = codec.message.kind == "request"
        head = write_request_head(key, version, 1, "app") if is_request else write_response_head(key, version, 1)
        frame = head + codec.encode(values)
        row = (request if is_request else response)(keys.HEARTBEAT, 0, {})
        row |= {"api_key": key, "api": api_name(key), "api_version": version, "frame": frame}
    data = row["frame"]
    spoilt: Row = draw(
        st.one_of(
            st.just({}),
            st.sampled_from(SPOILT),
            st.builds(lambda end: {"frame": data[:end], "note": c.CUT + "x"}, st.integers(0, len(data))),
            st.builds(
                lambda at, byte: {"frame": data[:at] + bytes([byte]) + data[at + 1 :]},
                st.integers(0, max(len(data) - 1, 0)),
                st.integers(0, 255),
            ),
        )
    )
    return {**row, **spoilt}


@pytest.mark.parametrize("frame", CHOSEN, ids=lambda frame: f"{frame['api']}-{frame['kind']}")
def test_facts_tell_what_decoders_tell_of_chosen_frames(frame: Row) -> None:
    assert_tells_all(frame)
    for other in SPOILT:
        assert_tells_all(frame | other)


@given(frames())
def test_facts_tell_what_decoders_tell_of_any_frame(frame: Row) -> None:
    assert_tells_all(frame)


@examples(20)
@given(st.lists(frames(), max_size=6))
def test_a_frames_facts_do_not_depend_on_other_frames(many: list[Row]) -> None:
    numbered = [row | {"sequence": number} for number, row in enumerate(many)] * 2
    together = facts_of(numbered)
    for name, found in together.items():
        alone = [row for one in numbered for row in facts_of([one])[name]]
        assert found == alone, name


def test_a_frame_of_another_api_than_its_rows_is_none_of_those_that_were_read() -> None:
    beat = request(keys.HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    other = beat | {"frame": b"\x01" + beat["frame"][1:]}
    assert facts_of([beat, other])["group_steps"] == facts_of([beat])["group_steps"] + facts_of([other])["group_steps"]


def test_facts_are_of_the_columns_that_a_capture_has() -> None:
    schema = frames_schema()
    for decoder in TABLES:
        assert set(decoder.reads) <= set(schema.names)
        for column, copied in zip(decoder.frame_columns, decoder.copied, strict=True):
            assert arrow_type(column.kind) == schema.field(copied).type


def test_each_table_has_each_column_once() -> None:
    assert len({decoder.name for decoder in TABLES}) == len(TABLES)
    for decoder in TABLES:
        assert len(set(decoder.table.names)) == len(decoder.table.names), decoder.name

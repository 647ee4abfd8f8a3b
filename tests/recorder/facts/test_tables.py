"""Tests of the tables of facts: from them follow the rows that each decoder of analysis makes of the frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire import api_name, keys, records
from proxy.wire.headers import write_request_head, write_response_head
from recorder.capture import frames as c
from recorder.capture.frames import frames_schema
from recorder.facts.answers import answers
from recorder.facts.batches import BATCHES, PRODUCED_OFFSETS
from recorder.facts.fetch_sessions import FETCH_ANSWERS, FETCH_REQUESTS, FETCH_SIZES
from recorder.facts.group_joins import JOINS
from recorder.facts.group_offsets import GROUP_STEPS
from recorder.facts.log_ends import FETCHED_ENDS, PAIRED_ENDS
from recorder.facts.memberships import HEARTBEAT_ANSWERS, HEARTBEAT_REQUESTS, HEARTBEATS
from recorder.facts.metadata import METADATA_STATES
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.rows import Decoder, DecoderIndex, decoded_together
from recorder.facts.schema import arrow_type
from recorder.facts.software import OFFERS, REPLICAS, SOFTWARE
from recorder.facts.tables import TABLES
from recorder.facts.topic_errors import TOPIC_ERRORS
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from recorder.facts.transactions import MARKERS, TRANSACTION_ANSWERS, TRANSACTION_STEPS
from tests.recorder.facts.frames import Row, request, response, rows
from tests.strategies import messages

ANSWERS = answers()
HEADS_OF_ANSWERS = {column.name for column in ANSWERS.frame_columns}
PLACE = {"topic", "topic_id", "partition"}
TWO = records.write_batch([records.Record(7, value=b"a"), records.Record(8, value=b"b")], producer_id=5)
IN_TRANSACTION = records.write_batch([records.Record(0, value=b"a")], producer_id=5, transactional=True)
MARKER = records.write_batch(
    [records.Record(9, key=bytes(4), value=bytes(6))], control=True, transactional=True, producer_id=5
)
Facts = dict[str, list[Row]]


def facts_of(frames: list[Row]) -> Facts:
    """The rows of each table of facts."""
    index = DecoderIndex(TABLES, unfold_nothing=True)
    table = pa.Table.from_pylist(frames, frames_schema()).select(index.reads)
    found: Facts = {decoder.name: [] for decoder in TABLES}
    for decoder, batch in decoded_together(table.to_batches(), index):
        found[decoder.name] += batch.to_pylist()
    return found


def alike(row: Row, decoder: Decoder) -> Row:
    """A row of facts with the columns of a decoder's table."""
    return {name: row.get(name) for name in decoder.table.names}


def wanted(frame: Row, decoder: Decoder) -> bool:
    kind = frame["kind"], frame["dialect"], frame["api_key"], frame["api_version"]
    return any(selector.has(*kind) for selector in decoder.selectors)


def of_frame(facts: Facts) -> list[Row]:
    return facts["frames"]


def partitions(facts: Facts) -> list[Row]:
    """A frame with a batch that can't be read has one row in `topic_partitions`."""
    found = [row for row in facts["partitions"] if not row["is_forgotten"]]
    return [row for row in found if row["unread"]] or found


def all_partitions(facts: Facts) -> list[Row]:
    """A bad batch spoils no partition; a frame that can't be opened has a row that says so."""
    return [row for row in facts["partitions"] if not row["unread"]] or facts["partitions"]


def produced_offsets(facts: Facts) -> list[Row]:
    return facts["partitions"]


def fetched(facts: Facts) -> list[Row]:
    """The request's own row, and one for each of its partitions."""
    (frame,) = facts["frames"]
    session = {name: frame[name] for name in ("fetch_session", "fetch_epoch")}
    return [frame, *(row | session for row in facts["partitions"] if row["partition"] is not None)]


def fetch_answer(facts: Facts) -> list[Row]:
    (frame,) = facts["frames"]
    told = {"answered_session": frame["fetch_session"], "answered_error": frame["fetch_error"]}
    unread = frame["unopened"] or frame["unread"] if frame["partitions"] is None else None
    return [frame | told | {"unread": unread}]


def ends(facts: Facts) -> list[Row]:
    found = []
    for row in all_partitions(facts):
        is_request, key = row["side"] == "request", row["api"]
        if row["unread"]:
            found.append(row)
            continue
        if row["is_forgotten"] or (row["error_code"] and not is_request):
            continue
        if key == "Fetch":
            end = {"end_offset": row["high_watermark"], "stable_offset": row["last_stable_offset"]}
            end["control_offsets"] = row["control_offsets"] or []
        elif key == "Produce":
            end = (
                {"offsets": row["records"] or 0 if row["bytes"] == 0 else row["records"]}
                if is_request
                else {"first_offset": row["base_offset"]}
            )
        elif is_request:
            if row["timestamp_ms"] != -1 or row["isolation_level"]:
                continue
            end = {"is_asked": True}
        else:
            end = {"first_offset": row["offset"]}
        found.append({**dict.fromkeys(row), **{n: row[n] for n in row if n in HEADS | PLACE}, **end})
    return found


HEADS = {column.name for column in TOPIC_PARTITIONS.frame_columns}


def group_steps(facts: Facts) -> list[Row]:
    return [row for row in facts["group_steps"] if row["api"] not in map(api_name, HEARTBEATS)]


def heartbeats(facts: Facts) -> list[Row]:
    return [row for row in facts["group_steps"] if row["api"] in map(api_name, HEARTBEATS)]


def joins(facts: Facts) -> list[Row]:
    return facts["group_steps"]


def steps(facts: Facts) -> list[Row]:
    return [row for row in facts["transaction_steps"] if row["side"] == "request"]


def markers(facts: Facts) -> list[Row]:
    return [row for row in facts["transaction_steps"] if row["side"] == "response" and row["api"] == "Fetch"]


def transaction_answers(facts: Facts) -> list[Row]:
    found = [row for row in facts["transaction_steps"] if row["side"] == "response" and row["api"] != "Fetch"]
    told = {"producer_id": "answered_producer_id", "producer_epoch": "answered_producer_epoch"}
    found = [row | {new: row[name] for name, new in told.items()} for row in found]
    for row in facts["frames"]:
        if row["api"] == "Produce":
            codes = [one["error_code"] for one in all_partitions(facts)]
            is_refused = None if row["unread"] else bool(codes) and all(codes)
            found.append(row | {"is_refused": is_refused})
    return found


def topic_errors(facts: Facts) -> list[Row]:
    of_partitions = [row for row in all_partitions(facts) if row["error_code"] or row["unread"]]
    return facts["topic_errors"] + of_partitions


VIEWS: list[tuple[Decoder, Callable[[Facts], list[Row]]]] = [
    (ANSWERS, of_frame),
    (SOFTWARE, of_frame),
    (REPLICAS, of_frame),
    (FETCH_SIZES, of_frame),
    (FETCH_ANSWERS, fetch_answer),
    (FETCH_REQUESTS, fetched),
    (TOPIC_PARTITIONS, partitions),
    (PRODUCED_OFFSETS, produced_offsets),
    (FETCHED_ENDS, ends),
    (PAIRED_ENDS, ends),
    (BATCHES, lambda facts: facts["batches"]),
    (GROUP_STEPS, group_steps),
    (HEARTBEAT_REQUESTS, heartbeats),
    (HEARTBEAT_ANSWERS, heartbeats),
    (JOINS, joins),
    (TRANSACTION_STEPS, steps),
    (TRANSACTION_ANSWERS, transaction_answers),
    (MARKERS, markers),
    (METADATA_STATES, lambda facts: facts["metadata_states"]),
    (ANSWERED_NAMES, lambda facts: facts["answered_names"]),
    (OFFERS, lambda facts: facts["offers"]),
    (TOPIC_ERRORS, topic_errors),
]


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


def assert_tells_all(frame: Row) -> None:
    facts = facts_of([frame])
    for decoder, view in VIEWS:
        if wanted(frame, decoder):
            told = [alike(row, decoder) for row in view(facts)]
            # frames' heads stand in frames, and not once more in facts
            heads = set(decoder.table.names) & HEADS_OF_ANSWERS if decoder is ANSWERS else set()
            twin = [{name: row[name] for name in row if name not in heads} for row in rows(decoder, frame)]
            assert [{name: row[name] for name in row if name not in heads} for row in told] == twin, decoder.name


@pytest.mark.parametrize("frame", CHOSEN, ids=lambda frame: f"{frame['api']}-{frame['kind']}")
def test_facts_tell_what_decoders_tell_of_chosen_frames(frame: Row) -> None:
    assert_tells_all(frame)
    for other in SPOILT:
        assert_tells_all(frame | other)


@given(frames())
def test_facts_tell_what_decoders_tell_of_any_frame(frame: Row) -> None:
    assert_tells_all(frame)


@settings(max_examples=20)
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

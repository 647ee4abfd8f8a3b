"""Tests of whole frames with hashed values: every version of every message that carries records."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import wire
from proxy.wire import keys
from proxy.wire.apis import MessageKind
from proxy.wire.compile.layout import layout
from proxy.wire.places import partitions
from proxy.wire.records import Compression, Record, write_batch, write_message_set
from recorder.hashing.batches import FrameBudget, rewritten
from recorder.hashing.frames import RewrittenFrame, holders, rewritten_frame
from recorder.hashing.hasher import Hasher
from tests.strategies import Values, must_codec
from tests.sweeps import examples

HASHER = Hasher(b"a key of thirty-two bytes or more")
SECRET = b"4111-1111-1111-1111"
RECORDS = [Record(7, 1_700_000_000_000, SECRET, SECRET * 20, (("name", SECRET),)), Record(8, 5, None, SECRET)]
OLD = [Record(7, 5, SECRET, SECRET * 20)]
FORMS = [
    None,
    b"",
    write_batch(RECORDS),
    write_batch(RECORDS, codec=Compression.GZIP) * 3,
    write_batch(RECORDS)[:100],
    write_message_set(OLD, magic=1, codec=Compression.GZIP) + write_message_set(OLD, magic=0),
    b"no batch " + SECRET,
]
CASES = [(kind, key, version) for kind, key in sorted(holders()) for version in wire.versions(key)]


def all_topics(_: str | bytes) -> bool:
    return True


def test_what_carries_records_is_what_kafka_says() -> None:
    # FetchSnapshot's are secrets, which the tap masks
    assert holders() == {("request", keys.PRODUCE), ("response", keys.FETCH), ("response", keys.SHARE_FETCH)}


def frame_of(kind: MessageKind, key: int, version: int, random: Random) -> tuple[bytes, dict[str, Any]]:
    codec = must_codec(kind, key, version)
    values = Values(random).struct(layout(codec.message, version))
    for partition in partitions(kind, key, values):
        partition.values["records"] = random.choice(FORMS) or b""
    if kind == "request":
        return wire.encode_request(key, version, correlation_id=9, client_id="me", values=values), values
    return wire.encode_response(key, version, correlation_id=9, values=values), values


def body_of(kind: MessageKind, key: int, version: int, frame: bytes) -> dict[str, Any]:
    head = wire.request_head(frame) if kind == "request" else wire.response_head(frame, key, version)
    values, end = must_codec(kind, key, version).decode(frame, head.body)
    assert end == len(frame)
    return values


def filled(found: RewrittenFrame) -> bytes:
    """The frame with zeros in place of what is left out."""
    out, at = bytearray(), 0
    for start, length in sorted([*found.dropped, *found.omitted]):
        piece = start - len(out)
        out += found.data[at : at + piece] + bytes(length)
        at += piece
    return bytes(out) + found.data[at:]


def topic_of(partition: Any) -> str | bytes:
    return partition.around.topic_id if partition.around.topic_id is not None else partition.around.name or ""


def expected(kind: MessageKind, data: bytes) -> bytes:
    found = rewritten(data, HASHER, FrameBudget(), by_broker=kind == "response")
    return filled(RewrittenFrame(found.data, [], found.omitted, [], found.told))


@pytest.mark.parametrize(("kind", "key", "version"), CASES)
@examples(30)
@given(random=st.randoms(use_true_random=False))
def test_a_frame_is_what_it_was_but_for_the_records_of_chosen_topics(
    kind: MessageKind, key: int, version: int, random: Random
) -> None:
    frame, values = frame_of(kind, key, version, random)
    found_topics = {topic_of(partition) for partition in partitions(kind, key, values)}
    chosen = {topic for topic in found_topics if random.random() < 0.7}
    found = rewritten_frame(kind, key, version, frame, chosen.__contains__, HASHER)
    for partition in partitions(kind, key, values):
        if topic_of(partition) in chosen and partition.values["records"]:
            partition.values["records"] = expected(kind, partition.values["records"])
    assert body_of(kind, key, version, filled(found)) == values
    assert found.told is not None
    if chosen >= found_topics:
        assert SECRET not in found.data


@pytest.mark.parametrize(("kind", "key", "version"), CASES)
def test_a_frame_that_is_cut_anywhere_keeps_no_value(kind: MessageKind, key: int, version: int) -> None:
    frame, _ = frame_of(kind, key, version, Random(3))
    head = 13 if kind == "request" else 5
    for cut in [*range(min(len(frame), 300)), *range(300, len(frame), 37)]:
        found = rewritten_frame(kind, key, version, frame[:cut], all_topics, HASHER)
        assert len(filled(found)) >= min(cut, head)
        assert SECRET not in found.data


@pytest.mark.parametrize(
    ("kind", "version", "body"),
    [("request", None, 13), ("request", 99, 14), ("response", None, 4), ("response", 99, 5)],
)
def test_of_a_frame_of_an_unknown_version_the_head_stays(kind: MessageKind, version: int | None, body: int) -> None:
    key = keys.PRODUCE if kind == "request" else keys.FETCH
    frame = b"\0\0\0\x63\0\0\0\x09\0\x01m\0\0" if kind == "request" else bytes(5)
    if version is None and kind == "request":
        frame = b"\0\0\0\x00\0\0\0\x09\0\x03me.\0"
    frame = frame[:body].ljust(body, b"\0") + SECRET
    found = rewritten_frame(kind, key, version, frame, all_topics, HASHER)
    assert SECRET not in found.data
    assert filled(found)[: len(found.data)] == found.data
    assert len(filled(found)) == len(frame)
    assert found.told is None


def produce(*parts: bytes) -> bytes:
    partition_data = [{"index": place, "records": part} for place, part in enumerate(parts)]
    values = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": partition_data}]}
    return wire.encode_request(keys.PRODUCE, 9, correlation_id=9, client_id="me", values=values)


def records_in(frame: bytes) -> list[bytes]:
    values = body_of("request", keys.PRODUCE, 9, frame)
    return [each["records"] for topic in values["topic_data"] for each in topic["partition_data"]]


def test_records_of_which_bytes_are_left_out_stay_so_and_spans_move_with_what_is_before_them() -> None:
    first, second, third = (write_batch(RECORDS, codec=Compression.ZSTD), write_batch(RECORDS), write_batch(OLD))
    frame = produce(first, second, third)
    at = frame.index(second) + 61
    length = len(second) - 61
    holed = frame[:at] + bytes(length) + frame[at + length :]
    # a masked span in front of all records, and one behind them
    masked = [(10, 2), (len(frame) - 1, 1)]
    found = rewritten_frame(
        "request", keys.PRODUCE, 9, holed, all_topics, HASHER, masked=masked, dropped=[(at, length)]
    )
    whole = filled(found)
    new = [expected("request", first), second[:61] + bytes(length), expected("request", third)]
    assert records_in(whole) == new
    assert found.dropped == [(whole.index(second[:61]) + 61, length)]
    assert found.masked == [(10, 2), (len(whole) - 1, 1)]
    assert found.told is not None
    assert [(told.rule, told.size) for told in found.told] == [
        ("hash", len(first)),
        ("drop", len(second)),
        ("hash", len(third)),
    ]


def test_what_the_tap_has_dropped_stays_dropped_though_its_topic_is_kept() -> None:
    first, second = write_batch(RECORDS), write_batch(OLD)
    frame = produce(first, second)
    at = frame.index(first) + 61
    length = len(first) - 61
    holed = frame[:at] + bytes(length) + frame[at + length :]
    found = rewritten_frame("request", keys.PRODUCE, 9, holed, lambda _: False, HASHER, dropped=[(at, length)])
    assert (found.data, found.dropped) == (frame[:at] + frame[at + length :], [(at, length)])


def test_of_a_frame_that_was_left_out_in_part_the_head_stays() -> None:
    frame = produce(write_batch(RECORDS))
    cut = frame.index(SECRET) + 40
    holed = frame[:cut] + bytes(len(frame) - cut)
    found = rewritten_frame(
        "request",
        *(keys.PRODUCE, 9, holed, all_topics, HASHER),
        masked=[(9, 1), (30, 5)],
        omitted=[(cut, len(frame) - cut)],
    )
    # a client id of two letters, and the head's tags
    assert found == (frame[:13], [(9, 1)], [], [(13, len(frame) - 13)], None)

"""Tests of walks that find record data: frames that can't be read, and what nobody has told."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.acks import ACKS_SIZE, acks_at
from proxy.wire import catalog, records
from proxy.wire.apis import versions
from proxy.wire.compile.record_finder import ALL, NOTHING
from proxy.wire.framing import framed
from proxy.wire.keys import FETCH, METADATA, PRODUCE
from proxy.wire.records.walk import RecordWalk, alike, found_in_whole, nothing_known

HEAD = 12
# of a Produce of version 9 by "me": the head, the client id, no tags, no transactional id, acks and a timeout
PLAIN = HEAD + 4 + 1 + 1 + 2 + 4
BATCH = records.write_batch([records.Record(0, key=b"key", value=b"value" * 9)])
MARKER = records.end_marker_batch(
    records.ControlType.COMMIT, offset=0, timestamp=0, producer_id=1, producer_epoch=0, coordinator_epoch=0
)


def produce(version: int, *batches: bytes, name: str = "t") -> bytes:
    partitions = [{"index": 0, "records": b"".join(batches)}]
    topics = [{"name": name, "topic_id": bytes(range(16)), "partition_data": partitions}]
    return framed(catalog.encode_request(PRODUCE, version, 1, "me", {"acks": 1, "topic_data": topics}))


def fetched(version: int, *batches: bytes) -> bytes:
    partitions = [{"partition_index": 0, "records": b"".join(batches)}]
    topics = [{"topic": "t", "topic_id": bytes(range(16)), "partitions": partitions}]
    return framed(catalog.encode_response(FETCH, version, 1, {"responses": topics}))


def walk_of(
    kind: str,
    key: int,
    version: int,
    told: list[object] | None = None,
    *,
    drops: bool = True,
    size: int | None = None,
) -> RecordWalk:
    codec = catalog.must(kind, key, version)  # type: ignore[arg-type]
    asked = told if told is not None else []

    def topic(name: bytes | None, topic_id: bytes | None) -> int:
        asked.append((name, topic_id))
        return ALL if drops else NOTHING

    holds = catalog.holds_record_data(kind, key, version)
    return RecordWalk(
        codec.find_records, topic, head=HEAD, by_broker=kind == "response", size=size, holds_records=holds
    )


def spans_of(walk: RecordWalk, frame: bytes, size: int = 1 << 20) -> list[tuple[int, int]]:
    """Feeds pieces of a size; returns the spans, those that touch as one."""
    found: list[tuple[int, int]] = []
    for at in range(0, len(frame), size):
        for start, stop in walk.feed(frame[at : at + size]):
            assert at <= start < stop <= at + size
            touches = bool(found) and found[-1][1] == start
            found.append((found.pop()[0] if touches else start, stop))
    return found


def left(frame: bytes, walk: RecordWalk, size: int = 1 << 20) -> bytes:
    """Returns what is left of a frame."""
    spans = spans_of(walk, frame, size)
    whole = bytearray(frame[: walk.unreadable_from])
    for start, stop in reversed(spans):
        del whole[start:stop]
    return bytes(whole)


@pytest.mark.parametrize("size", [1, 2, 3, 17, 61, 1 << 20])
def test_each_batch_keeps_its_head_however_the_frame_is_cut(size):
    frame = produce(9, BATCH, BATCH)
    assert spans_of(walk_of("request", PRODUCE, 9), frame, size) == [
        (at + 61, at + len(BATCH)) for at in (frame.index(BATCH), frame.rindex(BATCH))
    ]


def test_a_topic_that_is_kept_has_no_record_data():
    assert spans_of(walk_of("request", PRODUCE, 9, drops=False), produce(9, BATCH)) == []


@pytest.mark.parametrize(("version", "told"), [(12, (b"t", None)), (13, (None, bytes(range(16))))])
def test_topics_are_told_by_name_or_by_id(version, told):
    asked: list[object] = []
    spans_of(walk_of("request", PRODUCE, version, asked), produce(version, BATCH), 5)
    assert asked == [(None, None), told]


@pytest.mark.parametrize("version", [10, 12])
def test_an_answer_tells_names_and_ids_together(version):
    topics = [{"name": "a", "topic_id": bytes([1] * 16)}, {"name": "b", "topic_id": bytes([2] * 16)}]
    frame = framed(catalog.encode_response(METADATA, version, 1, {"topics": topics}))
    for size in (1, 7, 1 << 20):
        asked: list[object] = []
        assert spans_of(walk_of("response", METADATA, version, asked), frame, size) == []
        assert asked[1:] == [(b"a", bytes([1] * 16)), (b"b", bytes([2] * 16))]


@pytest.mark.parametrize("name", ["t" * 250, "a topic", "", "t\0"])
def test_a_frame_with_a_name_that_no_topic_has_keeps_what_stands_before_its_topics(name):
    frame = produce(9, BATCH, name=name)
    asked: list[object] = []
    assert left(frame, walk_of("request", PRODUCE, 9, asked, size=len(frame))) == frame[:PLAIN]
    assert asked == [(None, None)]


def test_a_frame_whose_client_id_is_no_text_keeps_its_head_alone():
    frame = produce(9, BATCH).replace(b"me", b"m\0")
    assert left(frame, walk_of("request", PRODUCE, 9, size=len(frame))) == frame[:HEAD]


@pytest.mark.parametrize("version", versions(PRODUCE))
def test_the_acks_of_a_frame_that_cant_be_read_stay_for_pairing(version):
    frame = produce(version, b"no batch at all " + BATCH)
    kept = left(frame, walk_of("request", PRODUCE, version, size=len(frame)))
    assert BATCH[-9:] not in kept
    at = acks_at(kept, 0, version)
    assert kept[at : at + ACKS_SIZE] == b"\0\1"


def test_the_marker_of_a_transactions_end_is_no_record_data_in_an_answer_alone():
    assert spans_of(walk_of("response", FETCH, 12), fetched(12, MARKER)) == []
    assert spans_of(walk_of("request", PRODUCE, 9), produce(9, MARKER)) != []


@pytest.mark.parametrize("cut", [1, 12, 16, 17, 60, 61, 62])
def test_a_batch_that_a_broker_has_cut_off_keeps_at_most_its_head(cut):
    frame = fetched(12, BATCH, BATCH[:cut])
    kept = left(frame, walk_of("response", FETCH, 12))
    assert kept.count(BATCH[61:]) == 0
    assert BATCH[: min(cut, 61)] in kept


@pytest.mark.parametrize("wrong", [b"\3", b"\x7f", b"\xff"])
def test_behind_a_head_that_nobody_can_read_nothing_is_kept(wrong):
    planted = BATCH[:16] + wrong + b"PLANTED" * 9
    kept = left(produce(9, planted, BATCH), walk_of("request", PRODUCE, 9))
    assert b"PLANTED" not in kept
    assert BATCH[17:30] not in kept


@pytest.mark.parametrize("size", [1, 40, 1 << 20])
def test_a_request_that_goes_on_behind_its_message_is_doubted_from_the_piece_on_that_shows_it(size):
    whole = produce(9, BATCH) + b"PLANTED"
    walk = walk_of("request", PRODUCE, 9, size=len(whole))
    assert b"PLANTED" not in left(whole, walk, size)
    assert walk.unreadable_from == max(PLAIN, (len(whole) - 1 - len(b"PLANTED")) // size * size)


@pytest.mark.parametrize("size", [1, 40, 1 << 20])
@pytest.mark.parametrize("key", [PRODUCE, FETCH])
def test_what_a_broker_says_behind_its_message_is_record_data_and_the_message_stays(key, size):
    frame = fetched(12, MARKER) if key == FETCH else framed(catalog.encode_response(PRODUCE, 9, 1, {}))
    whole = frame + b"PLANTED"
    walk = walk_of("response", key, 12 if key == FETCH else 9, size=len(whole))
    assert spans_of(walk, whole, size) == [(len(frame), len(whole))]
    assert walk.unreadable_from is None


def test_a_message_that_only_tells_topics_is_kept_whatever_stands_in_it():
    frame = framed(catalog.encode_response(METADATA, 12, 1, {"_tags": {77: b"new"}})) + b"more"
    for damaged in (frame, frame[:20] + b"\xff" * 20):
        walk = walk_of("response", METADATA, 12, size=len(damaged))
        assert spans_of(walk, damaged) == []
        assert walk.unreadable_from is None


def leaks(frame: bytes, walk: RecordWalk, piece: int) -> bytes:
    """What passes of a frame, piece by piece, with zeros in place of all else."""
    passed = b""
    for at in range(0, len(frame), piece):
        part = bytearray(frame[at : at + piece])
        for start, stop in walk.feed(frame[at : at + piece]):
            part[start - at : stop - at] = bytes(stop - start)
        if walk.unreadable_from is not None:
            rest = max(walk.unreadable_from - at, 0)
            part[rest:] = bytes(len(part[rest:]))
        passed += part
    return passed


# of a batch's beginning, what a piece's end cuts off passes before its magic can be judged
@pytest.mark.parametrize(("piece", "most"), [(1 << 20, 0), (64, 16), (1, 16)])
@pytest.mark.parametrize("version", [2, 3, 8, 9, 12, 13])
def test_no_wrong_byte_before_the_batches_makes_records_pass_for_anything_else(version, piece, most):
    value = bytes(range(0x41, 0x5B)) * 8
    batch = records.write_batch([records.Record(0, key=b"", value=value)])
    frame = produce(version, batch, name="orders")
    begin = frame.index(batch)
    for at in range(HEAD, begin):
        for wrong in {0, 1, 2, 0x7F, 0x80, 0xFF, frame[at] ^ 1, frame[at] ^ 4, frame[at] ^ 16, frame[at] ^ 64}:
            damaged = frame[:at] + bytes([wrong]) + frame[at + 1 :]
            walk = walk_of("request", PRODUCE, version, size=len(damaged))
            passed = leaks(damaged, walk, piece)[begin:]
            run = max((len(part) for part in re.findall(rb"[A-Z]+", passed)), default=0)
            assert run <= most, (at, wrong, passed)


def test_an_unknown_tag_is_record_data():
    frame = framed(catalog.encode_request(PRODUCE, 9, 1, "me", {"acks": 1, "_tags": {77: b"PLANTED"}}))
    for size in (1, 9, 1 << 20):
        assert b"PLANTED" not in left(frame, walk_of("request", PRODUCE, 9), size)
    kept = walk_of("request", PRODUCE, 9, drops=False)
    assert left(frame, kept) == frame


def test_no_bytes_stop_a_walk():
    rng = random.Random(7)
    for _ in range(500):
        frame = bytearray(produce(rng.randrange(14), BATCH, BATCH))
        for _ in range(rng.randint(1, 5)):
            frame[rng.randrange(HEAD, len(frame))] = rng.randrange(256)
        walk = walk_of("request", PRODUCE, 9)
        spans = spans_of(walk, bytes(frame), rng.choice([1, 13, 1 << 20]))
        assert spans == sorted(spans)
        assert walk.unreadable_from is None or walk.unreadable_from >= HEAD


def test_of_a_frame_that_nobody_knows_the_head_alone_is_kept():
    frame = b"\0\0\0\x20" + bytes(range(1, 33))
    for piece in (1, 5, 8, 11, 12, 13, 1 << 20):
        walk = RecordWalk(nothing_known(HEAD), lambda name, topic_id: ALL, head=HEAD, by_broker=False)
        assert leaks(frame, walk, piece) == frame[:HEAD] + bytes(len(frame) - HEAD)


PIECES = st.sampled_from(
    [BATCH, MARKER, BATCH[:40], BATCH[:61], BATCH[:-3], b"", b"x" * 30, records.write_message_set([records.Record(0)])]
)
FRAMES = [
    (kind, key, version) for kind, key in (("request", PRODUCE), ("response", FETCH)) for version in versions(key)
]


def drop_all(name: bytes | None, topic_id: bytes | None) -> int:
    return ALL


def in_whole(kind: str, key: int, version: int, frame: bytes) -> list[tuple[int, int]] | None:
    find = catalog.must(kind, key, version).find_whole_records  # type: ignore[arg-type]
    return found_in_whole(find, frame, drop_all, by_broker=kind == "response")


@given(st.sampled_from(FRAMES), st.lists(PIECES, max_size=4), st.data())
def test_a_whole_frame_has_the_record_data_that_a_walk_finds_or_needs_the_walk(frame_of, batches, data):
    kind, key, version = frame_of
    changed = bytearray((produce if key == PRODUCE else fetched)(version, *batches))
    for _ in range(data.draw(st.integers(0, 2))):
        changed[data.draw(st.integers(4, len(changed) - 1))] = data.draw(st.integers(0, 255))
    frame = bytes(changed[: data.draw(st.integers(4, len(changed)))] if data.draw(st.booleans()) else changed)
    found = in_whole(kind, key, version, frame)
    walk = RecordWalk(catalog.must(kind, key, version).find_records, drop_all, head=HEAD, by_broker=kind == "response")
    spans = walk.feed(frame)
    if found is not None:
        assert (found, None) == (spans, walk.unreadable_from)
        assert not walk.counted


@pytest.mark.parametrize("frame_of", FRAMES)
def test_a_plain_whole_frame_needs_no_walk(frame_of):
    kind, key, version = frame_of
    # a broker may cut off the last batch
    for last in (BATCH, BATCH[:-3]) if kind == "response" else (BATCH,):
        frame = (produce if key == PRODUCE else fetched)(version, BATCH, last)
        assert in_whole(kind, key, version, frame) == spans_of(walk_of(kind, key, version), frame)


@pytest.mark.parametrize("odd", [MARKER, records.write_message_set([records.Record(0, value=b"v")])])
def test_markers_of_brokers_and_old_messages_need_a_walk(odd):
    assert in_whole("response", FETCH, 12, fetched(12, BATCH, odd)) is None


@given(st.sampled_from(FRAMES), st.lists(PIECES, max_size=3), st.data())
def test_frames_that_are_alike_have_their_record_data_in_the_same_places(frame_of, batches, data):
    kind, key, version = frame_of
    frame = (produce if key == PRODUCE else fetched)(version, *batches)
    found = in_whole(kind, key, version, frame)
    if found is None:
        return
    find = catalog.must(kind, key, version).find_judged_records
    known = alike(find, frame, drop_all)
    assert known is not None
    assert known.judged(frame) == known.values
    for _ in range(20):
        other = bytearray(frame)
        for _ in range(data.draw(st.integers(1, 3))):
            other[data.draw(st.integers(4, len(other) - 1))] = data.draw(st.integers(0, 255))
        if known.judged(bytes(other)) == known.values:
            assert in_whole(kind, key, version, bytes(other)) == found


@pytest.mark.parametrize(("kind", "key", "version"), FRAMES)
def test_frames_are_alike_whatever_their_correlation_ids_and_records_are(kind, key, version):
    made = produce if key == PRODUCE else fetched
    first = made(version, BATCH)
    known = alike(catalog.must(kind, key, version).find_judged_records, first, drop_all)
    other = records.write_batch([records.Record(5, key=b"yek", value=b"eulav" * 9)])
    frame = bytearray(made(version, other))
    at = 8 if kind == "request" else 4
    frame[at : at + 4] = b"\x12\x34\x56\x78"
    assert known is not None
    assert known.judged(bytes(frame)) == known.values
    magic = first.index(BATCH) + 16
    assert known.judged(first[:magic] + b"\1" + first[magic + 1 :]) != known.values

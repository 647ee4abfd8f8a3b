"""Tests of comparing fetched records as streams, however responses divide them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.records import Compression, ControlType, Record, TimestampType, end_marker_batch, read, write_batch
from recorder.replay.consumers.records import Owed, StreamCounts, Streams
from recorder.replay.plan import Peer
from tests.tables import each_row

ME = Peer("10.0.0.7", "reader")

payloads = st.lists(
    st.tuples(st.one_of(st.none(), st.binary(max_size=3)), st.binary(max_size=3), st.integers(-1, 3)), max_size=30
)


def records_of(payloads: Sequence[tuple[bytes | None, bytes, int]], first: int = 0) -> list[Record]:
    return [Record(first + at, time, key, value) for at, (key, value, time) in enumerate(payloads)]


def cut(random: Random, records: list[Record]) -> Iterator[list[Record]]:
    while records:
        size = random.randint(1, len(records))
        yield records[:size]
        records = records[size:]


def log_of(random: Random, records: list[Record]) -> list[tuple[int, int, bytes]]:
    """Batches as (first offset, offset after the last record, bytes)."""
    codecs = [Compression.NONE, Compression.GZIP, Compression.LZ4]
    batches = cut(random, records)
    return [(one[0].offset, one[-1].offset + 1, write_batch(one, codec=random.choice(codecs))) for one in batches]


def answers(random: Random, records: list[Record]) -> Iterator[tuple[bytes, int]]:
    """Yields the responses to a consumer that reads a log to its end, and its fetch offsets."""
    log = log_of(random, records)
    at = log[0][0] if log else 0
    while log:
        count = random.randint(1, len(log))
        tail = log[count][2][: random.randint(0, 60)] if len(log) > count else b""
        yield b"".join(batch for *_, batch in log[:count]) + tail, at
        at = log[count - 1][1]
        log = log[count:]


def found(streams: Streams) -> StreamCounts:
    (only,) = streams.counts()
    return only


def owed(streams: Streams) -> Owed:
    """What the target owes me of t-0."""
    return dict(streams.owing())[ME, "t", 0]


def fed(recorded: list[tuple[bytes, int]], replayed: list[tuple[bytes, int]], random: Random) -> Streams:
    """Returns streams that got responses of both sides, in any order."""
    streams, both = Streams(), [(0, one) for one in recorded] + [(1, one) for one in replayed]
    sides = random.sample([side for side, _ in both], len(both))
    queues = [iter(recorded), iter(replayed)]
    for side in sides:
        data, offset = next(queues[side])
        if side:
            streams.add_replayed(ME, "t", 0, data, offset, log_end=None)
        else:
            streams.add_recorded(ME, "t", 0, data, offset)
    return streams


@given(payloads=payloads, shift=st.integers(0, 100), random=st.randoms(use_true_random=False))
def test_records_are_equal_however_either_side_cuts_them(
    payloads: list[tuple[bytes | None, bytes, int]], shift: int, random: Random
) -> None:
    recorded = list(answers(random, records_of(payloads)))
    replayed = list(answers(random, records_of(payloads, shift)))
    for one in fed(recorded, replayed, random).counts():
        assert one == StreamCounts(ME, "t", 0, len(payloads), 0, 0, 0, 0, (0, 0), True)


def batch_of(*values: str, first: int = 0, **options: Any) -> bytes:
    """Returns a batch of these values, all of one time, from an offset on."""
    return write_batch([Record(first + at, 1000, None, value.encode()) for at, value in enumerate(values)], **options)


def compared(recorded: bytes, replayed: bytes, *, log_end: int | None = None, asked: int = 0) -> StreamCounts:
    """Returns the result for a stream with one response on each side."""
    streams = Streams()
    streams.add_recorded(ME, "t", 0, recorded, asked)
    streams.add_replayed(ME, "t", 0, replayed, asked, log_end)
    return found(streams)


def test_a_record_that_the_targets_log_ended_without_is_missing() -> None:
    it = compared(batch_of("a", "b", "c"), batch_of("a", "b"), log_end=2)
    assert (it.equal, it.missing, it.unread) == (2, 1, 0)


def test_a_record_before_which_the_replay_ended_is_unread() -> None:
    it = compared(batch_of("a", "b", "c"), batch_of("a", "b"), log_end=3)
    assert (it.equal, it.missing, it.unread) == (2, 0, 1)


def test_a_record_of_the_target_among_equal_ones_is_extra() -> None:
    it = compared(batch_of("a", "b"), batch_of("a", "a", "b"))
    assert (it.equal, it.missing, it.extra) == (2, 0, 1)


def test_records_of_the_target_after_the_last_recorded_one_are_skipped() -> None:
    it = compared(batch_of("a", "b"), batch_of("a", "b", "c", "d"), log_end=4)
    assert (it.equal, it.missing, it.extra, it.unread) == (2, 0, 0, 0)


def test_records_before_the_offset_that_was_requested_are_skipped() -> None:
    it = compared(batch_of("a", "b", "c"), batch_of("x", "b", "c"), asked=1)
    assert (it.equal, it.missing, it.extra) == (2, 0, 0)


def test_control_batches_are_skipped_and_their_offsets_read() -> None:
    streams = Streams()
    of = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0}
    marker = end_marker_batch(ControlType.COMMIT, offset=2, timestamp=1000, **of)
    streams.add_recorded(ME, "t", 0, batch_of("a", "b") + marker + batch_of("c", first=3), 0)
    streams.add_replayed(ME, "t", 0, batch_of("a", "b") + marker, 0, log_end=3)
    assert owed(streams) == (1, 3, True)
    assert found(streams).equal == 2


def test_the_cut_batch_at_an_answers_end_is_skipped() -> None:
    it = compared(batch_of("a") + batch_of("b", first=1)[:-1], batch_of("a"))
    assert (it.equal, it.missing, it.unreadable) == (1, 0, (0, 0))


def test_records_of_a_transaction_count_as_fetched_whatever_became_of_it() -> None:
    producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    assert compared(batch_of("a", **producer), batch_of("a")).equal == 1


def test_records_of_one_producer_that_changed_places_are_reordered() -> None:
    mine = {"producer_id": 9, "producer_epoch": 0}
    recorded = batch_of("a", **mine, base_sequence=0) + batch_of("b", first=1, **mine, base_sequence=1)
    assert compared(recorded, batch_of("b") + batch_of("a", first=1)).reordered == 1
    assert compared(recorded, batch_of("a") + batch_of("b", first=1)).reordered == 0


def test_records_of_two_producers_may_mix_in_any_way() -> None:
    ours = [
        batch_of(value, first=at, producer_id=at, producer_epoch=0, base_sequence=0) for at, value in enumerate("ab")
    ]
    assert compared(b"".join(ours), batch_of("b") + batch_of("a", first=1)).reordered == 0


def log_append(data: bytes) -> bytes:
    """Returns the batch as a broker's log has it if its topic uses LogAppendTime."""
    (record,) = read(data)
    return write_batch([record], timestamp_type=TimestampType.LOG_APPEND, max_timestamp=5_000_000)


@pytest.mark.parametrize("first", [0, 1], ids=["recorded-first", "target-first"])
def test_times_that_a_broker_set_are_not_compared(first: int) -> None:
    streams = Streams()
    adds: list[Callable[[], None]] = [
        lambda: streams.add_recorded(ME, "t", 0, batch_of("a"), 0),
        lambda: streams.add_replayed(ME, "t", 0, log_append(batch_of("a")), 0),
    ]
    adds[first]()
    adds[1 - first]()
    assert found(streams).equal == 1


def test_times_that_the_producer_gave_are_compared() -> None:
    later = write_batch([Record(0, 1001, None, b"a")])
    assert compared(batch_of("a"), later, log_end=1).missing == 1


def test_the_records_that_the_target_owes_are_known_during_the_replay() -> None:
    streams = Streams()
    assert not [*streams.owing()]
    streams.add_recorded(ME, "t", 0, batch_of("a", "b"), 0)
    assert owed(streams) == (2, None, False)
    streams.add_replayed(ME, "t", 0, b"", 40, log_end=41)
    assert owed(streams) == (2, 40, False)
    streams.add_replayed(ME, "t", 0, batch_of("a", first=40), 40, log_end=41)
    assert owed(streams) == (1, 41, True)


def test_consumers_and_partitions_are_apart() -> None:
    streams = Streams()
    streams.add_recorded(ME, "t", 0, batch_of("a"), 0)
    streams.add_replayed(ME, "t", 1, batch_of("a"), 0)
    streams.add_replayed("another", "t", 0, batch_of("a"), 0)
    assert owed(streams).records == 1


@given(payloads=payloads, changed=st.booleans(), random=st.randoms(use_true_random=False))
def test_sums_tell_whether_all_records_were_equal(
    payloads: list[tuple[bytes | None, bytes, int]], changed: bool, random: Random
) -> None:
    recorded = [*records_of(payloads), Record(len(payloads), 7, b"k", b"last")]
    replayed = [*recorded[:-1], recorded[-1]._replace(value=b"other" if changed else b"last")]
    streams = Streams(most_waiting=0)
    for data, asked in answers(random, recorded):
        streams.add_recorded(ME, "t", 0, data, asked)
    for data, asked in answers(random, replayed):
        streams.add_replayed(ME, "t", 0, data, asked, len(recorded))
    it = found(streams)
    assert not it.is_exact
    assert (it.equal, it.missing, it.extra) == (len(recorded) - changed, changed, changed)


def test_a_record_that_sums_lack_is_missing() -> None:
    streams = Streams(most_waiting=1)
    streams.add_recorded(ME, "t", 0, batch_of("a", "b", "c"), 0)
    streams.add_replayed(ME, "t", 0, batch_of("a", "b"), 0, 2)
    assert (found(streams).equal, found(streams).missing, found(streams).is_exact) == (2, 1, False)


def test_no_more_records_wait_than_allowed_and_the_longest_stream_pays() -> None:
    streams = Streams(most_waiting=4)
    streams.add_recorded(ME, "short", 0, batch_of("a"), 0)
    streams.add_recorded(ME, "long", 0, batch_of("a", "b", "c", "d", "e"), 0)
    assert {one.topic: one.is_exact for one in streams.counts()} == {"short": True, "long": False}


@each_row("codec", list(Compression)[:5], ids=lambda codec: codec.value)
@given(at=st.integers(12, 200), value=st.integers(0, 255))
def test_a_damaged_batch_counts_as_unreadable_or_differs(codec: Compression, at: int, value: int) -> None:
    whole = batch_of("a", "b", "c", codec=codec)
    damaged = bytearray(whole)
    at %= len(damaged)
    damaged[at] = value
    it = compared(whole, bytes(damaged), log_end=0)
    assert it.equal == 3 or it.missing or it.unread or it.unreadable[1]


@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_records_raise_nothing(data: bytes) -> None:
    compared(data, data)


def test_a_batch_that_unfolds_to_too_much_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.replay.consumers.records.MOST_UNFOLDED", 1 << 16)
    bomb = write_batch([Record(0, value=bytes(1 << 20))], codec=Compression.GZIP)
    assert compared(bomb, bomb).unreadable == (1, 1)


def test_a_marker_that_one_side_alone_has_is_no_record() -> None:
    of = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0}
    marker = end_marker_batch(ControlType.ABORT, offset=1, timestamp=1000, **of)
    it = compared(batch_of("a") + marker, batch_of("a"), log_end=1)
    assert (it.equal, it.missing, it.unread) == (1, 0, 0)


def test_records_that_waited_for_their_time_meet_once_times_do_not_count() -> None:
    streams = Streams()
    streams.add_recorded(ME, "t", 0, batch_of("a", "b"), 0)
    streams.add_replayed(ME, "t", 0, write_batch([Record(0, 2000, None, b"a")]), 0)
    assert owed(streams).records == 2
    streams.add_replayed(ME, "t", 0, log_append(batch_of("b", first=1)), 1, 2)
    assert (found(streams).equal, found(streams).missing) == (2, 0)


def test_settled_streams_keep_only_their_counts_when_there_are_many() -> None:
    streams = Streams(lambda consumer: "all", most=4)
    for number in range(20):
        streams.add_recorded(number, "t", 0, batch_of("a", "b"), 0)
        streams.add_replayed(number, "t", 0, batch_of("a") if number == 7 else batch_of("a", "b"), 0, 2)
    streams.add_replayed(7, "t", 0, batch_of("b", first=1), 1, 2)
    every = list(streams.counts())
    assert len(every) < 20
    assert sum(one.equal for one in every) == 40
    assert sum(one.missing + one.unread for one in every) == 0


def test_a_consumer_that_continues_is_counted_with_what_it_read_before() -> None:
    streams = Streams(most=1)
    for first in range(5):
        for consumer in range(3):
            streams.add_recorded(consumer, "t", 0, batch_of("a", first=first), first)
            streams.add_replayed(consumer, "t", 0, batch_of("a", first=first), first)
    assert sum(one.equal for one in streams.counts()) == 15

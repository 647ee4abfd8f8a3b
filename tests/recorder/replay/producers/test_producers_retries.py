"""Tests of retried records: the target takes each batch of a sequence once."""

from __future__ import annotations

from proxy.wire import records
from recorder.replay.plan import Reason
from tests.recorder.replay.producers.producer_exchanges import (
    PAIR,
    batch,
    recorded_init,
    recorded_produce,
)
from tests.recorder.replay.producers.producer_target import Target, log, other, sequences
from tests.recorder.replay.simulated import Broker


def test_the_same_bytes_keep_their_number_and_are_written_once() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    data = batch(b"1", b"2", pair=PAIR, sequence=7)
    target.play(recorded_produce(1, data))
    target.play(recorded_produce(2, data))
    target.play(recorded_produce(3, batch(b"3", pair=PAIR, sequence=9)))
    assert log(target) == [b"1", b"2", b"3"]
    assert [number for _, _, number in sequences(target)] == [0, 2]


def test_the_same_numbers_with_other_bytes_are_another_batch() -> None:
    target = Target(Broker(other, largest=150))
    target.play(recorded_init(0, PAIR))
    target.play(recorded_produce(1, batch(b"x" * 100, pair=PAIR, sequence=0), code=10))
    target.play(recorded_produce(2, batch(b"y", pair=PAIR, sequence=0)))
    target.play(recorded_produce(3, batch(b"z", pair=PAIR, sequence=1)))
    assert log(target) == [b"y", b"z"]


def test_a_duplicate_counts_as_taken() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    first = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=7)
    target.errors[first.origin] = [46]
    target.play(first)
    retry = target.leave(recorded_produce(2, batch(b"1", pair=PAIR, sequence=0)))
    following = target.leave(recorded_produce(3, batch(b"2", pair=PAIR, sequence=1)))
    for number, each in enumerate((retry, following)):
        assert each is not None
        (sent,) = records.batches(bytes(each["topic_data"][0]["partition_data"][0]["records"]))
        assert sent.base_sequence == number


def test_a_retry_of_what_the_target_took_from_a_former_pair_is_not_sent() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    first = batch(b"1", pair=PAIR, sequence=0)
    target.play(recorded_produce(1, first))
    refused = recorded_produce(2, batch(b"2", pair=PAIR, sequence=1))
    target.errors[refused.origin] = [59]
    target.play(refused)
    retry = recorded_produce(3, first)
    assert target.play(retry) is None
    assert target.withheld[retry.origin].reason is Reason.REPEATED
    assert log(target) == [b"1", b"2"]

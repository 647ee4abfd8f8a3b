"""Tests of retried records: those that the target has already are not sent to it again."""

from __future__ import annotations

import pytest

from proxy.wire import records
from proxy.wire.keys import PRODUCE
from proxy.wire.records import Compression
from recorder.replay.plan import Reason
from tests.recorder.replay.producers.producer_exchanges import (
    A0,
    PAIR,
    batch,
    produce,
    produce_answer,
    recorded_end,
    recorded_init,
    recorded_produce,
)
from tests.recorder.replay.producers.producer_target import Target, log, other, sequences, written
from tests.recorder.replay.simulated import Broker, exchange


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


@pytest.mark.parametrize("pair", [PAIR, (-1, -1)], ids=["idempotent", "plain"])
def test_records_that_only_the_recording_refused_are_not_sent_again(pair: tuple[int, int]) -> None:
    target = Target(Broker(other))
    is_idempotent = pair == PAIR
    if is_idempotent:
        target.play(recorded_init(0, pair))
    whole = recorded_produce(1, batch(b"1", b"2", b"3", pair=pair, sequence=0 if is_idempotent else -1), code=10)
    target.play(whole)
    parts = [
        recorded_produce(n, batch(*values, pair=pair, sequence=first if is_idempotent else -1))
        for n, (values, first) in enumerate([((b"1", b"2"), 0), ((b"3",), 2)], 2)
    ]
    for each in parts:
        assert target.play(each) is None
        assert target.withheld[each.origin].reason is Reason.REPEATED
    target.play(recorded_produce(9, batch(b"3", pair=pair, sequence=3 if is_idempotent else -1)))
    assert log(target) == [b"1", b"2", b"3", b"3"]


@pytest.mark.parametrize("code", [7, 20], ids=["timed out", "too few replicas"])
def test_a_cluster_that_appended_records_in_spite_of_its_error_recognizes_their_retry_by_its_sequence(
    code: int,
) -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=code))
    assert target.play(recorded_produce(2, batch(b"1", pair=PAIR, sequence=0), code=code)) is None
    assert target.play(recorded_produce(3, batch(b"1", pair=PAIR, sequence=0))) is None
    assert log(target) == [b"1"]


def test_records_that_the_recording_refused_again_and_again_are_sent_once() -> None:
    target = Target(Broker(other))
    for number, code in enumerate([6, 6, 6, 0]):
        target.play(recorded_produce(number, batch(b"1"), code=code))
    assert [each.reason for each in target.withheld.values()] == [Reason.REPEATED] * 3
    target.play(recorded_produce(9, batch(b"1")))
    assert log(target) == [b"1", b"1"]


def test_a_retry_whose_recorded_answer_is_read_later_is_not_sent_either() -> None:
    target = Target(Broker(other))
    target.play(recorded_produce(0, batch(b"1"), code=6))
    retries = [recorded_produce(number, batch(b"1"), code=code) for number, code in [(1, 6), (2, 0)]]
    for each in retries:
        frame, each.answer_frame, each.answered_ns = each.answer_frame, None, None
        assert target.play(each) is None
        each.take_answer(1, frame)
    assert target.play(recorded_produce(3, batch(b"1"))) is not None
    assert log(target) == [b"1", b"1"]


def test_batches_that_only_the_recording_refused_may_be_repeated_in_one() -> None:
    target = Target(Broker(other))
    for number, value in enumerate([b"1", b"2", b"3"]):
        target.play(recorded_produce(number, batch(value), code=6))
    assert target.play(recorded_produce(4, batch(b"1", b"2", b"3"))) is None
    assert log(target) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=str)
def test_only_the_new_records_of_an_extended_retry_are_sent(codec: Compression) -> None:
    target = Target(Broker(other))
    target.play(recorded_produce(1, batch(b"1", b"2"), code=6))
    target.play(recorded_produce(2, batch(b"1", b"2", b"3", codec=codec), code=6))
    target.play(recorded_produce(3, batch(b"1", b"2", b"3", b"4", codec=codec)))
    target.play(recorded_produce(4, batch(b"2", b"4")))
    assert log(target) == [b"1", b"2", b"3", b"4", b"2", b"4"]


def test_all_new_records_of_a_largely_extended_retry_are_sent() -> None:
    target = Target(Broker(other))
    target.play(recorded_produce(1, batch(b"1", b"2"), code=6))
    target.play(recorded_produce(2, batch(*[b"%d" % number for number in range(1, 20_000)])))
    assert log(target) == [b"%d" % number for number in range(1, 20_000)]


def test_a_partition_that_was_sent_is_no_retry_when_its_request_goes_again_for_another_one() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    both = exchange(
        2,
        PRODUCE,
        9,
        produce((*A0, batch(b"1")), ("b", 0, batch(b"2", pair=PAIR, sequence=0))),
        produce_answer(0, A0, ("b", 0)),
    )
    values = target.leave(both)
    # another connection of the client's: its equal record is refused meanwhile
    refused = exchange(1, PRODUCE, 9, produce((*A0, batch(b"1"))), produce_answer(6, A0), connection=2)
    target.play(refused)
    assert values is not None
    assert isinstance(target.translate(both), dict)
    assert not both.dropped


def test_a_repeated_partition_is_left_out_and_the_rest_is_sent() -> None:
    target = Target(Broker(other))
    data = batch(b"1")
    target.play(recorded_produce(1, data, code=6))
    both = exchange(2, PRODUCE, 9, produce((*A0, data), ("b", 0, batch(b"2"))), produce_answer(0, A0, ("b", 0)))
    assert target.play(both)
    assert [(each.topic, each.partition, each.reason) for each in both.dropped] == [("a", 0, Reason.REPEATED)]
    assert written(target.broker) == {A0: [b"1"], ("b", 0): [b"2"]}


def test_refused_records_are_sent_again_in_the_next_transaction() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=6, name="t", version=12))
    following = (PAIR[0], PAIR[1] + 1)
    target.play(recorded_end(2, PAIR, "t", following))
    assert target.play(recorded_produce(3, batch(b"1", pair=following, sequence=0), name="t", version=12))


def test_a_duplicate_counts_as_taken() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    first = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=6)
    target.errors[first.origin] = [46]
    target.play(first)
    assert target.play(recorded_produce(2, batch(b"1", pair=PAIR, sequence=0))) is None
    following = target.leave(recorded_produce(3, batch(b"2", pair=PAIR, sequence=1)))
    assert following is not None
    (sent,) = records.batches(bytes(following["topic_data"][0]["partition_data"][0]["records"]))
    assert sent.base_sequence == 1


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

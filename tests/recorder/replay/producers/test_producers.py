"""Tests of producers: random histories played to a broker that assigns other values, and the order of batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.keys import END_TXN, PRODUCE
from recorder.replay.options import Options
from recorder.replay.plan import Exchange, Reason
from tests.recorder.replay.producers.producer_exchanges import (
    A0,
    PAIR,
    V1,
    V2,
    batch,
    produce,
    recorded_init,
    recorded_produce,
)
from tests.recorder.replay.producers.producer_histories import history
from tests.recorder.replay.producers.producer_target import Target, log, other, sequences, written
from tests.recorder.replay.simulated import Broker, Place, exchange


def codes(values: Any) -> list[int]:
    """Returns all errors in a response."""
    if isinstance(values, list):
        return [code for each in values for code in codes(each)]
    if not isinstance(values, dict):
        return []
    own = [value for key, value in values.items() if key.endswith("error_code")]
    return own + [code for value in values.values() for code in codes(value)]


def produced_once(exchanges: Iterable[Exchange]) -> dict[Place, list[bytes]]:
    """Returns what these producers write if each batch counts once."""
    seen, found = set[bytes](), defaultdict[Place, list[bytes]](list)
    for each in exchanges:
        for topic in each.request["topic_data"] if each.api_key == PRODUCE else ():
            for partition in topic["partition_data"]:
                if partition["records"] not in seen:
                    seen.add(partition["records"])
                    found[topic["name"], partition["index"]] += [
                        r.value or b"" for r in records.read(partition["records"])
                    ]
    return dict(found)


@given(st.integers(0, 10**9), st.booleans(), st.booleans(), st.sampled_from([0, 0, 7, 20]))
def test_a_strict_broker_takes_what_producers_make_of_any_history_of_another(
    seed: int, is_v2: bool, has_v2: bool, cut: int
) -> None:
    has_v2 = has_v2 and is_v2
    exchanges = history(seed, is_v2, 60)[cut:]
    target = Target(Broker(other, 900, has_v2), dict(V2 if has_v2 else V1), Options(prefix="p-"))
    for each in exchanges:
        values = target.play(each)
        assert (values is None) == (each.origin in target.withheld)
        if each.origin in target.withheld:
            # an EndTxn of v2 may have nothing to end, and so may one whose transaction was cut off
            assert each.api_key == END_TXN
            assert target.withheld[each.origin].reason is Reason.NO_TRANSACTION
    assert all(not code for answer in target.answers.values() for code in codes(answer))
    assert written(target.broker) == produced_once(exchanges)
    for made in target.producers.finish():
        target.make(made)
    assert not any(found.partitions or found.groups for found in target.broker.transactions.values())


# each rule alone


def test_batches_after_a_refused_one_are_resent_in_order_and_renumbered_before_new_ones() -> None:
    target = Target(Broker(other, largest=150))
    target.play(recorded_init(0, PAIR))
    large, second, third, last = (
        recorded_produce(number, batch(value, pair=PAIR, sequence=number))
        for number, value in enumerate([b"x" * 100, b"2", b"3", b"4"])
    )
    flying = [(each, target.leave(each)) for each in (large, second, third)]
    answered = [target.answer(each, values) for each, values in flying if values is not None]
    assert answered == [False, True, True]
    assert target.leave(last) is None
    assert target.leave(third) is None
    assert not target.withheld
    assert target.play(second)
    assert target.play(third)
    assert target.play(last)
    assert log(target) == [b"2", b"3", b"4"]
    assert [number for _, _, number in sequences(target)] == [0, 1, 2]


def test_a_batch_that_overtook_an_unanswered_one_is_sent_again_after_it() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    first, second = (
        recorded_produce(number, batch(b"%d" % number, pair=PAIR, sequence=number - 1)) for number in (1, 2)
    )
    one, two = target.leave(first), target.leave(second)
    assert one is not None
    assert two is not None
    # the first request went to a node that no longer leads; the engine sends it again
    assert target.answer(second, two)
    assert target.leave(second) is None
    target.play(first)
    target.play(second)
    assert log(target) == [b"1", b"2"]


def test_an_abandoned_batch_does_not_block_later_ones() -> None:
    target = Target(Broker(other, largest=150))
    target.play(recorded_init(0, PAIR))
    found = [recorded_produce(n, batch(b"x" * (100 if n < 2 else 1), pair=PAIR, sequence=n)) for n in range(1, 4)]
    flying = [(each, target.leave(each)) for each in found[:2]]
    target.errors[found[1].origin] = [45]
    assert [target.answer(each, values) for each, values in flying if values] == [False, True]
    assert target.leave(found[2]) is None
    target.producers.lost(found[1], None)
    assert target.play(found[2])


def test_without_answers_batches_count_as_they_are_sent() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    for number in range(3):
        values = produce((*A0, batch(b"1", pair=PAIR, sequence=number)), acks=0)
        sent = target.play(exchange(number + 1, PRODUCE, 9, values, None, awaits=False))
        assert sent is not None
        target.broker.answer(PRODUCE, 9, sent)
    assert [number for _, _, number in sequences(target)] == [0, 1, 2]
    assert not target.producers._produces._flights
    assert not target.producers._known.of_id(PAIR[0]).sequences[A0]._flying

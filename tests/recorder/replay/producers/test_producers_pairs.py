"""Tests of producers' ids and epochs: where the target's come from, and when others are made."""

from __future__ import annotations

import pytest

from proxy.wire.keys import END_TXN, INIT_PRODUCER_ID
from recorder.replay.mapping import ValueKind
from recorder.replay.plan import AskFirst, Hold, Reason, Withheld
from recorder.replay.producers.producer_pairs import without_default_pair
from tests.recorder.replay.producers.producer_exchanges import PAIR, batch, recorded_init, recorded_produce
from tests.recorder.replay.producers.producer_target import Target, other, sequences
from tests.recorder.replay.simulated import Broker

SECOND = 10**9


@pytest.mark.parametrize("code", [45, 47, 59, 90])
def test_a_producer_that_the_target_alone_refuses_gets_a_made_pair_and_counts_from_0(code: int) -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0)))
    refused = recorded_produce(2, batch(b"2", pair=PAIR, sequence=1))
    target.errors[refused.origin] = [code]
    target.play(refused)
    target.play(recorded_produce(3, batch(b"3", pair=PAIR, sequence=2)))
    assert target.again == [refused.origin]
    assert [made.api_key for made in target.made] == [INIT_PRODUCER_ID]
    assert sequences(target) == [(other(0), 0, 0), (other(1), 0, 0), (other(1), 0, 1)]


def test_a_target_that_refuses_every_pair_is_given_up() -> None:
    target = Target(Broker(other))
    refused = recorded_produce(2, batch(b"2", pair=PAIR, sequence=1))
    target.errors[refused.origin] = [59] * 100
    target.play(refused)
    assert len(target.again) < 10


def test_an_error_that_the_recording_has_too_changes_nothing() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    fenced = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=90)
    target.errors[fenced.origin] = [90]
    target.play(fenced)
    assert not target.again
    assert not target.made


def test_a_bumped_epoch_that_no_answer_gave_is_as_far_above_the_targets() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    target.play(recorded_produce(1, batch(b"1", pair=(PAIR[0], PAIR[1] + 2), sequence=0)))
    assert sequences(target) == [(other(0), 2, 0)]
    assert not target.made


def test_an_epoch_beyond_the_largest_gets_a_made_pair() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, (500, 0)))
    target.producers._known.learn(target.producers._known.of_id(500), (500, 0), (9, 32_767))
    target.play(recorded_produce(1, batch(b"1", pair=(500, 1), sequence=0)))
    assert sequences(target) == [(other(1), 0, 0)]


def test_the_last_two_pairs_of_a_producer_stay() -> None:
    target = Target(Broker(other))
    for number in range(3):
        target.play(recorded_init(number, (500 + number, 0), "t"))
    found = [target.pairs.target(ValueKind.PRODUCER, (500 + number, 0)) for number in range(3)]
    assert found == [None, (other(0), 1), (other(0), 2)]


def test_a_pair_that_no_answer_gave_is_withheld_at_once_from_a_target_without_init_producer_id() -> None:
    target = Target(Broker(other))
    target.newest[INIT_PRODUCER_ID] = None  # type: ignore[assignment]
    target.chosen = lambda api_key, version: target.newest[api_key]  # type: ignore[method-assign]
    target.__post_init__()
    found = target.translate(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0)))
    assert isinstance(found, Withheld)
    assert found.reason is Reason.NO_PRODUCER
    assert not target.made


def test_a_target_without_transactions_v2_is_not_expected_to_give_a_pair() -> None:
    given = {"throttle_time_ms": 0, "error_code": 0, "producer_id": -1, "producer_epoch": -1}
    assert without_default_pair(END_TXN, 4, given) == {"throttle_time_ms": 0, "error_code": 0}
    assert without_default_pair(END_TXN, 5, given) == given
    assert without_default_pair(INIT_PRODUCER_ID, 4, given) == given


def test_a_made_request_is_made_once_and_again_with_pauses_while_its_error_passes() -> None:
    target = Target(Broker(other))
    each = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0))
    found = target.producers.request(each, each.decoded(), 0)
    assert isinstance(found, AskFirst)
    assert isinstance(target.producers.request(each, each.decoded(), 0), Hold)
    found.made[0].done({"error_code": 15, "producer_id": -1, "producer_epoch": -1})
    assert isinstance(target.producers.request(each, each.decoded(), 0), Hold)
    found = target.producers.request(each, each.decoded(), SECOND)
    assert isinstance(found, AskFirst)
    found.made[0].done({"error_code": 53, "producer_id": -1, "producer_epoch": -1})
    refused = target.producers.request(each, each.decoded(), 2 * SECOND)
    assert refused == Withheld(Reason.NO_PRODUCER, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")

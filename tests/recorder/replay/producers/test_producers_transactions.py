"""Tests of producers' transactions: how they begin, fail and end on the target, with transactions v1 and v2."""

from __future__ import annotations

import pytest

from proxy.wire.keys import ADD_PARTITIONS_TO_TXN, DESCRIBE_TRANSACTIONS, END_TXN, INIT_PRODUCER_ID
from recorder.replay.options import Options
from recorder.replay.plan import Exchange, Reason, Resend, Values
from tests.recorder.replay.producers.producer_exchanges import (
    PAIR,
    V1,
    V2,
    batch,
    joined,
    recorded_end,
    recorded_init,
    recorded_produce,
)
from tests.recorder.replay.producers.producer_target import Target, log, other, sequences
from tests.recorder.replay.simulated import Broker, exchange


@pytest.mark.parametrize("code", [45, 47, 59, 90])
def test_the_rest_of_a_failed_transaction_is_withheld_and_the_next_has_a_made_pair(code: int) -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(joined(1, PAIR))
    refused = recorded_produce(2, batch(b"1", pair=PAIR, sequence=0), name="t", version=11)
    target.errors[refused.origin] = [code]
    target.play(refused)
    rest = [recorded_produce(3, batch(b"2", pair=PAIR, sequence=1), name="t", version=11), recorded_end(4, PAIR, "t")]
    assert [target.play(each) for each in rest] == [None, None]
    assert {target.withheld[each.origin].reason for each in rest} == {Reason.NO_TRANSACTION}
    assert target.play(joined(5, PAIR))
    assert target.play(recorded_produce(6, batch(b"3", pair=PAIR, sequence=2), name="t", version=11))
    assert target.play(recorded_end(7, PAIR, "t"))
    assert [made.api_key for made in target.made] == [INIT_PRODUCER_ID]
    assert sequences(target) == [(other(0), 1, 0)]


def test_a_transactional_pair_is_replaced_only_once() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    for number in (10, 20):
        added = joined(number, PAIR)
        target.errors[added.origin] = [47]
        target.play(added)
        target.play(recorded_end(number + 1, PAIR, "t"))
    last = joined(30, PAIR)
    assert target.play(last) is None
    assert target.withheld[last.origin].reason is Reason.NO_PRODUCER


def test_with_transactions_v2_the_next_pair_begins_another_transaction_even_after_a_gap() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR, "t"))
    refused = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12)
    target.errors[refused.origin] = [90]
    target.play(refused)
    following = (PAIR[0], PAIR[1] + 1)
    assert target.play(recorded_produce(5, batch(b"2", pair=following, sequence=0), name="t", version=12))
    assert log(target) == [b"2"]


def test_a_gap_that_hides_the_end_of_a_transaction_leaves_nothing_open() -> None:
    for is_v2 in (False, True):
        target = Target(Broker(other, has_v2=is_v2), V2 if is_v2 else V1)
        version = 12 if is_v2 else 11
        following = (PAIR[0], PAIR[1] + is_v2)
        target.play(recorded_init(0, PAIR, "t"))
        target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=version))
        target.play(recorded_produce(5, batch(b"2", pair=following, sequence=1 - is_v2), name="t", version=version))
        target.play(recorded_end(6, following, "t", (500, 9) if is_v2 else None))
        assert not target.broker.transactions["t"].partitions
        assert not target.producers.finish()


def test_transactions_v2_on_a_target_without_them_are_made_ones_of_v1_and_the_pair_stays() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    following = (PAIR[0], PAIR[1] + 1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12))
    target.play(recorded_end(2, PAIR, "t", following))
    target.play(recorded_produce(3, batch(b"2", pair=following, sequence=0), name="t", version=12))
    assert [made.api_key for made in target.made] == [ADD_PARTITIONS_TO_TXN] * 2
    assert sequences(target) == [(other(0), 0, 0), (other(0), 0, 1)]


def test_an_empty_end_is_not_sent_to_a_target_without_transactions_v2() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    following = (PAIR[0], PAIR[1] + 1)
    empty = recorded_end(1, PAIR, "t", following)
    assert target.play(empty) is None
    assert target.withheld[empty.origin].reason is Reason.NO_TRANSACTION
    target.play(recorded_produce(2, batch(b"1", pair=following, sequence=0), name="t", version=12))
    assert sequences(target) == [(other(0), 0, 0)]


@pytest.mark.parametrize(("committed", "code", "is_sent"), [(True, 0, False), (False, 0, True), (True, 48, True)])
def test_with_transactions_v2_a_commit_of_nothing_is_not_sent_unless_the_recorded_one_was_refused(
    committed: bool, code: int, is_sent: bool
) -> None:
    """The transaction's records may be from before the recording."""
    target = Target(Broker(other))
    following = (PAIR[0], PAIR[1] + 1)
    told = {"error_code": code, "producer_id": following[0], "producer_epoch": following[1]}
    quoted = {"transactional_id": "t", "producer_id": PAIR[0], "producer_epoch": PAIR[1], "committed": committed}
    end = exchange(1, END_TXN, 5, quoted, told)
    assert (target.play(end) is not None) is is_sent
    assert [each.reason for each in target.withheld.values()] == [Reason.NO_TRANSACTION] * (not is_sent)
    target.play(recorded_produce(2, batch(b"1", pair=following, sequence=0), name="t", version=12))
    assert log(target) == [b"1"]


def ends(number: int, pair: tuple[int, int], given: tuple[int, int] | None) -> Exchange:
    """A recorded EndTxn of transactions v2 that commits. `given`: the next id and epoch; None: it has no answer."""
    values = {"transactional_id": "t", "producer_id": pair[0], "producer_epoch": pair[1], "committed": True}
    told = None if given is None else {"error_code": 0, "producer_id": given[0], "producer_epoch": given[1]}
    return exchange(number, END_TXN, 5, values, told)


def test_with_transactions_v2_a_commit_of_nothing_behind_a_commit_is_no_retry() -> None:
    """It quotes the pair that the first one's answer gave. Kafka takes a retry by the pair before that alone."""
    target = Target(Broker(other))
    following = (PAIR[0], PAIR[1] + 1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12))
    assert target.play(ends(2, PAIR, following))
    # the records of the second transaction were not sent
    second = ends(3, following, (PAIR[0], PAIR[1] + 2))
    assert target.play(second) is None
    assert target.withheld[second.origin].reason is Reason.NO_TRANSACTION


@pytest.mark.parametrize("is_recorded", [True, False], ids=["the capture has the first answer", "nobody has it"])
def test_with_transactions_v2_a_retry_quotes_the_pair_that_has_ended(is_recorded: bool) -> None:
    target = Target(Broker(other))
    following = (PAIR[0], PAIR[1] + 1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12))
    target.play(ends(2, PAIR, following if is_recorded else None))
    retry = ends(3, PAIR, following)
    target.play(retry)
    assert target.answers[retry.origin]["error_code"] == 0
    assert target.play(recorded_produce(4, batch(b"2", pair=following, sequence=0), name="t", version=12))
    assert sequences(target) == [(other(0), 0, 0), (other(0), 1, 0)]


def test_an_end_that_quotes_a_pair_before_the_last_is_sent_for_the_target_to_refuse() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_init(1, (PAIR[0], PAIR[1] + 2), "t"))
    fenced = recorded_end(2, PAIR, "t")
    assert target.leave(fenced) is not None
    assert not target.withheld


def described(*states: str) -> Values:
    """A response to DescribeTransactions."""
    each = {"error_code": 0, "transactional_id": "t", "transaction_timeout_ms": 1, "transaction_start_time_ms": 1}
    each |= {"producer_id": 1, "producer_epoch": 1, "topics": []}
    return {"throttle_time_ms": 0, "transaction_states": [each | {"transaction_state": state} for state in states]}


def test_a_transaction_is_described_again_until_its_markers_are_written() -> None:
    target = Target(Broker(other))
    values = {"transactional_ids": ["t"]}
    recorded = exchange(1, DESCRIBE_TRANSACTIONS, 0, values, described("CompleteCommit"))
    assert isinstance(target.producers.answered(recorded, values, described("PrepareCommit"), 0), Resend)
    assert target.producers.answered(recorded, values, described("CompleteCommit"), 0) is None
    unfinished = exchange(2, DESCRIBE_TRANSACTIONS, 0, values, described("PrepareCommit"))
    assert target.producers.answered(unfinished, values, described("PrepareCommit"), 0) is None


def test_behind_an_end_whose_answer_was_lost_partitions_join_once_more() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12))
    ends = recorded_end(2, PAIR, "t")
    values = target.leave(ends)
    assert values is not None
    target.broker.answer(END_TXN, 4, values)
    target.producers.lost(ends, values)
    target.play(recorded_produce(3, batch(b"2", pair=PAIR, sequence=1), name="t", version=12))
    assert log(target) == [b"1", b"2"]


def test_at_the_end_open_transactions_are_aborted() -> None:
    target = Target(Broker(other), options=Options(prefix="p-"))
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12))
    (made,) = target.producers.finish()
    target.make(made)
    assert made.values["committed"] is False
    assert not target.broker.transactions["p-t"].partitions
    assert target.producers.finish() == []


def test_below_the_recorded_speed_transactions_may_take_longer() -> None:
    for speed, timeout in ((0.5, 2000), (1.0, 1000), (2.0, 1000), (0.0001, 900_000)):
        target = Target(Broker(other), options=Options(speed=speed))
        sent = target.play(recorded_init(0, PAIR, "t"))
        assert sent is not None
        assert sent["transaction_timeout_ms"] == timeout

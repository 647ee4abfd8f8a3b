"""Which records of a request are retries: counted, bounded, and only of what a client had heard of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import PRODUCE
from proxy.wire.records import Compression, Record, write_batch, write_message_set
from recorder.replay.plan import NO_OFFSET, Exchange, Repeated
from recorder.replay.producers.repeats import Key, Repeats, are_new
from tests.recorder.replay.simulated import PEER, exchange

MINUTES = 60 * 10**9
PLACE, OTHER = Key(PEER, None, "a", 0), Key(PEER, None, "a", 1)
NUMBERED = PLACE._replace(is_plain=False)


def batch(*values: bytes) -> bytes:
    return write_batch([Record(place, 5, None, value) for place, value in enumerate(values)])


def asks(number: int, **more: Any) -> Exchange:
    """A recorded Produce, answered at once."""
    return exchange(number, PRODUCE, 9, {"acks": 1, "timeout_ms": 1, "topic_data": []}, {"responses": []}, **more)


def asks_late(number: int, first_ns: int) -> Exchange:
    """A recorded Produce with a time of its own."""
    found = asks(number)
    found.first_ns = found.at_ns = found.answered_ns = first_ns
    return found


def never_taken(**more: int) -> Repeats:
    return Repeats(lambda one, key, length: False, **more)


def take(found: Repeats, data: bytes, each: Exchange, key: Key = PLACE) -> Sequence[Repeated]:
    return found.take(key, data, each)


RUNS = st.lists(st.booleans(), max_size=12)


@given(RUNS)
def test_records_are_new_unless_a_run_has_them(flags: list[bool]) -> None:
    runs = [Repeated(index, 1, 7) for index, is_new in enumerate(flags) if not is_new]
    found = are_new(runs)
    assert [next(found) for _ in flags] == flags
    assert next(found)


@given(st.lists(st.sampled_from([b"1", b"2"]), min_size=1, max_size=6), st.lists(st.sampled_from([b"1", b"2", b"3"])))
def test_at_most_as_many_equal_records_are_retries_as_were_refused(refused: list[bytes], sent: list[bytes]) -> None:
    found = never_taken()
    found.refused(PLACE, batch(*refused), asks(1), 100)
    repeated = take(found, batch(*sent), asks(2))
    at = {each.first + place: each.target + place for each in repeated for place in range(each.length)}
    left = [(value, 100 + place) for place, value in enumerate(refused)]
    for index, value in enumerate(sent):
        first = next((one for one in left if one[0] == value), None)
        assert at.get(index) == (first[1] if first else None)
        if first:
            left.remove(first)


def test_a_run_ends_where_records_stand_apart_on_either_side() -> None:
    found = never_taken()
    found.refused(PLACE, batch(b"1", b"2"), asks(1), 100)
    found.refused(PLACE, batch(b"3", b"4"), asks(2), 200)
    found.refused(PLACE, batch(b"5", b"6"), asks(3), NO_OFFSET)
    repeated = take(found, batch(b"1", b"new", b"2", b"3", b"4", b"5", b"6", b"new"), asks(4))
    assert repeated == (
        Repeated(0, 1, 100),
        Repeated(2, 1, 101),
        Repeated(3, 2, 200),
        Repeated(5, 2, NO_OFFSET),
    )


def test_a_record_that_was_on_its_way_when_an_equal_one_was_refused_is_new() -> None:
    found, refused, pipelined = never_taken(), asks(1), asks(2)
    refused.answered_ns = 5
    found.refused(PLACE, batch(b"1"), refused, 100)
    assert take(found, batch(b"1"), pipelined) == ()
    retry = asks(6)
    assert take(found, batch(b"1"), retry) == (Repeated(0, 1, 100),)
    retry.answered_ns = None
    assert take(found, batch(b"1"), asks(7)) == ()


def test_on_another_connection_a_client_sends_again_what_was_never_answered() -> None:
    found, unanswered = never_taken(), asks(3)
    unanswered.answered_ns = None
    found.refused(PLACE, batch(b"1"), asks(1), 100)
    assert take(found, batch(b"1"), unanswered)
    assert take(found, batch(b"1"), asks(4, connection=2)) == (Repeated(0, 1, 100),)


def test_beyond_the_bound_the_oldest_requests_of_all_producers_are_forgotten_and_their_records_counted() -> None:
    found = never_taken(most=4)
    found.refused(OTHER, batch(b"1", b"2"), asks(1), 100)
    found.refused(PLACE, batch(b"3", b"4"), asks(2), 100)
    assert found.forgotten == 0
    found.refused(OTHER, batch(b"5"), asks(3), 100)
    assert found.forgotten == 2
    assert take(found, batch(b"1", b"2"), asks(4), OTHER) == ()
    assert take(found, batch(b"3", b"4"), asks(5)) == (Repeated(0, 2, 100),)


def test_records_that_need_no_retry_any_more_leave_room_for_others() -> None:
    taken = list[Exchange]()
    found = Repeats(lambda one, key, length: one in taken, most=2)
    found.refused(PLACE, batch(b"1", b"2"), asks(1), 100)
    retry = asks(2)
    take(found, batch(b"1", b"2"), retry)
    taken.append(retry)
    found.settle(PLACE)
    assert found.is_empty
    found.refused(OTHER, batch(b"3"), asks(3), 100)
    found.forget(OTHER)
    found.refused(PLACE, batch(b"4", b"5"), asks(4), 100)
    assert found.forgotten == 0


@pytest.mark.parametrize("ending", ["taken", "forgotten", "deleted", "given up"])
def test_a_partition_in_which_nothing_is_owed_any_more_takes_no_memory(ending: str) -> None:
    found = Repeats(lambda one, key, length: True)
    for partition in range(50):
        key = PLACE._replace(partition=partition)
        found.refused(key, batch(b"1"), asks(1), 100)
        if ending == "taken":
            take(found, batch(b"1"), asks(2), key)
            found.settle(key)
        elif ending == "forgotten":
            found.forget(key)
        elif ending == "deleted":
            found.forget_topic("a")
        else:
            assert found.lowest("a", partition, 6 * MINUTES) is None
            take(found, batch(b"1"), asks_late(2, 6 * MINUTES), key)
    kept = (found._owed, found._waiting, found._retries, found._refused, found._refused_of, found._kept_back._of)
    assert not any(kept)


def test_a_record_that_comes_again_after_clients_have_given_up_is_new() -> None:
    found = never_taken()
    found.refused(PLACE, batch(b"1"), asks(1), 100)
    assert take(found, batch(b"1"), asks_late(2, 6 * MINUTES)) == ()
    assert found.is_empty


def test_a_commit_far_ahead_leaves_other_producers_records_owed() -> None:
    found = never_taken()
    found.refused(PLACE, batch(b"1"), asks(1), 100)
    assert found.lowest("a", 0, 4 * MINUTES) == 100
    assert found.lowest("a", 0, 6 * MINUTES) is None
    assert take(found, batch(b"1"), asks_late(2, MINUTES)) == (Repeated(0, 1, 100),)
    assert found.lowest("a", 0, 5 * MINUTES) == 100


def test_the_lowest_offset_is_that_of_the_first_record_that_still_waits() -> None:
    found = Repeats(lambda one, key, length: True)
    found.refused(PLACE, batch(b"1", b"2"), asks(1), 100)
    found.refused(OTHER, batch(b"3"), asks(2), 50)
    assert found.lowest("a", 0, 3) == 100
    take(found, batch(b"1"), asks(3))
    found.settle(PLACE)
    assert found.lowest("a", 0, 3) == 101


@given(st.permutations(range(6)), st.lists(st.integers(0, 2), min_size=6, max_size=6), st.booleans())
def test_the_lowest_offset_is_exact_in_any_order_of_refusals_and_retries(
    order: list[int], retried: list[int], is_known: bool
) -> None:
    found = Repeats(lambda one, key, length: True)
    values = [[b"%d" % request, b"also %d" % request] for request in order]
    for request, each in zip(order, values, strict=True):
        base = 10 * request if is_known or request else NO_OFFSET
        found.refused(PLACE, batch(*each), asks(1 + request), base)
    for request, each in zip(order, values, strict=True):
        if retried[request]:
            take(found, batch(*each[: retried[request]]), asks(10 + request))
    found.settle(PLACE)
    waiting = [10 * request + retried[request] for request in order if retried[request] < 2 and (is_known or request)]
    assert found.lowest("a", 0, 20) == min(waiting, default=None)


def test_records_whose_clients_have_given_up_are_not_counted_as_forgotten() -> None:
    found = never_taken(most=1)
    found.refused(PLACE, batch(b"1"), asks(1), 100)
    found.refused(OTHER, batch(b"2"), asks_late(2, 6 * MINUTES), 100)
    assert found.forgotten == 0


def test_records_whose_retry_was_taken_are_not_counted_as_forgotten() -> None:
    found = Repeats(lambda one, key, length: True, most=1)
    found.refused(PLACE, batch(b"1"), asks(1), 100)
    take(found, batch(b"1"), asks(2))
    found.refused(OTHER, batch(b"2"), asks(3), 100)
    assert found.forgotten == 0


def test_the_first_records_of_a_batch_beyond_the_bound_are_remembered() -> None:
    found = never_taken(most=2)
    found.refused(PLACE, batch(b"1", b"2", b"3", b"4", b"5"), asks(1), 100)
    assert found.forgotten == 3
    assert take(found, batch(b"1", b"2"), asks(2)) == (Repeated(0, 2, 100),)


def test_records_that_may_be_retried_behind_those_that_are_looked_at_are_counted() -> None:
    found = never_taken(most=3)
    found.refused(PLACE, batch(b"1", b"2"), asks(1), 100)
    assert take(found, batch(b"a", b"b", b"1", b"2", b"c"), asks(2)) == (Repeated(2, 1, 100),)
    assert found.forgotten == 1


def test_refused_records_that_cannot_be_read_are_counted() -> None:
    found, data = never_taken(), bytearray(batch(b"1", b"2"))
    data[-1] ^= 1
    found.refused(PLACE, bytes(data), asks(1), 100)
    assert found.forgotten == 2
    assert found.is_empty


@pytest.mark.parametrize("more", [b"", b"3"])
def test_batches_with_a_sequence_are_retries_as_a_whole_or_not_at_all(more: bytes) -> None:
    found = never_taken()
    found.refused(NUMBERED, batch(b"1", b"2"), asks(1), 100)
    data = batch(b"1", b"2", *([more] if more else []))
    assert take(found, data, asks(2), NUMBERED) == (() if more else (Repeated(0, 2, 100),))


def compressed(*values: bytes) -> bytes:
    """A message set in one compressed wrapper."""
    found = [Record(place, 5, None, value) for place, value in enumerate(values)]
    return write_message_set(found, codec=Compression.GZIP)


def test_messages_of_a_compressed_set_are_counted_one_by_one() -> None:
    found, values = never_taken(most=3), [b"%d" % number for number in range(10)]
    found.refused(PLACE, compressed(*values), asks(1), 100)
    assert found.forgotten == 7
    assert take(found, compressed(*values), asks(2)) == (Repeated(0, 3, 100),)
    assert found.forgotten == 7


def test_a_compressed_set_longer_than_is_looked_at_counts_only_what_waits_behind() -> None:
    found = never_taken(most=3)
    found.refused(PLACE, batch(b"1", b"2"), asks(1), 100)
    assert take(found, compressed(b"a", b"b", b"1", b"2", b"c"), asks(2)) == (Repeated(2, 1, 100),)
    assert found.forgotten == 1

"""Tests of records acquired by share groups: a stream for each group and partition, with each record once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from proxy.wire.records import ControlType, Record, end_marker_batch, write_batch
from recorder.replay.consumers.records import StreamCounts, Streams, count_within
from recorder.replay.consumers.shared_records import OffsetRanges, SharedRecords
from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import Exchange, Values
from tests.recorder.replay.simulated import TARGET_IDS, TOPIC_IDS, exchange, names

ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


@given(ranges)
def test_offsets_are_new_once(asked: list[tuple[int, int]]) -> None:
    once, known = OffsetRanges(), set[int]()
    for first, last in asked:
        offsets = {*range(first, last + 1)}
        lacking = once.lacking(first, last)
        assert once.take(first, last) == lacking
        new = [offset for low, high in lacking for offset in range(low, high + 1)]
        assert new == sorted(offsets - known)
        known |= offsets


def data(first: int, count: int, value: bytes = b"v") -> bytes:
    return write_batch([Record(first + at, 5, None, b"%s%d" % (value, at)) for at in range(count)])


def answer(records: bytes, acquired: list[tuple[int, int]], ids: dict[str, bytes]) -> Values:
    found = [{"first_offset": first, "last_offset": last, "delivery_count": 1} for first, last in acquired]
    partition = {"partition_index": 0, "error_code": 0, "acknowledge_error_code": 0, "records": records}
    partition |= {"current_leader": {"leader_id": 0, "leader_epoch": 0}, "acquired_records": found}
    partition |= {"error_message": None, "acknowledge_error_message": None}
    topics = [{"topic_id": ids["a"], "partitions": [partition]}] if acquired else []
    fields = {"throttle_time_ms": 0, "error_code": 0, "error_message": None, "acquisition_lock_timeout_ms": 1}
    return {**fields, "responses": topics, "node_endpoints": []}


def fetch(number: int, records: bytes, acquired: list[tuple[int, int]], member: str = "m") -> Exchange:
    values: Values = {"group_id": "g", "member_id": member, "share_session_epoch": 0, "max_wait_ms": 1, "min_bytes": 1}
    values |= {"max_records": 10, "batch_size": 10, "forgotten_topics_data": []}
    values["topics"] = [{"topic_id": TOPIC_IDS["a"], "partitions": [{"partition_index": 0}]}]
    values["topics"][0]["partitions"][0]["acknowledgement_batches"] = []
    return exchange(number, SHARE_FETCH, 1, values, answer(records, acquired, TOPIC_IDS))


# data, and the first and last offsets of those records that were acquired
Given = tuple[bytes, list[tuple[int, int]]]


class Played:
    def __init__(self, written_ns: int | None = None) -> None:
        """`written_ns`: recorded time of a Produce that the target has not answered yet; None: it has answered all."""
        self.written_ns = written_ns
        self.streams = Streams()
        self.shared = SharedRecords(names(), self.streams, self._is_writing)
        self.number = 0

    def __call__(
        self,
        recorded: Given,
        target: Given,
        who: str = "m",
        *,
        waits: bool = True,
        settles: bool = False,
        answered: Values | None = None,
    ) -> None:
        """A poll.

        Args:
            waits: as long as its client asked for, or not at all.
            settles: the target answers the Produce while the poll is in flight.
            answered: of the target's answer.
        """
        each = self._asked(recorded, who)
        values = each.decoded() | ({} if waits else {"max_wait_ms": 0})
        self.shared.sent(each, values, 0)
        if settles:
            self.written_ns = None
        self.shared.answered(each, values, answer(*target, TARGET_IDS) | (answered or {}), 0)

    def is_owed(self, recorded: Given, who: str = "m") -> bool:
        """True if a poll with this recorded answer may wait."""
        return self.shared.owes(self._asked(recorded, who))

    def _is_writing(self, place: TopicPartition, until_ns: int) -> bool:
        return self.written_ns is not None and self.written_ns <= until_ns

    def _asked(self, recorded: Given, who: str) -> Exchange:
        self.number += 1
        each = fetch(self.number, *recorded, who)
        self.shared.request(each, each.decoded(), 0)
        return each

    @property
    def found(self) -> StreamCounts:
        (only,) = self.streams.counts()
        return only


NOTHING: Given = (b"", [])


def test_only_acquired_records_count() -> None:
    played = Played()
    played((data(0, 4), [(0, 1), (3, 3)]), (data(10, 4), [(10, 11), (13, 13)]))
    assert (played.found.equal, played.found.missing, played.found.extra) == (3, 0, 0)


def test_a_record_counts_for_the_group_whichever_member_acquires_it() -> None:
    played = Played()
    played((data(0, 2), [(0, 1)]), NOTHING, "m")
    played(NOTHING, (data(10, 2), [(10, 11)]), "n")
    assert (played.found.equal, played.found.missing, played.found.extra) == (2, 0, 0)


def test_a_record_that_is_given_again_counts_once() -> None:
    played = Played()
    played((data(0, 2), [(0, 1)]), (data(10, 2), [(10, 11)]))
    played(NOTHING, (data(10, 2), [(10, 11)]))
    played((data(5, 1, b"w"), [(5, 5)]), (data(15, 1, b"w"), [(15, 15)]))
    assert (played.found.equal, played.found.extra) == (3, 0)


def test_a_record_is_unread_behind_a_poll_that_got_another_one_whatever_an_earlier_poll_has_found() -> None:
    played = Played()
    played((data(0, 1), [(0, 0)]), (data(10, 1), [(10, 10)]))
    played(NOTHING, NOTHING)
    played((data(1, 2, b"w"), [(1, 2)]), (data(11, 1, b"w"), [(11, 11)]))
    assert (played.found.equal, played.found.missing, played.found.unread) == (2, 0, 1)


def test_different_records_are_missing_and_extra() -> None:
    played = Played()
    played((data(0, 2), [(0, 1)]), (data(0, 2, b"x"), [(0, 1)]))
    played((data(2, 1, b"w"), [(2, 2)]), (data(2, 1, b"w"), [(2, 2)]))
    played(NOTHING, NOTHING)
    assert (played.found.equal, played.found.missing, played.found.extra) == (1, 2, 2)


def test_records_released_because_the_target_had_no_more_are_unread() -> None:
    played = Played()
    played((data(0, 2), [(0, 1)]), (data(10, 1), [(10, 10)]))
    played(NOTHING, NOTHING)
    assert (played.found.missing, played.found.unread) == (1, 0)
    batch = {"first_offset": 10, "last_offset": 10, "acknowledge_types": [2]}
    topics = [{"topic_id": TOPIC_IDS["a"], "partitions": [{"partition_index": 0, "acknowledgement_batches": [batch]}]}]
    values = {"group_id": "g", "member_id": "m", "share_session_epoch": 2, "topics": topics}
    released = exchange(9, SHARE_ACKNOWLEDGE, 1, values, None)
    sent = released.decoded()
    sent["topics"][0]["topic_id"] = TARGET_IDS["a"]
    played.shared.sent(released, sent, 0)
    assert (played.found.missing, played.found.unread) == (0, 1)


def test_all_members_wait_for_what_their_group_is_owed_until_one_has_waited_in_vain() -> None:
    played = Played()
    played((data(0, 1), [(0, 0)]), NOTHING, waits=False)
    assert played.is_owed(NOTHING, "m")
    assert played.is_owed(NOTHING, "n")
    played(NOTHING, NOTHING, "n")
    assert not played.is_owed(NOTHING, "m")
    assert not played.is_owed(NOTHING, "n")


def test_a_poll_that_did_not_wait_leaves_others_to_wait() -> None:
    played = Played()
    played((data(0, 1), [(0, 0)]), NOTHING, waits=False)
    played(NOTHING, NOTHING, "n", waits=False)
    assert played.is_owed(NOTHING)


@pytest.mark.parametrize("code", [6, -1])
def test_a_poll_that_was_refused_has_not_waited(code: int) -> None:
    played = Played()
    played((data(0, 1), [(0, 0)]), NOTHING, waits=False)
    played(NOTHING, NOTHING, answered={"error_code": code})
    assert played.is_owed(NOTHING)
    topics = answer(b"", [(0, 0)], TARGET_IDS)["responses"]
    topics[0]["partitions"][0] |= {"error_code": code, "acquired_records": []}
    played(NOTHING, NOTHING, answered={"responses": topics})
    assert played.is_owed(NOTHING)


def test_a_poll_has_not_waited_in_vain_while_a_produce_that_came_before_the_records_is_unanswered() -> None:
    played = Played(written_ns=1)
    played((data(0, 1), [(0, 0)]), NOTHING)
    assert played.is_owed(NOTHING)
    assert (played.found.missing, played.found.unread) == (0, 1)
    played.written_ns = None
    played(NOTHING, NOTHING)
    assert not played.is_owed(NOTHING)
    assert (played.found.missing, played.found.unread) == (1, 0)


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "does not wait"])
def test_only_a_poll_that_waits_finds_the_end_after_a_produce_that_is_answered_meanwhile(waits: bool) -> None:
    played = Played(written_ns=1)
    played((data(0, 1), [(0, 0)]), NOTHING, waits=waits, settles=True)
    assert played.is_owed(NOTHING)
    assert (played.found.missing, played.found.unread) == ((1, 0) if waits else (0, 1))


def test_produces_that_the_recording_has_behind_the_records_let_a_poll_be_in_vain() -> None:
    played = Played(written_ns=2)
    played((data(0, 1), [(0, 0)]), NOTHING)
    assert not played.is_owed(NOTHING)
    played(NOTHING, NOTHING)
    assert not played.is_owed(NOTHING)


def test_records_that_come_late_leave_later_ones_to_be_waited_for() -> None:
    played = Played()
    played((data(0, 2), [(0, 1)]), NOTHING)
    assert not played.is_owed(NOTHING)
    played(NOTHING, (data(0, 2), [(0, 1)]))
    played((data(2, 1, b"w"), [(2, 2)]), NOTHING, waits=False)
    assert played.is_owed(NOTHING)


def test_a_poll_waits_for_records_of_its_own_answer_unless_the_target_has_given_as_many_ahead() -> None:
    played = Played()
    assert played.is_owed((data(0, 3), [(0, 1)]))
    played(NOTHING, (data(10, 2), [(10, 11)]), "n")
    assert not played.is_owed((data(0, 3), [(0, 1)]))
    assert played.is_owed((data(0, 3), [(0, 2)]))


def test_a_poll_does_not_wait_for_records_that_are_given_again() -> None:
    played = Played()
    played((data(0, 2), [(0, 1)]), (data(10, 2), [(10, 11)]))
    assert not played.is_owed((data(0, 2), [(0, 1)]))
    assert played.is_owed((data(0, 3), [(0, 2)]))


def test_a_poll_does_not_wait_for_offsets_without_records() -> None:
    """A transaction's marker is acquired with the records before it."""
    marker = end_marker_batch(
        ControlType.COMMIT, offset=0, timestamp=5, producer_id=7, producer_epoch=0, coordinator_epoch=0
    )
    assert not Played().is_owed((marker, [(0, 0)]))


@given(st.lists(st.integers(1, 3), max_size=12), ranges)
def test_records_within_ranges_are_counted_once(sizes: list[int], asked: list[tuple[int, int]]) -> None:
    firsts = [sum(sizes[:at]) for at in range(len(sizes))]
    found = b"".join(data(first, size) for first, size in zip(firsts, sizes, strict=True))
    within = {offset for low, high in asked for offset in range(low, high + 1)}
    assert count_within([each for each in asked if each[0] <= each[1]], found) == len(within & {*range(sum(sizes))})


def test_the_ranges_are_gone_through_once_however_many_batches_an_answer_has() -> None:
    class Counted(list[tuple[int, int]]):
        rounds = 0

        def __iter__(self) -> Iterator[tuple[int, int]]:
            self.rounds += 1
            return super().__iter__()

    acquired = Counted((2 * at, 2 * at) for at in range(20))
    assert count_within(acquired, b"".join(data(at, 1) for at in range(40))) == 20
    assert acquired.rounds == 1

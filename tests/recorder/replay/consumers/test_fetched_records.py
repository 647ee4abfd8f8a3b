"""Tests of fetched records: they go to their streams, and missing ones are fetched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.records import Record, write_batch
from recorder.replay.cluster import Cluster
from recorder.replay.consumers.fetched_records import FetchedRecords
from recorder.replay.consumers.fetched_records import stream_results as found_of
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.consumers.records import Streams
from recorder.replay.outcome import Stream
from recorder.replay.plan import Exchange, Values
from tests.recorder.replay.consumers.offset_exchanges import A0, at_target, batch, fetch
from tests.recorder.replay.simulated import names

END = 30
LOG = [
    write_batch([Record(at, 5, None, b"%d" % at)], producer_id=9, producer_epoch=0, base_sequence=at)
    for at in range(END)
]


class _Consumers:
    """The translators that know what consumers read of a-0. `end`: of the target's log at the beginning."""

    def __init__(self, end: int = 0) -> None:
        told = names("p-", Cluster())
        self.offsets = Offsets(told, {A0: 0}, {A0: end})
        self.streams = Streams()
        self.fetched = FetchedRecords(told, Cluster(), self.offsets, self.streams)

    def play(self, each: Exchange, answer: Values | int) -> None:
        """Plays a Fetch. `answer`: the target's response, or how many records of LOG it has."""
        values = each.decoded()
        self.fetched.request(each, values, 0)
        assert self.offsets.request(each, values, 0) is None
        values["topics"][0]["topic"] = "p-a"
        if isinstance(answer, int):
            asked = values["topics"][0]["partitions"][0]["fetch_offset"]
            answer = at_target(b"".join(LOG[asked : asked + answer]), high=END)
        self.fetched.answered(each, values, answer, 0)
        self.offsets.answered(each, values, answer, 0)

    def is_owed(self, each: Exchange) -> bool:
        """True if a poll may wait for records."""
        values = each.decoded()
        self.fetched.request(each, values, 0)
        assert self.offsets.request(each, values, 0) is None
        return self.fetched.owes(each)

    def asked(self) -> list[int]:
        """Returns the offsets that are polled for."""
        return [made.values["topics"][0]["partitions"][0]["fetch_offset"] for made in self.fetched.owed()]


def test_two_consumers_of_one_name_are_each_polled_for_what_they_lack() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 3), high=5))
    found.play(fetch(2, 0, batch(0, 5), connection=2), at_target(batch(0, 5), high=5))
    (more,) = found.fetched.owed()
    assert found.asked() == [3]
    more.done(at_target(batch(3, 2), high=5))
    assert found.fetched.owed() == []


def test_records_that_the_target_has_given_ahead_are_not_owed() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 2), connection=1), at_target(batch(0, 5), high=5))
    assert not found.is_owed(fetch(2, 2, batch(2, 3), connection=1))
    assert found.is_owed(fetch(3, 2, batch(2, 4), connection=1))
    assert not found.is_owed(fetch(4, 2, None, connection=1))


def test_a_batch_that_begins_before_the_requested_offset_owes_its_rest() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 2), connection=1), at_target(batch(0, 3), high=3))
    assert not found.is_owed(fetch(2, 2, batch(0, 3), connection=1))
    assert found.is_owed(fetch(3, 2, batch(0, 4), connection=1))


def test_later_polls_wait_for_what_the_target_has_not_given_until_one_has_waited_in_vain() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 3), high=3))
    assert found.is_owed(fetch(2, 5, None, connection=1))
    found.play(fetch(3, 5, None, connection=1), at_target(None, high=3))
    assert not found.is_owed(fetch(4, 5, None, connection=1))
    assert found.is_owed(fetch(5, 5, batch(5, 1), connection=1))


def test_a_poll_that_was_refused_has_not_waited() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 3), high=3))
    found.play(fetch(2, 5, None, connection=1), at_target(None, code=3))
    assert found.is_owed(fetch(3, 5, None, connection=1))


def test_records_that_come_late_leave_later_ones_to_be_waited_for() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 3), high=3))
    found.play(fetch(2, 5, None, connection=1), at_target(None, high=3))
    found.play(fetch(3, 5, batch(5, 2), connection=1), at_target(batch(3, 4), high=7))
    found.play(fetch(4, 7, batch(7, 2), connection=1), at_target(batch(7, 1), high=8))
    assert found.is_owed(fetch(5, 9, None, connection=1))


def test_a_report_has_one_stream_for_all_consumers_of_a_name() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 3), high=3))
    found.play(fetch(2, 0, batch(0, 5), connection=2), at_target(batch(0, 5), high=5))
    assert found_of(found.streams) == [Stream("host one", "a", 0, equal=8, missing=2)]


def test_records_that_the_target_lacks_are_unread_if_the_replay_ended_early() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 3), high=3))
    assert found_of(found.streams) == [Stream("host one", "a", 0, equal=3, missing=2)]
    assert found_of(found.streams, is_whole=False) == [Stream("host one", "a", 0, equal=3, unread=2)]


def test_a_consumer_that_continues_on_another_connection_has_one_stream() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 9), high=9))
    found.play(fetch(2, 5, batch(5, 4), connection=2), at_target(None, high=9))
    assert found_of(found.streams) == [Stream("host one", "a", 0, equal=9)]


# the offset to which a consumer seeks (None: it goes on), and how many records each side returns
fetches = st.lists(st.tuples(st.none() | st.integers(0, END), st.integers(0, 8), st.integers(0, 8)), max_size=20)


@given(fetches)
def test_any_seeks_and_fetch_sizes_give_equal_streams(
    history: list[tuple[int | None, int, int]],
) -> None:
    found, at, read = _Consumers(END), 0, 0
    for number, (to, here, there) in enumerate(history):
        at = at if to is None else to
        found.play(fetch(number, at, b"".join(LOG[at : at + here])), there)
        read += len(LOG[at : at + here])
        at = min(at + here, END)
    while owed := found.fetched.owed():
        for made in owed:
            asked = made.values["topics"][0]["partitions"][0]["fetch_offset"]
            made.done(at_target(b"".join(LOG[asked : asked + 3]), high=END))
    assert found_of(found.streams) == ([Stream("host one", "a", 0, equal=read)] if history else [])

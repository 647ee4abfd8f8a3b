"""What consumers fetched goes to their streams, and what they still lack is asked for."""

from __future__ import annotations

from recorder.replay.cluster import Cluster
from recorder.replay.consumers.fetched import Fetched
from recorder.replay.consumers.fetched import found as found_of
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.consumers.records import Streams
from recorder.replay.outcome import Stream
from recorder.replay.plan import Exchange, Values
from tests.recorder.replay.consumers.test_offsets import A0, at_target, batch, fetch
from tests.recorder.replay.simulated import names


class _Consumers:
    """The rooms that know what consumers read of a-0."""

    def __init__(self) -> None:
        told = names("p-", Cluster())
        self.offsets = Offsets(told, {A0: 0}, {A0: 0})
        self.streams = Streams()
        self.fetched = Fetched(told, Cluster(), self.offsets, self.streams)

    def play(self, each: Exchange, answer: Values) -> None:
        values = each.decoded()
        self.fetched.request(each, values, 0)
        assert self.offsets.request(each, values, 0) is None
        values["topics"][0]["topic"] = "p-a"
        self.fetched.answered(each, values, answer, 0)
        self.offsets.answered(each, values, answer, 0)

    def asked(self) -> list[int]:
        """The offsets that are polled for."""
        return [made.values["topics"][0]["partitions"][0]["fetch_offset"] for made in self.fetched.owed()]


def test_two_consumers_of_one_name_are_each_polled_for_what_they_lack() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 3), high=5))
    found.play(fetch(2, 0, batch(0, 5), connection=2), at_target(batch(0, 5), high=5))
    (more,) = found.fetched.owed()
    assert found.asked() == [3]
    more.done(at_target(batch(3, 2), high=5))
    assert found.fetched.owed() == []


def test_a_report_has_one_stream_for_all_consumers_of_a_name() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 3), high=3))
    found.play(fetch(2, 0, batch(0, 5), connection=2), at_target(batch(0, 5), high=5))
    assert found_of(found.streams) == [Stream("host one", "a", 0, equal=8, missing=2)]


def test_a_consumer_that_goes_on_by_another_connection_has_one_stream() -> None:
    found = _Consumers()
    found.play(fetch(1, 0, batch(0, 5), connection=1), at_target(batch(0, 9), high=9))
    found.play(fetch(2, 5, batch(5, 4), connection=2), at_target(None, high=9))
    assert found_of(found.streams) == [Stream("host one", "a", 0, equal=9)]

"""Tests of how a replay and its connections end: all is played, it is stopped, or too much differs."""

from __future__ import annotations

import pytest

from proxy.wire.keys import END_TXN, FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE
from recorder.replay.options import Options
from recorder.replay.outcome import Ending, Verdict
from tests.recorder.replay.engine.reads_and_writes import MAX, SECOND, TOPICS, played, reads, writes
from tests.recorder.replay.simple import (
    FETCH_VERSION,
    LIST_VERSION,
    PRODUCE_VERSION,
    answered,
    batch,
    fetch,
    fetched,
    list_answer,
    listed,
    produce,
    produced,
)
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, one_node
from tests.tables import each_row


def test_a_recorded_connection_ends_when_all_of_it_is_played() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    recording.closes(100, 1)
    found = played(recording, Options())
    assert found.hung_up == [found.asked(LIST_OFFSETS)[0].channel]


def test_an_exchange_that_the_recording_did_not_see_answered_is_not_waited_for_at_its_end() -> None:
    recording = Recording()
    recording.asks(0, 1, LIST_OFFSETS, LIST_VERSION, listed())
    recording.closes(100, 1)
    found = played(recording, Options(), answer=lambda _: None)
    assert found.now <= 200 * 10**6


STOPS = [0, 0.5, 1, 5, 20, 21, 22, 40, 60, 61, 100, 10_000]


@each_row("when", STOPS)
def test_a_replay_that_is_stopped_at_any_moment_ends_at_once_and_sends_nothing_recorded_any_more(when: float) -> None:
    recording = Recording()
    for at in range(0, 60, 5):
        writes(recording, at, 1 + at % 3)
        reads(recording, at + 1, 4)
    poll = recording.asks(61, 5, FETCH, FETCH_VERSION, fetch())
    recording.answers(62, poll, fetched(data=batch(b"never")))
    found = Simulation(recording, answered, Options(), cluster=one_node(TOPICS), delay=lambda _: 7)
    sent: list[int] = []

    def stop() -> None:
        found.stop()
        sent.append(len(found.got))

    found.at(when, stop)
    found.run()
    assert found.engine.finished
    assert found.world.result.ending is Ending.INTERRUPTED
    assert found.now <= (when + 1000) * 10**6
    assert len(found.got) == sent[0]
    totals = found.world.result.totals
    assert totals.recorded >= totals.sent + totals.withheld.total()


def test_rows_that_were_read_already_are_not_sent_after_a_stop() -> None:
    recording = Recording()
    found = Simulation(recording, answered, MAX, cluster=one_node(TOPICS))
    other = Recording()
    reads(other, 0, 1)
    found.stop()
    found.engine.feed(other.happenings, 0)
    found.engine.end(0)
    found.run()
    assert found.engine.finished
    assert not found.got


def test_too_many_mismatches_end_the_replay() -> None:
    recording = Recording()
    for at in range(10):
        reads(recording, at, 1, took=0.5)
    found = played(recording, Options(speed=None, stop_after=2), answer=lambda got: list_answer(code=29))
    assert found.world.result.ending is Ending.TOO_MANY
    assert len(found.got) == 3


def test_recorded_records_are_polled_for_until_drain_is_over() -> None:
    recording = Recording()
    writes(recording, 0, 2)
    exchange = recording.asks(5, 1, FETCH, FETCH_VERSION, fetch())
    recording.answers(6, exchange, fetched(data=batch(b"v")))
    found = played(recording, Options(speed=None, drain=3 * SECOND))
    assert len(found.asked(FETCH)) > 2
    assert 3 * SECOND <= found.now <= 4 * SECOND
    found.world.close(found.engine.progress, 0)
    assert [stream.unread + stream.missing for stream in found.world.result.streams] == [1]


def test_drain_ends_when_all_records_were_read() -> None:
    recording = Recording()
    writes(recording, 0, 2)
    exchange = recording.asks(5, 1, FETCH, FETCH_VERSION, fetch())
    recording.answers(6, exchange, fetched(data=batch(b"v")))

    def answer(got: Got) -> Answer:
        if got.key == PRODUCE:
            return produced()
        return fetched(data=batch(b"v") if len(found.asked(FETCH)) == 3 else b"")

    found = Simulation(recording, answer, MAX, cluster=one_node(TOPICS))
    found.run()
    assert found.engine.finished
    assert len(found.asked(FETCH)) == 3
    found.world.close(found.engine.progress, 0)
    assert found.world.result.verdict is Verdict.EQUAL


def transaction(recording: Recording) -> None:
    """A transaction that was begun, and never ended."""
    given = recording.asks(0, 1, INIT_PRODUCER_ID, 4, {"transactional_id": "t", "transaction_timeout_ms": 60_000})
    recording.answers(1, given, {"producer_id": 7, "producer_epoch": 0})
    data = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    asked = produce(data=data) | {"transactional_id": "t"}
    recording.answers(3, recording.asks(2, 1, PRODUCE, PRODUCE_VERSION, asked), produced())
    recording.asks(10_000, 1, LIST_OFFSETS, LIST_VERSION, listed())


def transactional(got: Got) -> Answer:
    if got.key == INIT_PRODUCER_ID:
        return {"producer_id": 99, "producer_epoch": 0}
    return answered(got)


@pytest.mark.parametrize("when", [5, 5000])
def test_a_stop_aborts_transactions_that_are_open(when: float) -> None:
    recording = Recording()
    transaction(recording)
    cluster = one_node(TOPICS)
    cluster.coordinators[1, "t"] = 1
    found = Simulation(recording, transactional, Options(), cluster=cluster)
    found.at(when, found.stop)
    found.run()
    (ended,) = found.asked(END_TXN)
    assert (ended.values["producer_id"], ended.values["committed"]) == (99, False)


def test_an_unanswered_end_takes_ten_seconds_at_most() -> None:
    recording = Recording()
    transaction(recording)
    cluster = one_node(TOPICS)
    cluster.coordinators[1, "t"] = 1
    found = Simulation(
        recording, lambda got: None if got.key == END_TXN else transactional(got), Options(), cluster=cluster
    )
    found.at(5000, found.stop)
    found.run()
    assert found.engine.finished
    assert found.now <= 16 * SECOND


@pytest.mark.parametrize("speed", [1.0, None], ids=["1x", "max"])
def test_a_producers_next_step_does_not_overtake_one_whose_connection_ended_before_the_answer(
    speed: float | None,
) -> None:
    recording = Recording()
    asked = {"transactional_id": "t", "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    recording.asks(0, 1, INIT_PRODUCER_ID, 4, asked)
    recording.closes(10, 1)
    recording.exchanges(20, 2, INIT_PRODUCER_ID, 4, asked, {"error_code": 0, "producer_id": 5, "producer_epoch": 1})
    epochs = iter((0, 1))

    def answer(got: Got) -> Answer:
        if got.key == INIT_PRODUCER_ID:
            return {"error_code": 0, "producer_id": 7, "producer_epoch": next(epochs)}
        return answered(got)

    found = Simulation(recording, answer, Options(speed=speed), cluster=one_node(TOPICS), delay=lambda _: 50)
    result = found.run()
    first, second = found.times(INIT_PRODUCER_ID)
    assert second >= first + 50
    assert result.totals.mismatches.total() == 0

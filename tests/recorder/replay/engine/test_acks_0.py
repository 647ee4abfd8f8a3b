"""Tests of requests that await no response: when they are done, and what else they cost."""

from __future__ import annotations

from proxy.wire.keys import METADATA, PRODUCE
from recorder.replay.options import Options
from tests.recorder.replay.engine.reads_and_writes import MAX, TOPICS, played, reads
from tests.recorder.replay.simple import PRODUCE_VERSION, answered, metadata, produce
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, one_node


def silent(recording: Recording, at: float, connection: int) -> None:
    recording.asks(at, connection, PRODUCE, PRODUCE_VERSION, produce(acks=0), awaits=False)


def test_requests_that_await_nothing_are_done_when_they_have_left() -> None:
    recording = Recording()
    for at in range(3):
        silent(recording, at, 1)
    reads(recording, 5, 1)
    found = played(recording)
    assert found.times() == [0, 0, 0, 0]
    assert found.world.result.totals.sent == 4


def test_requests_that_await_nothing_take_no_memory_once_they_have_left() -> None:
    recording = Recording()
    for at in range(200):
        silent(recording, at, 1)
    found = played(recording, Options(speed=None, memory=20_000))
    assert len(found.asked(PRODUCE)) == 200
    assert found.engine.memory == 0


def test_a_target_that_closes_on_an_error_of_acks_0_loses_nothing_else() -> None:
    recording = Recording()
    for at in range(10):
        silent(recording, at, 1)
        reads(recording, at + 0.5, 1, took=0.1)

    def answer(got: Got) -> Answer:
        if got.key == PRODUCE and len(found.asked(PRODUCE)) % 3 == 1:
            found.at(got.at, lambda: found.cut(got.channel))
            return None
        return metadata(1) if got.key == METADATA else answered(got)

    found = Simulation(recording, answer, MAX, cluster=one_node(TOPICS))
    found.run()
    assert found.engine.finished
    assert found.world.result.totals.answered == 10
    assert found.world.result.totals.lost == 0

"""Tests of the engine's memory: its limit, its release, and what is loaded again."""

from __future__ import annotations

import pytest

from proxy.wire.keys import PRODUCE
from recorder.replay.options import Options
from recorder.replay.outcome import Verdict
from recorder.replay.plan import Reason
from tests.recorder.replay.engine.reads_and_writes import TOPICS, played, reads
from tests.recorder.replay.simple import PRODUCE_VERSION, answered, produce, produced
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, one_node


def test_no_more_is_read_than_memory_allows() -> None:
    recording = Recording()
    for at in range(500):
        reads(recording, at, 1)
    most = 50_000
    simulation = Simulation(recording, answered, Options(speed=None, memory=most), cluster=one_node(TOPICS))
    peak = 0

    def answer(got: Got) -> Answer:
        nonlocal peak
        peak = max(peak, simulation.engine.memory)
        return answered(got)

    simulation.answer = answer
    simulation.run()
    assert len(simulation.got) == 500
    assert peak < most + 10_000
    assert simulation.engine.memory == 0


def test_memory_is_free_again_when_a_connection_ended_without_its_answers() -> None:
    recording = Recording()
    for connection in range(50):
        recording.asks(connection, connection, PRODUCE, PRODUCE_VERSION, produce(), fault=Reason.CUT)
        recording.closes(connection + 0.5, connection)
        reads(recording, connection + 0.6, 1000 + connection)
    found = played(recording, Options(speed=None, memory=20_000))
    assert found.engine.memory == 0
    assert found.world.result.totals.answered == 50


@pytest.mark.parametrize("most", [1, 1000, 100_000])
def test_a_replay_with_little_memory_plays_everything_as_recorded(most: int) -> None:
    """Requests that wait for later responses of the capture must not block these."""
    recording = Recording()
    for connection in range(4):
        asked = [recording.asks(at, connection, PRODUCE, PRODUCE_VERSION, produce()) for at in range(20)]
        for at, exchange in enumerate(asked):
            recording.answers(100 + at, exchange, produced())
    recording.happenings.sort(key=lambda one: one.ns)
    found = played(recording, Options(speed=None, memory=most))
    assert found.world.result.totals.answered == 80
    assert not found.world.result.totals.withheld
    assert found.engine.memory == 0


def test_a_request_beyond_memory_keeps_its_place_and_is_loaded_when_it_is_sent() -> None:
    """The target takes longer than the replay waits before it reads on; meanwhile one request is in play."""
    recording = Recording()
    first = recording.asks(0, 0, PRODUCE, PRODUCE_VERSION, produce())
    for at in range(90):
        recording.exchanges(10 + 2 * at, 1, PRODUCE, PRODUCE_VERSION, produce(), produced())
    recording.answers(300, first, produced())
    found = played(recording, Options(speed=None, memory=1000), delay=lambda got: 400.0)
    assert found.loads > 0
    assert found.world.result.totals.answered == 91
    assert found.world.result.verdict is Verdict.EQUAL
    assert found.engine.memory == 0

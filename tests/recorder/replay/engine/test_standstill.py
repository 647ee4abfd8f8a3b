"""Tests of the report on a replay in which nothing moves."""

from __future__ import annotations

from collections import Counter

import pytest

from proxy.wire.keys import LIST_OFFSETS, PRODUCE
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.engine.standstill import NOT_DUE
from recorder.replay.plan import Hold, Reason
from tests.recorder.replay.simple import LIST_VERSION, PRODUCE_VERSION, list_answer, listed, produce
from tests.recorder.replay.simulation import Recording, Simulation, one_node


def standing(recording: Recording) -> Counter[str]:
    """Returns the requests that a replay waits for after 100 ms. The target never responds."""
    found: list[Counter[str]] = []
    simulation = Simulation(recording, lambda _: None, cluster=one_node(("a", 1)))
    simulation.at(100, lambda: found.append(simulation.engine.waited_for(simulation.now)))
    simulation.run(until=100)
    return found[0]


def test_answers_that_the_target_owes_are_counted_by_api() -> None:
    recording = Recording()
    for connection in (1, 2):
        recording.exchanges(connection, connection, LIST_OFFSETS, LIST_VERSION, listed(), list_answer())
    # requests that wait for their own connection are no cause
    recording.exchanges(10, 1, LIST_OFFSETS, LIST_VERSION, listed(), list_answer())
    assert standing(recording) == {"the target's answer to ListOffsets": 2}


def test_a_request_that_may_not_leave_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording()
    monkeypatch.setattr(Offsets, "request", lambda *_: Hold(Reason.NO_NODE))
    recording.exchanges(1, 1, LIST_OFFSETS, LIST_VERSION, listed(), list_answer())
    assert standing(recording) == {"what ListOffsets lacks (no node of the target takes it)": 1}


def test_between_two_requests_of_the_recording_it_waits_for_the_later_ones_time() -> None:
    recording = Recording()
    recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, produce(acks=0), awaits=False)
    recording.exchanges(3000, 1, LIST_OFFSETS, LIST_VERSION, listed(), list_answer())
    assert standing(recording) == {NOT_DUE: 1}

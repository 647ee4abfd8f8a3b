"""Tests of how far a replay is, how late its requests are, and why."""

from __future__ import annotations

import pytest

from proxy.wire.keys import PRODUCE
from recorder.replay.options import Options
from recorder.replay.outcome import Cause, Ending
from recorder.replay.plan import Reason
from tests.recorder.replay.engine.reads_and_writes import MAX, SECOND, TOPICS, played, reads, withheld, writes
from tests.recorder.replay.simple import answered
from tests.recorder.replay.simulation import Recording, Simulation, one_node


def test_a_punctual_request_is_not_late() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    reads(recording, 50, 1)
    found = played(recording, Options())
    assert found.engine.progress.late == 0
    assert found.world.result.late.count == 2
    assert not found.world.result.lateness


def test_lateness_has_the_cause_of_answers_on_its_connection() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    reads(recording, 50, 1)
    found = played(recording, Options(), delay=lambda _: 200)
    assert found.times() == [0, 200]
    assert {cause: each.count for cause, each in found.world.result.lateness.items()} == {Cause.OWN_ANSWERS: 1}


def test_lateness_has_the_cause_of_answers_that_others_wait_for() -> None:
    recording = Recording()
    writes(recording, 0, 1)
    writes(recording, 50, 2)
    found = played(recording, Options(), delay=lambda _: 200)
    assert {cause: each.count for cause, each in found.world.result.lateness.items()} == {Cause.OTHER_ANSWERS: 1}


def test_a_late_requests_cause_also_counts_for_later_requests_of_its_connection() -> None:
    recording = Recording()
    writes(recording, 0, 1)
    reads(recording, 50, 2)
    reads(recording, 50.5, 2, 1)
    found = played(recording, Options(), delay=lambda got: 200 if got.key == PRODUCE else 1)
    assert {cause: each.count for cause, each in found.world.result.lateness.items()} == {Cause.OTHER_ANSWERS: 2}


def test_lateness_has_the_cause_of_a_target_that_reads_slowly() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    found = played(recording, Options(), writes=lambda _: 300)
    assert {cause: each.count for cause, each in found.world.result.lateness.items()} == {Cause.FULL_SOCKET: 1}
    assert found.engine.progress.late == 1


def test_lateness_has_the_cause_of_the_replay_itself() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    found = played(recording, Options(), dials=lambda _: 300)
    assert {cause: each.count for cause, each in found.world.result.lateness.items()} == {Cause.REPLAY: 1}


def test_the_position_is_where_all_requests_before_have_left_though_some_are_ahead() -> None:
    recording = Recording()
    for at in (0, 1000, 2000, 3000):
        reads(recording, at, 1)
    reads(recording, 2500, 2)
    positions: list[int] = []
    simulation = Simulation(recording, answered, MAX, cluster=one_node(TOPICS), delay=lambda _: 100)
    for when in (50, 150, 250):
        simulation.at(when, lambda: positions.append(simulation.engine.progress.position_ns // 10**6))
    simulation.run()
    assert simulation.times() == [0, 0, 100, 200, 300]
    assert positions == [1000, 2000, 2500]


@pytest.mark.parametrize("until", [50, 550])
def test_a_replay_that_is_ended_says_how_far_it_came(until: int) -> None:
    recording = Recording()
    for at in (0, 500, 1000):
        reads(recording, at, 1)
    simulation = Simulation(recording, answered, Options(), cluster=one_node(TOPICS))
    simulation.at(until, simulation.stop)
    simulation.run()
    assert simulation.engine.progress.position_ns == until // 500 * 500 * 10**6


def test_an_ended_replay_of_two_connections_stays_where_it_was_when_it_was_stopped() -> None:
    recording = Recording()
    for at in (0, 1000, 2000, 3000):
        reads(recording, at, 1)
    for at in (0, 3500):
        reads(recording, at, 2)
    simulation = Simulation(recording, answered, MAX, cluster=one_node(TOPICS), delay=lambda _: 100)
    simulation.at(150, simulation.stop)
    simulation.run()
    assert simulation.engine.finished
    assert simulation.engine.progress.position_ns == 2000 * 10**6


def test_nothing_is_late_at_max() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    reads(recording, 50, 1)
    found = played(recording, delay=lambda _: 200)
    assert found.engine.progress.late == 0


def test_a_request_later_than_max_late_ends_the_replay() -> None:
    recording = Recording()
    for at in (0, 50, 100):
        reads(recording, at, 1)
    found = played(recording, Options(max_late=SECOND), delay=lambda _: 2000)
    assert found.world.result.ending is Ending.TOO_LATE
    assert len(found.got) == 2
    assert withheld(found) == {Reason.ENDED: 1}

"""Reads and writes of one topic for tests of the engine, and their replay to one node."""

from __future__ import annotations

from proxy.wire.keys import LIST_OFFSETS, PRODUCE
from recorder.replay.options import Options
from tests.recorder.replay.simple import LIST_VERSION, PRODUCE_VERSION, answered, list_answer, listed, produce, produced
from tests.recorder.replay.simulation import Recording, Simulation, one_node

SECOND = 10**9
MAX = Options(speed=None)
TOPICS = ("a", 4)


def reads(recording: Recording, at: float, connection: int, index: int = 0, *, took: float = 1) -> None:
    """A ListOffsets with its response."""
    exchange = recording.asks(at, connection, LIST_OFFSETS, LIST_VERSION, listed(index))
    recording.answers(at + took, exchange, list_answer(index))


def writes(recording: Recording, at: float, connection: int, index: int = 0, *, took: float = 1) -> None:
    """A Produce with its response."""
    exchange = recording.asks(at, connection, PRODUCE, PRODUCE_VERSION, produce(index))
    recording.answers(at + took, exchange, produced(index))


def played(recording: Recording, options: Options = MAX, **other: object) -> Simulation:
    simulation = Simulation(recording, **({"answer": answered} | other), options=options, cluster=one_node(TOPICS))  # type: ignore[arg-type]
    simulation.run()
    assert simulation.engine.finished
    return simulation


def withheld(simulation: Simulation) -> dict[str, int]:
    return dict(simulation.world.result.totals.withheld)

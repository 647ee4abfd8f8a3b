"""Tests of two targets that must be found equal: one answers as recorded, one differs in all assigned values."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.consumers.offsets import Offsets
from recorder.replay.groups.groups import Groups
from recorder.replay.options import Options
from recorder.replay.outcome import Result, Verdict
from recorder.replay.plan import Reason
from recorder.replay.requests.translate_names import NamesTranslator
from recorder.replay.sessions.fetch_sessions import FetchSessions
from tests.recorder.replay.fake_kafka import Kafka, recorded
from tests.recorder.replay.simulation import Recording, Simulation
from tests.sweeps import examples

SPEEDS = st.sampled_from([None, 1.0, 3.0])
SEEDS = st.integers(0, 2**32)
STEPS = st.integers(1, 60)


def play(recording: Recording, target: Kafka, speed: float | None, **options: Any) -> Simulation:
    played = Options(speed=speed, **options)
    found = Simulation(recording, target.of_replay, played, cluster=target.cluster(), prepared=target.prepared())
    found.run()
    assert found.engine.finished
    found.world.close(found.engine.progress, 0)
    return found


def check(result: Result) -> None:
    """Asserts that nothing was withheld, lost, unread, or different."""
    differences = [(each.api, each.differences) for each in result.mismatches]
    assert not differences
    assert not result.totals.withheld
    assert not result.totals.partitions
    assert not result.totals.lost
    assert [each for each in result.streams if each.differs or each.unread] == []
    assert result.verdict is Verdict.EQUAL


def committed(kafka: Kafka) -> dict[str, dict[tuple[str, int], int]]:
    """Committed offsets by group; at a replay's end its members have left."""
    return {name: group.offsets for name, group in kafka.groups.items()}


@pytest.mark.parametrize("is_v2", [True, False], ids=["transactions-v2", "transactions-v1"])
@examples(40, derandomize=True)
@given(seed=SEEDS, steps=STEPS, speed=SPEEDS)
def test_a_target_that_answers_the_recording_is_found_as_recorded(
    is_v2: bool, seed: int, steps: int, speed: float | None
) -> None:
    first, second = Kafka.like(is_v2=is_v2), Kafka.like(is_v2=is_v2)
    found = play(recorded(Random(seed), first, steps, is_timed=speed is not None), second, speed)
    check(found.world.result)
    assert second.values() == first.values()
    # with `max` speed, a commit may leave before the marker whose next offset it names
    if speed is not None:
        assert committed(second) == committed(first)


@pytest.mark.parametrize("is_v2", [True, False], ids=["transactions-v2", "transactions-v1"])
@examples(60, derandomize=True)
@given(seed=SEEDS, steps=STEPS, speed=SPEEDS)
def test_a_target_that_assigns_every_value_otherwise_is_found_as_recorded(
    is_v2: bool, seed: int, steps: int, speed: float | None
) -> None:
    random = Random(seed)
    first, second = Kafka.like(is_v2=is_v2), Kafka.other(random, is_v2=is_v2)
    is_timed = speed is not None
    found = play(recorded(random, first, steps, is_timed=is_timed), second, speed)
    check(found.world.result)
    assert second.values() == first.values()


@pytest.mark.parametrize("assigns", ["like the recorded cluster", "otherwise"])
@examples(60, derandomize=True)
@given(seed=SEEDS, steps=STEPS, speed=SPEEDS, is_v2=st.booleans())
def test_a_target_has_what_a_cluster_took_that_refused_its_clients_again_and_again(
    assigns: str, seed: int, steps: int, speed: float | None, is_v2: bool
) -> None:
    random = Random(seed)
    first = Kafka.like(is_v2=is_v2)
    second = Kafka.other(random, is_v2=is_v2) if assigns == "otherwise" else Kafka.like(is_v2=is_v2)
    recording = recorded(random, first, steps, is_timed=speed is not None, moods=Random(seed))
    result = play(recording, second, speed).world.result
    assert {*result.totals.withheld} <= {Reason.REFUSED}
    for counts in result.apis.values():
        counts.withheld.clear()
    check(result)
    assert second.values() == first.values()


@pytest.mark.parametrize("room", [Groups, FetchSessions, Offsets, NamesTranslator])
def test_a_replay_without_one_of_its_translators_is_found_to_differ(
    room: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "request", lambda *_: None)
    random = Random(3)
    first, second = Kafka.like(is_v2=True), Kafka.other(random, is_v2=True)
    found = play(recorded(random, first, 60, is_timed=True), second, 1.0)
    with pytest.raises(AssertionError):
        check(found.world.result)

"""Tests of the engine in virtual time: which requests leave, when, and in which order."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from proxy.wire.keys import FIND_COORDINATOR, LIST_OFFSETS, OFFSET_FETCH, PRODUCE
from recorder.replay.cluster import Cluster
from recorder.replay.options import Options
from recorder.replay.outcome import Verdict
from recorder.replay.plan import Reason
from recorder.replay.stream import AnswerRecorded
from tests.recorder.replay.engine.reads_and_writes import MAX, SECOND, TOPICS, played, reads, withheld, writes
from tests.recorder.replay.simple import LIST_VERSION, PRODUCE_VERSION, answered, list_answer, listed, produce, produced
from tests.recorder.replay.simulation import Got, Recording, Simulation, Values, one_node


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_a_request_leaves_at_its_recorded_time_by_speed(speed: float) -> None:
    recording = Recording()
    for at in (100, 130, 180):
        reads(recording, at, 1)
    assert played(recording, Options(speed=speed)).times() == [0, 30 / speed, 80 / speed]


def test_a_connection_is_dialled_a_moment_before_its_first_request_is_due() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    reads(recording, 1000, 2)
    found = played(recording, Options(speed=1.0), dials=lambda open: 60.0 if open.channel > 1 else 0.0)
    assert found.times() == [0, 1000]
    assert 0 < found.dialled[1][0] < 1000


def test_a_connection_that_was_lost_is_dialled_anew_a_moment_before_its_next_request_is_due() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    reads(recording, 1000, 1)
    found = Simulation(
        recording, answered, Options(speed=1.0), cluster=one_node(TOPICS), dials=lambda open: 60.0 * (open.channel > 1)
    )
    found.at(100, lambda: found.cut(1))
    found.run()
    assert found.times(LIST_OFFSETS) == [0, 1000]


def test_a_target_that_hangs_up_at_once_is_dialled_once_before_a_request_is_due() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    reads(recording, 1000, 2)
    found = Simulation(recording, answered, Options(speed=1.0), cluster=one_node(TOPICS), dials=lambda _: 1.0)
    # the replay's own connection, on which it asks whether the target's nodes have changed
    own = 3

    def hang_up() -> None:
        for _, opened in found.dialled:
            if opened.channel != own:
                found.cut(opened.channel)

    for at in range(755, 1000, 5):
        found.at(at, hang_up)
    found.run()
    assert [at for at, _ in found.dialled if 0 < at < 1000] == [750, 755]


def test_a_requests_coordinator_is_not_looked_up_before_the_request_is_due() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    recording.exchanges(1000, 2, OFFSET_FETCH, 5, {"group_id": "g", "topics": None}, {"topics": []})
    found = played(recording, Options(speed=1.0))
    assert min(found.times(FIND_COORDINATOR)) == 1000


def test_at_max_only_answers_are_waited_for() -> None:
    recording = Recording()
    for at in (0, 50_000, 90_000):
        reads(recording, at, 1)
    assert played(recording).times() == [0, 1, 2]


def test_connections_do_not_wait_for_each_other() -> None:
    recording = Recording()
    for at in range(4):
        reads(recording, at * 10, at)
    assert played(recording).times() == [0, 0, 0, 0]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_connection_keeps_its_pipelining_depth_at_max(depth: int) -> None:
    recording = Recording()
    rounds = 4
    for number in range(rounds):
        asked = [recording.asks(number * 10, 1, LIST_OFFSETS, LIST_VERSION, listed()) for _ in range(depth)]
        for exchange in asked:
            recording.answers(number * 10 + 5, exchange, list_answer())
    assert played(recording).times() == [number for number in range(rounds) for _ in range(depth)]


def test_requests_to_one_partition_leave_behind_the_answers_that_the_recording_had() -> None:
    recording = Recording()
    writes(recording, 0, 1, index=0)
    writes(recording, 5, 2, index=0)
    writes(recording, 5, 3, index=1)
    found = played(recording)
    times = {got.client_id: got.at for got in found.asked(PRODUCE)}
    assert times == {"connection-1": 0, "connection-2": 1, "connection-3": 0}


def test_a_produce_with_acks_0_is_sent_before_later_ones_of_its_partition() -> None:
    recording = Recording()
    reads(recording, 0, 1, took=3)
    recording.asks(4, 1, PRODUCE, PRODUCE_VERSION, produce(acks=0), awaits=False)
    writes(recording, 5, 2, index=0)
    writes(recording, 5, 3, index=1)
    found = played(recording)
    times = {got.client_id: got.at for got in found.asked(PRODUCE)}
    assert times == {"connection-1": 1, "connection-2": 1, "connection-3": 0}


def test_a_produce_with_acks_0_waits_for_other_clients_earlier_produces() -> None:
    recording = Recording()
    recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, produce(acks=0), awaits=False)
    writes(recording, 1, 2)
    recording.asks(10, 1, PRODUCE, PRODUCE_VERSION, produce(acks=0), awaits=False)
    found = played(recording, delay=lambda _: 1000)
    assert [(got.client_id, got.at) for got in found.asked(PRODUCE)] == [
        ("connection-1", 0),
        ("connection-2", 0),
        ("connection-1", 1000),
    ]


def test_requests_that_overlapped_in_the_recording_overlap_on_the_target() -> None:
    recording = Recording()
    first = recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, produce())
    second = recording.asks(5, 2, PRODUCE, PRODUCE_VERSION, produce())
    recording.answers(6, first, produced())
    recording.answers(7, second, produced(base=1))
    assert played(recording).times() == [0, 0]


def test_an_answer_between_the_first_and_the_last_byte_of_a_request_is_not_waited_for() -> None:
    recording = Recording()
    first = recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, produce())
    recording.answers(5, first, produced())
    second = recording.asks(6, 2, PRODUCE, PRODUCE_VERSION, produce(), first_ns=4 * 10**6)
    recording.answers(7, second, produced(base=1))
    assert played(recording).times() == [0, 0]


def test_exchanges_of_one_moment_do_not_wait_for_each_other() -> None:
    recording = Recording()
    for connection in (1, 2):
        writes(recording, 5, connection, took=0)
    found = played(recording)
    assert found.times() == [0, 1]


def test_a_request_waits_longer_than_wait_for_others_as_long_as_the_target_answers_them() -> None:
    recording = Recording()
    for number in range(4):
        writes(recording, 10 * number, number + 1)
    found = played(recording, Options(speed=None, wait=60 * SECOND), delay=lambda _: 40_000)
    assert found.times(PRODUCE) == [0, 40_000, 80_000, 120_000]
    assert withheld(found) == {}


def test_a_request_that_waited_long_is_retried_as_long_as_any_other() -> None:
    recording = Recording()
    writes(recording, 0, 1)
    reads(recording, 10, 2)
    refused = iter([6] * 3)

    def answer(got: Got) -> object:
        return list_answer(code=next(refused, 0)) if got.key == LIST_OFFSETS else answered(got)

    options = Options(speed=None, wait=60 * SECOND)
    found = played(recording, options, answer=answer, delay=lambda got: 59_990 if got.key == PRODUCE else 1)
    assert found.world.result.verdict is Verdict.EQUAL
    assert len(found.asked(LIST_OFFSETS)) == 4


def held_back(key: int, version: int, asked: Values, told: Values) -> Recording:
    """A Produce, and a request behind it on its connection."""
    recording = Recording()
    writes(recording, 0, 1)
    recording.exchanges(10, 1, key, version, asked, told)
    return recording


def two_nodes() -> Cluster:
    """Node 2 leads a-1."""
    cluster = one_node(TOPICS)
    cluster.nodes[2], cluster.leaders["a", 1] = ("127.0.0.1", 9093), 2
    return cluster


def test_a_request_that_was_held_back_for_almost_wait_has_time_to_ask_for_its_coordinator() -> None:
    offsets: Values = {"topics": [], "error_code": 0}
    node = {"node_id": 1, "host": "127.0.0.1", "port": 9092}
    answers = {OFFSET_FETCH: offsets, FIND_COORDINATOR: {"coordinators": [node | {"key": "g", "error_code": 0}]}}
    delays = {PRODUCE: 59_990, FIND_COORDINATOR: 50}
    found = played(
        held_back(OFFSET_FETCH, 5, {"group_id": "g", "topics": None}, offsets),
        Options(speed=None, wait=60 * SECOND),
        answer=lambda got: answers.get(got.key) or answered(got),
        delay=lambda got: delays.get(got.key, 1),
    )
    assert found.times(FIND_COORDINATOR) == [59_990]
    assert found.times(OFFSET_FETCH) == [60_040]
    assert withheld(found) == {}


def test_a_request_that_was_held_back_for_almost_wait_has_time_to_dial_its_node() -> None:
    found = Simulation(
        held_back(LIST_OFFSETS, LIST_VERSION, listed(1), list_answer(1)),
        answered,
        Options(speed=None, wait=60 * SECOND),
        delay=lambda got: 59_990 if got.key == PRODUCE else 1,
        cluster=two_nodes(),
        dials=lambda open: 50 * (open.node == 2),
    )
    found.run()
    assert found.times(LIST_OFFSETS) == [60_040]
    assert withheld(found) == {}


def test_a_request_that_was_held_back_is_withheld_when_it_has_waited_alone_for_wait() -> None:
    found = Simulation(
        held_back(LIST_OFFSETS, LIST_VERSION, listed(1), list_answer(1)),
        answered,
        Options(speed=None, wait=10 * SECOND),
        delay=lambda got: 9_990 if got.key == PRODUCE else 1,
        cluster=two_nodes(),
        refuses=lambda open: open.node == 2,
    )
    before: list[dict[str, int]] = []
    found.at(19_980, lambda: before.append(withheld(found)))
    found.run(until=20_000)
    assert before == [{}]
    assert withheld(found) == {Reason.NO_NODE: 1}


def test_a_request_waits_no_more_for_what_is_withheld() -> None:
    recording = Recording()
    exchange = recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, produce(), fault=Reason.CUT)
    recording.answers(1, exchange, produced())
    writes(recording, 2, 2)
    found = played(recording)
    assert found.times() == [0]
    assert withheld(found) == {Reason.CUT: 1}


def test_requests_outside_the_options_are_neither_sent_nor_counted() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    writes(recording, 1, 1)
    found = played(recording, Options(speed=None, only=("Produce",)))
    assert [got.key for got in found.got] == [PRODUCE]
    assert found.world.result.totals.recorded == 1


def test_an_answer_is_not_compared_where_the_recorded_one_is_not_whole() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    reads(recording, 5, 1)
    *others, told = recording.happenings
    assert isinstance(told, AnswerRecorded)
    recording.happenings = [*others, told._replace(frame=None)]
    totals = played(recording).world.result.totals
    assert (totals.answered, totals.compared, totals.uncompared) == (2, 1, 1)


@pytest.mark.real
def test_thousands_of_requests_of_a_connection_that_wait_cost_as_much_each_as_few() -> None:
    steps = {number: _steps(number) for number in (100, 1000)}
    assert steps[1000] < 12 * steps[100]


def _steps(number: int) -> int:
    """Counts the lines that the engine executes for so many requests."""
    recording = Recording()
    for at in range(number):
        reads(recording, at, 1)
    simulation = Simulation(recording, answered, MAX, cluster=one_node(TOPICS))
    steps = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        if frame.f_globals["__name__"].startswith("recorder.replay."):
            steps += 1
            return count
        return None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        simulation.run()
    finally:
        sys.settrace(before)
    assert len(simulation.got) == number
    return steps

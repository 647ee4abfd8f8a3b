"""Tests of the engine in virtual time: which requests leave, when, in which order, and how late."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from proxy.wire.keys import FETCH, FIND_COORDINATOR, LIST_OFFSETS, OFFSET_FETCH, PRODUCE
from recorder.replay.cluster import Cluster
from recorder.replay.options import Options
from recorder.replay.outcome import Cause, Ending, Verdict
from recorder.replay.plan import Reason
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
from tests.recorder.replay.simulation import Got, Recording, Simulation, Values, one_node

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


# times


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

    def count(frame: FrameType, event: str, _: object) -> object:
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


# lateness


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


# long polls


def poll(recording: Recording, at: float, connection: int, *, took: float, wait_ms: int = 30_000) -> None:
    exchange = recording.asks(at, connection, FETCH, FETCH_VERSION, fetch(wait_ms=wait_ms))
    recording.answers(at + took, exchange, fetched())


@pytest.mark.parametrize(("speed", "waits"), [(None, 0), (1.0, 1500), (10.0, 150)], ids=["max", "once", "ten"])
def test_an_empty_poll_waits_as_long_as_the_recorded_one_did_by_speed(speed: float | None, waits: int) -> None:
    recording = Recording()
    poll(recording, 0, 1, took=1500)
    (got,) = played(recording, Options(speed=speed)).asked(FETCH)
    assert got.values["max_wait_ms"] == waits


def test_a_poll_waits_no_longer_than_its_client_requested() -> None:
    recording = Recording()
    poll(recording, 0, 1, took=1500, wait_ms=500)
    (got,) = played(recording, Options()).asked(FETCH)
    assert got.values["max_wait_ms"] == 500


def test_an_empty_poll_that_leaves_late_waits_until_its_recorded_answer_is_due() -> None:
    recording = Recording()
    for at in (0, 1100, 2200, 3300):
        poll(recording, at, 1, took=1000)
    slow = iter([2300.0])
    found = played(recording, Options(), delay=lambda got: next(slow, got.values["max_wait_ms"]))
    assert [(got.at, got.values["max_wait_ms"]) for got in found.asked(FETCH)[:4]] == [
        (0, 1000),
        (2300, 0),
        (2300, 900),
        (3300, 1000),
    ]


def test_a_poll_whose_records_are_owed_waits_as_recorded() -> None:
    recording = Recording()
    exchange = recording.asks(0, 1, FETCH, FETCH_VERSION, fetch(wait_ms=700))
    recording.answers(5, exchange, fetched(data=batch(b"v")))

    def answer(got: Got) -> object:
        return fetched(data=batch(b"v")) if got.key == FETCH and got.values["topics"] else answered(got)

    found = played(recording, answer=answer)
    assert found.asked(FETCH)[0].values["max_wait_ms"] == 700
    assert found.world.result.verdict is Verdict.EQUAL


def test_a_poll_leaves_when_its_recorded_answer_was_read_or_is_too_far_ahead() -> None:
    recording = Recording()
    poll(recording, 0, 1, took=20_000)
    poll(recording, 10, 2, took=100)
    reads(recording, 8_000, 3)
    found = played(recording, Options())
    waits = {got.client_id: got.values["max_wait_ms"] for got in found.asked(FETCH)}
    assert waits == {"connection-1": 30_000, "connection-2": 100}
    assert found.times(FETCH)[:2] == [0, 10]

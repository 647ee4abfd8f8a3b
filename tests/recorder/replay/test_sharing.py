"""Tests of members of share groups, played by the engine: their sessions with the target's nodes."""

from __future__ import annotations

import pytest

from proxy.wire.keys import CREATE_TOPICS, DELETE_TOPICS, METADATA, PRODUCE, SHARE_ACKNOWLEDGE, SHARE_FETCH
from proxy.wire.records import with_base_offset
from recorder.replay.cluster import GROUP, Cluster
from recorder.replay.options import Deletes, Options
from recorder.replay.outcome import Stream
from tests.recorder.replay.simple import PRODUCE_VERSION, answered, batch, produce, produced
from tests.recorder.replay.simulation import EVERYTHING, Answer, Got, Recording, Simulation, Values, one_node

VERSION = 1
RECORDED_ID, TARGET_ID = b"r" * 16, b"t" * 16
EMPTY: Values = {"error_code": 0, "responses": []}


def recording(*, nodes: int) -> Recording:
    """One member with a connection to each of two nodes, or to the only one, reads both partitions of a topic."""
    found = Recording()
    topic = {"error_code": 0, "name": "a", "topic_id": RECORDED_ID, "partitions": []}
    brokers = [{"node_id": node, "host": "h", "port": node} for node in range(1, nodes + 1)]
    told = {"brokers": brokers, "topics": [topic]}
    found.exchanges(0, 9, METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}, told)
    for node in range(1, nodes + 1):
        indices = [node - 1] if nodes > 1 else [0, 1]
        topics = [{"topic_id": RECORDED_ID, "partitions": [{"partition_index": index} for index in indices]}]
        asks(found, 10 * node, node, 0, topics)
    for node in range(1, nodes + 1):
        asks(found, 100 * node, node, 1, [])
    for node in range(1, nodes + 1):
        values = {"group_id": "g", "member_id": "m", "share_session_epoch": -1, "topics": []}
        exchange = found.asks(1000 * node, node, SHARE_ACKNOWLEDGE, VERSION, values, node=node)
        found.answers(1000 * node + 1, exchange, EMPTY)
        found.closes(1000 * node + 2, node)
    return found


def asks(
    found: Recording,
    at: float,
    node: int,
    epoch: int,
    topics: list[Values],
    answer: Values = EMPTY,
    *,
    wait_ms: int = 1,
) -> None:
    values = {"group_id": "g", "member_id": "m", "share_session_epoch": epoch, "max_wait_ms": wait_ms}
    values |= {"topics": topics, "forgotten_topics_data": []}
    exchange = found.asks(at, node, SHARE_FETCH, VERSION, values, node=node)
    found.answers(at + 1, exchange, answer)


def told(got: Got) -> Answer:
    return EMPTY if got.key in (SHARE_FETCH, SHARE_ACKNOWLEDGE) else answered(got)


def played(recorded: Recording, cluster: Cluster, speed: float | None = None) -> list[Got]:
    cluster.name_topic("a", TARGET_ID)
    cluster.coordinators[GROUP, "g"] = 1
    simulation = Simulation(recorded, told, Options(speed=speed), cluster=cluster)
    simulation.run()
    assert simulation.engine.finished
    assert simulation.world.result.totals.answered == simulation.world.result.totals.sent
    return [got for got in simulation.got if got.key in (SHARE_FETCH, SHARE_ACKNOWLEDGE)]


@pytest.mark.parametrize("speed", [None, 1.0], ids=["max", "1"])
def test_sessions_that_meet_on_one_node_are_one_on_one_connection_until_the_last_ends(speed: float | None) -> None:
    got = played(recording(nodes=2), one_node(("a", 2)), speed)
    assert len({each.channel for each in got}) == 1
    assert [each.values["share_session_epoch"] for each in got] == [0, 1, 2, 3, 4, -1]


def test_a_session_that_was_spread_over_nodes_ends_on_each() -> None:
    cluster = Cluster("target", 1, {1: ("h", 1), 2: ("h", 2)}, offered={1: EVERYTHING, 2: EVERYTHING})
    cluster.leaders.update({("a", 0): 1, ("a", 1): 2})
    got = played(recording(nodes=1), cluster)
    for node in (1, 2):
        assert [each.values["share_session_epoch"] for each in got if each.node == node] == [0, 1, -1]


def test_polls_of_a_share_group_wait_once_for_a_record_that_the_target_never_gives() -> None:
    found = Recording()
    topic = {"error_code": 0, "name": "a", "topic_id": RECORDED_ID, "partitions": []}
    told = {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "topics": [topic]}
    found.exchanges(0, 9, METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}, told)
    acquired = [{"first_offset": 0, "last_offset": 0, "delivery_count": 1}]
    partition = {"partition_index": 0, "error_code": 0, "records": batch(b"v"), "acquired_records": acquired}
    given = {"error_code": 0, "responses": [{"topic_id": RECORDED_ID, "partitions": [partition]}]}
    asks(found, 10, 1, 0, [{"topic_id": RECORDED_ID, "partitions": [{"partition_index": 0}]}], given, wait_ms=700)
    for epoch in (1, 2, 3):
        asks(found, 100 * epoch, 1, epoch, [], wait_ms=700)
    found.exchanges(2, 9, PRODUCE, PRODUCE_VERSION, produce(), produced())
    # the others wait as long as their recorded answers took
    got = played(found, one_node(("a", 1)), speed=1.0)
    assert [each.values["max_wait_ms"] for each in got] == [700, 1, 1, 1]


def test_a_poll_is_not_in_vain_while_the_target_still_writes_the_record() -> None:
    simulation = shared(SlowTarget(takes_ms=800), shared_recording(polls=4))
    assert waits(simulation) == [500, 500, 0, 0, 0]
    (only,) = streams(simulation)
    assert (only.equal, only.missing, only.unread) == (1, 0, 0)


def test_a_record_that_the_target_does_not_give_once_it_is_written_is_waited_for_once_more() -> None:
    simulation = shared(SlowTarget(takes_ms=800, gives=False), shared_recording(polls=4))
    # the second poll has left too early, the third one has waited in vain
    assert waits(simulation) == [500, 500, 500, 0, 0]
    (only,) = streams(simulation)
    assert (only.equal, only.missing, only.unread) == (0, 1, 0)


def test_a_record_that_is_still_written_when_the_last_poll_ends_is_unread() -> None:
    simulation = shared(SlowTarget(takes_ms=800), shared_recording(polls=0))
    (only,) = streams(simulation)
    assert (only.equal, only.missing, only.unread) == (0, 0, 1)


def test_a_record_that_the_target_does_not_give_to_a_poll_that_outlasts_its_produce_is_missing() -> None:
    simulation = shared(SlowTarget(takes_ms=800, gives=False), shared_recording(polls=1))
    assert waits(simulation) == [500, 500]
    (only,) = streams(simulation)
    assert (only.equal, only.missing, only.unread) == (0, 1, 0)


def test_a_poll_is_not_in_vain_if_a_produce_that_was_requested_later_was_answered_first() -> None:
    recorded = shared_recording(polls=4, produced_at=300)
    recorded.exchanges(20, 3, PRODUCE, PRODUCE_VERSION, produce(data=batch(b"w")), produced())
    recorded.happenings.sort(key=lambda happening: happening.ns)
    simulation = shared(SlowTarget(takes_ms=800), recorded)
    assert waits(simulation) == [500, 500, 0, 0, 0]
    (only,) = streams(simulation)
    assert (only.equal, only.missing, only.unread) == (1, 0, 0)


def test_records_of_a_topic_that_was_deleted_and_created_again_count_whatever_offsets_the_deleted_ones_had() -> None:
    recorded = shared_recording(polls=0, first_offset=7)
    deleted, created = ({name: [{"name": "a", "error_code": 0}]} for name in ("responses", "topics"))
    recorded.exchanges(100, 3, DELETE_TOPICS, 3, {"topic_names": ["a"], "timeout_ms": 1}, deleted)
    topic = {"name": "a", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    recorded.exchanges(200, 3, CREATE_TOPICS, 4, {"topics": [topic], "timeout_ms": 1, "validate_only": False}, created)
    named = {"topic_id": RECORDED_ID, "partitions": [{"partition_index": 0}]}
    asks(recorded, 300, 1, 1, [named], given_record(RECORDED_ID), wait_ms=500)

    def answer(got: Got) -> Answer:
        if got.key == METADATA:
            partition = {"error_code": 0, "partition_index": 0, "leader_id": 1}
            topics = [{"error_code": 0, "name": "a", "topic_id": TARGET_ID, "partitions": [partition]}]
            return {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "controller_id": 1, "topics": topics}
        if got.key == SHARE_FETCH:
            return given_record(TARGET_ID)
        return {DELETE_TOPICS: deleted, CREATE_TOPICS: created}.get(got.key) or answered(got)

    cluster, options = one_node(("a", 1)), Options(speed=None, admin=True, deletes=Deletes.ALL)
    cluster.name_topic("a", TARGET_ID)
    cluster.coordinators[GROUP, "g"] = 1
    simulation = Simulation(recorded, answer, options, cluster=cluster)
    simulation.run()
    (only,) = streams(simulation)
    assert (only.equal, only.missing, only.unread) == (2, 0, 0)


def shared_recording(*, polls: int, produced_at: float = 6, first_offset: int = 0) -> Recording:
    """A Produce of one record, a poll of a share group that gets it, and empty polls.

    `produced_at`: the time of the answer to the Produce; `first_offset`: of the record.
    """
    found = Recording()
    topic = {"error_code": 0, "name": "a", "topic_id": RECORDED_ID, "partitions": []}
    told = {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "topics": [topic]}
    found.exchanges(0, 9, METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}, told)
    written = found.asks(5, 2, PRODUCE, PRODUCE_VERSION, produce(data=batch(b"v")))
    found.answers(produced_at, written, produced(base=first_offset))
    given = given_record(RECORDED_ID, first_offset)
    asks(found, 10, 1, 0, [{"topic_id": RECORDED_ID, "partitions": [{"partition_index": 0}]}], given, wait_ms=500)
    for epoch in range(1, polls + 1):
        asks(found, 100 + 600 * epoch, 1, epoch, [], wait_ms=500)
    found.happenings.sort(key=lambda happening: happening.ns)
    return found


def given_record(topic_id: bytes, offset: int = 0) -> Values:
    acquired = [{"first_offset": offset, "last_offset": offset, "delivery_count": 1}]
    data = with_base_offset(batch(b"v"), offset)
    partition = {"partition_index": 0, "error_code": 0, "records": data, "acquired_records": acquired}
    return {"error_code": 0, "responses": [{"topic_id": topic_id, "partitions": [partition]}]}


class SlowTarget:
    """A target that takes its time for a Produce, and then gives the record once. `gives`: False if it loses it."""

    def __init__(self, *, takes_ms: int, gives: bool = True) -> None:
        self._takes_ms, self._owes = takes_ms, gives
        self._written_at: float | None = None
        self._delays: dict[int, float] = {}

    def __call__(self, got: Got) -> Answer:
        if got.key == PRODUCE:
            self._written_at = got.at + self._takes_ms
            self._delays[id(got)] = self._takes_ms
            return answered(got)
        if got.key == SHARE_FETCH:
            return self._poll(got)
        return told(got)

    def _poll(self, got: Got) -> Answer:
        wait = got.values["max_wait_ms"]
        if self._owes and self._written_at is not None and got.at + wait >= self._written_at:
            self._owes = False
            self._delays[id(got)] = max(self._written_at - got.at, 1)
            return given_record(TARGET_ID)
        self._delays[id(got)] = max(wait, 1)
        return EMPTY

    def delay(self, got: Got) -> float:
        return self._delays.get(id(got), 1)


def shared(target: SlowTarget, recorded: Recording) -> Simulation:
    cluster = one_node(("a", 1))
    cluster.name_topic("a", TARGET_ID)
    cluster.coordinators[GROUP, "g"] = 1
    simulation = Simulation(recorded, target, Options(speed=None), cluster=cluster, delay=target.delay)
    simulation.run()
    return simulation


def waits(simulation: Simulation) -> list[int]:
    return [got.values["max_wait_ms"] for got in simulation.got if got.key == SHARE_FETCH]


def streams(simulation: Simulation) -> list[Stream]:
    simulation.world.close(simulation.engine.progress, 0)
    return simulation.world.result.streams

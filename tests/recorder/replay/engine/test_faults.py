"""Tests of the engine against targets that refuse, break, stay silent or move."""

from __future__ import annotations

import itertools

from proxy.wire.keys import INIT_PRODUCER_ID, LIST_OFFSETS, METADATA, PRODUCE
from recorder.replay.cluster import Cluster
from recorder.replay.options import Options
from recorder.replay.outcome import Verdict
from recorder.replay.plan import Reason
from tests.recorder.replay.engine.reads_and_writes import MAX, SECOND, TOPICS, played, reads, withheld, writes
from tests.recorder.replay.simple import (
    LIST_VERSION,
    PRODUCE_VERSION,
    answered,
    batch,
    list_answer,
    listed,
    metadata,
    produce,
    produced,
)
from tests.recorder.replay.simulation import EVERYTHING, Answer, Got, Recording, Simulation, one_node

# a transient error: the leader has moved
NOT_LEADER = 6


def two_nodes() -> Cluster:
    """Node 1 leads the even partitions, node 2 the odd ones."""
    nodes = {1: ("one", 9092), 2: ("two", 9092)}
    leaders = {("a", index): 1 + index % 2 for index in range(4)}
    return Cluster("target", 1, nodes, leaders, offered={1: EVERYTHING, 2: EVERYTHING})


# transient errors


def test_a_passing_error_is_asked_again_with_pauses_that_double() -> None:
    recording = Recording()
    reads(recording, 0, 1)

    def answer(got: Got) -> Answer:
        if got.key == LIST_OFFSETS and len(found.asked(LIST_OFFSETS)) < 5:
            return list_answer(code=NOT_LEADER)
        return metadata(1) if got.key == METADATA else answered(got)

    found = Simulation(recording, answer, MAX, cluster=one_node(TOPICS))
    found.run()
    times = found.times(LIST_OFFSETS)
    assert [after - before - 1 for before, after in itertools.pairwise(times)] == [20, 40, 80, 160]
    assert found.world.result.totals.retried == 4
    assert found.world.result.verdict is Verdict.EQUAL


def test_a_passing_error_that_the_recording_had_too_is_its_answer() -> None:
    recording = Recording()
    exchange = recording.asks(0, 1, LIST_OFFSETS, LIST_VERSION, listed())
    recording.answers(1, exchange, list_answer(code=NOT_LEADER, offset=-1))
    found = played(recording, answer=lambda got: list_answer(code=NOT_LEADER, offset=-1))
    assert len(found.asked(LIST_OFFSETS)) == 1
    assert found.world.result.verdict is Verdict.EQUAL


def test_a_passing_error_that_stays_until_wait_is_over_is_a_mismatch() -> None:
    recording = Recording()
    reads(recording, 0, 1)

    def answer(got: Got) -> Answer:
        return metadata(1) if got.key == METADATA else list_answer(code=NOT_LEADER, offset=-1)

    found = played(recording, Options(speed=None, wait=5 * SECOND), answer=answer)
    assert found.times(LIST_OFFSETS)[-1] <= 5000
    assert found.world.result.verdict is Verdict.MISMATCHED
    assert found.world.result.totals.answered == 1


def test_a_request_goes_to_the_leader_that_metadata_then_tells() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    leads = {"now": 2}

    def answer(got: Got) -> Answer:
        if got.key == METADATA:
            return metadata(leads["now"])
        return list_answer() if got.node == leads["now"] else list_answer(code=NOT_LEADER, offset=-1)

    found = Simulation(recording, answer, MAX, cluster=two_nodes())
    found.run()
    assert [got.node for got in found.asked(LIST_OFFSETS)] == [1, 2]
    assert found.world.result.verdict is Verdict.EQUAL


def test_only_the_partition_whose_error_passes_is_sent_again() -> None:
    recording = Recording()
    asked = produce(0)
    asked["topic_data"][0]["partition_data"].append({"index": 1, "records": batch(b"w")})
    told = produced(0)
    told["responses"][0]["partition_responses"].append({"index": 1, "error_code": 0, "base_offset": 0})
    recording.answers(1, recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, asked), told)

    def answer(got: Got) -> Answer:
        if got.key == METADATA:
            return metadata(1)
        parts = got.values["topic_data"][0]["partition_data"]
        code = NOT_LEADER if len(found.asked(PRODUCE)) == 1 else 0
        told = [
            {"index": part["index"], "error_code": code if part["index"] else 0, "base_offset": 0} for part in parts
        ]
        return {"responses": [{"name": "a", "partition_responses": told}]}

    found = Simulation(recording, answer, MAX, cluster=one_node(TOPICS))
    found.run()
    sent = [[part["index"] for part in got.values["topic_data"][0]["partition_data"]] for got in found.asked(PRODUCE)]
    assert sent == [[0, 1], [1]]
    assert found.world.result.verdict is Verdict.EQUAL


# connections that break


def breaking(recording: Recording, key: int, times: int = 1, options: Options = MAX) -> Simulation:
    """The connection breaks in place of the first responses to an API."""

    def answer(got: Got) -> Answer:
        if got.key == key and len(found.asked(key)) <= times:
            found.at(got.at + 1, lambda: found.cut(got.channel))
            return None
        return metadata(1) if got.key == METADATA else answered(got)

    found = Simulation(recording, answer, options, cluster=one_node(TOPICS))
    found.run()
    assert found.engine.finished
    return found


def test_a_read_whose_connection_broke_is_sent_again_on_a_new_one() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    found = breaking(recording, LIST_OFFSETS)
    first, second = found.asked(LIST_OFFSETS)
    assert first.channel != second.channel
    assert found.world.result.verdict is Verdict.EQUAL


def test_a_batch_with_a_producer_is_sent_again_when_its_connection_broke() -> None:
    recording = Recording()
    data = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
    given = recording.asks(0, 1, INIT_PRODUCER_ID, 4, {"transactional_id": None})
    recording.answers(1, given, {"producer_id": 7, "producer_epoch": 0})
    recording.answers(3, recording.asks(2, 1, PRODUCE, PRODUCE_VERSION, produce(data=data)), produced())

    def answer(got: Got) -> Answer:
        if got.key == INIT_PRODUCER_ID:
            return {"producer_id": 99, "producer_epoch": 0}
        if got.key == PRODUCE and len(found.asked(PRODUCE)) == 1:
            found.at(got.at + 1, lambda: found.cut(got.channel))
            return None
        return metadata(1) if got.key == METADATA else answered(got)

    found = Simulation(recording, answer, MAX, cluster=one_node(TOPICS))
    found.run()
    first, second = found.asked(PRODUCE)
    assert first.values["topic_data"] == second.values["topic_data"]
    assert found.world.result.verdict is Verdict.EQUAL


def test_a_batch_without_a_producer_is_lost_with_its_connection() -> None:
    recording = Recording()
    writes(recording, 0, 1)
    writes(recording, 5, 1)
    found = breaking(recording, PRODUCE)
    assert len(found.asked(PRODUCE)) == 2
    assert found.world.result.totals.lost == 1
    assert found.world.result.totals.answered == 1


def test_a_target_that_always_breaks_the_connection_ends_the_retries_after_wait() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    found = breaking(recording, LIST_OFFSETS, times=10**6, options=Options(speed=None, wait=5 * SECOND))
    assert found.now <= 20 * SECOND
    assert found.world.result.totals.lost == 1


def test_a_request_without_an_answer_is_lost_when_its_connection_breaks_before_it_left() -> None:
    recording = Recording()
    recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, produce(acks=0), awaits=False)
    recording.closes(100, 1)
    found = Simulation(recording, answered, Options(wait=SECOND), cluster=one_node(TOPICS), writes=lambda _: None)
    found.at(10, lambda: found.cut(1))
    found.run()
    assert found.engine.finished
    totals = found.world.result.totals
    assert totals.answered == 0
    assert totals.lost + totals.withheld.total() == 1


# targets that refuse, and that stay silent


def test_a_node_that_refuses_connections_is_dialled_with_pauses_until_wait_is_over() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    found = played(recording, Options(speed=None, wait=10 * SECOND), refuses=lambda _: True)
    assert found.engine.finished
    assert withheld(found) | {"lost": found.world.result.totals.lost} in (
        {Reason.NO_NODE: 1, "lost": 0},
        {Reason.GAVE_UP: 1, "lost": 0},
        {"lost": 1},
    )
    assert 5 < len(found.dialled) < 60
    assert found.now <= 30 * SECOND


def test_requests_to_a_dead_target_share_one_wait() -> None:
    recording = Recording()
    for number in range(200):
        reads(recording, 10 * number, number % 2)
    found = Simulation(recording, answered, Options(wait=10 * SECOND), cluster=one_node(TOPICS))
    found.refuses = lambda _: found.now >= SECOND

    def dies() -> None:
        for channel in {open.channel for _, open in found.dialled}:
            found.cut(channel)

    found.at(1000, dies)
    found.run()
    totals = found.world.result.totals
    assert 90 < totals.answered < 110
    assert totals.answered + totals.withheld.total() + totals.lost == 200
    assert found.now <= 40 * SECOND


def test_a_target_that_comes_back_after_long_gets_what_is_due_from_then_on() -> None:
    recording = Recording()
    for number in range(100):
        reads(recording, 1000 * number, 1)
    found = Simulation(recording, answered, Options(wait=10 * SECOND), cluster=one_node(TOPICS))
    found.refuses = lambda _: 20 * SECOND <= found.now < 60 * SECOND
    found.at(20_000, lambda: found.cut(1))
    found.run()
    totals = found.world.result.totals
    assert totals.answered > 50
    assert totals.answered + totals.withheld.total() + totals.lost == 100
    assert found.asked(LIST_OFFSETS)[-1].at <= 99_500


def test_a_node_that_is_back_gets_what_waits_for_it() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    down = Simulation(recording, answered, Options(), cluster=one_node(TOPICS))
    down.refuses = lambda _: down.now < 3 * SECOND
    down.run()
    assert down.world.result.verdict is Verdict.EQUAL
    assert 3000 <= down.asked(LIST_OFFSETS)[0].at <= 6000


def test_a_connection_that_is_never_established_does_not_block_the_replay_for_ever() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    found = played(recording, Options(speed=None, wait=10 * SECOND), dials=lambda _: 10**9)
    assert found.now <= 60 * SECOND
    assert found.world.result.totals.answered == 0


def test_an_answer_that_never_comes_is_lost_after_wait() -> None:
    recording = Recording()
    reads(recording, 0, 1)
    reads(recording, 5, 1)
    writes(recording, 6, 2)
    recording.closes(10, 1)

    def answer(got: Got) -> Answer:
        return None if got.key == LIST_OFFSETS else answered(got)

    found = played(recording, Options(speed=None, wait=10 * SECOND), answer=answer)
    totals = found.world.result.totals
    assert found.now <= 60 * SECOND
    assert totals.answered == 1
    assert totals.lost + totals.withheld.total() == 2


def test_an_answer_that_took_long_in_the_recording_may_take_long() -> None:
    recording = Recording()
    reads(recording, 0, 1, took=100_000)
    found = played(recording, Options(wait=10 * SECOND), delay=lambda _: 100_000)
    assert found.world.result.verdict is Verdict.EQUAL


def test_unanswered_made_requests_are_abandoned_after_wait() -> None:
    recording = Recording()
    reads(recording, 0, 1, index=3)

    def answer(got: Got) -> Answer:
        return None if got.key == METADATA else answered(got)

    cluster = two_nodes()
    cluster.leaders.clear()
    found = Simulation(recording, answer, Options(wait=10 * SECOND), cluster=cluster)
    found.run()
    assert found.engine.finished
    assert found.now < 60 * SECOND

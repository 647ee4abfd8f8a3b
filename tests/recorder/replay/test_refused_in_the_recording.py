"""What the recording refused for a while is not sent; its clients' next tries are: the logs are as recorded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    CREATE_TOPICS,
    END_TXN,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    SYNC_GROUP,
)
from recorder.replay.options import Options
from recorder.replay.outcome import RefusedCounts, Result
from recorder.replay.plan import Reason
from tests.recorder.replay.refused_records import (
    FOR_A_WHILE,
    RECORDED_FROM,
    REFUSED,
    STEPS,
    TARGET_FROM,
    Recorded,
    Target,
    batch,
    begun,
    history,
    replayed,
    request,
)
from tests.recorder.replay.simple import (
    LIST_VERSION,
    PRODUCE_VERSION,
    answered,
    list_answer,
    listed,
    metadata,
    produce,
    produced,
)
from tests.recorder.replay.simulation import Got, Recording, Simulation, Values, one_node
from tests.tables import each_row


@given(STEPS, st.integers(0, 10**9), st.sampled_from([None, 1.0]))
def test_the_targets_log_is_the_recorded_one_and_each_commit_is_at_its_record(
    steps: list[tuple[int, int, int, int]], seed: int, speed: float | None
) -> None:
    random, target = Random(seed), Target()
    recorded = history(steps, (b"%d" % random.randint(0, 3) for _ in count()))
    world = replayed(recorded, target, speed)
    assert target.log == recorded.log
    assert target.committed == [end - RECORDED_FROM + TARGET_FROM for end in recorded.ends]
    refused = sum(1 for code in recorded.codes if code)
    assert world.result.refused == RefusedCounts(refused, 0)
    assert not world.result.maybe_twice
    assert world.result.withheld_percent == 0


@each_row("code", FOR_A_WHILE)
def test_a_refused_request_is_not_sent_and_its_clients_next_one_is(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", b"2", code=code)
    recorded.produces(b"other", connection=2)
    recorded.produces(b"1")
    recorded.produces(b"2", b"3")
    recorded.reads(0, 2, 4)
    world = replayed(recorded, target)
    assert target.log == recorded.log == [b"other", b"1", b"2", b"3"]
    (only,) = world.result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (4, 0, 0, 0)
    assert world.result.apis["Produce"].withheld == {Reason.REFUSED.value: 1}


def test_a_record_that_its_client_gave_up_is_not_on_the_target() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"given up", code=REFUSED)
    recorded.produces(b"1", connection=2)
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1"]


@each_row("code", [29, 45, 87, 10, -1])
def test_what_is_refused_for_good_is_sent(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"refused", code=code)
    recorded.produces(b"1", connection=2)
    world = replayed(recorded, target)
    assert target.log == [b"refused", b"1"]
    assert world.result.refused == RefusedCounts(0, 0)


def test_a_wrong_checksum_is_sent_as_it_was() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", code=2)
    replayed(recorded, target)
    assert target.log == [b"1"]


@pytest.mark.parametrize("code", [7, 20], ids=["timed out", "too few replicas after the append"])
def test_records_that_may_be_in_the_recorded_log_are_sent_each_time_and_counted_by_topic(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", b"2", code=code)
    recorded.log += [b"1", b"2"]
    recorded.produces(b"1", b"2")
    world = replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"2", b"1", b"2"]
    assert world.result.maybe_twice == {"a": 2}


@pytest.mark.parametrize("goes_on", [True, False], ids=["the client connects again", "the recording ends"])
def test_records_whose_connection_was_lost_may_be_there_twice_if_their_client_could_send_them_again(
    goes_on: bool,
) -> None:
    recorded, target = Recorded(), Target()
    recorded.recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, request(batch(b"1", b"2", b"3")))
    if goes_on:
        recorded.recording.closes(5, 1)
        recorded.log += [b"1", b"2", b"3"]
        recorded.at = 10
        recorded.produces(b"1", b"2", b"3", connection=2)
    world = replayed(recorded, target)
    assert target.log == [b"1", b"2", b"3"] * (1 + goes_on)
    assert world.result.maybe_twice == ({"a": 3} if goes_on else {})


def test_an_idempotent_producers_records_are_not_counted() -> None:
    recorded, target = Recorded(), Target()
    recorded.recording.exchanges(0, 1, INIT_PRODUCER_ID, 4, *begun(500))
    numbered = {"producer_id": 500, "producer_epoch": 0, "base_sequence": 0}
    recorded.at = 10
    for code in (7, 0):
        recorded.produces(b"1", code=code, data=batch(b"1", **numbered))
    world = replayed(recorded, target)
    assert not world.result.maybe_twice


def test_a_sequence_that_the_recording_refused_is_not_sent_before_the_one_that_it_followed() -> None:
    recorded, target = Recorded(), Target()
    recorded.recording.exchanges(0, 1, INIT_PRODUCER_ID, 4, *begun(500))
    recorded.at = 10
    for number, code in ((0, REFUSED), (1, 45), (0, 0), (1, 0)):
        numbered = {"producer_id": 500, "producer_epoch": 0, "base_sequence": number}
        recorded.produces(b"%d" % number, code=code, data=batch(b"%d" % number, **numbered))
    world = replayed(recorded, target)
    assert target.log == recorded.log == [b"0", b"1"]
    assert world.result.refused == RefusedCounts(2, 0)


def test_only_the_taken_partitions_of_a_request_are_sent() -> None:
    recorded, target = Recorded(), Target()
    both = [{"index": 0, "error_code": REFUSED, "base_offset": -1}]
    both += [{"index": 1, "error_code": 0, "base_offset": RECORDED_FROM}]
    told = {"responses": [{"name": "a", "partition_responses": both}]}
    recorded.recording.exchanges(0, 1, PRODUCE, PRODUCE_VERSION, request(batch(b"0"), batch(b"1")), told)
    recorded.at = 10
    recorded.produces(b"0")
    world = replayed(recorded, target)
    assert dict(target.logs) == {0: [b"0"], 1: [b"1"]}
    assert world.result.refused == RefusedCounts(0, 1)


@pytest.mark.parametrize("speed", [None, 1.0], ids=["max", "as recorded"])
def test_a_retry_goes_into_a_topic_that_was_deleted_and_created_again(speed: float | None) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"before")
    recorded.produces(b"1", code=REFUSED)
    recorded.makes_the_topic_anew()
    recorded.produces(b"1")
    recorded.produces(b"after")
    recorded.commits(RECORDED_FROM + 2)
    replayed(recorded, target, speed)
    assert target.log == recorded.log == [b"1", b"after"]
    assert target.committed == [TARGET_FROM + 2]


def test_a_request_is_sent_as_recorded_if_its_answer_stands_too_far_ahead() -> None:
    recorded, target = Recorded(), Target()
    refused = recorded.recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, request(batch(b"1")))
    for _ in range(7):
        recorded.at += 1000
        recorded.produces(b"second", connection=2)
    recorded.recording.answers(recorded.at + 1, refused, produced(base=-1, code=REFUSED))
    world = replayed(recorded, target, 1.0)
    assert target.log == [b"1", *[b"second"] * 7]
    assert world.result.refused == RefusedCounts(0, 0)


def simulated(
    recording: Recording, answer: Callable[[Got], Values | None] = answered, **options: Any
) -> tuple[Simulation, Result]:
    simulation = Simulation(recording, answer, Options(**options), cluster=one_node(("a", 3)))
    result = simulation.run()
    assert simulation.engine.finished
    return simulation, result


def test_what_waited_for_a_refused_request_leaves_as_soon_as_it_would_have_left() -> None:
    recording = Recording()
    recording.exchanges(0, 1, PRODUCE, PRODUCE_VERSION, produce(), produced(code=REFUSED))
    recording.exchanges(10, 1, PRODUCE, PRODUCE_VERSION, produce(1), produced(1))
    recording.exchanges(20, 2, LIST_OFFSETS, LIST_VERSION, listed(), list_answer())
    simulation, result = simulated(recording, speed=1.0)
    assert [(got.key, got.at) for got in simulation.got if got.key != METADATA] == [(PRODUCE, 10), (LIST_OFFSETS, 20)]
    assert result.totals.sent == 2


def commit(offset: int) -> Values:
    entry = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1}
    return values | {"topics": [{"name": "a", "partitions": [entry]}]}


def committed(code: int) -> Values:
    return {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "error_code": code}]}]}


@each_row("code", [16, 113])
def test_a_refused_commit_leaves_the_targets_offset_where_it_is(code: int) -> None:
    recording = Recording()
    recording.exchanges(0, 1, OFFSET_COMMIT, 2, commit(3), committed(0))
    recording.exchanges(10, 1, OFFSET_COMMIT, 2, commit(5), committed(code))
    simulation, result = simulated(recording, lambda got: committed(0) if got.key == OFFSET_COMMIT else answered(got))
    told = [got.values["topics"][0]["partitions"][0]["committed_offset"] for got in simulation.asked(OFFSET_COMMIT)]
    assert told == [3]
    assert result.refused == RefusedCounts(1, 0)


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_refused_join_sync_or_heartbeat_is_not_sent(code: int) -> None:
    recording = Recording()
    quoted = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    join = {"group_id": "g", "session_timeout_ms": 1, "member_id": "m", "protocol_type": "consumer", "protocols": []}
    given_up = {"error_code": code, "generation_id": -1, "protocol_name": "", "leader": "", "member_id": "m"}
    recording.exchanges(0, 1, JOIN_GROUP, 0, join, given_up | {"members": []})
    recording.exchanges(10, 1, SYNC_GROUP, 0, quoted | {"assignments": []}, {"error_code": code, "assignment": b""})
    recording.exchanges(20, 1, HEARTBEAT, 0, quoted, {"error_code": code})
    simulation, result = simulated(recording)
    assert not [got for got in simulation.got if got.key in (JOIN_GROUP, SYNC_GROUP, HEARTBEAT)]
    assert result.refused == RefusedCounts(3, 0)
    assert not result.differences


@pytest.mark.parametrize(
    "told",
    [list_answer(), list_answer(code=29), {"topics": [{"name": "a", "partitions": []}]}, {"topics": []}],
    ids=["taken", "refused", "no partition", "no topic"],
)
def test_a_read_is_sent_and_what_the_recording_refused_of_it_is_not_compared(told: Values) -> None:
    recording = Recording()
    recording.exchanges(0, 1, LIST_OFFSETS, LIST_VERSION, listed(), list_answer(offset=-1, code=REFUSED))
    simulation, result = simulated(recording, lambda got: told)
    assert len(simulation.asked(LIST_OFFSETS)) == 1
    assert not result.differences


def test_a_topic_that_the_recording_refused_beside_another_one_is_not_made() -> None:
    recording = Recording()
    rest = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    asked = {"topics": [{"name": name} | rest for name in ("t", "a")], "timeout_ms": 1, "validate_only": False}
    told = [{"name": "t", "error_code": 89}, {"name": "a", "error_code": 0}]
    recording.exchanges(0, 1, CREATE_TOPICS, 4, asked, {"topics": told})
    simulation, result = simulated(
        recording, lambda got: {"topics": told[1:]} if got.key == CREATE_TOPICS else metadata(1), admin=True
    )
    (made,) = simulation.asked(CREATE_TOPICS)
    assert [each["name"] for each in made.values["topics"]] == ["a"]
    assert not result.differences
    assert result.refused == RefusedCounts(0, 1)


def test_a_transaction_that_failed_on_the_target_stays_failed_behind_an_end_that_the_recording_refused() -> None:
    recording, quoted = Recording(), {"transactional_id": "t", "producer_id": 500, "producer_epoch": 0}
    begun_one, given = begun(500)
    recording.exchanges(0, 1, INIT_PRODUCER_ID, 4, begun_one | {"transactional_id": "t"}, given)
    recording.exchanges(10, 1, ADD_OFFSETS_TO_TXN, 3, quoted | {"group_id": "g"}, {"error_code": 0})
    for at, code in ((20, 51), (30, 0)):
        recording.exchanges(at, 1, END_TXN, 3, quoted | {"committed": True}, {"error_code": code})

    def answer(got: Got) -> Values:
        if got.key == FIND_COORDINATOR:
            return {"coordinators": [{"key": "t", "node_id": 1, "host": "h", "port": 1, "error_code": 0}]}
        return begun(7)[1] if got.key == INIT_PRODUCER_ID else {"error_code": 47}

    simulation, result = simulated(recording, answer)
    assert result.apis["EndTxn"].withheld == {Reason.REFUSED.value: 1, Reason.NO_TRANSACTION.value: 1}
    assert len(simulation.asked(INIT_PRODUCER_ID)) == 1


def test_what_the_options_leave_out_is_not_refused() -> None:
    recording = Recording()
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    asked = {"topics": [topic], "timeout_ms": 1, "validate_only": False}
    recording.exchanges(0, 1, CREATE_TOPICS, 4, asked, {"topics": [{"name": "t", "error_code": 41}]})
    _, result = simulated(recording)
    assert result.apis["CreateTopics"].withheld == {Reason.NEEDS_ADMIN.value: 1}

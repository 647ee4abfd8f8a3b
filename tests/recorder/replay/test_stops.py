"""Tests of stopping a replay at any moment: no transaction stays open on the target, and no member in a group."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import (
    CONSUMER_GROUP_HEARTBEAT,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_OFFSETS,
    PRODUCE,
    SHARE_GROUP_HEARTBEAT,
)
from recorder.replay.options import Options
from recorder.replay.outcome import Ending
from tests.recorder.replay.fake_kafka import Kafka, recorded
from tests.recorder.replay.group_script import JOIN, joined
from tests.recorder.replay.simple import (
    LIST_VERSION,
    PRODUCE_VERSION,
    answered,
    batch,
    list_answer,
    listed,
    produce,
    produced,
)
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, Values, one_node
from tests.sweeps import examples
from tests.tables import each_row

SECOND = 10**9
# how long a connection delays a request to the target, and a response back; it keeps their order
LAGS_MS = [0.0, 0.0, 1.0, 7.0, 60.0, 400.0]
FINISH_NS = 10 * SECOND
PRODUCER_FENCED, MEMBER_UNAUTHORIZED = 90, 30


def left_open(found: Simulation) -> list[str]:
    found.world.close(found.engine.progress, 0)
    return found.world.result.left_open


def open_transactions(target: Kafka) -> list[str]:
    return [name for name, found in target.transactions.items() if found.partitions or found.groups]


@pytest.mark.parametrize("is_v2", [True, False], ids=["transactions-v2", "transactions-v1"])
@examples(60, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(5, 60),
    speed=st.sampled_from([None, 1.0]),
    share=st.floats(0, 1),
)
def test_a_stop_at_any_moment_leaves_no_open_transaction_and_no_member(
    is_v2: bool, seed: int, steps: int, speed: float | None, share: float
) -> None:
    random = Random(seed)
    recording = recorded(random, Kafka.like(is_v2=is_v2), steps, is_timed=speed is not None)
    target = Kafka.other(random, is_v2=is_v2)
    lags: defaultdict[Any, float] = defaultdict(lambda: random.choice(LAGS_MS))
    found = Simulation(
        recording,
        target.of_replay,
        Options(speed=speed),
        cluster=target.cluster(),
        prepared=target.prepared(),
        writes=lambda send: lags["there", send.channel],
        delay=lambda got: 0.5 + lags["back", got.channel],
    )
    # most of it, at `max` speed, takes some round trips
    when = share * (recording.happenings[-1].ns / 10**6 if speed else 3000)
    found.at(when, found.stop)
    found.run()
    assert found.engine.finished
    assert not open_transactions(target)
    assert not [name for name, group in target.groups.items() if group.member is not None]
    assert found.now <= when * 10**6 + FINISH_NS
    assert left_open(found) == []


def begun() -> Recording:
    """A transaction that was begun and never ended."""
    recording = Recording()
    given = recording.asks(0, 1, INIT_PRODUCER_ID, 4, {"transactional_id": "t", "transaction_timeout_ms": 60_000})
    recording.answers(1, given, {"producer_id": 7, "producer_epoch": 0})
    data = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    asked = produce(data=data) | {"transactional_id": "t"}
    recording.answers(3, recording.asks(2, 1, PRODUCE, PRODUCE_VERSION, asked), produced())
    return recording


@pytest.mark.parametrize(
    ("answer", "why"),
    [({"error_code": PRODUCER_FENCED}, "PRODUCER_FENCED"), (None, "no answer")],
    ids=["refused", "unanswered"],
)
def test_an_abort_that_the_target_refuses_or_never_answers_is_reported(answer: Answer, why: str) -> None:
    def told(got: Got) -> Answer:
        if got.key == END_TXN:
            return answer
        return {"producer_id": 99, "producer_epoch": 0} if got.key == INIT_PRODUCER_ID else answered(got)

    cluster = one_node(("a", 1))
    cluster.coordinators[1, "t"] = 1
    found = Simulation(begun(), told, cluster=cluster)
    result = found.run()
    assert found.engine.finished
    assert result.ending is Ending.WHOLE
    assert left_open(found) == [f"transaction t (EndTxn: {why})"]


def test_an_abort_whose_error_passes_is_sent_again() -> None:
    concurrent = iter([51, 51, 0])

    def told(got: Got) -> Answer:
        if got.key == END_TXN:
            return {"error_code": next(concurrent)}
        if got.key == FIND_COORDINATOR:
            return {"coordinators": [{"key": "t", "node_id": 1, "host": "127.0.0.1", "port": 9092, "error_code": 0}]}
        return {"producer_id": 99, "producer_epoch": 0} if got.key == INIT_PRODUCER_ID else answered(got)

    cluster = one_node(("a", 1))
    cluster.coordinators[1, "t"] = 1
    found = Simulation(begun(), told, cluster=cluster)
    found.run()
    assert left_open(found) == []
    assert len(found.asked(END_TXN)) == 3


MEMBER, EPOCH = "given-by-the-target", 9
SUBSCRIBES = {"group_id": "g", "member_epoch": 0, "subscribed_topic_names": ["a"]}
CONSUMES = SUBSCRIBES | {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
# a member's first request, and the target's response
JOINS: dict[str, tuple[int, int, Values, Values]] = {
    "classic": (JOIN_GROUP, 5, JOIN, joined(MEMBER, 7, MEMBER)),
    "consumer": (CONSUMER_GROUP_HEARTBEAT, 0, CONSUMES, {"member_id": MEMBER, "member_epoch": EPOCH}),
    "share": (
        SHARE_GROUP_HEARTBEAT,
        1,
        SUBSCRIBES | {"member_id": MEMBER},
        {"member_id": MEMBER, "member_epoch": EPOCH},
    ),
}


@each_row("lasts_ms", [40.0, 2000.0], ids=["the-play-goes-on", "the-play-is-over"])
@each_row("kind", JOINS)
def test_a_member_leaves_whose_recorded_client_was_gone_before_its_answer(kind: str, lasts_ms: float) -> None:
    """The target's response has the member's id; it comes a second after the recorded client has hung up."""
    key, version, asked, told = JOINS[kind]
    recording = Recording()
    recording.asks(0, 1, key, version, asked)
    recording.closes(5, 1)
    recording.answers(
        3001 - lasts_ms, recording.asks(3000 - lasts_ms, 2, LIST_OFFSETS, LIST_VERSION, listed()), list_answer()
    )
    left: list[Any] = []

    def answer(got: Got) -> Answer:
        if got.key == LEAVE_GROUP:
            left.append(got.values["members"][0]["member_id"] if "members" in got.values else got.values["member_id"])
        elif got.key == key and got.values.get("member_epoch") == -1:
            left.append(got.values["member_id"])
        return told if got.key == key else answered(got) or {}

    cluster = one_node(("a", 1))
    cluster.coordinators[0, "g"] = 1
    found = Simulation(recording, answer, cluster=cluster, delay=lambda got: 1000.0 if got.key == key else 1.0)
    found.run()
    assert found.engine.finished
    # a replay that ends while the member is leaving sends its leave once more
    assert {*left} == {MEMBER}
    assert left_open(found) == []
    assert found.world.result.totals.lost == 0


def test_a_member_that_may_not_leave_is_reported() -> None:
    random = Random(5)
    recording = recorded(random, Kafka.like(is_v2=True), 60, is_timed=True)
    target = Kafka.like(is_v2=True)

    def answer(got: Got) -> Answer:
        return {"error_code": MEMBER_UNAUTHORIZED, "members": []} if got.key == LEAVE_GROUP else target.of_replay(got)

    found = Simulation(recording, answer, cluster=target.cluster(), prepared=target.prepared())
    found.at(recording.happenings[-1].ns / 10**6 - 1, found.stop)
    found.run()
    inside = sorted(name for name, group in target.groups.items() if group.member is not None)
    assert inside
    told = [
        f"member {target.groups[name].member} of group {name} (LeaveGroup: GROUP_AUTHORIZATION_FAILED)"
        for name in inside
    ]
    assert sorted(left_open(found)) == sorted(told)

"""Tests of share sessions, and of acknowledging records of the target: each rule alone."""

from __future__ import annotations

import pytest

from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from recorder.replay.cluster import Cluster
from recorder.replay.plan import Exchange, Reason, Resend, Values, Withheld
from recorder.replay.sessions.share_sessions import ShareSessions
from tests.recorder.replay.simulated import TARGET_IDS, TOPIC_IDS, Place, exchange, names

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
MEMBER = ("g", "m")
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
Batches = list[tuple[int, int, list[int]]]


def topics(asked: dict[Place, Batches], ids: dict[str, bytes]) -> list[Values]:
    return [
        {
            "topic_id": ids[topic],
            "partitions": [
                {
                    "partition_index": index,
                    "acknowledgement_batches": [
                        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                        for first, last, types in batches
                    ],
                }
            ],
        }
        for (topic, index), batches in asked.items()
    ]


def answer(acquired: dict[Place, list[tuple[int, int]]], ids: dict[str, bytes], code: int = 0) -> Values:
    """A response to a ShareFetch."""
    told = []
    for (topic, index), ranges in acquired.items():
        found = [{"first_offset": first, "last_offset": last, "delivery_count": 1} for first, last in ranges]
        partition = {"partition_index": index, "error_code": 0, "acknowledge_error_code": 0, "records": b""}
        partition |= {"current_leader": {"leader_id": 0, "leader_epoch": 0}, "acquired_records": found}
        partition |= {"error_message": None, "acknowledge_error_message": None}
        told.append({"topic_id": ids[topic], "partitions": [partition]})
    fields = {"throttle_time_ms": 0, "error_code": code, "error_message": None, "acquisition_lock_timeout_ms": 1}
    return {**fields, "responses": told, "node_endpoints": []}


def fetch(
    number: int,
    epoch: int,
    asked: dict[Place, Batches],
    acquired: dict[Place, list[tuple[int, int]]] | None = None,
    *,
    forgotten: tuple[Place, ...] = (),
    connection: int = 1,
    member: str = "m",
    code: int = 0,
) -> Exchange:
    """A recorded ShareFetch and its response."""
    values: Values = {
        "group_id": "g",
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait_ms": 1,
        "min_bytes": 1,
    }
    values |= {"max_records": 10, "batch_size": 10, "topics": topics(asked, TOPIC_IDS)}
    values["forgotten_topics_data"] = [
        {"topic_id": TOPIC_IDS[topic], "partitions": [index]} for topic, index in forgotten
    ]
    return exchange(number, SHARE_FETCH, 1, values, answer(acquired or {}, TOPIC_IDS, code), connection=connection)


def acknowledge(
    number: int, epoch: int, asked: dict[Place, Batches], *, connection: int = 1, version: int = 1
) -> Exchange:
    """A recorded ShareAcknowledge."""
    values = {"group_id": "g", "member_id": "m", "share_session_epoch": epoch, "topics": topics(asked, TOPIC_IDS)}
    told: Values = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": None,
        "responses": [],
        "node_endpoints": [],
    }
    if version >= 2:
        values["is_renew_ack"] = any(RENEW in kinds for batches in asked.values() for *_, kinds in batches)
        told["acquisition_lock_timeout_ms"] = 1
    return exchange(number, SHARE_ACKNOWLEDGE, version, values, told, connection=connection)


class Target:
    """One node, and the engine's part for it."""

    def __init__(self) -> None:
        # recorded offset -> the target's; others are 93 below the recorded ones
        self.moved: dict[int, int] = {}
        self.sessions = ShareSessions(
            names("", Cluster()), lambda topic, partition, offset: self.moved.get(offset, offset - 93)
        )
        self.sent: list[Values] = []

    def play(
        self,
        each: Exchange,
        acquired: dict[Place, list[tuple[int, int]]] | None = None,
        code: int = 0,
        *,
        expired: bool = False,
    ) -> Withheld | Resend | None:
        values = each.decoded()
        refused = self.sessions.request(each, values, 0)
        if refused is not None:
            assert isinstance(refused, Withheld)
            self.sessions.lost(each, None)
            return refused
        ids = {TOPIC_IDS[name]: TARGET_IDS[name] for name in TOPIC_IDS}
        values["topics"] = [topic | {"topic_id": ids[topic["topic_id"]]} for topic in values["topics"]]
        part = self.sessions.for_node(each, 4, values)
        self.sent.append(part)
        # the codec must accept the written values
        exchange(0, each.api_key, each.version, part, None).decoded()
        self.sessions.sent(each, values, 0)
        told = answer(acquired or {}, TARGET_IDS, code)
        for topic in told["responses"] if expired else ():
            topic["partitions"][0]["acknowledge_error_code"] = 121
        self.sessions.answered_by(each, 4, part, told)
        return self.sessions.answered(each, values, told, 0)


def named(values: Values, field: str = "topics") -> dict[Place, list[tuple[int, int, list[int]]]]:
    """Returns the partitions that a request names, with their acknowledgements."""
    name = {topic_id: topic for topic, topic_id in TARGET_IDS.items()}
    found: dict[Place, list[tuple[int, int, list[int]]]] = {}
    for topic in values[field]:
        for each in topic["partitions"]:
            if isinstance(each, int):
                found[name[topic["topic_id"]], each] = []
            else:
                found[name[topic["topic_id"]], each["partition_index"]] = [
                    (batch["first_offset"], batch["last_offset"], batch["acknowledge_types"])
                    for batch in each["acknowledgement_batches"]
                ]
    return found


def epochs(target: Target) -> list[int]:
    return [each["share_session_epoch"] for each in target.sent]


def test_a_share_session_has_its_own_epochs_and_sends_only_changes() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: [], A1: []}))
    target.play(fetch(1, 1, {B0: []}, forgotten=(A1,)))
    target.play(fetch(2, 2, {}))
    assert epochs(target) == [0, 1, 2]
    assert [{*named(each)} for each in target.sent] == [{A0, A1}, {B0}, set()]
    assert [{*named(each, "forgotten_topics_data")} for each in target.sent] == [set(), {A1}, set()]


def test_a_record_is_acknowledged_as_it_was_in_the_recording() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 104)]}), {A0: [(7, 9), (10, 11)]})
    target.play(fetch(1, 1, {A0: [(100, 100, [ACCEPT])]}))
    target.play(acknowledge(2, 2, {A0: [(101, 104, [ACCEPT, RELEASE, REJECT, REJECT])]}))
    assert named(target.sent[1])[A0] == [(7, 7, [ACCEPT])]
    assert named(target.sent[2])[A0] == [(8, 8, [ACCEPT]), (9, 9, [RELEASE]), (10, 11, [REJECT])]


def test_records_that_the_target_gives_later_are_acknowledged_then() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: [], B0: []}, {A0: [(100, 101)], B0: [(95, 95)]}), {A0: [(7, 7)]})
    target.play(fetch(1, 1, {A0: [(100, 101, [ACCEPT])], B0: [(95, 95, [ACCEPT])]}), {B0: [(2, 2)]})
    assert named(target.sent[1]) == {A0: [(7, 7, [ACCEPT])]}
    assert target.sessions.undecided() == 2
    target.play(acknowledge(2, 2, {B0: [(96, 96, [ACCEPT])]}))
    assert named(target.sent[2]) == {B0: [(2, 2, [ACCEPT])]}


def test_of_two_records_at_one_offset_neither_is_acknowledged_until_both_offsets_are_known() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 102)]}), {A0: [(7, 9)]})
    target.moved = {100: 8}
    target.play(fetch(1, 1, {A0: [(100, 102, [ACCEPT, RELEASE, REJECT])]}))
    target.moved = {100: 8, 101: 7}
    target.play(fetch(2, 2, {}))
    assert named(target.sent[1]) == {A0: [(9, 9, [REJECT])]}
    assert named(target.sent[2]) == {A0: [(7, 7, [RELEASE]), (8, 8, [ACCEPT])]}


def test_a_decision_about_a_deleted_record_is_none_about_the_record_that_has_its_offset_now() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 101)]}), {A0: [(7, 7)]})
    target.play(fetch(1, 1, {A0: [(101, 101, [REJECT])]}))
    target.sessions.forget_topic("b")
    assert target.sessions.undecided() == 1
    target.sessions.forget_topic("a")
    target.play(fetch(2, 2, {}, {A0: [(101, 101)]}), {A0: [(8, 8)]})
    target.play(fetch(3, 3, {A0: [(100, 101, [ACCEPT])]}))
    assert named(target.sent[3]) == {A0: [(8, 8, [ACCEPT])]}


def test_a_record_that_another_member_acquired_is_acknowledged_by_that_member() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 100)]}))
    target.play(fetch(1, 0, {A0: []}, connection=2, member="n"), {A0: [(7, 7)]})
    target.play(acknowledge(2, 1, {A0: [(100, 100, [REJECT])]}))
    target.play(fetch(3, 1, {}, connection=2, member="n"))
    assert [named(each) for each in target.sent[2:]] == [{}, {A0: [(7, 7, [REJECT])]}]


def test_a_record_that_was_given_back_has_its_next_decision_when_it_is_acquired_again() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 100)]}), {A0: [(7, 7)]})
    target.play(fetch(1, 1, {A0: [(100, 100, [RELEASE])]}, {A0: [(100, 100)]}), {A0: [(7, 7)]})
    target.play(fetch(2, 2, {A0: [(100, 100, [ACCEPT])]}))
    assert [named(each) for each in target.sent[1:]] == [{A0: [(7, 7, [RELEASE])]}, {A0: [(7, 7, [ACCEPT])]}]


def test_a_member_that_keeps_a_record_for_longer_decides_later() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 101)]}), {A0: [(7, 8)]})
    target.play(acknowledge(1, 1, {A0: [(100, 101, [RENEW])]}, version=2))
    target.play(acknowledge(2, 2, {A0: [(100, 101, [ACCEPT])]}, version=2))
    assert [named(each) for each in target.sent[1:]] == [{A0: [(7, 8, [RENEW])]}, {A0: [(7, 8, [ACCEPT])]}]


def test_epoch_0_acknowledges_nothing() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 100)]}), {A0: [(7, 7)]})
    target.sessions.closed(("s", 1))
    target.play(fetch(1, 1, {A0: [(100, 100, [ACCEPT])]}))
    assert epochs(target) == [0, 0]
    assert named(target.sent[1]) == {A0: []}


def test_three_recorded_sessions_on_one_node_are_one_and_the_last_closes_it() -> None:
    target = Target()
    for number, place in enumerate((A0, A1, B0), 1):
        each = fetch(number, 0, {place: []}, connection=number)
        target.play(each)
    again = fetch(9, 1, {}, connection=2)
    values = again.decoded()
    assert target.sessions.request(again, values, 0) is None
    assert target.sessions.carrier(again, 4) == ("s", 1)
    assert epochs(target) == [0, 1, 2]
    assert [{*named(each)} for each in target.sent] == [{A0}, {A1}, {B0}]
    for number in (1, 2, 3):
        target.play(fetch(10 + number, -1, {}, connection=number))
    assert epochs(target)[3:] == [3, 4, -1]
    assert [{*named(each, "forgotten_topics_data")} for each in target.sent[3:]] == [{A0}, {A1}, set()]
    assert target.sessions.nodes(MEMBER) == []


def test_a_session_that_an_acknowledgement_closes_is_left_to_the_others() -> None:
    target = Target()
    target.play(fetch(1, 0, {A0: []}, {A0: [(100, 100)]}), {A0: [(7, 7)]})
    target.play(fetch(2, 0, {B0: []}, connection=2))
    target.play(acknowledge(3, -1, {A0: [(100, 100, [ACCEPT])]}))
    target.play(fetch(4, 1, {}, connection=2))
    assert epochs(target) == [0, 1, 2, 3]
    assert {*named(target.sent[3], "forgotten_topics_data")} == {A0}


def test_a_partition_that_leaves_with_its_last_acknowledgements_does_not_come_back() -> None:
    target = Target()
    target.play(fetch(1, 0, {A0: [], B0: []}, {A0: [(100, 100)]}), {A0: [(7, 7)]})
    target.play(fetch(2, 1, {}, forgotten=(A0,)))
    last = fetch(3, 2, {A0: [(100, 100, [ACCEPT])]}, forgotten=(A0,))
    target.play(last)
    assert named(target.sent[2]) == {A0: [(7, 7, [ACCEPT])]}
    assert {*named(target.sent[2], "forgotten_topics_data")} == {A0}


def test_without_a_session_nothing_is_acknowledged_or_closed() -> None:
    target = Target()
    assert target.play(acknowledge(1, 5, {A0: [(1, 1, [ACCEPT])]})) == Withheld(Reason.NO_SESSION)
    assert target.play(fetch(2, -1, {})) == Withheld(Reason.NO_SESSION)


@pytest.mark.parametrize("code", [122, 123])
def test_a_session_that_the_target_does_not_know_begins_anew(code: int) -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}))
    each = fetch(1, 1, {})
    assert isinstance(target.play(each, code=code), Resend)
    assert target.play(each) is None
    assert epochs(target) == [0, 1, 0]
    assert {*named(target.sent[2])} == {A0}


def test_an_error_that_the_recording_has_too_is_not_sent_again() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}))
    assert target.play(fetch(1, 1, {}, code=122), code=122) is None


def test_a_prepared_share_fetch_that_was_not_sent_changes_no_session() -> None:
    target = Target()
    each = fetch(0, 0, {A0: []})
    for _ in range(3):
        values = each.decoded()
        target.sessions.request(each, values, 0)
        assert target.sessions.for_node(each, 4, values)["share_session_epoch"] == 0
    assert target.sessions.nodes(MEMBER) == []


def test_records_whose_lock_ran_out_on_the_target_alone_are_acknowledged_when_they_are_acquired_again() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 100)]}), {A0: [(7, 7)]})
    each = fetch(1, 1, {A0: [(100, 100, [REJECT])]}, {A0: []})
    target.play(each, {A0: []}, expired=True)
    target.play(fetch(2, 2, {}), {A0: [(7, 7)]})
    target.play(fetch(3, 3, {}))
    assert [named(sent).get(A0) for sent in target.sent[1:]] == [[(7, 7, [REJECT])], None, [(7, 7, [REJECT])]]
    assert target.sessions.undecided() == 0


def test_a_request_whose_answer_never_came_leaves_no_session_and_its_decisions_are_sent_again() -> None:
    target = Target()
    target.play(fetch(0, 0, {A0: []}, {A0: [(100, 100)]}), {A0: [(7, 7)]})
    each = fetch(1, 1, {A0: [(100, 100, [REJECT])]})
    values = each.decoded()
    target.sessions.request(each, values, 0)
    values["topics"][0]["topic_id"] = TARGET_IDS["a"]
    target.sessions.for_node(each, 4, values)
    target.sessions.sent(each, values, 0)
    target.sessions.lost(each, values)
    assert target.sessions.nodes(MEMBER) == []
    target.play(fetch(2, 2, {}), {A0: [(7, 8)]})
    target.play(fetch(3, 3, {}))
    assert named(target.sent[-1]) == {A0: [(7, 7, [REJECT])]}

"""Tests of heartbeats of consumer, share and streams groups: each rule alone."""

from __future__ import annotations

import pytest

from proxy.wire.keys import CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from recorder.replay.plan import Hold, Reason, Resend, Withheld
from tests.recorder.replay.group_clients import answer_to, recorded
from tests.recorder.replay.group_coordinator import SECOND
from tests.recorder.replay.group_script import GROUP, Script

RECORDED, TARGET = b"r" * 16, b"t" * 16


def beat(member: str, epoch: int, **more: object) -> dict[str, object]:
    return {"group_id": GROUP, "member_id": member, "member_epoch": epoch} | more


def answer(member: str, epoch: int, error: int = 0, **more: object) -> dict[str, object]:
    return {"error_code": error, "member_id": member, "member_epoch": epoch, "heartbeat_interval_ms": 5000} | more


def test_a_client_made_member_id_is_unchanged_and_its_epoch_the_targets():
    script = Script()
    script.pass_by(
        CONSUMER_GROUP_HEARTBEAT, 1, beat("own", 0, rebalance_timeout_ms=1), answer("own", 3), answer("own", 40)
    )
    _, sent = script.send(CONSUMER_GROUP_HEARTBEAT, 1, beat("own", 3), answer("own", 3))
    assert (sent["member_id"], sent["member_epoch"]) == ("own", 40)


def test_version_0_is_given_its_member_id_by_the_target():
    script = Script()
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 0, beat("", 0), answer("r", 3), answer("t", 40))
    assert script.send(CONSUMER_GROUP_HEARTBEAT, 0, beat("r", 3), answer("r", 3))[1]["member_id"] == "t"


@pytest.mark.parametrize(("version", "reason"), [(0, Reason.NO_MEMBER), (1, Reason.NO_GENERATION)], ids=["v0", "v1"])
def test_a_member_that_has_not_joined_the_targets_group_is_withheld(version, reason):
    assert Script().asked(recorded(68, version, beat("r", 3)))[0] == Withheld(reason, "r")


def test_partitions_that_an_answer_assigned_are_owned_once():
    script = Script(topics={RECORDED: TARGET})
    given = {"topic_partitions": [{"topic_id": TARGET, "partitions": [4]}]}
    own = [{"topic_id": RECORDED, "partitions": [0]}]
    joins = beat("m", 0, topic_partitions=own)
    sent = script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, joins, answer("m", 1), answer("m", 9, assignment=given))
    assert sent["topic_partitions"] == []
    again = beat("m", 1, topic_partitions=own)
    sent = script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, again, answer("m", 1), answer("m", 9))
    assert sent["topic_partitions"] == [{"topic_id": RECORDED, "partitions": [4]}]
    assert script.pass_by(68, 1, again, answer("m", 1), answer("m", 9))["topic_partitions"] is None


def test_topics_that_the_recording_lacks_are_not_owned():
    script = Script()
    given = {"topic_partitions": [{"topic_id": TARGET, "partitions": [4]}]}
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9, assignment=given))
    assert script.asked(recorded(68, 1, beat("m", 1)))[1]["topic_partitions"] == []


def test_a_share_groups_member_has_the_targets_epoch():
    script = Script()
    script.pass_by(SHARE_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9))
    assert script.asked(recorded(SHARE_GROUP_HEARTBEAT, 1, beat("m", 1)))[1]["member_epoch"] == 9


def test_a_streams_groups_member_has_the_targets_tasks_and_endpoint_epoch():
    script = Script()
    tasks = [{"subtopology_id": "s", "partitions": [2]}]
    first = answer("m", 9, active_tasks=tasks, endpoint_information_epoch=5)
    script.pass_by(STREAMS_GROUP_HEARTBEAT, 0, beat("m", 0), answer("m", 1), first)
    values = beat("m", 1, active_tasks=[{"subtopology_id": "s", "partitions": [0]}], endpoint_information_epoch=1)
    sent = script.pass_by(
        STREAMS_GROUP_HEARTBEAT, 0, values, answer("m", 1), answer("m", 9, endpoint_information_epoch=5)
    )
    assert (sent["active_tasks"], sent["standby_tasks"], sent["endpoint_information_epoch"]) == (tasks, [], 5)
    assert script.asked(recorded(88, 0, values))[1]["active_tasks"] is None


@pytest.mark.parametrize(("epoch", "reason"), [(-1, Reason.NO_MEMBER), (-2, Reason.NO_MEMBER)])
def test_an_unknown_members_departure_is_withheld(epoch, reason):
    assert Script().asked(recorded(68, 1, beat("m", epoch)))[0] == Withheld(reason, "m")


@pytest.mark.parametrize(("error", "made"), [(25, [0]), (110, [-1, 0])], ids=["unknown", "fenced"])
def test_a_fenced_member_joins_again_and_its_heartbeat_is_sent_again(error, made):
    script = Script()
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9))
    exchange, sent = script.send(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 1), answer("m", 1))
    assert script.answer(exchange, sent, answer("m", 0, error)) == Resend()
    assert script.asked(exchange)[0] == Hold(Reason.NO_GENERATION)
    for epoch in made:
        script.now += 10**9
        (one,) = script.made()
        assert one.values["member_epoch"] == epoch
        one.done(answer("m", 12 + epoch))
    assert script.asked(exchange)[1]["member_epoch"] == 12


def test_the_next_heartbeat_confirms_what_a_lost_one_had_confirmed():
    script = Script(topics={RECORDED: TARGET})
    given = {"topic_partitions": [{"topic_id": TARGET, "partitions": [4]}]}
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9, assignment=given))
    exchange, _ = script.send(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 1), answer("m", 1))
    script.groups.lost(exchange, None)
    (made,) = script.made()
    assert (made.values["member_epoch"], made.values["topic_partitions"]) == (9, given["topic_partitions"])


@pytest.mark.parametrize("interval", [-(2**31), -1, 0, 1])
def test_a_targets_odd_heartbeat_interval_makes_no_flood(interval):
    script = Script()
    odd = answer("m", 9) | {"heartbeat_interval_ms": interval}
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), odd)
    script.now = 10**9 - 1
    assert script.made() == []


def test_a_member_that_the_recording_lost_quotes_its_recorded_epoch_where_the_target_gave_none():
    script = Script()
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9))
    # the answer that gave the recorded member epoch 2 is lost
    advances, _ = script.send(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 1), answer("m", 2))
    script.groups.lost(advances, None)
    unknown = answer_to(recorded(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 2)), answer("m", 0, 25))
    assert script.asked(unknown)[0] == Hold(Reason.NO_GENERATION)
    (leaves,) = script.made()
    leaves.done(answer("m", -1))
    refusal, sent = script.asked(unknown)
    assert refusal is None
    assert sent["member_epoch"] == 2


COMMIT: dict[str, object] = {"group_id": GROUP, "group_instance_id": None, "topics": []}


def test_a_member_commits_with_the_epoch_that_it_has_by_now():
    script = Script()
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 3), answer("m", 40))
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 3), answer("m", 4), answer("m", 41))
    commit = recorded(OFFSET_COMMIT, 9, COMMIT | {"member_id": "m", "generation_id_or_member_epoch": 3})
    refusal, sent = script.asked(commit)
    assert refusal is None
    assert sent["generation_id_or_member_epoch"] == 41


@pytest.mark.parametrize(
    ("api_key", "values"),
    [
        (CONSUMER_GROUP_HEARTBEAT, beat("m", 3)),
        (OFFSET_COMMIT, COMMIT | {"member_id": "m", "generation_id_or_member_epoch": 3}),
    ],
    ids=["heartbeat", "commit"],
)
def test_a_request_waits_for_a_made_heartbeat_whose_answer_may_change_its_epoch(api_key, values):
    script = Script()
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 3), answer("m", 40))
    script.now = 6 * SECOND
    (made,) = script.made()
    exchange = recorded(api_key, 1 if api_key == CONSUMER_GROUP_HEARTBEAT else 9, values)
    assert script.asked(exchange)[0] == Hold(Reason.NO_GENERATION)
    made.done(answer("m", 41))
    refusal, sent = script.asked(exchange)
    assert refusal is None
    assert 41 in sent.values()


def test_a_commit_of_no_member_and_a_join_are_never_in_flight_together():
    script = Script()
    unknown = recorded(OFFSET_COMMIT, 9, COMMIT | {"member_id": "before", "generation_id_or_member_epoch": 3})
    refusal, sent = script.asked(unknown)
    assert refusal is None
    script.groups.sent(unknown, sent, 0)
    joins = recorded(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0))
    assert script.asked(joins)[0] == Hold(Reason.NO_MEMBER)
    script.answer(unknown, sent, {"topics": []})
    refusal, sent = script.asked(joins)
    assert refusal is None
    script.groups.sent(joins, sent, 0)
    assert script.asked(unknown)[0] == Withheld(Reason.NO_MEMBER, "before")

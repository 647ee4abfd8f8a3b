"""Tests of when a member may join again: each row of the table alone."""

from __future__ import annotations

from proxy.wire.keys import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP
from recorder.replay.plan import AnsweredBefore, Exchange, Hold, Reason, Resend, Values
from tests.recorder.replay.group_clients import answer_to, recorded
from tests.recorder.replay.group_script import GROUP, JOIN, Script, joined, refused

SECOND = 10**9


def beat(script: Script, member: str, source: int, target: int) -> None:
    """A Heartbeat of generation 1 with the recorded and the target's error."""
    values = {"group_id": GROUP, "member_id": member, "generation_id": 1}
    script.pass_by(HEARTBEAT, 3, values, {"error_code": source}, {"error_code": target})


def rejoin(generation: int, *others: str) -> Exchange:
    exchange = recorded(JOIN_GROUP, 5, JOIN | {"member_id": "r"})
    return answer_to(exchange, joined("r", generation, "r", *others), 60 * SECOND)


def test_a_rejoin_requested_by_the_target_is_sent():
    script = Script()
    script.join("r", "t")
    beat(script, "r", 27, 27)
    assert script.asked(rejoin(2))[0] is None


def test_a_rejoin_waits_until_the_target_tells_its_member_where_another_joins():
    script = Script()
    script.join("r", "t")
    script.send(JOIN_GROUP, 2, JOIN, joined("new", 2, "r"), connection=2)
    beat(script, "r", 27, 0)
    assert isinstance(script.asked(rejoin(2, "new"))[0], Hold)
    (asks,) = script.made()
    assert asks.api_key == HEARTBEAT
    asks.done({"error_code": 27})
    assert script.asked(rejoin(2, "new"))[0] is None


def test_a_rejoin_waits_for_5_seconds_at_most():
    script = Script()
    script.join("r", "t")
    script.send(JOIN_GROUP, 2, JOIN, joined("new", 2, "r"), connection=2)
    beat(script, "r", 27, 0)
    exchange = rejoin(2, "new")
    assert isinstance(script.asked(exchange)[0], Hold)
    script.now = 5 * SECOND - 1
    assert isinstance(script.asked(exchange)[0], Hold)
    script.now = 5 * SECOND
    assert script.asked(exchange)[0] is None


def test_members_that_the_recording_lost_leave_before_the_others_rejoin():
    script = Script()
    script.join("r", "t")
    script.join("lost", "t2", elected="t", connection=2)
    beat(script, "r", 27, 0)
    exchange = rejoin(2)
    assert isinstance(script.asked(exchange)[0], Hold)
    left = [made for made in script.made() if made.api_key == LEAVE_GROUP]
    assert [made.values["members"][0]["member_id"] for made in left] == ["t2"]
    left[0].done({"error_code": 0})
    assert isinstance(script.asked(exchange)[0], Hold)


def test_a_rejoin_without_a_change_of_members_gets_the_present_generation():
    script = Script()
    script.join("r", "t", elected="t9", on_target=8)
    beat(script, "r", 27, 0)
    exchange = rejoin(2)
    refusal, values = script.asked(exchange)
    assert isinstance(refusal, AnsweredBefore)
    assert (refusal.answer["generation_id"], refusal.answer["member_id"], refusal.answer["members"]) == (8, "t", [])
    assert script.groups.answered(exchange, values, refusal.answer, 0) is None
    assert (
        script.asked(recorded(HEARTBEAT, 3, {"group_id": GROUP, "member_id": "r", "generation_id": 2}))[1][
            "generation_id"
        ]
        == 8
    )


def test_a_rejoin_that_gave_no_new_generation_is_answered_by_the_present_one():
    script = Script()
    script.join("r", "t")
    assert isinstance(script.asked(rejoin(1))[0], AnsweredBefore)


def test_a_member_that_the_recording_does_not_know_any_more_leaves_before_it_hears_so():
    script = Script()
    script.join("r", "t")
    values = {"group_id": GROUP, "member_id": "r", "generation_id": 1}
    exchange = answer_to(recorded(HEARTBEAT, 3, values), {"error_code": 25})
    assert isinstance(script.asked(exchange)[0], Hold)
    (leaves,) = script.made()
    assert leaves.api_key == LEAVE_GROUP
    leaves.done({"error_code": 0})
    refusal, sent = script.asked(exchange)
    assert refusal is None
    assert sent["member_id"] == "t"


def test_a_member_whose_recorded_id_no_answer_told_leaves():
    script = Script()
    exchange, sent = script.send(JOIN_GROUP, 2, JOIN, None)
    script.answer(exchange, sent, joined("t", 1, "t"))
    assert [made.api_key for made in script.made()] == [LEAVE_GROUP]


def test_an_error_that_the_recording_had_too_is_not_mended():
    script = Script()
    script.pass_by(JOIN_GROUP, 5, JOIN, refused(24), refused(24))
    assert script.made() == []


def test_a_rejoin_does_not_leave_beside_a_made_join_of_its_member():
    script = Script()
    script.join("r", "t")
    beat_again = {"group_id": GROUP, "member_id": "r", "generation_id": 1}
    exchange, sent = script.send(HEARTBEAT, 3, beat_again, {"error_code": 0})
    script.answer(exchange, sent, {"error_code": 22})
    (made,) = script.made()
    assert made.api_key == JOIN_GROUP
    again = rejoin(2)
    assert script.asked(again)[0] == Hold(Reason.NO_GENERATION)
    made.done(joined("t", 8, "t"))
    # the target's present generation answers it
    assert script.asked(again)[0] != Hold(Reason.NO_GENERATION)


def test_a_leader_does_not_wait_for_a_join_that_the_recorded_cluster_refused():
    script = Script()
    refused_join = recorded(JOIN_GROUP, 5, JOIN | {"group_instance_id": "i"}, connection=2)
    script.groups.was_read(refused_join)
    # its answer is no longer in memory
    script.groups.will_not_leave(refused_join)
    exchange, sent = script.send(JOIN_GROUP, 5, JOIN, joined("r", 1, "r", "other") | members_with("i"))
    assert script.answer(exchange, sent, joined("t", 7, "t")) is None


def members_with(instance: str) -> Values:
    told = {"metadata": b"m", "group_instance_id": None}
    return {"members": [told | {"member_id": "r"}, told | {"member_id": "other", "group_instance_id": instance}]}


def test_an_early_leader_is_answered_by_the_made_join_that_takes_it_along_behind_the_newcomer():
    script = Script()
    script.join("r", "t")
    beat(script, "r", 27, 27)
    newcomer, newcomer_sent = script.send(JOIN_GROUP, 2, JOIN, joined("new", 2, "r"), connection=2)
    leader, leader_sent = script.send(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, joined("r", 2, "r", "new"))
    assert script.answer(leader, leader_sent, joined("t", 8, "t")) == Resend()
    (asks,) = script.made()
    asks.done({"error_code": 27})
    script.now = SECOND
    (joins,) = script.made()
    assert joins.api_key == JOIN_GROUP
    # the newcomer hears of the generation first
    assert script.answer(newcomer, newcomer_sent, joined("t2", 9, "t")) is None
    assert isinstance(script.asked(leader)[0], Hold)
    joins.done(joined("t", 9, "t", "t2"))
    refusal, _ = script.asked(leader)
    assert isinstance(refusal, AnsweredBefore)
    assert (refusal.answer["generation_id"], len(refusal.answer["members"])) == (9, 2)

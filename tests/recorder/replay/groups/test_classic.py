"""Tests of translating requests of classic groups: each rule alone."""

from __future__ import annotations

import pytest

from proxy.wire.keys import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from recorder.replay.groups.classic import AFTER_FOLLOWERS
from recorder.replay.plan import Exchange, Hold, Reason, Resend, Withheld
from tests.recorder.replay.group_clients import answer_to, recorded
from tests.recorder.replay.group_script import GROUP, JOIN, Script, joined, refused

OK = {"error_code": 0}


def quoting(member: str, generation: int) -> dict[str, object]:
    return {"group_id": GROUP, "member_id": member, "generation_id": generation}


def sync(member: str, generation: int, *assigned: str) -> dict[str, object]:
    assignments = [{"member_id": one, "assignment": one.encode()} for one in assigned]
    return quoting(member, generation) | {"assignments": assignments}


def test_a_member_joins_with_the_id_that_the_targets_error_79_gave():
    script = Script()
    script.pass_by(JOIN_GROUP, 5, JOIN, refused(79, "r"), refused(79, "t"))
    assert script.send(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, joined("r", 1, "r"))[1]["member_id"] == "t"


def test_a_join_whose_member_the_target_does_not_know_joins_with_no_id_and_follows_error_79():
    script = Script()
    exchange, sent = script.send(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, joined("r", 4, "r"))
    assert sent["member_id"] == ""
    assert script.answer(exchange, sent, refused(79, "t")) == Resend()
    assert script.asked(exchange)[1]["member_id"] == "t"


def test_a_join_that_the_recording_took_at_once_follows_the_targets_error_79():
    script = Script()
    exchange, sent = script.send(JOIN_GROUP, 2, JOIN, joined("r", 1, "r"))
    assert script.answer(exchange, sent, refused(79, "t")) == Resend()
    assert script.asked(exchange)[1]["member_id"] == "t"


@pytest.mark.parametrize(
    ("api_key", "version", "values"),
    [
        (HEARTBEAT, 3, quoting("r", 1)),
        (SYNC_GROUP, 3, sync("r", 1)),
        (LEAVE_GROUP, 1, {"group_id": GROUP, "member_id": "r"}),
    ],
    ids=["heartbeat", "sync", "leave"],
)
def test_a_request_of_an_unknown_member_is_withheld(api_key, version, values):
    refusal, _ = Script().asked(recorded(api_key, version, values))
    assert isinstance(refusal, Withheld)
    assert refusal.reason is Reason.NO_MEMBER


def test_the_last_recorded_generation_is_the_targets_last_and_older_ones_are_their_pairs():
    script = Script()
    script.join("r", "t", generation=1, on_target=7)
    script.pass_by(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, joined("r", 2, "r"), joined("t", 11, "t"))
    assert script.send(HEARTBEAT, 3, quoting("r", 1), {"error_code": 22})[1]["generation_id"] == 7
    assert script.send(HEARTBEAT, 3, quoting("r", 2), OK)[1]["generation_id"] == 11


@pytest.mark.parametrize("generation", [0, -1])
def test_generations_of_0_and_below_are_unchanged(generation):
    script = Script()
    script.join("r", "t")
    assert script.send(HEARTBEAT, 3, quoting("r", generation), OK)[1]["generation_id"] == generation


def test_a_generation_that_no_answer_gave_is_withheld():
    script = Script()
    script.join("r", "t")
    assert script.asked(recorded(HEARTBEAT, 3, quoting("r", 9)))[0] == Withheld(Reason.NO_GENERATION, "generation 9")


def two_members(elected: str, speed: float | None = 1.0) -> Script:
    """r1 leads in the recording; the target elects the given member."""
    script = Script(speed=speed)
    for number in (1, 2):
        values = JOIN | {"member_id": ""}
        script.pass_by(JOIN_GROUP, 5, values, refused(79, f"r{number}"), refused(79, f"t{number}"), number)
    for number in (1, 2):
        others = [f"r{2 if number == 1 else 1}"] if number == 1 else []
        answer = joined(f"r{number}", 1, "r1", *others)
        script.pass_by(
            JOIN_GROUP, 5, JOIN | {"member_id": f"r{number}"}, answer, joined(f"t{number}", 7, elected), number
        )
    return script


def test_the_recorded_leaders_assignments_are_sent_with_the_targets_member_ids():
    script = two_members("t1")
    _, sent = script.send(SYNC_GROUP, 3, sync("r1", 1, "r1", "r2"), {"error_code": 0, "assignment": b"r1"})
    assert sent["assignments"] == [{"member_id": "t1", "assignment": b"r1"}, {"member_id": "t2", "assignment": b"r2"}]


def test_the_elected_members_sync_waits_until_the_recorded_leaders_has_left():
    script = two_members("t2")
    elected = answer_to(recorded(SYNC_GROUP, 3, sync("r2", 1), connection=2), {"error_code": 0, "assignment": b"r2"})
    assert script.asked(elected)[0] == Hold(Reason.NO_LEADER)
    leader = recorded(SYNC_GROUP, 3, sync("r1", 1, "r1", "r2"))
    script.groups.due(leader)
    assert script.asked(elected)[0] == Hold(Reason.NO_LEADER)
    script.groups.sent(leader, script.asked(leader)[1], 0)
    not_sent, sent = script.asked(elected)
    assert not_sent is None
    assert [one["member_id"] for one in sent["assignments"]] == ["t1", "t2"]


@pytest.mark.parametrize(("speed", "pause"), [(None, AFTER_FOLLOWERS), (1.0, 0)], ids=["max", "1x"])
def test_at_max_the_assigning_sync_leaves_a_moment_behind_the_others(speed, pause):
    script = two_members("t1", speed)
    script.send(SYNC_GROUP, 3, sync("r2", 1), OK | {"assignment": b"r2"}, connection=2)
    leader = recorded(SYNC_GROUP, 3, sync("r1", 1, "r1", "r2"))
    script.groups.due(leader)
    script.now = pause - 1
    assert script.asked(leader)[0] == (Hold(Reason.NO_LEADER, pause) if pause else None)
    script.now = pause
    assert script.asked(leader)[0] is None


def test_the_recorded_leader_sends_no_assignments_where_another_was_elected():
    script = two_members("t2")
    assert script.send(SYNC_GROUP, 3, sync("r1", 1, "r1", "r2"), OK | {"assignment": b"r1"})[1]["assignments"] == []


def test_without_the_recorded_leaders_assignments_the_elected_members_sync_is_not_sent():
    script = two_members("t2")
    ended = answer_to(recorded(SYNC_GROUP, 3, sync("r2", 1), connection=2), {"error_code": 27, "assignment": b""})
    assert script.asked(ended)[0] == Withheld(Reason.NO_LEADER)


def newcomer(asked: int) -> Exchange:
    """A member that is alone in generation 2."""
    return answer_to(recorded(JOIN_GROUP, 3, JOIN, at=asked, connection=2), joined("b", 2, "b"), at=30)


def unanswered(script: Script, connection_ended: int) -> None:
    """Sends the JoinGroup of another member, whose connection ended before the recorded response."""
    script.send(JOIN_GROUP, 5, JOIN | {"member_id": "a"}, None)[0].cut_ns = connection_ended


@pytest.mark.parametrize(("ended", "refusal"), [(10, Hold(Reason.NO_GENERATION)), (11, None)], ids=["before", "after"])
def test_a_newcomer_waits_for_an_unanswered_join_whose_connection_ended_before_the_newcomer_asked(ended, refusal):
    script = Script()
    unanswered(script, ended)
    assert script.asked(newcomer(10))[0] == refusal


def test_a_newcomers_join_that_goes_again_with_the_id_of_error_79_waits_for_no_other():
    """The target may wait for it before it answers the other one."""
    script = Script()
    exchange = newcomer(10)
    refusal, sent = script.asked(exchange)
    assert refusal is None
    script.groups.sent(exchange, sent, script.now)
    unanswered(script, 5)
    assert script.answer(exchange, sent, refused(79, "t")) == Resend()
    refusal, sent = script.asked(exchange)
    assert refusal is None
    assert sent["member_id"] == "t"


def test_members_that_leave_leave_by_the_targets_ids_and_static_ones_by_their_instance():
    script = Script()
    script.join("r", "t")
    members = [
        {"member_id": "r", "group_instance_id": None},
        {"member_id": "unknown", "group_instance_id": None},
        {"member_id": "", "group_instance_id": "i"},
    ]
    _, sent = script.send(LEAVE_GROUP, 4, {"group_id": GROUP, "members": members}, OK | {"members": []})
    assert [(one["member_id"], one["group_instance_id"]) for one in sent["members"]] == [("t", None), ("", "i")]


def test_a_member_leaves_once_its_join_is_answered_if_the_recorded_cluster_had_answered_it_before():
    script = Script()
    script.pass_by(JOIN_GROUP, 5, JOIN, refused(79, "r"), refused(79, "t"))
    exchange, sent = script.send(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, joined("r", 1, "r"))
    leaving = recorded(LEAVE_GROUP, 3, {"group_id": GROUP, "members": [{"member_id": "r"}]}, at=2)
    assert script.asked(leaving)[0] == Hold(Reason.NO_MEMBER)
    script.answer(exchange, sent, joined("t", 7, "t"))
    assert script.asked(leaving)[0] is None


def test_a_member_leaves_while_its_join_waits_that_the_recorded_cluster_never_answered():
    """Its client had ended the connection."""
    script = Script()
    script.pass_by(JOIN_GROUP, 5, JOIN, refused(79, "r"), refused(79, "t"))
    script.send(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, None)
    leaving = recorded(LEAVE_GROUP, 3, {"group_id": GROUP, "members": [{"member_id": "r"}]}, at=2)
    not_sent, sent = script.asked(leaving)
    assert (not_sent, sent["members"][0]["member_id"]) == (None, "t")


def test_a_member_leaves_while_its_join_waits_as_it_did_in_the_recording():
    script = Script()
    script.join("r", "t")
    # a member that the recorded cluster did not know would have been told its id
    script.send(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, refused(25, ""))
    leaving = recorded(LEAVE_GROUP, 3, {"group_id": GROUP, "members": [{"member_id": "r"}]})
    not_sent, sent = script.asked(leaving)
    assert (not_sent, sent["members"][0]["member_id"]) == (None, "t")


@pytest.mark.parametrize("error", [22, 25, 27])
def test_a_member_that_the_target_refuses_joins_again_and_its_request_is_sent_again(error):
    script = Script()
    script.join("r", "t")
    exchange, sent = script.send(HEARTBEAT, 3, quoting("r", 1), OK)
    assert script.answer(exchange, sent, {"error_code": error}) == Resend()
    assert script.asked(exchange)[0] == Hold(Reason.NO_GENERATION)
    (made,) = script.made()
    assert (made.api_key, made.values["member_id"]) == (JOIN_GROUP, "" if error == 25 else "t")
    made.done(joined("t", 9, "t"))
    assert script.asked(exchange)[1]["generation_id"] == 9


def test_an_exchange_is_not_mended_for_ever():
    script = Script()
    script.join("r", "t")
    again = 0
    exchange, sent = script.send(HEARTBEAT, 3, quoting("r", 1), OK)
    while script.answer(exchange, sent, {"error_code": 22}) is not None:
        again += 1
    assert 0 < again < 10


@pytest.mark.parametrize(("speed", "timeout"), [(0.5, 120_000), (1.0, 60_000), (None, 60_000), (1e-9, 2**31 - 1)])
def test_rebalance_timeouts_are_stretched_below_1x(speed, timeout):
    _, sent = Script(speed=speed).send(JOIN_GROUP, 5, JOIN, refused(79, "r"))
    assert sent["rebalance_timeout_ms"] == timeout


def test_an_exchange_that_can_not_be_read_is_due_and_lost_without_an_error():
    script, cut = Script(), recorded(SYNC_GROUP, 3, sync("r", 1, "r"))
    cut.frame = (cut.frame or b"")[:-4]
    script.groups.due(cut)
    script.groups.lost(cut, None)


def test_a_made_sync_in_place_of_a_lost_one_asks_for_the_assignment():
    script = Script()
    script.join("r", "t")
    exchange, _ = script.send(SYNC_GROUP, 3, sync("r", 1, "r"), OK | {"assignment": b"r"})
    script.groups.lost(exchange, None)
    (made,) = script.made()
    assert (made.api_key, made.values["assignments"]) == (SYNC_GROUP, [{"member_id": "t", "assignment": b"r"}])


def test_a_static_member_that_is_back_has_the_assignment_of_its_former_id():
    script = Script()
    static = JOIN | {"group_instance_id": "i"}
    script.pass_by(JOIN_GROUP, 5, static, joined("r1", 1, "r1"), joined("t1", 7, "t1"))
    script.pass_by(JOIN_GROUP, 5, static, joined("r2", 1, "r1"), joined("t2", 8, "t2"))
    former = recorded(SYNC_GROUP, 3, sync("r1", 1, "r1"))
    script.groups.due(former)
    script.groups.lost(former, None)
    _, sent = script.asked(recorded(SYNC_GROUP, 3, sync("r2", 1)))
    assert sent["assignments"] == [{"member_id": "t2", "assignment": b"r1"}]


def test_a_static_leader_that_is_back_assigns_what_it_had_sent_under_its_former_id():
    """It sends nothing anew. On the target a member may be lost meanwhile, and a generation begin for that."""
    script = Script()
    static, skips = JOIN | {"group_instance_id": "i"}, {"skip_assignment": True}
    script.pass_by(JOIN_GROUP, 9, static, joined("r1", 1, "r1"), joined("t1", 7, "t1"))
    script.pass_by(SYNC_GROUP, 3, sync("r1", 1, "r1"), OK | {"assignment": b"r1"}, OK | {"assignment": b"r1"})
    script.pass_by(JOIN_GROUP, 9, static, joined("r2", 1, "r2") | skips, joined("t2", 7, "t2") | skips)
    script.pass_by(SYNC_GROUP, 3, sync("r2", 1), OK | {"assignment": b"r1"}, OK | {"assignment": b"r1"})
    beat = {"group_id": GROUP, "member_id": "r2", "generation_id": 1, "group_instance_id": "i"}
    exchange, sent = script.send(HEARTBEAT, 3, beat, OK)
    assert script.answer(exchange, sent, {"error_code": 27})
    (join,) = script.made()
    join.done(joined("t2", 8, "t2"))
    (made,) = script.made()
    assert (made.api_key, made.values["assignments"]) == (SYNC_GROUP, [{"member_id": "t2", "assignment": b"r1"}])

"""Tests of the requests that the replay itself makes for members."""

from __future__ import annotations

import pytest

from proxy.wire.embedded import encode_blob
from proxy.wire.keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)
from recorder.replay.plan import Hold, MadeRequest, Reason, Resend, ToCoordinator, Values
from tests.recorder.replay.group_clients import answer_to, recorded
from tests.recorder.replay.group_script import GROUP, JOIN, Script, joined
from tests.recorder.replay.groups.test_modern_groups import answer, beat

SECOND = 10**9
OK = {"error_code": 0}
BEAT = {"group_id": GROUP, "member_id": "r", "generation_id": 1}
LEAVE = {"group_id": GROUP, "members": [{"member_id": "r", "group_instance_id": None}]}


def test_a_silent_member_is_kept_alive_by_made_heartbeats():
    script = Script(prefix="p-")
    script.join("r", "t")
    assert script.made() == []
    script.now = 3 * SECOND
    (made,) = script.made()
    assert (made.api_key, made.to) == (HEARTBEAT, ToCoordinator(0, "p-" + GROUP))
    assert (made.values["group_id"], made.values["member_id"], made.values["generation_id"]) == ("p-g", "t", 7)


def test_a_member_whose_connection_ended_falls_silent():
    script = Script()
    script.join("r", "t")
    script.groups.closed(("s", 1))
    script.now = 60 * SECOND
    assert script.groups.tick(script.now) == ([], None)


@pytest.mark.parametrize(("generation", "is_kept"), [(1, True), (2, False)], ids=["in time", "too late"])
def test_a_static_member_between_its_connections_is_kept_alive_if_it_was_back_in_time(generation, is_kept):
    script = Script()
    static = JOIN | {"group_instance_id": "i"}
    script.pass_by(JOIN_GROUP, 5, static, joined("r", 1, "r"), joined("t", 7, "t"))
    script.groups.closed(("s", 1))
    back = answer_to(recorded(JOIN_GROUP, 5, static, connection=2), joined("r2", generation, "r2"))
    script.groups.was_read(back)
    script.now = 5 * SECOND
    assert [made.api_key for made in script.made()] == [HEARTBEAT] * is_kept


def test_a_member_whose_departure_is_under_way_makes_no_request():
    """The target would not know it any more, and it would join again."""
    script = Script()
    script.join("r", "t")
    leave = {"group_id": GROUP, "members": [{"member_id": "r", "group_instance_id": None}]}
    exchange, sent = script.send(LEAVE_GROUP, 3, leave, {"error_code": 0})
    script.now = 60 * SECOND
    assert script.made() == []
    script.answer(exchange, sent, {"error_code": 0})
    assert script.made() == []


def test_a_member_with_two_connections_is_alive_while_one_of_them_is_open():
    """At `max` the requests of one of them may be over long before those of the other."""
    script = Script()
    script.join("r", "t")
    script.pass_by(HEARTBEAT, 3, BEAT, OK, OK, connection=2)
    script.pass_by(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, joined("r", 2, "r"), joined("t", 8, "t"))
    script.groups.closed(("s", 1))
    script.now = 60 * SECOND
    assert [made.api_key for made in script.made()] == [HEARTBEAT]
    script.groups.closed(("s", 2))
    script.now = 120 * SECOND
    assert script.made() == []


@pytest.mark.parametrize("error", [22, 27])
def test_a_made_heartbeat_of_a_generation_that_is_over_mends_nothing(error):
    script = Script()
    script.join("r", "t")
    script.now = 60 * SECOND
    (late,) = script.made()
    script.pass_by(JOIN_GROUP, 5, JOIN | {"member_id": "r"}, joined("r", 2, "r"), joined("t", 8, "t"))
    late.done({"error_code": error})
    script.pass_by(HEARTBEAT, 3, BEAT | {"generation_id": 2}, OK, OK)
    assert script.made() == []
    script.now = 120 * SECOND
    assert [made.api_key for made in script.made()] == [HEARTBEAT]


@pytest.mark.parametrize("error", [22, 27])
def test_a_recorded_request_of_a_generation_that_is_over_has_nobody_join_again(error):
    script = Script()
    script.join("r", "t")
    late, late_sent = script.send(SYNC_GROUP, 3, BEAT | {"assignments": []}, OK)
    (join,) = refused_until_it_joins(script)
    join.done(joined("t", 8, "t"))
    assert script.answer(late, late_sent, {"error_code": error}) == Resend()
    refusal, sent = script.asked(late)
    assert (refusal, sent["generation_id"]) == (None, 8)


def refused_until_it_joins(script: Script) -> list[MadeRequest]:
    """The target refuses a heartbeat; returns what the replay makes then."""
    exchange, sent = script.send(HEARTBEAT, 3, BEAT, OK, connection=2)
    script.answer(exchange, sent, {"error_code": 22})
    return script.made()


@pytest.mark.parametrize("error", [22, 25, 27])
@pytest.mark.parametrize("has_left", [False, True], ids=["leaving", "left"])
def test_a_recorded_heartbeat_that_a_departure_has_overtaken_is_not_mended(has_left, error):
    script = Script()
    script.join("r", "t")
    late, late_sent = script.send(HEARTBEAT, 3, BEAT, OK)
    leave, leave_sent = script.send(LEAVE_GROUP, 3, LEAVE, OK)
    if has_left:
        script.answer(leave, leave_sent, OK)
    assert script.answer(late, late_sent, {"error_code": error}) is None
    if not has_left:
        script.answer(leave, leave_sent, OK)
    script.now = 60 * SECOND
    assert script.made() == []


@pytest.mark.parametrize("has_left", [False, True], ids=["leaving", "left"])
def test_a_recorded_commit_that_a_departure_has_overtaken_is_not_mended(has_left):
    script = Script()
    script.join("r", "t")
    place = {"name": "a", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}

    def told(error: int) -> dict[str, object]:
        return {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "error_code": error}]}]}

    values = {"group_id": GROUP, "member_id": "r", "generation_id_or_member_epoch": 1, "topics": [place]}
    commit, commit_sent = script.send(OFFSET_COMMIT, 7, values, told(0))
    leave, leave_sent = script.send(LEAVE_GROUP, 3, LEAVE, OK)
    if has_left:
        script.answer(leave, leave_sent, OK)
    assert script.answer(commit, commit_sent, told(25)) is None
    if not has_left:
        script.answer(leave, leave_sent, OK)
    script.now = 60 * SECOND
    assert script.made() == []


@pytest.mark.parametrize("has_left", [False, True], ids=["leaving", "left"])
@pytest.mark.parametrize("error", [0, 25, 110])
def test_a_consumers_heartbeat_that_its_departure_has_overtaken_brings_it_not_back(error, has_left):
    script = Script()
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9))
    late, late_sent = script.send(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 1), answer("m", 1))
    leave, leave_sent = script.send(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", -1), answer("m", -1))
    if has_left:
        script.answer(leave, leave_sent, answer("m", -1))
    assert script.answer(late, late_sent, answer("m", 9, error)) is None
    if not has_left:
        script.answer(leave, leave_sent, answer("m", -1))
    script.now = 60 * SECOND
    assert script.made() == []


def test_a_member_that_is_mended_leaves_once_the_target_has_it_again():
    """The target would not know it, or give it another id behind its departure."""
    script = Script()
    script.join("r", "t")
    late, late_sent = script.send(HEARTBEAT, 3, BEAT, OK)
    script.answer(late, late_sent, {"error_code": 25})
    leave = answer_to(recorded(LEAVE_GROUP, 3, LEAVE), OK)
    assert script.asked(leave)[0] == Hold(Reason.NO_GENERATION)
    (join,) = script.made()
    assert script.asked(leave)[0] == Hold(Reason.NO_GENERATION)
    join.done(joined("t2", 9, "t2"))
    refusal, sent = script.asked(leave)
    assert (refusal, sent["members"][0]["member_id"]) == (None, "t2")


def test_a_member_whose_departure_is_lost_leaves_by_a_made_one():
    script = Script()
    script.join("r", "t")
    leave, _ = script.send(LEAVE_GROUP, 3, LEAVE, OK)
    script.groups.lost(leave, {})
    (made,) = script.made()
    assert (made.api_key, made.values["member_id"]) == (LEAVE_GROUP, "t")
    made.done({"error_code": 25, "members": []})
    script.now = 60 * SECOND
    assert script.made() == []


def departure(error: int, own: int = 0) -> Values:
    """The answer to `LEAVE`: its error, and those of two members, of whom the other is refused."""
    members = [("r", own), ("t", own), ("other", 30)]
    return {
        "error_code": error,
        "members": [{"member_id": name, "group_instance_id": None, "error_code": code} for name, code in members],
    }


REFUSED = [departure(30), departure(0, own=30)]


@pytest.mark.parametrize("recorded_answer", REFUSED, ids=["whole", "member"])
@pytest.mark.parametrize("on_target", [*REFUSED, None, OK], ids=["whole", "member", "lost", "left"])
def test_a_member_whose_departure_the_recorded_cluster_refused_stays_and_is_mended(recorded_answer, on_target):
    script = Script()
    script.join("r", "t")
    leave, leave_sent = script.send(LEAVE_GROUP, 3, LEAVE, recorded_answer)
    if on_target:
        script.answer(leave, leave_sent, on_target)
    else:
        script.groups.lost(leave, {})
    assert script.made() == []
    later, later_sent = script.send(HEARTBEAT, 3, BEAT, OK)
    assert script.answer(later, later_sent, {"error_code": 25}) == Resend()
    assert [made.api_key for made in script.made()] == [JOIN_GROUP]


def test_a_consumer_whose_departure_the_recorded_cluster_refused_stays_and_is_mended():
    script = Script()
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9))
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", -1), answer("m", 0, 30), answer("m", 0, 30))
    late, late_sent = script.send(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 1), answer("m", 1))
    assert script.answer(late, late_sent, answer("m", 0, 25)) == Resend()
    assert [made.values["member_epoch"] for made in script.made()] == [0]


@pytest.mark.parametrize("on_target", REFUSED, ids=["whole", "member"])
def test_a_member_whose_departure_the_target_alone_refused_leaves_by_a_made_one(on_target):
    script = Script()
    script.join("r", "t")
    leave, leave_sent = script.send(LEAVE_GROUP, 3, LEAVE, OK)
    script.answer(leave, leave_sent, on_target)
    (made,) = script.made()
    assert (made.api_key, made.values["member_id"]) == (LEAVE_GROUP, "t")


@pytest.mark.parametrize("code", [0, 25, 82])
def test_a_member_that_has_left_by_either_answer_makes_no_request(code):
    script = Script()
    script.join("r", "t")
    leave, leave_sent = script.send(LEAVE_GROUP, 3, LEAVE, departure(0, own=code))
    script.answer(leave, leave_sent, departure(0, own=code))
    script.now = 60 * SECOND
    assert script.made() == []


def test_a_consumer_whose_departure_is_lost_leaves_by_a_made_one():
    script = Script()
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9))
    leave, _ = script.send(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", -1), answer("m", -1))
    script.groups.lost(leave, {})
    (made,) = script.made()
    assert made.values["member_epoch"] == -1
    made.done(answer("m", -1, 25))
    script.now = 60 * SECOND
    assert script.made() == []


def test_a_member_that_both_clusters_have_lost_is_not_brought_back():
    script = Script()
    script.join("r", "t")
    late, late_sent = script.send(HEARTBEAT, 3, BEAT, OK)
    script.answer(late, late_sent, {"error_code": 25})
    lost, lost_sent = script.send(HEARTBEAT, 3, BEAT, {"error_code": 25}, connection=2)
    assert script.answer(lost, lost_sent, {"error_code": 25}) is None
    assert script.made() == []


def test_a_heartbeat_that_a_departure_has_overtaken_brings_nobody_back():
    script = Script()
    script.join("r", "t")
    script.now = 60 * SECOND
    (made,) = script.made()
    leave = {"group_id": GROUP, "members": [{"member_id": "r", "group_instance_id": None}]}
    exchange, sent = script.send(LEAVE_GROUP, 3, leave, {"error_code": 0})
    made.done({"error_code": 25})
    script.now = 70 * SECOND
    assert script.made() == []
    script.answer(exchange, sent, {"error_code": 0})
    assert script.made() == []


@pytest.mark.parametrize("is_coming", [True, False], ids=["its rejoin is late", "it has no rejoin"])
def test_a_member_that_is_told_twice_to_rejoin_is_mended_unless_its_recorded_rejoin_is_late(is_coming):
    script = Script()
    script.join("r", "t")
    told = {"group_id": GROUP, "member_id": "r", "generation_id": 1}, {"error_code": 27}, {"error_code": 27}
    script.pass_by(HEARTBEAT, 3, *told)
    if is_coming:
        script.groups.was_read(recorded(JOIN_GROUP, 5, JOIN | {"member_id": "r"}))
    script.now = 5 * SECOND
    (made,) = script.made()
    made.done({"error_code": 27})
    script.now = 10 * SECOND
    assert [made.api_key for made in script.made()] == [HEARTBEAT if is_coming else JOIN_GROUP]


def test_a_silent_consumer_confirms_what_it_was_assigned_by_the_targets_topic_ids():
    script = Script(topics={b"r" * 16: b"t" * 16})
    given = {"topic_partitions": [{"topic_id": b"t" * 16, "partitions": [4]}]}
    script.pass_by(CONSUMER_GROUP_HEARTBEAT, 1, beat("m", 0), answer("m", 1), answer("m", 9, assignment=given))
    script.now = 5 * SECOND
    (made,) = script.made()
    assert (made.values["member_epoch"], made.values["topic_partitions"]) == (9, given["topic_partitions"])


def test_all_members_leave_at_the_end():
    script = Script()
    script.join("r", "t")
    script.pass_by(68, 1, beat("m", 0) | {"group_id": "h", "instance_id": "i"}, answer("m", 1), answer("m", 9))
    left = {made.api_key: made.values for made in script.groups.finish(at_once=True)}
    assert left[LEAVE_GROUP]["members"] == [{"member_id": "t", "group_instance_id": None}]
    assert (left[68]["member_epoch"], left[68]["instance_id"]) == (-1, "i")


def test_a_made_join_that_is_lost_is_made_again():
    script = Script()
    script.join("r", "t")
    exchange, sent = script.send(
        HEARTBEAT, 3, {"group_id": GROUP, "member_id": "r", "generation_id": 1}, {"error_code": 0}
    )
    script.answer(exchange, sent, {"error_code": 22})
    (made,) = script.made()
    made.done(None)
    script.now += SECOND
    (again,) = script.made()
    assert (made.api_key, again.values) == (JOIN_GROUP, made.values)


def test_requests_of_one_member_share_a_lane_and_those_of_two_do_not():
    script = Script()
    script.join("r", "t")
    script.join("r2", "t2", leader="r", elected="t", connection=2)
    script.now = 3 * SECOND
    first, second = script.made()
    assert first.lane != second.lane


def test_a_member_that_the_recording_is_about_to_lose_is_kept_alive_no_more():
    script = Script()
    script.join("r", "t")
    # the leader's response has all members of the recorded generation, without r
    script.join("r2", "t2", generation=2, connection=2)
    script.now = 3 * SECOND
    assert [made.values["member_id"] for made in script.made()] == ["t2"]


def test_a_static_members_former_id_does_not_join_again():
    script = Script()
    static = JOIN | {"group_instance_id": "i"}
    script.pass_by(JOIN_GROUP, 5, static, joined("r1", 1, "r1"), joined("t1", 7, "t1"))
    script.pass_by(JOIN_GROUP, 5, static, joined("r2", 1, "r1"), joined("t2", 7, "t1"))
    beat = {"group_id": GROUP, "member_id": "r1", "generation_id": 1, "group_instance_id": "i"}
    exchange, sent = script.send(HEARTBEAT, 3, beat, {"error_code": 0})
    script.answer(exchange, sent, {"error_code": 25})
    assert [made.api_key for made in script.made() if made.values.get("member_id") != "t2"] == []


def test_a_member_that_can_not_ask_for_its_assignment_yet_is_kept_alive():
    script = Script()
    script.join("r", "t", leader="other")
    # the target has elected this member, and the recorded leader's assignments have yet to come
    sync = {"group_id": GROUP, "member_id": "r", "generation_id": 1, "assignments": []}
    script.groups.lost(recorded(SYNC_GROUP, 3, sync), None)
    (made,) = script.made()
    assert made.api_key == HEARTBEAT


def test_the_assignments_of_a_made_sync_name_the_targets_topics():
    def assigning(topic: str) -> bytes:
        return encode_blob(
            "ConsumerProtocolAssignment", 0, {"assigned_partitions": [{"topic": topic, "partitions": [1]}]}
        )

    script = Script(prefix="p-")
    script.join("r", "t", leader="r", elected="t")
    sync = {"group_id": GROUP, "member_id": "r", "generation_id": 1}
    lost = recorded(SYNC_GROUP, 3, sync | {"assignments": [{"member_id": "r", "assignment": assigning("orders")}]})
    script.groups.due(lost)
    script.groups.lost(lost, None)
    (made,) = script.made()
    assert made.values["assignments"] == [{"member_id": "t", "assignment": assigning("p-orders")}]

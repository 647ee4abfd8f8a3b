"""Tests of rebalances: a row for each, with its times, cause and members."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.tables.group_events import GROUP_EVENTS
from recorder.analysis.tables.rebalances import REBALANCES, rebalances_of
from tests.recorder.analysis.by_hand import NOON, Row, frame

pytestmark = pytest.mark.real


class Group:
    """A group's steps, one by one; each response comes a tenth of a second after its request."""

    def __init__(self, name: str, protocol: str = "classic") -> None:
        self.name, self.protocol = name, protocol
        self.rows: list[Row] = []

    def step(self, at: float, step: str, member: str, **facts: Any) -> None:
        error = {"error_code": facts.pop("error", 0)}
        row = {"session": "s", "cluster": "c", "connection": 1, "exchange": len(self.rows), "group_id": self.name}
        row |= {"protocol": self.protocol, "step": step, "member_id": member, "at": _time(at), "times": 1}
        row |= {"last_at": _time(at), "answered_at": _time(at + 0.1)} | error
        row["is_newcomer"] = (self.protocol != "classic" or error["error_code"] == 79) if step == "join" else None
        self.rows.append(row | facts)

    def generation(self, at: float, number: int, *members: str, **facts: Any) -> None:
        """All members join and get their assignments, within a second."""
        for member in members:
            listed = sorted(members) if member == members[0] else None
            self.step(at, "join", member, generation=number, members=listed, **facts)
        for member in members:
            self.step(at + 0.5, "sync", member, generation=number, asked_generation=number)

    def told(self, at: float, member: str, epoch: int, *partitions: str, was: int = 0, **facts: Any) -> None:
        """A member of the newer protocol gets its partitions, and confirms them half a second later."""
        step = "heartbeat" if was else "join"
        self.step(at, step, member, generation=epoch, asked_generation=was or None, assignment=[*partitions], **facts)
        self.step(at + 0.5, "heartbeat", member, generation=epoch, asked_generation=epoch, owned=[*partitions])


def _time(at: float) -> Any:
    return NOON + timedelta(seconds=at)


def comes_and_goes() -> Group:
    group = Group("comes and goes")
    group.step(0, "join", "a", error=79)
    group.generation(0.2, 1, "a")
    group.step(10, "join", "b", error=79)
    group.step(10.2, "join", "b", generation=2, answered_at=_time(13.1), reason="need to re-join")
    group.step(12, "heartbeat", "a", error=27, generation=1)
    group.step(13, "join", "a", generation=2, members=["a", "b"], answered_at=_time(13.1))
    group.step(13.2, "sync", "a", generation=2)
    group.step(13.3, "sync", "b", generation=2)
    group.step(20, "leave", "b", reason="bye")
    group.step(22, "heartbeat", "a", error=27, generation=2)
    group.generation(22.2, 3, "a")
    return group


def is_lost() -> Group:
    group = Group("is lost")
    group.generation(0, 1, "a", "b")
    group.step(50, "heartbeat", "a", error=27, generation=1)
    group.generation(51, 2, "a")
    return group


def is_fenced() -> Group:
    group = Group("is fenced")
    group.generation(0, 1, "a", "b")
    group.step(5, "heartbeat", "b", error=82, generation=1)
    group.generation(6, 2, "a", "b")
    return group


def wants_more() -> Group:
    group = Group("wants more")
    group.generation(0, 1, "a", subscription=["t"])
    group.generation(9, 2, "a", subscription=["t", "u"])
    return group


def grows() -> Group:
    group = Group("grows")
    group.generation(0, 1, "a")
    group.rows[-1]["given"] = ["t-0", "t-1"]
    group.generation(9, 2, "a")
    group.rows[-1]["given"] = ["t-0", "t-1", "t-10"]
    group.generation(19, 3, "a")
    group.rows[-1]["given"] = ["t-0", "t-1", "t-10"]
    return group


def finds_its_topic() -> Group:
    """The leader does not know the topic when it joins, like kafka-python's, so at first it has nothing to assign."""
    group = Group("finds its topic")
    group.generation(0, 1, "a")
    group.rows[-1]["given"] = []
    group.generation(1, 2, "a")
    group.rows[-1]["given"] = ["t-0"]
    group.generation(9, 3, "a")
    group.rows[-1]["given"] = ["t-0"]
    return group


def moves() -> Group:
    group = Group("moves")
    group.generation(0, 1, "a")
    group.step(5, "heartbeat", "a", error=16, generation=1)
    group.generation(9, 2, "a")
    return group


def cooperates() -> Group:
    group = Group("cooperates")
    group.generation(0, 1, "a", owned=[])
    group.rows[-1]["assignment"] = ["t-0", "t-1"]
    group.generation(9, 2, "a", "b", owned=["t-0", "t-1"])
    group.rows[-2]["assignment"] = ["t-0"]
    group.rows[-1]["assignment"] = []
    group.generation(12, 3, "a", "b", owned=["t-0"])
    return group


def is_overtaken() -> Group:
    group = Group("is overtaken")
    group.generation(0, 1, "a")
    for at, member in ((10, "a"), (10, "b")):
        group.step(at, "join", member, generation=2, members=["a", "b"])
    group.step(11, "sync", "a", generation=2)
    group.step(11, "sync", "b", generation=2, error=27)
    group.generation(13, 3, "a", "b", "c")
    return group


def comes_back() -> Group:
    """A static member's process restarts, and its generation stays."""
    group = Group("comes back")
    group.generation(0, 1, "a", instance_id="i")
    group.step(30, "join", "a2", generation=1, instance_id="i")
    group.step(30.5, "sync", "a2", generation=1, instance_id="i")
    return group


def static_leaves() -> Group:
    """An admin removes a static member by its instance id; the group knows its member id."""
    group = Group("static leaves")
    group.generation(0, 1, "a", "b")
    for row in group.rows:
        row["members"] = ["a", "name"] if row["members" if "members" in row else "step"] == ["a", "b"] else None
        row["instance_id"] = "name" if row["member_id"] == "b" else None
    group.step(5, "leave", "", instance_id="name", protocol="classic")
    group.rows[-1]["member_id"] = None
    group.generation(6, 2, "a")
    return group


def begins_again() -> Group:
    group = Group("begins again")
    group.generation(0, 5, "a")
    group.step(3, "leave", "a")
    group.generation(100, 1, "b")
    return group


def begins_anew() -> Group:
    """A broker gives a member its id together with its generation."""
    group = Group("begins anew")
    group.generation(0, 5, "a", is_newcomer=True)
    return group


def newer() -> Group:
    """a has all partitions. b joins: a must revoke one in its old epoch, then b gets it. Then b leaves."""
    group = Group("newer", "consumer")
    group.told(0, "a", 2, "t-0", "t-1")
    group.step(10, "join", "b", generation=2, assignment=[], subscription=["t"])
    group.told(11, "a", 2, "t-0", was=2)
    group.told(12, "b", 3, "t-1", was=2)
    group.step(20, "leave", "b")
    group.told(21, "a", 4, "t-0", "t-1", was=3)
    return group


def newer_is_lost() -> Group:
    group = Group("newer is lost", "consumer")
    group.told(0, "a", 2, "t-0")
    group.told(0, "b", 2, "t-1")
    group.step(1, "heartbeat", "a", generation=2, error=None, last_at=_time(70), times=14)
    group.told(50, "a", 3, "t-0", "t-1", was=2)
    return group


def newer_is_overtaken() -> Group:
    group = Group("newer is overtaken", "consumer")
    group.step(0, "join", "a", generation=2, assignment=["t-0"])
    group.told(1, "a", 3, "t-0", "t-1", was=2)
    return group


def is_full() -> Group:
    """c asks to join again and again, and is refused; the others rebalance much later."""
    group = Group("is full")
    group.generation(0, 5, "a", "b")
    for at in range(2, 40, 2):
        group.step(at, "join", "c", error=81, reason="let me in", subscription=["u"], is_newcomer=True)
    group.step(40, "leave", "b")
    group.step(41, "heartbeat", "a", error=27, generation=5)
    group.generation(41.5, 6, "a")
    return group


def newer_is_full() -> Group:
    group = Group("newer is full", "consumer")
    group.told(0, "a", 2, "t-0")
    for at in range(2, 20):
        group.step(at, "join", "c", error=81, generation=None)
    group.told(20, "a", 3, "t-0", "t-1", was=2)
    return group


def shares() -> Group:
    group = Group("shares", "share")
    group.step(0, "join", "a", generation=2, assignment=["t-0"])
    return group


GROUPS = (
    comes_and_goes, is_lost, is_fenced, wants_more, grows, finds_its_topic, moves, cooperates, is_overtaken, comes_back,
    static_leaves, begins_again, begins_anew, newer, newer_is_lost, newer_is_overtaken, shares, is_full,
    newer_is_full,
)  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Any]]:
    """Returns the rebalances of each group, in order."""
    rows = [row for group in GROUPS for row in group().rows]
    made = rebalances_of(frame(spark, GROUP_EVENTS.ddl, rows))
    assert made.columns == REBALANCES.names
    every = made.orderBy("from_at").collect()
    return {group().name: [row for row in every if row.group_id == group().name] for group in GROUPS}


def seconds(row: Any) -> tuple[float, float | None]:
    """Returns begin and end, in seconds after noon."""
    told = [None if one is None else one.timestamp() - NOON.timestamp() for one in (row.from_at, row.to_at)]
    return round(told[0] or 0, 1), None if told[1] is None else round(told[1], 1)


def test_a_rebalance_lasts_from_the_first_join_to_the_last_assignment(found: Any) -> None:
    first, second, third = found["comes and goes"]
    assert (seconds(first), seconds(second), seconds(third)) == ((0, 0.8), (10, 13.4), (22.1, 22.8))
    assert second.duration_ms == 3400


def test_members_reasons_and_causes_are_shown(found: Any) -> None:
    told = [(row.generation, row.cause, row.members, row.joined, row.left) for row in found["comes and goes"]]
    assert told == [
        (1, "joined", ["a"], None, []),
        (2, "joined", ["a", "b"], ["b"], []),
        (3, "left", ["a"], [], ["b"]),
    ]
    assert [row.reasons for row in found["comes and goes"]] == [[], ["need to re-join"], ["bye"]]


def test_a_member_that_disappears_without_leaving_is_lost(found: Any) -> None:
    assert [(row.cause, row.lost) for row in found["is lost"][1:]] == [("lost", ["b"])]


@pytest.mark.parametrize(
    ("group", "cause"),
    [
        ("is fenced", "fenced"),
        ("wants more", "subscription"),
        ("grows", "partitions_added"),
        ("finds its topic", "partitions_added"),
        ("moves", "coordinator_moved"),
    ],
    ids=["fenced", "subscription", "partitions", "topic", "moved"],
)
def test_each_other_cause_of_a_rebalance_is_found(found: Any, group: str, cause: str) -> None:
    assert found[group][1].cause == cause


def test_a_rebalance_without_any_change_has_the_cause_unknown(found: Any) -> None:
    assert found["grows"][2].cause == "unknown"
    assert found["finds its topic"][2].cause == "unknown"


def test_revoked_partitions_are_assigned_in_a_follow_up(found: Any) -> None:
    assert [row.cause for row in found["cooperates"]] == ["joined", "joined", "follow_up"]


def test_a_generation_that_was_overtaken_has_no_end(found: Any) -> None:
    assert [(row.generation, row.to_at is None) for row in found["is overtaken"]] == [(1, False), (2, True), (3, False)]


def test_refused_joins_begin_no_rebalance_and_give_no_reasons(found: Any) -> None:
    told = [(row.cause, row.members, row.reasons, *seconds(row)) for row in found["is full"]]
    assert told == [("unknown", ["a", "b"], [], 0, 0.6), ("left", ["a"], [], 41.1, 42.1)]


def test_a_member_whose_every_join_was_refused_is_none(found: Any) -> None:
    assert [(row.members, row.lost) for row in found["newer is full"]] == [(["a"], None), (["a"], [])]


def test_a_static_member_that_comes_back_is_no_rebalance(found: Any) -> None:
    assert [seconds(row) for row in found["comes back"]] == [(0, 0.6)]


def test_a_static_member_that_is_removed_by_its_name_has_left(found: Any) -> None:
    assert [(row.cause, row.left, row.lost) for row in found["static leaves"][1:]] == [("left", ["name"], [])]


def test_generations_of_a_group_that_begins_again_are_other_ones(found: Any) -> None:
    told = [(row.generation, row.cause, row.left) for row in found["begins again"]]
    assert told == [(5, "unknown", []), (1, "joined", ["a"])]


def test_the_first_generation_that_is_seen_was_joined_if_members_had_no_ids(found: Any) -> None:
    assert [row.cause for row in found["begins anew"]] == ["joined"]


def test_newer_members_give_back_first_and_report_what_they_have(found: Any) -> None:
    told = [(row.generation, row.cause, row.members, *seconds(row)) for row in found["newer"]]
    assert told == [
        (2, "joined", ["a"], 0.1, 0.5),
        (3, "joined", ["a", "b"], 11.1, 12.5),
        (4, "left", ["a"], 21.1, 21.5),
    ]


def test_a_newer_member_that_is_silent_is_lost(found: Any) -> None:
    assert [(row.cause, row.lost) for row in found["newer is lost"][1:]] == [("lost", ["b"])]


def test_a_newer_generation_without_reports_has_no_end(found: Any) -> None:
    assert [row.to_at is None for row in found["newer is overtaken"]] == [True, False]


def test_members_of_share_groups_have_their_assigned_partitions(found: Any) -> None:
    assert [(row.cause, *seconds(row)) for row in found["shares"]] == [("joined", 0.1, 0.1)]

"""Tests of the translator of groups against simulated coordinators in virtual time."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.cluster import Cluster
from recorder.replay.mapping import ValueKind
from recorder.replay.names import Names
from tests.recorder.replay.group_clients import GROUP, Capture, ClassicClient, ConsumerClient
from tests.recorder.replay.group_coordinator import SECOND, Clock, ConsumerCoordinator, Coordinator
from tests.recorder.replay.group_player import Player
from tests.sweeps import examples
from tests.tables import each_row

# time after the last action of a member, in which session timeouts and rebalances end
CALM = 60 * SECOND
LONGEST = 40

ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["start", "start", "leave", "crash", "hang", "rejoin"]),
        st.integers(0, LONGEST * 10),
    ),
    min_size=1,
    max_size=7,
)


def record(actions, *, seed: int = 0, static: int = 0, join_version: int = 5) -> tuple[Capture, Coordinator]:
    """Records a history: clients that start, leave, crash or hang at these times (in tenths of a second)."""
    clock = Clock()
    ids = (f"recorded-{n}" for n in count())
    coordinator = Coordinator(clock, ids)
    capture = Capture(clock, coordinator.handle, Random(seed))
    clients = [
        ClassicClient(
            capture, n, instance=f"i{n}" if n < static and join_version >= 5 else None, join_version=join_version
        )
        for n in range(4)
    ]
    for number, action, tenths in actions:
        clock.at(tenths * SECOND // 10, getattr(clients[number], action))
    clock.run(LONGEST * SECOND + CALM)
    return capture, coordinator


def play(capture: Capture, *, elect=min, speed: float | None = 1.0, versions=None) -> tuple[Player, Coordinator]:
    """Plays the history to a cluster that assigns other ids, and elects another leader."""
    clock = Clock()
    ids = (f"target-{97 * n % 1009:03d}" for n in count(1))
    coordinator = Coordinator(clock, ids, elect)
    player = Player(clock, coordinator.handle, capture.exchanges, capture.closed, speed, versions=versions or {})
    player.run(rest=CALM)
    return player, coordinator


def assigned(coordinator: Coordinator, identify=lambda member: member) -> dict[Any, bytes]:
    group = coordinator.groups.get(GROUP)
    return {identify(member): found.assignment for member, found in group.members.items()} if group else {}


def expected(player: Player, coordinator: Coordinator) -> dict[object, bytes]:
    """Returns the recorded members and their assignments, in the target's terms."""
    return assigned(coordinator, lambda member: player.pairs.target(ValueKind.MEMBER, member, GROUP))


@each_row("speed", [1.0, None], ids=["1x", "max"])
@each_row("elect", [min, max, lambda ids: ids[0], lambda ids: ids[-1]], ids=["min", "max", "first", "last"])
def test_two_members_that_come_one_after_the_other_have_their_recorded_assignments(speed, elect):
    capture, source = record([(0, "start", 0), (1, "start", 100)])
    player, target = play(capture, speed=speed, elect=elect)
    assert assigned(target) == expected(player, source)
    assert len(assigned(target)) == 2
    assert player.withheld == []


# kinds of rare events, with histories that have them
RARE = {
    "the recorded leader rejoins on its own, the target elected another": (
        [(1, "start", 73), (3, "start", 98), (3, "rejoin", 138)],
        4,
        max,
        1.0,
        1,
        9,
    ),
    "the target makes one generation of two": ([(3, "start", 339), (1, "start", 369)], 0, max, 1.0, 1, 5),
    "the elected member is lost before its sync": (
        [
            (3, "start", 273),
            (0, "crash", 281),
            (1, "start", 281),
            (3, "crash", 303),
            (2, "start", 308),
            (0, "start", 273),
        ],
        2,
        max,
        1.0,
        0,
        2,
    ),
    "a static member is back before its leader's sync": (
        [
            (2, "start", 180),
            (1, "start", 209),
            (1, "crash", 227),
            (1, "start", 248),
            (1, "hang", 253),
            (1, "start", 340),
        ],
        3,
        max,
        1.0,
        2,
        5,
    ),
    "a static member's former id is refused late": (
        [(0, "start", 16), (0, "hang", 38), (1, "start", 41), (0, "start", 246), (2, "start", 352), (0, "rejoin", 392)],
        2,
        min,
        1.0,
        2,
        5,
    ),
    "a member leaves while it joins": (
        [
            (0, "start", 57),
            (3, "start", 57),
            (0, "start", 129),
            (2, "start", 180),
            (0, "hang", 220),
            (1, "start", 227),
            (2, "leave", 272),
        ],
        1,
        max,
        None,
        1,
        5,
    ),
}


@each_row("history", RARE.values(), ids=[f"rare{number}" for number in range(len(RARE))])
def test_a_rare_history_ends_with_the_recorded_members_and_assignments(history):
    ends_as_recorded(*history)


@examples(60)
@given(
    ACTIONS,
    st.integers(0, 5),
    st.sampled_from([min, max]),
    st.sampled_from([1.0, None]),
    st.integers(0, 2),
    st.sampled_from([2, 5, 9]),
)
def test_any_history_ends_with_the_recorded_members_and_assignments(actions, seed, elect, speed, static, version):
    ends_as_recorded(actions, seed, elect, speed, static, version)


def ends_as_recorded(actions, seed, elect, speed, static, version) -> None:
    capture, source = record(actions, seed=seed, static=static, join_version=version)
    player, target = play(capture, elect=elect, speed=speed)
    assert assigned(target) == expected(player, source)
    player.finish()
    assert assigned(target) == {}


TOPICS = ["a", "b"]


def record_consumers(actions, *, seed: int, version: int) -> tuple[Capture, ConsumerCoordinator]:
    clock = Clock()
    ids = (f"recorded-{n}" for n in count())
    coordinator = ConsumerCoordinator(clock, ids, {name: name.encode() * 16 for name in TOPICS}, rank=str)
    capture = Capture(clock, coordinator.handle, Random(seed))
    clients = [ConsumerClient(capture, n, TOPICS[n % 2 :], version=version) for n in range(4)]
    for number, action, tenths in actions:
        clock.at(tenths * SECOND // 10, getattr(clients[number], action))
    clock.run(LONGEST * SECOND + 2 * CALM)
    return capture, coordinator


def play_consumers(capture: Capture, *, speed: float | None) -> tuple[Player, ConsumerCoordinator]:
    """Plays to a cluster with other topic ids and epochs, which assigns in reverse order."""
    clock = Clock()
    ids = (f"target-{97 * n % 1009:03d}" for n in count(1))
    topics = {name: name.upper().encode() * 16 for name in TOPICS}
    cluster = Cluster()
    for name, topic_id in topics.items():
        cluster.name_topic(name, topic_id)
    names = Names("", {name.encode() * 16: name for name in TOPICS}, cluster)
    coordinator = ConsumerCoordinator(clock, ids, topics, rank=lambda member: str(member)[::-1], first=40)
    player = Player(clock, coordinator.handle, capture.exchanges, capture.closed, speed, names)
    player.run(rest=2 * CALM)
    return player, coordinator


MODERN = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["start", "start", "leave", "crash"]), st.integers(0, LONGEST * 10)),
    min_size=1,
    max_size=7,
)


@examples(60)
@given(MODERN, st.integers(0, 5), st.sampled_from([1.0, None]), st.sampled_from([0, 1]))
def test_any_history_of_a_consumer_group_ends_with_the_recorded_members_settled(actions, seed, speed, version):
    capture, source = record_consumers(actions, seed=seed, version=version)
    player, target = play_consumers(capture, speed=speed)
    found = {player.pairs.target(ValueKind.MEMBER, member, GROUP) for member in source.members}
    assert set(target.members) == found
    assert not player.withheld
    assert {one for member in target.members.values() for one in member.assigned} == {
        one for member in source.members.values() for one in member.assigned
    }
    for member in target.members.values():
        assert (member.assigned, member.pending, member.epoch) == (target.target()[member.id], set(), target.epoch)
    player.finish()
    assert target.members == {}

"""Tests of which requests of a group wait for each other, with and without responses."""

from random import Random

import pytest

from proxy.wire.keys import JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, SYNC_GROUP
from recorder.replay.engine.item import Item, ItemState, Lane
from recorder.replay.engine.routes import Routes
from recorder.replay.engine.waiting import WaitGraph
from recorder.replay.options import Options
from recorder.replay.outcome import ReachedTarget, Result, Source, Verdict
from recorder.replay.plan import CLIENT_ID, Hold, Reason, Values
from recorder.replay.requests.order import Keys
from recorder.replay.stream import RequestRecorded
from tests.recorder.replay.engine.group_life import (
    CommittingClient,
    CooperativeClient,
    Life,
    SlowFollower,
    TwoConnectionsClient,
    lived,
)
from tests.recorder.replay.group_clients import recorded
from tests.recorder.replay.group_coordinator import SECOND
from tests.recorder.replay.group_script import GROUP, JOIN, joined
from tests.recorder.replay.simulation import MS, Recording
from tests.sweeps import mostly_long
from tests.tables import each_row

VALUES: dict[int, Values] = {
    JOIN_GROUP: JOIN,
    SYNC_GROUP: {"group_id": GROUP, "member_id": "m", "generation_id": 1, "assignments": []},
    LEAVE_GROUP: {"group_id": GROUP, "member_id": "m"},
}
ROUTES = Routes(Options(), (), Result(Source("capture"), ReachedTarget("target")), frozenset())
COMMIT = {"group_id": GROUP, "member_id": "m", "generation_id_or_member_epoch": 1, "topics": []}


def two_items(first: int, second: int) -> tuple[WaitGraph, Item, Item]:
    """Requests of two members, in this order."""
    waiting = WaitGraph()

    def read(connection: int, api_key: int) -> Item:
        exchange = recorded(api_key, 1, (VALUES | {OFFSET_COMMIT: COMMIT})[api_key], connection=connection)
        keys = Keys(commits_to=GROUP) if api_key == OFFSET_COMMIT else Keys(member_of=GROUP)
        item = Item(exchange, ROUTES.of(exchange), keys, Lane(exchange.connection), 0)
        waiting.request_read(item)
        return item

    return waiting, read(0, first), read(1, second)


@each_row("second", VALUES)
@each_row("first", VALUES)
def test_members_requests_leave_in_recorded_order(first, second):
    waiting, earlier, later = two_items(first, second)
    assert waiting.holds_back(later)
    earlier.state = ItemState.HANDED_OVER
    assert waiting.left(earlier) == [later.lane]
    assert not waiting.holds_back(later)


@each_row("second", VALUES)
@each_row("first", VALUES)
def test_only_a_sync_passes_an_earlier_one_that_a_room_holds_back(first, second):
    waiting, earlier, later = two_items(first, second)
    earlier.hold = Hold(Reason.NO_LEADER)
    assert waiting.holds_back(later) == ((first, second) != (SYNC_GROUP, SYNC_GROUP))


@pytest.mark.parametrize("first", VALUES)
def test_a_commit_leaves_behind_what_members_sent_before_unless_a_room_holds_that_back(first):
    waiting, earlier, commit = two_items(first, OFFSET_COMMIT)
    assert waiting.holds_back(commit)
    earlier.hold = Hold(Reason.NO_LEADER)
    assert waiting.left(earlier) == [commit.lane]
    assert not waiting.holds_back(commit)


@pytest.mark.parametrize("second", VALUES)
def test_members_requests_wait_for_no_commit_to_leave(second):
    waiting, _, later = two_items(OFFSET_COMMIT, second)
    assert not waiting.holds_back(later)


def test_a_member_that_commits_before_it_rejoins_does_not_wait_for_joins_that_wait_for_it():
    history = [(0, "start", 0), (1, "start", 100), (2, "start", 200)]
    asked = [each.exchange for each in lived(history).happenings if isinstance(each, RequestRecorded)]
    commits = [each.first_ns / MS for each in asked if each.api_key == OFFSET_COMMIT]
    life = Life(lived(history), options=Options(speed=1.0))
    # a newcomer's join is in flight at each commit
    assert life.simulation.times(OFFSET_COMMIT) == commits
    assert len(commits) == 3
    assert {code for _, got, values in life.answered if got.key == OFFSET_COMMIT for code in codes(values)} == {0}


def test_at_max_speed_a_commit_during_a_join_leaves_after_the_join_and_before_its_answer():
    life = Life(lived([(0, "start", 0), (1, "start", 100)]), options=Options(speed=None))
    (committed,) = life.simulation.times(OFFSET_COMMIT)
    newcomers = [(got.at, at) for at, got, _ in life.answered if got.key == JOIN_GROUP and got.channel == 2]
    left, answered = newcomers[-1]
    assert left < committed < answered


@pytest.mark.parametrize("speed", [1.0, None], ids=["1x", "max"])
@pytest.mark.parametrize("elect", [min, max], ids=["the recorded leader", "the follower"])
def test_a_member_commits_on_another_connection_once_it_has_its_assignment_whoever_leads(elect, speed):
    """A target that elects the recorded follower answers the recorded leader's SyncGroup only after the follower's."""
    history = [(number, "start", 100) for number in range(3)]
    life = Life(lived(history, client=TwoConnectionsClient), options=Options(speed=speed), elect=elect)
    synced = {got.values["member_id"]: at for at, got, _ in life.answered if got.key == SYNC_GROUP}
    commits = {got.values["member_id"]: got.at for got in life.simulation.asked(OFFSET_COMMIT)}
    assert len(commits) == 3
    assert [member for member, at in commits.items() if at <= synced[member]] == []
    assert {code for _, got, values in life.answered if got.key == OFFSET_COMMIT for code in codes(values)} == {0}
    assert life.result.verdict is Verdict.EQUAL


@pytest.mark.parametrize("speed", [1.0, None], ids=["1x", "max"])
def test_an_elected_leader_whose_sync_leaves_as_soon_as_it_is_read_makes_no_other(speed):
    # when it is read, it has long been due, and the target's answer takes a while
    life = Life(lived([(0, "start", 0), (1, "start", 100)]), options=Options(speed=speed), way=200, reads=5000)
    assert CLIENT_ID not in {got.client_id for got in life.simulation.asked(SYNC_GROUP)}
    assert life.result.mismatches == []


# the second join is sent before the answer to the first: behind it in the recording, and then along with it
OVERLAPPING = {
    "one by one": (
        [(1, "leave", 320), (0, "start", 103), (1, "start", 352), (1, "start", 103)],
        88,
        CommittingClient,
        0,
    ),
    "together": ([(2, "start", 102), (0, "start", 102)], 123, SlowFollower, 3 * SECOND),
}


@each_row("history", OVERLAPPING.values(), ids=OVERLAPPING)
@pytest.mark.parametrize("speed", [1.0, None], ids=["1x", "max"])
@pytest.mark.parametrize("memory", [Options().memory, 1], ids=["all in memory", "read again"])
def test_joins_that_overlap_lead_to_the_recorded_generations_where_the_target_waits_for_nobody(history, speed, memory):
    actions, seed, client, recorded_delay = history
    recorded = lived(actions, seed=seed, client=client, initial_delay=recorded_delay)
    life = Life(recorded, options=Options(speed=speed, memory=memory), elect=lambda ids: ids[0], initial_delay=0)
    assert life.simulation.engine.finished
    assert life.result.mismatches == []
    assert set(life.result.totals.withheld) <= {Reason.REFUSED}


@each_row("elect", [min, max], ids=["the one that is gone", "the newcomer"])
def test_a_newcomer_does_not_share_a_generation_with_one_whose_client_was_gone_before_its_join_was_answered(elect):
    recorded = lived([(3, "start", 101), (3, "crash", 102), (0, "start", 214)])
    life = Life(recorded, options=Options(speed=None), elect=elect)
    assert life.result.mismatches == []
    assert life.result.totals.withheld == {}


def test_a_newcomer_does_not_wait_for_the_refused_join_of_a_member_that_has_left_and_is_gone():
    recorded = lived([(3, "start", 102), (3, "leave", 103), (3, "start", 212)])
    life = Life(recorded, options=Options(speed=None))
    assert life.result.mismatches == []
    assert life.result.totals.withheld == {}


@each_row("elect", [min, max], ids=["the first one", "the newcomer"])
def test_a_newcomer_does_not_wait_for_the_join_of_a_member_that_left_after_the_newcomer_had_asked(elect):
    starts = [(number, "start", 100 + number) for number in range(3)]
    recorded = lived([*starts, (1, "leave", 107)], seed=412, client=SlowFollower)
    life = Life(recorded, options=Options(speed=None), elect=elect)
    assert life.result.mismatches == []
    assert life.result.totals.withheld == {}


def codes(values):
    return [each["error_code"] for topic in values["topics"] for each in topic["partitions"]]


def interrupted() -> Recording:
    """A generation of two, which a third member's join ends between the SyncGroups of follower and leader."""
    found = Recording()

    def exchange(at, connection, api_key, version, asked, until, told):
        found.answers(until, found.asks(at, connection, api_key, version, asked), told)

    def joins(at, connection, member, until, generation, *members):
        told = joined(member, generation, "leader", *members[1:])
        named = JOIN | {"member_id": member if generation > 1 and member != "newcomer" else ""}
        exchange(at, connection, JOIN_GROUP, 3, named, until, told)

    def syncs(at, connection, member, until, generation, *assigned, code=0):
        given = [{"member_id": one, "assignment": one.encode()} for one in assigned]
        asked = {"group_id": GROUP, "generation_id": generation, "member_id": member, "assignments": given}
        exchange(
            at,
            connection,
            SYNC_GROUP,
            2,
            asked,
            until,
            {"error_code": code, "assignment": b"" if code else member.encode()},
        )

    joins(0, 1, "leader", 3030, 1, "leader", "follower")
    joins(5, 2, "follower", 3031, 1)
    syncs(3032, 2, "follower", 3041, 1, code=27)
    joins(3040, 3, "newcomer", 3060, 2)
    syncs(3045, 1, "leader", 3046, 1, "leader", "follower", code=27)
    joins(3047, 2, "follower", 3060, 2)
    joins(3048, 1, "leader", 3060, 2, "leader", "follower", "newcomer")
    syncs(3061, 2, "follower", 3064, 2)
    syncs(3062, 1, "leader", 3063, 2, "leader", "follower", "newcomer")
    syncs(3063, 3, "newcomer", 3064, 2)
    found.happenings.sort(key=lambda happening: happening.ns)
    return found


@pytest.mark.parametrize("speed", [1.0, None], ids=["1x", "max"])
@pytest.mark.parametrize("elect", [min, max], ids=["the recorded leader", "the follower"])
def test_an_elected_leader_does_not_wait_for_a_recorded_leader_that_leaves_later(elect, speed):
    life = Life(interrupted(), options=Options(speed=speed), elect=elect)
    assert life.simulation.now < life.simulation.world.options.wait
    assert set(life.result.totals.withheld) <= {Reason.REFUSED}
    assert life.result.totals.mismatches.total() == 0
    (group,) = life.coordinator.groups.values()
    assert group.generation >= 2


@pytest.mark.parametrize("speed", [1.0, None], ids=["1x", "max"])
@pytest.mark.parametrize("elect", [min, max], ids=["the recorded leader", "the follower"])
@pytest.mark.parametrize("client", [CooperativeClient, SlowFollower], ids=["rejoins", "heartbeats"])
def test_an_elected_leader_does_not_wait_for_what_the_recorded_leader_sent_with_its_assignment(client, elect, speed):
    recording = lived([(0, "start", 0), (1, "start", 2), (2, "start", 100)], client=client)
    life = Life(recording, options=Options(speed=speed), elect=elect)
    # recorded heartbeats are 2 s ahead of the followers' SyncGroups; the first generation begins after 6 s
    assert life.result.late.most_ns < 2.1 * SECOND
    synced = [at for at, got, _ in life.answered if got.key == SYNC_GROUP]
    assert speed or synced[-1] < 6500
    assert life.result.totals.lost == life.result.totals.withheld.total() == 0
    assert life.result.mismatches == []


def test_a_member_without_a_recorded_assignment_commits_and_rejoins_without_one():
    # the leader's rejoin begins a generation; then the leader crashes before its SyncGroup
    history = [(1, "start", 95), (0, "start", 102), (1, "rejoin", 205), (1, "crash", 207)]
    life = Life(lived(history, seed=185), options=Options(speed=None), elect=max)
    assert life.simulation.now < life.simulation.world.options.wait
    assert life.result.totals.withheld == {Reason.REFUSED: 1}
    assert life.result.totals.lost == 0


@each_row("seed", mostly_long(range(70), usual=25))
@each_row("speed", [1.0, None], ids=["1x", "max"])
def test_no_member_waits_for_ever_whatever_the_others_do_at_one_time(speed, seed):
    random = Random(seed)
    # some actions at any time, the others together
    times = [lambda: random.randint(0, 400), lambda: random.randint(100, 103), lambda: random.randint(200, 212)]
    actions = ["start", "start", "leave", "crash", "rejoin", "rejoin"]
    history = [
        (random.randint(0, 3), random.choice(actions), random.choice(times)()) for _ in range(random.randint(3, 9))
    ]
    recorded_life = lived(history, seed=seed)
    ends = max((each.ns for each in recorded_life.happenings), default=0) if speed else 0
    life = Life(recorded_life, options=Options(speed=speed), elect=max)
    assert life.simulation.now - ends < life.simulation.world.options.wait
    assert life.result.totals.lost == 0

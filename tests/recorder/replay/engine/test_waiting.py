"""Which requests of a group wait for each other, whether or not they have been answered."""

import pytest

from proxy.wire.keys import JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, SYNC_GROUP
from recorder.replay.engine.item import Item, Lane, State
from recorder.replay.engine.waiting import Waiting
from recorder.replay.plan import Hold, Reason
from recorder.replay.requests.order import Keys
from tests.recorder.replay.group_clients import recorded
from tests.recorder.replay.group_script import GROUP, JOIN

VALUES = {
    JOIN_GROUP: JOIN,
    SYNC_GROUP: {"group_id": GROUP, "member_id": "m", "generation_id": 1, "assignments": []},
    LEAVE_GROUP: {"group_id": GROUP, "member_id": "m"},
}
COMMIT = {"group_id": GROUP, "member_id": "m", "generation_id_or_member_epoch": 1, "topics": []}


def two_items(first: int, second: int) -> tuple[Waiting, Item, Item]:
    """Requests of two members, in this order."""
    waiting, found = Waiting(), []
    for connection, api_key in enumerate((first, second)):
        exchange = recorded(api_key, 1, (VALUES | {OFFSET_COMMIT: COMMIT})[api_key], connection=connection)
        keys = Keys(commits_to=GROUP) if api_key == OFFSET_COMMIT else Keys(member_of=GROUP)
        item = Item(exchange, keys, Lane(exchange.connection), 0)
        waiting.asked(item)
        found.append(item)
    return waiting, *found


@pytest.mark.parametrize("second", VALUES)
@pytest.mark.parametrize("first", VALUES)
def test_members_requests_leave_in_recorded_order(first, second):
    waiting, earlier, later = two_items(first, second)
    assert waiting.holds_back(later)
    earlier.state = State.LEFT
    assert waiting.left(earlier) == [later.lane]
    assert not waiting.holds_back(later)


@pytest.mark.parametrize("second", VALUES)
@pytest.mark.parametrize("first", VALUES)
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

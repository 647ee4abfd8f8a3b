"""Tests of which lanes that a room holds back are looked at again."""

import pytest

from proxy.wire.keys import HEARTBEAT, LIST_OFFSETS
from recorder.replay.engine.item import Item, Lane
from recorder.replay.engine.play import HeldLanes
from recorder.replay.engine.routes import Routes
from recorder.replay.options import Options
from recorder.replay.outcome import ReachedTarget, Result, Source
from recorder.replay.requests.order import Keys
from tests.recorder.replay.group_clients import recorded
from tests.recorder.replay.simple import LIST_VERSION, listed

ROUTES = Routes(Options(), (), Result(Source("capture"), ReachedTarget("target")), frozenset())
OF_A, OF_B, COMMIT_TO_A, OF_NO_GROUP = Keys(member_of="a"), Keys(member_of="b"), Keys(commits_to="a"), Keys()


def item(keys: Keys) -> Item:
    if keys.member_of is None:
        exchange = recorded(LIST_OFFSETS, LIST_VERSION, listed())
    else:
        exchange = recorded(HEARTBEAT, 4, {"group_id": keys.member_of, "member_id": "m", "generation_id": 1})
    return Item(exchange, ROUTES.of(exchange), keys, Lane(exchange.connection), 0)


@pytest.mark.parametrize(
    ("held", "settled", "is_freed"),
    [
        (OF_A, OF_A, True),
        (OF_A, COMMIT_TO_A, True),
        (OF_A, OF_B, False),
        (OF_A, OF_NO_GROUP, False),
        (COMMIT_TO_A, OF_B, True),
        (COMMIT_TO_A, OF_NO_GROUP, True),
        (OF_NO_GROUP, OF_A, True),
        (OF_NO_GROUP, OF_NO_GROUP, True),
    ],
)
def test_a_member_is_looked_at_after_requests_of_its_group_and_others_after_any(held, settled, is_freed):
    lanes, waits = HeldLanes(), item(held)
    lanes.hold(waits)
    lanes.settled(item(settled))
    assert lanes.freed() == [waits.lane] * is_freed
    assert not lanes.freed()


def test_when_time_goes_by_all_are_looked_at_once():
    lanes, waiting = HeldLanes(), [item(OF_A), item(OF_B), item(OF_NO_GROUP)]
    for each in waiting:
        lanes.hold(each)
    lanes.all_changed()
    assert lanes.has_changed
    assert lanes.freed() == [each.lane for each in waiting]
    assert not lanes.has_changed


def test_what_was_settled_before_a_lane_was_held_does_not_free_it():
    lanes, waits = HeldLanes(), item(OF_A)
    lanes.settled(item(OF_A))
    lanes.hold(waits)
    assert not lanes.freed()

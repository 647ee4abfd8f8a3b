"""Tests that a share group starts on the target where the recorded group started to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from proxy.wire.keys import ALTER_SHARE_GROUP_OFFSETS, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from recorder.replay.cluster import GROUP
from recorder.replay.plan import AskFirst, Exchange, Hold, Reason, ToCoordinator
from recorder.replay.sessions.share_starts import LONGEST_WAIT, ShareStarts
from tests.recorder.replay.simulated import exchange, names

END = 30


def joins(epoch: int = 0, group: str = "g") -> Exchange:
    values = {"group_id": group, "member_id": "m", "member_epoch": epoch, "rack_id": None}
    return exchange(0, SHARE_GROUP_HEARTBEAT, 1, values | {"subscribed_topic_names": None}, None)


def fetches() -> Exchange:
    return exchange(0, SHARE_FETCH, 1, {"group_id": "g", "member_id": "m", "share_session_epoch": 4}, None)


def asked(starts: ShareStarts, each: Exchange, now: int = 0) -> Any:
    return starts.request(each, each.decoded(), now)


def room(prefix: str = "", written: Sequence[None] = (None,)) -> ShareStarts:
    """`written`: empty while the target lacks records before the group's beginning."""
    begun = {"g": {("a", 1): 5}, "nothing": {}}
    return ShareStarts(
        names(prefix),
        begun,
        {"a": 3},
        lambda topic, partition, offset: min(offset + 20, END),
        lambda topic, partition, offset: bool(written),
    )


# a member that fetches first has joined before the recording
@pytest.mark.parametrize("first", [joins(), fetches()], ids=["join", "fetch"])
def test_the_first_join_or_fetch_waits_until_the_share_groups_offsets_are_set(first: Exchange) -> None:
    starts = room("p-")
    needs = asked(starts, first)
    assert isinstance(needs, AskFirst)
    (made,) = needs.made
    assert (made.api_key, made.to) == (ALTER_SHARE_GROUP_OFFSETS, ToCoordinator(GROUP, "p-g"))
    told = [{"partition_index": index, "start_offset": start} for index, start in ((0, END), (1, 25), (2, END))]
    assert made.values == {"group_id": "p-g", "topics": [{"topic_name": "p-a", "partitions": told}]}
    assert [asked(starts, each) for each in (joins(), fetches())] == [Hold(Reason.NO_OFFSET)] * 2
    made.done(None)
    assert [asked(starts, each) for each in (joins(), fetches())] == [None] * 2


def test_a_group_begins_once_the_target_has_the_records_before_its_beginning() -> None:
    written: list[None] = []
    starts = room(written=written)
    assert asked(starts, joins()) == Hold(Reason.NO_OFFSET, LONGEST_WAIT)
    written.append(None)
    assert isinstance(asked(starts, joins(), 1), AskFirst)


def test_a_group_does_not_wait_for_long_for_records_that_may_never_come() -> None:
    starts = room(written=[])
    assert asked(starts, joins(), 7) == Hold(Reason.NO_OFFSET, 7 + LONGEST_WAIT)
    assert asked(starts, joins(), 6 + LONGEST_WAIT) == Hold(Reason.NO_OFFSET, 7 + LONGEST_WAIT)
    assert isinstance(asked(starts, joins(), 7 + LONGEST_WAIT), AskFirst)


def test_other_heartbeats_and_groups_wait_for_nothing() -> None:
    starts = room()
    assert [asked(starts, each) for each in (joins(3), joins(group="other"), joins(group="nothing"))] == [None] * 3

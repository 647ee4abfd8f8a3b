"""Tests that a share group starts on the target where the recorded group started to read."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.keys import ALTER_SHARE_GROUP_OFFSETS, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from recorder.replay.cluster import GROUP
from recorder.replay.plan import AskFirst, Exchange, Hold, Reason, ToCoordinator
from recorder.replay.sessions.share_starts import ShareStarts
from tests.recorder.replay.simulated import exchange, names

END = 30


def joins(epoch: int = 0, group: str = "g") -> Exchange:
    values = {"group_id": group, "member_id": "m", "member_epoch": epoch, "rack_id": None}
    return exchange(0, SHARE_GROUP_HEARTBEAT, 1, values | {"subscribed_topic_names": None}, None)


def fetches() -> Exchange:
    return exchange(0, SHARE_FETCH, 1, {"group_id": "g", "member_id": "m", "share_session_epoch": 4}, None)


def asked(starts: ShareStarts, each: Exchange) -> Any:
    return starts.request(each, each.decoded(), 0)


def room(prefix: str = "") -> ShareStarts:
    begun = {"g": {("a", 1): 5}, "nothing": {}}
    return ShareStarts(names(prefix), begun, {"a": 3}, lambda topic, partition, offset: min(offset + 20, END))


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


def test_other_heartbeats_and_groups_wait_for_nothing() -> None:
    starts = room()
    assert [asked(starts, each) for each in (joins(3), joins(group="other"), joins(group="nothing"))] == [None] * 3

"""Tests of latencies: waits are kept apart."""

from __future__ import annotations

import pytest

from proxy.wire.keys import FETCH, HEARTBEAT, JOIN_GROUP, PRODUCE, SHARE_FETCH, SYNC_GROUP
from recorder.replay.comparison.compare import EMPTY_POLLS, JOINS, SYNCS, reason_apart
from recorder.replay.plan import Values


def answer(records: bytes | None) -> Values:
    return {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": records}]}]}


@pytest.mark.parametrize("api_key", [FETCH, SHARE_FETCH])
def test_a_poll_that_either_side_had_nothing_for_stands_apart(api_key: int) -> None:
    full, empty = answer(b"batch"), answer(None)
    assert reason_apart(api_key, full, full) == ""
    assert [reason_apart(api_key, *both) for both in ((full, empty), (empty, full), (None, full))] == [EMPTY_POLLS] * 3
    assert reason_apart(api_key, {"responses": []}, full) == EMPTY_POLLS


def test_members_that_wait_for_each_other_stand_apart() -> None:
    assert [reason_apart(key, {}, {}) for key in (JOIN_GROUP, SYNC_GROUP)] == [JOINS, SYNCS]


def test_responses_of_other_apis_count_for_latency() -> None:
    assert [reason_apart(key, {}, {}) for key in (PRODUCE, HEARTBEAT)] == ["", ""]

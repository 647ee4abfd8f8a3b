"""Tests of a group's offsets: commits, fetched offsets, deletions."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire import keys
from recorder.facts.group_offsets import GROUP_STEPS
from tests.recorder.facts.frames import own, request, response


def topics(**told: Any) -> dict[str, Any]:
    return {"topics": [{"name": "t", "partitions": [{"partition_index": 2} | told]}]}


def test_a_commit_has_a_row_a_partition_on_both_sides() -> None:
    asked = {"group_id": "g", "member_id": "m", "generation_id_or_member_epoch": 4, **topics(committed_offset=9)}
    (row,) = own(GROUP_STEPS, request(keys.OFFSET_COMMIT, 9, asked))
    assert row == {
        "part": "t/2", "step": "commit", "group_id": "g", "member_id": "m", "generation": 4, "topic": "t",
        "partition": 2, "committed_offset": 9,
    }  # fmt: skip
    assert own(GROUP_STEPS, response(keys.OFFSET_COMMIT, 9, topics(error_code=22))) == [
        {"part": "t/2", "error_code": 22}
    ]


def test_a_commit_of_a_transaction_names_it_and_the_end_says_whether_it_counts() -> None:
    asked = {"transactional_id": "x", "group_id": "g", **topics(committed_offset=9)}
    (row,) = own(GROUP_STEPS, request(keys.TXN_OFFSET_COMMIT, 3, asked))
    assert (row["step"], row["transactional_id"], row["committed_offset"]) == ("commit", "x", 9)
    (end,) = own(GROUP_STEPS, request(keys.END_TXN, 3, {"transactional_id": "x", "committed": True}))
    assert end == {"part": "", "step": "end_txn", "transactional_id": "x", "is_news": True}


@pytest.mark.parametrize("version", [7, 9], ids=["one", "several"])
def test_offsets_that_brokers_tell_belong_to_the_group_that_was_requested(version: int) -> None:
    group = {"group_id": "g", **topics(committed_offset=9)}
    asked = own(GROUP_STEPS, request(keys.OFFSET_FETCH, version, {"group_id": "g", "groups": [{"group_id": "g"}]}))
    told = own(GROUP_STEPS, response(keys.OFFSET_FETCH, version, {**topics(committed_offset=9), "groups": [group]}))
    assert [(row["group_id"], row["part"]) for row in asked] == [("g", told[0]["part"])]
    assert [(row["topic"], row["partition"], row["committed_offset"]) for row in told] == [("t", 2, 9)]


def test_an_offset_of_minus_one_is_null() -> None:
    (told,) = own(GROUP_STEPS, response(keys.OFFSET_FETCH, 7, topics(committed_offset=-1)))
    assert "committed_offset" not in told


def test_an_error_of_the_whole_answer_is_that_of_each_partition() -> None:
    (told,) = own(GROUP_STEPS, response(keys.OFFSET_FETCH, 7, {"error_code": 16, **topics()}))
    assert told["error_code"] == 16


def test_offsets_and_groups_are_deleted() -> None:
    (row,) = own(GROUP_STEPS, request(keys.OFFSET_DELETE, 0, {"group_id": "g", **topics()}))
    assert (row["step"], row["group_id"], row["topic"], row["partition"]) == ("delete", "g", "t", 2)
    (group,) = own(GROUP_STEPS, request(keys.DELETE_GROUPS, 2, {"groups_names": ["g"]}))
    assert group == {"part": "g", "step": "delete", "group_id": "g"}
    (told,) = own(GROUP_STEPS, response(keys.DELETE_GROUPS, 2, {"results": [{"group_id": "g", "error_code": 68}]}))
    assert told == {"part": "g", "error_code": 68}

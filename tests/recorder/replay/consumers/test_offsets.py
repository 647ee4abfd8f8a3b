"""Tests of mapping recorded offsets to the target's: by the nearest known pair, and within the target's log."""

from __future__ import annotations

import pytest

from proxy.wire.keys import DELETE_RECORDS, FETCH, LIST_OFFSETS, PRODUCE
from recorder.replay.plan import Exchange, Reason, Withheld
from tests.recorder.replay.consumers.offset_exchanges import (
    A0,
    asked,
    at_target,
    batch,
    fetch,
    listing,
    offsets,
    partition,
    play,
    produce_values,
    produced,
)
from tests.recorder.replay.simulated import TOPIC_IDS, exchange


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in-pieces"])
def test_behind_a_produce_the_targets_log_is_as_long_as_its_records(in_pieces: bool) -> None:
    found = offsets()
    produced(found, 1, 10, 5000, count=3, in_pieces=in_pieces)
    assert found.expected("a", 0, 999) == 5003


def test_a_seek_moves_by_the_difference_of_the_nearest_produce_at_or_below() -> None:
    found = offsets()
    produced(found, 1, 500, 600)
    produced(found, 2, 510, 650)
    for recorded, target in ((500, 600), (505, 605), (510, 650), (520, 660), (400, 500)):
        assert asked(found, fetch(9, recorded)) == target


def test_the_first_pair_is_the_first_recorded_base_offset_and_the_end_of_the_targets_log() -> None:
    found = offsets(end=1000, first={A0: 500})
    assert asked(found, fetch(1, 500)) == 1000
    assert asked(found, fetch(2, 400)) == 900


def test_without_a_pair_an_offset_stays_within_the_targets_log() -> None:
    found = offsets(start=50, end=70)
    assert [asked(found, fetch(1, offset)) for offset in (10, 60, 500)] == [50, 60, 70]


def test_records_of_a_produce_that_awaits_no_answer_are_in_the_targets_log_once_they_are_sent() -> None:
    found = offsets(end=10)
    values = produce_values(batch(0, 5)) | {"acks": 0}
    each = exchange(1, PRODUCE, 7, values, None, awaits=False)
    for _ in range(2):
        # it was held, and is translated again
        assert found.request(each, each.decoded(), 0) is None
    assert asked(found, fetch(2, 50)) == 10
    sent = each.decoded()
    sent["topic_data"][0]["name"] = "p-a"
    found.sent(each, sent, 0)
    assert [asked(found, fetch(3, offset)) for offset in (12, 15, 50)] == [12, 15, 15]


def test_records_before_an_offset_are_there_once_the_targets_log_is_as_long() -> None:
    found = offsets(end=10, first={A0: 500})
    assert [found.has_all_before("a", 0, offset) for offset in (500, 503)] == [True, False]
    produced(found, 1, 500, 10, count=3)
    assert [found.has_all_before("a", 0, offset) for offset in (503, 504)] == [True, False]
    # nothing tells of this log
    assert found.has_all_before("b", 0, 5)


def test_answers_widen_and_narrow_the_known_range_of_the_log() -> None:
    found = offsets(start=0, end=10)
    play(found, fetch(1, 3, None), at_target(None, high=20))
    assert asked(found, fetch(2, 50)) == 20
    listed = {"topics": [{"name": "p-a", "partitions": [partition(-1)]}]}
    each = exchange(3, LIST_OFFSETS, 1, listing(-1), None)
    answer = {"topics": [{"name": "p-a", "partitions": [{"partition_index": 0, "error_code": 0, "offset": 30}]}]}
    found.answered(each, listed, answer, 0)
    assert asked(found, fetch(4, 50)) == 30
    deleted = {
        "topics": [{"name": "p-a", "partitions": [{"partition_index": 0, "low_watermark": 25, "error_code": 0}]}]
    }
    found.answered(exchange(5, DELETE_RECORDS, 1, {"topics": [], "timeout_ms": 1}, None), {}, deleted, 0)
    assert asked(found, fetch(6, 5)) == 25


def test_an_offset_that_the_recording_found_out_of_range_is_not_brought_within_it() -> None:
    found = offsets(start=50, end=70)
    produced(found, 1, 100, 60)
    assert asked(found, fetch(2, 500, None, code=1)) == 460
    assert asked(found, fetch(3, 500, None)) == 70


def test_an_offset_that_the_recording_found_out_of_range_is_so_too_where_producers_stand_in_another_order() -> None:
    found = offsets(end=0)
    produced(found, 1, 10, 502, count=2)
    produced(found, 2, 12, 500, count=2)
    assert play(found, fetch(3, 14), at_target(None, high=504)) == 504
    assert asked(found, fetch(4, 20, code=1)) > 504


def delete(offset: int, topic: str = "a") -> Exchange:
    values = {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}], "timeout_ms": 1}
    return exchange(9, DELETE_RECORDS, 1, values, None)


def test_records_are_deleted_up_to_where_the_target_has_them() -> None:
    found = offsets()
    produced(found, 1, 500, 600)
    for recorded, target in ((510, 610), (-1, -1)):
        values = delete(recorded).decoded()
        assert found.request(delete(recorded), values, 0) is None
        assert values["topics"][0]["partitions"][0]["offset"] == target


def test_deleting_records_of_which_no_produce_is_known_is_withheld() -> None:
    found = offsets()
    each = delete(5)
    assert found.request(each, each.decoded(), 0) == Withheld(Reason.NO_OFFSET)
    assert [(left.topic, left.partition, left.reason) for left in each.dropped] == [("a", 0, Reason.NO_OFFSET)]


def test_topics_by_id_are_the_same_topics() -> None:
    found = offsets()
    produced(found, 1, 500, 600)
    entry = {"partition": 0, "fetch_offset": 505, "partition_max_bytes": 9}
    values = {"max_wait_ms": 1, "min_bytes": 1, "isolation_level": 0, "session_id": 0, "forgotten_topics_data": []}
    values |= {"topics": [{"topic_id": TOPIC_IDS["a"], "partitions": [entry]}], "rack_id": ""}
    assert asked(found, exchange(2, FETCH, 13, values, None)) == 605

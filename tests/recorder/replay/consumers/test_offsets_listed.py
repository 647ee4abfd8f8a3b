"""Tests of mapping listed offsets: where logs begin and end, and which offset a time has."""

from __future__ import annotations

import pytest

from proxy.wire.keys import LIST_OFFSETS, PRODUCE
from proxy.wire.records import read
from recorder.replay.consumers.offsets import EARLIEST, LATEST, Offsets
from recorder.replay.plan import Exchange, Values
from tests.recorder.replay.consumers.offset_exchanges import A0, batch, listing, offsets, produced
from tests.recorder.replay.simulated import exchange


def lists(found: Offsets, number: int, timestamp: int, recorded: int) -> Exchange:
    """Sends a ListOffsets of a-0; the recorded response has this offset."""
    answer = {"topics": [{"name": "a", "partitions": [at_offset(recorded)]}]}
    each = exchange(number, LIST_OFFSETS, 1, listing(timestamp), answer)
    assert found.request(each, each.decoded(), 0) is None
    return each


def listed(found: Offsets, each: Exchange, target: int) -> int:
    """The target's response has an offset; returns the one that was expected."""
    values = each.decoded()
    values["topics"][0]["name"] = "p-a"
    found.answered(each, values, {"topics": [{"name": "p-a", "partitions": [at_offset(target)]}]}, 0)
    (recorded,) = (part["offset"] for part in each.answer["topics"][0]["partitions"]) if each.answer else (-1,)
    return found.listed("a", 0, recorded)


def at_offset(offset: int) -> Values:
    return {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": offset}


def test_a_log_may_have_more_records_than_the_recorded_one_had_when_its_end_was_requested() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 0, count=10)
    each = lists(found, 2, LATEST, 10)
    produced(found, 3, 10, 10, count=5)
    assert listed(found, each, 15) == 15


def test_a_record_on_its_way_when_the_end_was_requested_may_be_behind_it() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 0, count=10)
    each = lists(found, 2, LATEST, 15)
    produced(found, 3, 10, 10, count=5)
    assert listed(found, each, 10) == 10


def test_a_log_that_lost_a_record_before_its_requested_end_differs() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 0, count=10)
    assert listed(found, lists(found, 2, LATEST, 10), 9) == 10


@pytest.mark.parametrize("target", [0, 100])
def test_a_log_may_begin_with_records_that_were_there_before_the_replay(target: int) -> None:
    found = offsets(end=100, first={A0: 0})
    produced(found, 1, 0, 102)
    assert listed(found, lists(found, 2, EARLIEST, 0), target) == target


def test_the_time_of_a_record_has_one_offset() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 0, count=10)
    assert listed(found, lists(found, 2, 1000, 4), 5) == 4


@pytest.mark.parametrize(
    ("recorded", "target", "is_found"),
    [
        (10, 500, True),
        (10, 501, True),
        (10, 502, True),
        (10, 499, False),
        (10, 503, False),
        (12, 500, True),
        (12, 502, False),
    ],
)
def test_a_time_may_be_that_of_an_earlier_record_where_producers_stand_in_another_order(
    recorded: int, target: int, is_found: bool
) -> None:
    found = offsets(end=600)
    produced(found, 1, 10, 502, count=2)
    produced(found, 2, 12, 500, count=2)
    assert (listed(found, lists(found, 3, 1000, recorded), target) == target) == is_found


@pytest.mark.parametrize(("recorded", "target"), [(1000, 1500), (0, 500), (-1, -1), (-2, -2)], ids=str)
def test_times_move_and_special_ones_stay(recorded: int, target: int) -> None:
    each = exchange(1, LIST_OFFSETS, 1, listing(recorded), None)
    values = each.decoded()
    offsets(shift_ms=500).request(each, values, 0)
    assert values["topics"][0]["partitions"][0]["timestamp"] == target


@pytest.mark.parametrize("shift_ms", [0, 500])
def test_the_times_of_records_move_as_those_that_are_asked_for(shift_ms: int) -> None:
    entry = {"index": 0, "records": batch(0, 2)}
    topic = {"name": "a", "partition_data": [entry]}
    each = exchange(1, PRODUCE, 7, {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": [topic]}, None)
    values = each.decoded()
    offsets(shift_ms=shift_ms).request(each, values, 0)
    data = bytes(values["topic_data"][0]["partition_data"][0]["records"])
    assert [record.timestamp for record in read(data)] == [5 + shift_ms] * 2

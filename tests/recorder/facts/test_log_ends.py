"""Tests of the ends of logs in frames."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire import api_name, keys, records, versions
from recorder.facts.log_ends import FETCHED_ENDS, PAIRED_ENDS
from tests.recorder.facts.frames import own, request, response

TWO = records.write_batch([records.Record(7, value=b"a"), records.Record(8, value=b"b")])
MARKER = records.write_batch([records.Record(9, key=bytes(4), value=bytes(6))], control=True, producer_id=1)
PLACE = {"topic": "t", "partition": 0}


def fetched(**told: Any) -> Any:
    return response(keys.FETCH, 11, {"responses": [{"topic": "t", "partitions": [{"partition_index": 0} | told]}]})


def listed(side: Any, **told: Any) -> Any:
    return side(keys.LIST_OFFSETS, 5, {"topics": [{"name": "t", "partitions": [{"partition_index": 0} | told]}]})


def test_a_fetch_tells_the_watermark_and_where_control_batches_are() -> None:
    (row,) = own(FETCHED_ENDS, fetched(high_watermark=10, last_stable_offset=9, records=TWO + MARKER))
    assert row == {**PLACE, "end_offset": 10, "stable_offset": 9, "control_offsets": [9]}


def test_a_fetch_with_an_error_tells_nothing() -> None:
    assert own(FETCHED_ENDS, fetched(error_code=6, high_watermark=5)) == []


def test_records_that_can_not_be_read_hide_no_watermark() -> None:
    (row,) = own(FETCHED_ENDS, fetched(high_watermark=10, records=MARKER + b"\x07" * 40))
    assert (row["end_offset"], row["control_offsets"]) == (10, [9])


def test_a_produce_request_tells_how_many_and_its_answer_from_where() -> None:
    data = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": TWO}]}]}
    assert own(PAIRED_ENDS, request(keys.PRODUCE, 9, data)) == [{**PLACE, "offsets": 2}]
    told = {"responses": [{"name": "t", "partition_responses": [{"index": 0, "base_offset": 40}]}]}
    assert own(PAIRED_ENDS, response(keys.PRODUCE, 9, told)) == [{**PLACE, "first_offset": 40}]


def test_only_the_end_of_all_records_is_requested() -> None:
    assert own(PAIRED_ENDS, listed(request, timestamp=-1)) == [{**PLACE, "is_asked": True}]
    assert own(PAIRED_ENDS, listed(request, timestamp=-2)) == []
    committed = {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}], "isolation_level": 1}
    assert own(PAIRED_ENDS, request(keys.LIST_OFFSETS, 5, committed)) == []
    assert own(PAIRED_ENDS, listed(response, offset=12)) == [{**PLACE, "first_offset": 12}]
    assert own(PAIRED_ENDS, listed(response, error_code=3)) == []


ANSWERS = {
    keys.FETCH: ("responses", {"topic": "t"}, "partitions", {"high_watermark": 4}),
    keys.PRODUCE: ("responses", {"name": "t"}, "partition_responses", {"base_offset": 4}),
    keys.LIST_OFFSETS: ("topics", {"name": "t"}, "partitions", {"offset": 4, "old_style_offsets": [4]}),
}


@pytest.mark.parametrize("key", ANSWERS, ids=map(api_name, ANSWERS))
def test_each_version_is_read(key: int) -> None:
    array, topic, inner, partition = ANSWERS[key]
    for version in versions(key):
        values = {array: [topic | {inner: [partition]}]}
        (row,) = own(FETCHED_ENDS if key == keys.FETCH else PAIRED_ENDS, response(key, version, values))
        assert 4 in (row.get("end_offset"), row.get("first_offset")), version

"""Tests of steps of transactions, their responses and their markers, as rows."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire import records
from proxy.wire.records import ControlType
from recorder.facts.transactions import MARKERS, TRANSACTION_ANSWERS, TRANSACTION_STEPS
from tests.recorder.facts.frames import own, request, response

PRODUCER = {"transactional_id": "x", "producer_id": 7, "producer_epoch": 2}
TOPICS = [{"name": "t", "partitions": [0, 3]}, {"name": "u", "partitions": [1]}]
PLACES = [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 3}, {"topic": "u", "partition": 1}]


def batch(**facts: Any) -> bytes:
    return records.write_batch([records.Record(0, value=b"v")], producer_id=7, producer_epoch=2, **facts)


def test_partitions_that_join_a_transaction_are_rows_in_both_forms_of_the_request() -> None:
    old = {f"v3_and_below_{name}": value for name, value in (PRODUCER | {"topics": TOPICS}).items()}
    new = PRODUCER | {"topics": TOPICS, "verify_only": False}
    checked = PRODUCER | {"topics": TOPICS, "verify_only": True}
    expected = [PRODUCER | place for place in PLACES]
    assert own(TRANSACTION_STEPS, request(24, 3, old)) == expected
    assert own(TRANSACTION_STEPS, request(24, 5, {"transactions": [checked, new]})) == expected


def test_each_other_step_of_a_transaction_is_a_row() -> None:
    committed = PRODUCER | {"group_id": "g", "topics": [{"name": "t", "partitions": []}]}
    asked = {"transactional_id": "x", "transaction_timeout_ms": 60_000}
    rows = own(
        TRANSACTION_STEPS,
        request(22, 4, asked | {"producer_id": -1, "producer_epoch": -1}),
        request(25, 3, PRODUCER | {"group_id": "g"}),
        request(28, 3, committed),
        request(26, 3, PRODUCER | {"committed": False}),
    )
    assert rows == [
        {"transactional_id": "x", "timeout_ms": 60_000},
        PRODUCER | {"group_id": "g"},
        PRODUCER | {"group_id": "g"},
        PRODUCER | {"is_commit": False},
    ]


def test_transactional_batches_of_produce_requests_are_rows() -> None:
    inside, outside = batch(transactional=True), batch()
    parts = [{"index": 0, "records": inside}, {"index": 1, "records": outside}, {"index": 2, "records": None}]
    asked = {"transactional_id": "x", "topic_data": [{"name": "t", "partition_data": parts}]}
    told = PRODUCER | {"topic": "t", "partition": 0, "records": 1, "bytes": len(inside)}
    assert own(TRANSACTION_STEPS, request(0, 9, asked)) == [told]
    assert own(TRANSACTION_STEPS, request(0, 9, asked | {"transactional_id": None})) == []


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ((0, 0), {"is_refused": False}),
        ((0, 3), {"is_refused": False, "error_code": 3}),
        ((55, 3), {"is_refused": True, "error_code": 55}),
    ],
    ids=["done", "in part", "refused"],
)
def test_a_step_is_refused_if_nothing_of_it_was_done(codes: tuple[int, ...], told: dict[str, Any]) -> None:
    parts = [{"partition_index": at, "error_code": code} for at, code in enumerate(codes)]
    added = [{"partition_index": at, "partition_error_code": code} for at, code in enumerate(codes)]
    produced = [{"index": at, "error_code": code} for at, code in enumerate(codes)]
    rows = own(
        TRANSACTION_ANSWERS,
        response(28, 3, {"topics": [{"name": "t", "partitions": parts}]}),
        response(24, 3, {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": added}]}),
        response(0, 9, {"responses": [{"name": "t", "partition_responses": produced}]}),
    )
    assert rows == [told, told, told]


def test_answers_tell_the_producers_number() -> None:
    numbers = {"producer_id": 7, "producer_epoch": 3}
    rows = own(TRANSACTION_ANSWERS, response(22, 4, numbers), response(26, 5, {"error_code": 47}))
    told = {"answered_producer_id": 7, "answered_producer_epoch": 3}
    assert rows == [{"is_refused": False} | told, {"is_refused": True, "error_code": 47}]


def test_markers_are_rows_and_other_batches_and_control_records_are_not() -> None:
    ids = {"producer_id": 7, "producer_epoch": 3, "coordinator_epoch": 0}
    data = batch(transactional=True) + records.end_marker_batch(ControlType.ABORT, offset=1, timestamp=0, **ids)
    data += records.write_batch([records.Record(2, key=records.control_key(ControlType.LEADER_CHANGE))], control=True)
    told = {"responses": [{"topic": "t", "partitions": [{"partition_index": 4, "records": data}]}]}
    expected = {"topic": "t", "partition": 4, "producer_id": 7, "producer_epoch": 3, "marker": "abort"}
    assert own(MARKERS, response(1, 12, told)) == [expected]


def test_a_frame_that_cannot_be_read_is_a_row_with_the_reason() -> None:
    broken = request(26, 3, PRODUCER) | {"frame": b"\0\x1a\0\3", "size": 4, "stored": 4}
    assert own(TRANSACTION_STEPS, broken) == [{"unread": "malformed"}]

"""Tests of the clients that write and read each topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.wire import records
from recorder.analysis.tables.topic_use import TOPIC_USE, topic_use
from tests.recorder.analysis.decode.frames import request, response

pytestmark = pytest.mark.real
Build = Callable[..., Any]
ID = bytes(range(16))
BATCH = records.write_batch([records.Record(0, value=b"a"), records.Record(1, value=b"b")])


@pytest.fixture
def made(request_row: Build) -> Build:
    """A frame of `decode.frames` as a capture's row."""
    return lambda row, **other: request_row(0) | row | other


def produced(*partitions: int) -> dict[str, Any]:
    data = [{"index": number, "records": BATCH} for number in partitions]
    return request(0, 9, {"topic_data": [{"name": "t", "partition_data": data}]})


def fetched(data: bytes) -> dict[str, Any]:
    return response(1, 12, {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": data}]}]})


def committed(group: str) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 2}
    return request(8, 7, {"group_id": group, "topics": [{"name": "t", "partitions": [partition]}]})


def test_writers_and_readers_have_rows_and_their_sums(captured: Build, made: Build) -> None:
    writer, reader = {"client": "10.0.0.1:1", "client_id": "w"}, {"client": "10.0.0.2:1", "client_id": "r"}
    rows = [
        made(produced(0, 1), **writer),
        made(produced(1), **writer),
        made(fetched(BATCH), **reader),
        made(committed("g"), **reader),
    ]
    found = topic_use(captured(*rows))
    assert found.columns == TOPIC_USE.names
    told = sorted((row.use, row.host, row.group_id, row.partitions, row.records, row.bytes) for row in found.collect())
    size = len(BATCH)
    assert told == [("reads", "10.0.0.2", "g", 1, 2, size), ("writes", "10.0.0.1", None, 2, 6, 3 * size)]


def test_an_answer_without_records_is_no_reading(captured: Build, made: Build) -> None:
    assert topic_use(captured(made(fetched(b"")))).collect() == []


def test_a_member_of_a_share_group_has_the_group_that_its_requests_name(captured: Build, made: Build) -> None:
    topic = {"topic_id": ID, "partitions": [{"partition_index": 0}]}
    asked = request(78, 1, {"group_id": "g", "member_id": "m", "topics": [topic]})
    data = {"partition_index": 0, "records": BATCH}
    told = response(78, 1, {"responses": [{"topic_id": ID, "partitions": [data]}]})
    names = response(3, 12, {"topics": [{"name": "t", "topic_id": ID, "partitions": []}]})
    rows = [made(row, cluster="main") for row in (asked, told, names)]
    assert [(row.topic, row.use, row.group_id) for row in topic_use(captured(*rows)).collect()] == [("t", "reads", "g")]


def test_a_reader_of_two_groups_has_none(captured: Build, made: Build) -> None:
    rows = [made(fetched(BATCH)), made(committed("g")), made(committed("h"))]
    assert [row.group_id for row in topic_use(captured(*rows)).collect()] == [None]

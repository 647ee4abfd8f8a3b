"""Tests of the ends of logs from both sides of exchanges, with the lives of their topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from proxy.wire import keys, records, uuid_text
from recorder.analysis.tables.log_ends import log_ends
from recorder.analysis.tables.topic_lives import topic_lives, with_life
from tests.recorder.analysis.by_hand import NOON, Row
from tests.recorder.facts.frames import request, response

pytestmark = pytest.mark.real
FIRST, SECOND = bytes(range(16)), bytes(range(1, 17))
TWO = records.write_batch([records.Record(0, value=b"a"), records.Record(1, value=b"b")])


def told(second: int, row: Row, exchange: int = 0) -> Row:
    is_answer = row["kind"] == "response"
    own = {"cluster": "main", "at": NOON + timedelta(seconds=second), "exchange": exchange or second}
    return row | own | {"sequence": 2 * second + is_answer, "made_by": "broker" if is_answer else "client"}


def metadata(second: int, topic_id: bytes) -> Row:
    topic = {"name": "t", "topic_id": topic_id, "partitions": []}
    return told(second, response(keys.METADATA, 12, {"cluster_id": "c", "topics": [topic]}))


def produce(second: int, topic: str) -> list[Row]:
    data = {"topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": TWO}]}]}
    done = {"responses": [{"name": topic, "partition_responses": [{"index": 0, "base_offset": 40}]}]}
    answer = response(keys.PRODUCE, 9, done)
    return [told(second, request(keys.PRODUCE, 9, data)), told(second + 1, answer, second)]


def listed(second: int, timestamp: int, offset: int) -> list[Row]:
    def topics(**partition: Any) -> Any:
        return {"topics": [{"name": "t", "partitions": [partition]}]}

    asked, answer = topics(timestamp=timestamp), topics(offset=offset)
    return [
        told(second, request(keys.LIST_OFFSETS, 5, asked)),
        told(second, response(keys.LIST_OFFSETS, 5, answer)),
    ]


def fetched(second: int, watermark: int, **topic: Any) -> Row:
    found = {"responses": [topic | {"partitions": [{"high_watermark": watermark}]}]}
    return told(second, response(keys.FETCH, 13 if "topic_id" in topic else 11, found))


@pytest.fixture(scope="module")
def found(captured_once: Any, spark: Any) -> list[tuple[Any, ...]]:
    """Returns (second, end, life), in order."""
    rows = [
        metadata(5, FIRST), *produce(10, "t"), *produce(12, "other"), *listed(20, -1, 50), *listed(22, -2, 7),
        fetched(30, 60, topic="t"), fetched(31, 61, topic_id=FIRST), metadata(40, SECOND), fetched(41, 3, topic="t"),
        fetched(42, 62, topic_id=FIRST), fetched(1, 30, topic="t"),
    ]  # fmt: skip
    capture = captured_once(*rows)
    topics = spark.createDataFrame([("c", "t")], "cluster string, topic string")
    ends = with_life(log_ends(capture, topics), topic_lives(capture)).collect()
    return sorted((row.at.minute * 60 + row.at.second, row.end_offset, row.life) for row in ends)


def test_log_ends_are_known_from_fetches_produces_and_list_offsets(found: Any) -> None:
    assert [(at, end) for at, end, _ in found] == [
        (1, 30), (11, 40), (11, 42), (20, 50), (30, 60), (31, 61), (41, 3), (42, 62),
    ]  # fmt: skip


def test_a_name_means_its_latest_known_id_or_the_first_one(found: Any) -> None:
    lives = {at: life for at, _, life in found}
    first, second = uuid_text(FIRST), uuid_text(SECOND)
    assert lives == {1: first, 11: first, 20: first, 30: first, 31: first, 41: second, 42: first}

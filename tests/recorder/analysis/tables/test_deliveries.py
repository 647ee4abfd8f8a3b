"""Tests of deliveries: from a Produce request to the first Fetch response, with the offsets in Produce responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recorder.analysis.tables.batches import batches
from recorder.analysis.tables.deliveries import DELIVERIES, deliveries
from tests.recorder.analysis.by_exchange import NOON, Row, Talk, batch

pytestmark = pytest.mark.real
Build = Callable[..., Any]
NOON_MS = round(NOON.timestamp() * 1000)
IDS = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


class Clients:
    """A producer and two consumers."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._producer = Talk(connection=1, client_id="producer")
        self._consumers = [Talk(connection=2 + number, client_id=f"consumer-{number}") for number in (0, 1)]

    def produced(self, topic: str, at: float, told: int | None, code: int = 0, **facts: Any) -> None:
        """A batch of two records; `told`: its offset; None for no response."""
        parts = [{"index": 0, "records": batch(2, **facts)}]
        answer = {"index": 0, "error_code": code, "base_offset": told}
        answered = None if told is None else {"responses": [{"name": topic, "partition_responses": [answer]}]}
        asked = {"acks": -1, "topic_data": [{"name": topic, "partition_data": parts}]}
        self.rows += self._producer.exchange(0, 9, at, asked, answered)

    def fetched(self, topic: str, at: float, offset: int, consumer: int = 0, **facts: Any) -> None:
        """The batch in a Fetch response."""
        data = batch(2, base_offset=offset, **facts)
        parts = [{"partition_index": 0, "records": data, "high_watermark": 100}]
        answer = {"responses": [{"topic": topic, "partitions": parts}]}
        self.rows += self._consumers[consumer].exchange(1, 12, at, {"topics": []}, answer)


def scenario() -> list[Row]:
    """Topics that each have a different history."""
    it = Clients()
    it.produced("read by two", 0, 40)
    it.produced("read by two", 1, 42)
    it.fetched("read by two", 0.25, 40)
    it.fetched("read by two", 0.1, 40, consumer=1)
    it.fetched("read by two", 2, 42)
    it.produced("one side", 0, 40)
    it.produced("one side", 1, None)
    it.produced("one side", 2, 70, code=19)
    it.fetched("one side", 3, 50)
    it.fetched("one side", 3, 60, control=True, transactional=True)
    it.produced("made anew", 0, 0)
    it.fetched("made anew", 1, 0)
    it.produced("made anew", 10, 0)
    it.fetched("made anew", 10.5, 0)
    # the broker knows the batch by its sequence, and returns its offset again; a second consumer comes later
    it.produced("retried", 0, 0, **IDS)
    it.fetched("retried", 1, 0, **IDS)
    it.produced("retried", 2, 0, **IDS)
    it.fetched("retried", 5, 0, consumer=1, **IDS)
    it.produced("aged", 0, 3)
    it.fetched("aged", 1, 3, max_timestamp=NOON_MS - 500)
    it.produced("in microseconds", 0, 3)
    it.fetched("in microseconds", 1, 3, max_timestamp=(NOON_MS - 500) * 1000)
    it.produced("in nanoseconds", 0, 3)
    it.fetched("in nanoseconds", 1, 3, max_timestamp=(NOON_MS - 500) * 10**6)
    return it.rows


@pytest.fixture(scope="module")
def capture(captured_once: Build) -> Any:
    return captured_once(*scenario())


@pytest.fixture(scope="module")
def found(capture: Any) -> dict[str, list[Any]]:
    table = deliveries(capture)
    assert table.columns == DELIVERIES.names
    told: dict[str, list[Any]] = {}
    for row in table.orderBy("base_offset", "produced_at").collect():
        told.setdefault(row.topic, []).append(row)
    return told


def test_the_first_consumer_counts_from_the_request_to_its_answer(found: dict[str, list[Any]]) -> None:
    told = [(row.base_offset, row.delivery_ms, row.producer, row.consumer) for row in found["read by two"]]
    assert told == [(40, 105, "producer", "consumer-1"), (42, 1005, "producer", "consumer-0")]


def test_a_batch_seen_on_one_side_has_no_delivery_time(found: dict[str, list[Any]]) -> None:
    told = [(row.base_offset, row.delivery_ms, row.producer, row.consumer) for row in found["one side"]]
    assert told == [(40, None, "producer", None), (50, None, None, "consumer-0")]


def test_a_topic_that_is_recreated_has_other_batches_at_the_same_offsets(found: dict[str, list[Any]]) -> None:
    assert [row.delivery_ms for row in found["made anew"]] == [1005, 505]


def test_a_retry_of_a_producer_with_an_id_is_the_same_batch(found: dict[str, list[Any]]) -> None:
    assert [row.delivery_ms for row in found["retried"]] == [1005]


def test_age_is_from_the_records_own_time(found: dict[str, list[Any]]) -> None:
    for topic in ("aged", "in microseconds", "in nanoseconds"):
        assert [row.age_ms for row in found[topic]] == [1505]


def test_produced_batches_have_the_offsets_that_their_answers_tell(capture: Any) -> None:
    placed, plain = batches(capture, offsets=True), batches(capture)
    assert placed.columns == plain.columns
    rows = placed.filter("topic in ('read by two', 'one side')").orderBy("topic", "side", "at", "base_offset").collect()
    assert [(row.side, row.base_offset, row.last_offset) for row in rows] == [
        ("request", 40, 41),
        ("request", None, None),
        ("request", None, None),
        ("response", 50, 51),
        ("response", 60, 61),
        ("request", 40, 41),
        ("request", 42, 43),
        ("response", 40, 41),
        ("response", 40, 41),
        ("response", 42, 43),
    ]

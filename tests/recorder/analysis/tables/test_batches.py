"""Tests of the tables of batches and records: those of Produce requests have the offsets that answers tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recorder.analysis.sources import load
from tests.recorder.analysis.by_exchange import Talk, batch

pytestmark = pytest.mark.real
Build = Callable[..., Any]
# topic -> (the answer's base offset, its error)
TOLD = {"taken": (40, 0), "refused": (-1, 19), "unanswered": None}


@pytest.fixture(scope="module")
def capture(captured_once: Build) -> Any:
    producer, rows = Talk(connection=1, client_id="producer"), []
    for at, (topic, told) in enumerate(TOLD.items()):
        two = batch(2) + batch(1, base_offset=2)
        asked = {"acks": -1, "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": two}]}]}
        parts = [] if told is None else [{"index": 0, "error_code": told[1], "base_offset": told[0]}]
        answered = None if told is None else {"responses": [{"name": topic, "partition_responses": parts}]}
        rows += producer.exchange(0, 9, at, asked, answered)
    fetched = {"responses": [{"topic": "fetched", "partitions": [{"partition_index": 0, "records": batch(2)}]}]}
    rows += Talk(connection=2, client_id="consumer").exchange(1, 12, 9, {"topics": []}, fetched)
    return captured_once(*rows)


def test_records_that_a_broker_has_taken_have_their_offsets_in_the_log(capture: Any) -> None:
    found: dict[str, list[int]] = {}
    for row in load(capture, "records").collect():
        found.setdefault(row.topic, []).append(row.offset)
    assert {topic: sorted(offsets) for topic, offsets in found.items()} == {
        "taken": [40, 41, 42],
        "refused": [0, 1, 2],
        "unanswered": [0, 1, 2],
        "fetched": [0, 1],
    }


def test_batches_that_a_broker_has_taken_have_their_offsets_in_the_log(capture: Any) -> None:
    found = {(row.topic, row.base_offset): row.last_offset for row in load(capture, "batches").collect()}
    assert found == {
        ("taken", 40): 41,
        ("taken", 42): 42,
        ("refused", 0): 1,
        ("refused", 2): 2,
        ("unanswered", 0): 1,
        ("unanswered", 2): 2,
        ("fetched", 0): 1,
    }

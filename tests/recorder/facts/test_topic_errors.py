"""Tests of error codes of topics and of their partitions."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire import uuid_text
from recorder.facts.topic_errors import TOPIC_ERRORS
from tests.recorder.facts.frames import own, response
from tests.tables import each_row

ID = bytes(range(16))
PARTS = [{"partition_index": 0, "error_code": 0}, {"partition_index": 4, "error_code": 6}]
INDEXES = [{"index": 0, "error_code": 0}, {"index": 4, "error_code": 6}]
ADDED = [{"partition_index": 0, "partition_error_code": 0}, {"partition_index": 4, "partition_error_code": 6}]


@each_row(
    ("key", "version", "values"),
    [
        (0, 9, {"responses": [{"name": "t", "partition_responses": INDEXES}]}),
        (1, 12, {"error_code": 70, "responses": [{"topic": "t", "partitions": PARTS}]}),
        (3, 12, {"topics": [{"name": "t", "partitions": PARTS}]}),
        (8, 8, {"topics": [{"name": "t", "partitions": PARTS}]}),
        (9, 8, {"groups": [{"error_code": 16, "topics": [{"name": "t", "partitions": PARTS}]}]}),
        (24, 3, {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": ADDED}]}),
        (75, 0, {"topics": [{"name": "t", "partitions": PARTS}]}),
    ],
    ids=["Produce", "Fetch", "Metadata", "OffsetCommit", "OffsetFetch", "AddPartitions", "DescribeTopic"],
)
def test_a_partitions_code_has_its_place_and_codes_of_answers_and_groups_have_no_row(
    key: int, version: int, values: dict[str, Any]
) -> None:
    assert own(TOPIC_ERRORS, response(key, version, values)) == [{"topic": "t", "partition": 4, "error_code": 6}]


@pytest.mark.parametrize(
    ("key", "version", "array"),
    [(3, 9, "topics"), (19, 5, "topics"), (20, 4, "responses"), (37, 2, "results")],
    ids=["Metadata", "CreateTopics", "DeleteTopics", "CreatePartitions"],
)
def test_a_topics_code_has_no_partition(key: int, version: int, array: str) -> None:
    values = {array: [{"name": "there", "error_code": 0}, {"name": "t", "error_code": 3}]}
    assert own(TOPIC_ERRORS, response(key, version, values)) == [{"topic": "t", "error_code": 3}]


def test_a_topic_without_a_name_is_shown_by_its_id() -> None:
    values = {"topics": [{"name": None, "topic_id": ID, "error_code": 100}]}
    assert own(TOPIC_ERRORS, response(3, 12, values)) == [{"topic_id": uuid_text(ID), "error_code": 100}]

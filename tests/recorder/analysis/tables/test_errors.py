"""Tests of the table of errors: a row for each code in a response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.wire import catalog
from recorder.analysis.sources import load
from recorder.analysis.tables.errors import ERRORS

pytestmark = pytest.mark.real
Build = Callable[..., Any]
ID = bytes(range(16))


def test_codes_have_names_counts_and_say_whether_they_are_a_fault(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    topics = [{"error_code": code, "name": f"t{n}", "partitions": []} for n, code in enumerate((3, 0, 3, 5))]
    metadata = catalog.encode_response(3, 12, 0, {"topics": topics})
    beat = catalog.encode_response(12, 4, 1, {"error_code": 27})
    heartbeat = {"api_key": 12, "api": "Heartbeat", "api_version": 4}
    rows = [request_row(0), response_row(0, metadata), request_row(1, **heartbeat), response_row(1, beat, **heartbeat)]
    found = load(captured(*rows), "errors")
    assert found.columns == ERRORS.names
    told = [(row.error_code, row.error, row.retriable, row.flow, row.topic, row["count"]) for row in found.collect()]
    assert sorted(told, key=str) == [
        (27, "REBALANCE_IN_PROGRESS", False, True, None, 1),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True, False, "t0", 1),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True, False, "t2", 1),
        (5, "LEADER_NOT_AVAILABLE", True, False, "t3", 1),
    ]


def test_a_code_stands_at_the_answer_at_its_topics_and_at_their_partitions(
    captured: Build, response_row: Build
) -> None:
    """The Fetch session is refused, and so are two of its partitions; Metadata gives the topic's name."""
    partitions = [{"partition_index": number, "error_code": code} for number, code in enumerate((6, 0, 70, 6))]
    told = {"error_code": 70, "responses": [{"topic_id": ID, "partitions": partitions}]}
    fetch = catalog.encode_response(1, 13, 0, told)
    names = catalog.encode_response(3, 12, 1, {"topics": [{"name": "t", "topic_id": ID, "partitions": []}]})
    of_fetch = {"api_key": 1, "api": "Fetch", "api_version": 13, "cluster": "main"}
    rows = [response_row(0, fetch, **of_fetch), response_row(1, names, cluster="main")]
    found = load(captured(*rows), "errors").collect()
    assert sorted(((row.error_code, row.topic, row.partition, row["count"]) for row in found), key=str) == [
        (6, "t", 0, 1),
        (6, "t", 3, 1),
        (70, "t", 2, 1),
        (70, None, None, 1),
    ]


# API and version, code, and whether the code is part of the normal flow
COURSES = [
    ((18, 3), 35, True),
    ((3, 13), 35, False),
    ((11, 5), 79, True),
    ((1, 12), 70, True),
    ((69, 1), 69, True),
    ((15, 6), 69, False),
]


def test_a_code_may_be_the_course_of_one_api_alone(captured: Build, response_row: Build) -> None:
    rows = []
    for number, ((key, version), code, _) in enumerate(COURSES):
        told = {"groups": [{"error_code": code, "group_id": "g"}]} if key in (15, 69) else {"error_code": code}
        frame = catalog.encode_response(key, version, 0, told)
        rows.append(response_row(number, frame, api_key=key, api_version=version))
    found = load(captured(*rows), "errors").collect()
    errors = {(row.exchange, row.error_code, row.flow) for row in found}
    assert errors == {(number, code, flow) for number, (_, code, flow) in enumerate(COURSES)}

"""Each code in an answer is a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.wire import catalog
from recorder.analysis.sources import load
from recorder.analysis.tables.errors import ERRORS

pytestmark = pytest.mark.real
Build = Callable[..., Any]


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
    assert sorted((row.error_code, row.error, row.retriable, row.flow, row["count"]) for row in found.collect()) == [
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True, False, 2),
        (5, "LEADER_NOT_AVAILABLE", True, False, 1),
        (27, "REBALANCE_IN_PROGRESS", False, True, 1),
    ]


@pytest.mark.parametrize(("key", "code", "flow"), [(18, 35, True), (3, 35, False), (11, 79, True), (1, 70, True)])
def test_a_code_may_be_the_course_of_one_api_alone(
    captured: Build, response_row: Build, key: int, code: int, flow: bool
) -> None:
    version = {18: 3, 3: 13, 11: 5, 1: 12}[key]
    frame = catalog.encode_response(key, version, 0, {"error_code": code})
    (row,) = load(captured(response_row(0, frame, api_key=key, api_version=version)), "errors").collect()
    assert row.flow is flow

"""Tests of what only Spark does: its plans, and files that the capture's own reader refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from recorder.analysis.bodies import Road
from recorder.analysis.questions.latency import latency_by_api
from recorder.analysis.tables.exchanges import answered_exchanges, doubtful, exchanges
from recorder.analysis.tables.latency_buckets import latency_buckets
from tests.recorder.analysis.tables.test_answers import metadata_response, unread

pytestmark = pytest.mark.real
ON_SPARK = True
Build = Callable[..., Any]
JOINS = ("SortMergeJoin", "ShuffledHashJoin", "BroadcastHashJoin", "BroadcastNestedLoopJoin")


def plan(frame: DataFrame) -> str:
    text: str = frame._jdf.queryExecution().executedPlan().toString()
    return text


def test_latency_by_api_is_one_scan_that_joins_nothing_and_reads_no_frame(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    found = captured(request_row(0), response_row(0))
    text = plan(latency_by_api(answered_exchanges(found)))
    assert text.count("FileScan") == 1
    assert not [join for join in JOINS if join in text]
    assert "frame:binary" not in text


@pytest.mark.usefixtures("as_for_many_rows")
def test_exchanges_of_whole_connections_shuffle_nothing_but_an_aggregate(captured: Build, request_row: Build) -> None:
    found = captured(request_row(0))
    text = plan(exchanges(found, doubtful(found), decode=False))
    assert "SortMergeJoin" not in text
    assert "ShuffledHashJoin" not in text
    assert "frame:binary" not in text


def test_latency_buckets_are_one_scan_without_a_join_or_a_frame(captured: Build, response_row: Build) -> None:
    text = plan(latency_buckets(captured(response_row(0))))
    assert text.count("FileScan") == 1
    assert "Join" not in text
    assert "frame:binary" not in text


def test_a_span_that_says_nothing_may_hide_anything(captured: Build, response_row: Build) -> None:
    frame = metadata_response(3)
    spans: list[Any] = [[None], [{"start": None, "length": None}], [], None]
    rows = [response_row(number, frame, masked=masked) for number, masked in enumerate(spans)]
    # the capture's own reader refuses such a file
    found = unread(captured(*rows, road=Road.JVM))
    assert found == {0: (None, "masked"), 1: (None, "masked"), 2: ([3], None), 3: ([3], None)}

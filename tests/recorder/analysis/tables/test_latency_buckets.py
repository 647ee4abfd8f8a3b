"""Tests of latencies in buckets that can be summed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import floor, log2
from typing import Any

import pytest

from recorder.analysis.tables.latency_buckets import LATENCY_BUCKETS, latency_buckets
from tests.recorder.analysis.conftest import NOON

pytestmark = pytest.mark.real
Build = Callable[..., Any]
MS = 1_000_000


def of_a_millisecond() -> int:
    return floor(8 * log2(1001))


def test_answers_of_about_one_latency_are_one_row_of_their_minute(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    rows = [request_row(0), request_row(1), request_row(60)]
    rows += [response_row(0, latency_ns=MS), response_row(1, latency_ns=MS + 9_000), response_row(60, latency_ns=MS)]
    found = latency_buckets(captured(*rows, response_row(2, latency_ns=2 * MS))).orderBy("minute", "bucket").collect()
    told = [(row.minute.minute, row.api, row.api_version, row.bucket, row["count"], row.bytes) for row in found]
    one = of_a_millisecond()
    assert told == [
        (0, "Metadata", 12, one, 2, 240),
        (0, "Metadata", 12, one + 8, 1, 120),
        (1, "Metadata", 12, one, 1, 120),
    ]


def test_an_answer_counts_in_the_minute_of_its_request(captured: Build, response_row: Build) -> None:
    late = response_row(0, at=NOON + timedelta(seconds=61), latency_ns=2_000 * MS)
    assert [row.minute.minute for row in latency_buckets(captured(late)).collect()] == [0]


def test_long_polls_have_rows_of_their_own(captured: Build, response_row: Build) -> None:
    apis = {1: "Fetch", 11: "JoinGroup", 14: "SyncGroup", 78: "ShareFetch", 12: "Heartbeat"}
    rows = [response_row(at, api_key=key, api=name, api_version=1) for at, (key, name) in enumerate(apis.items())]
    found = {row.api: row.wait for row in latency_buckets(captured(*rows)).collect()}
    assert found == dict.fromkeys(apis.values(), "includes_wait") | {"Heartbeat": None}


def test_sizes_of_gigabytes_add_up(captured: Build, response_row: Build) -> None:
    largest = (1 << 31) - 1
    rows = [response_row(number, request_size=largest, size=largest) for number in range(2)]
    assert [row.bytes for row in latency_buckets(captured(*rows)).collect()] == [4 * largest]


def test_an_exchange_without_a_latency_is_in_no_bucket(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    rows = [request_row(0), request_row(1, awaits=False), response_row(2, made_by="proxy", latency_ns=None)]
    assert latency_buckets(captured(*rows)).collect() == []


def test_clients_nodes_clusters_and_versions_stand_apart(captured: Build, response_row: Build) -> None:
    facts: list[dict[str, Any]] = [
        {},
        {"client_id": "other"},
        {"client_id": None},
        {"node": 2},
        {"cluster": "east"},
        {"api_version": 11},
    ]
    rows = [response_row(number, **own) for number, own in enumerate(facts)]
    assert [row["count"] for row in latency_buckets(captured(*rows)).collect()] == [1] * len(facts)


def test_unknown_apis_are_named_by_their_keys(captured: Build, response_row: Build) -> None:
    rows = [response_row(0, api=None, api_key=2000), response_row(1, api=None, api_key=2001)]
    assert {row.api for row in latency_buckets(captured(*rows)).collect()} == {"api 2000", "api 2001"}


def test_only_requests_of_the_requested_time_count(captured: Build, response_row: Build) -> None:
    """Only one end of the first and of the last request lies within that time."""
    rows = [response_row(number, latency_ns=600 * MS, at=NOON + timedelta(seconds=number)) for number in range(1, 5)]
    start = int(NOON.timestamp()) * 10**9
    found = latency_buckets(captured(*rows, since_ns=start + 1_000 * MS, until_ns=start + 3_500 * MS)).collect()
    assert [row["count"] for row in found] == [3]


def test_the_columns_are_those_that_are_declared(captured: Build, response_row: Build) -> None:
    found = latency_buckets(captured(response_row(0)))
    assert found.dtypes == [(column.name, column.kind) for column in LATENCY_BUCKETS.columns]

"""Tests of requests, bytes and latency percentiles by api."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import ceil
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from recorder.analysis.questions.latency import latency_by_api, percentiles_of_buckets
from recorder.analysis.tables.exchanges import exchanges
from recorder.analysis.tables.latency_buckets import latency_buckets

pytestmark = pytest.mark.real
Build = Callable[..., Any]
SIZES = (1, 2, 19, 20, 21, 100, 500)
CLOSED = {"kind": "closed", "cause": "client"}
EXCHANGES = (
    "outcome string, api string, api_key smallint, at timestamp, answered_at timestamp, request_size int,"
    "response_size int, latency_ns bigint, error_codes array<smallint>, wait string"
)


def by_api(frame: DataFrame) -> dict[str, Row]:
    return {row.api: row for row in latency_by_api(frame).collect()}


def nearest_rank(values: list[int], share: float) -> float:
    """The plain twin: the smallest value, in ms, that at least `share` of all values do not exceed."""
    return sorted(values)[max(ceil(share * len(values)), 1) - 1] / 1e6


def test_each_api_has_its_requests_bytes_and_percentiles(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    rows = []
    for exchange in range(5):
        rows += [request_row(exchange), response_row(exchange, size=10, latency_ns=(exchange + 1) * 1_000_000)]
    rows.append(request_row(5, api="Produce", api_key=0, awaits=False, size=1000))
    found = by_api(exchanges(captured(*rows, events=[CLOSED])))
    metadata, produce = found["Metadata"], found["Produce"]
    assert (metadata.requests, metadata.responses, metadata.request_bytes, metadata.response_bytes) == (5, 5, 100, 50)
    assert (metadata.p50_ms, metadata.p95_ms, metadata.p99_ms) == (3.0, 5.0, 5.0)
    assert (produce.requests, produce.responses, produce.unanswered, produce.request_bytes) == (1, 0, 0, 1000)
    assert (produce.response_bytes, produce.p50_ms) == (0, None)


def test_requests_unanswered_or_answered_by_the_proxy_have_no_latency(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    rows = [request_row(0), response_row(0, latency_ns=4_000_000), request_row(1), request_row(2)]
    rows.append(response_row(2, made_by="proxy", latency_ns=None))
    row = by_api(exchanges(captured(*rows, events=[CLOSED])))["Metadata"]
    assert (row.requests, row.responses, row.unanswered) == (3, 2, 1)
    assert (row.p50_ms, row.p99_ms) == (4.0, 4.0)


def test_a_lost_request_is_not_counted_but_its_response_is(captured: Build, response_row: Build) -> None:
    row = by_api(exchanges(captured(response_row(0, request_size=31, size=10))))["Metadata"]
    assert (row.requests, row.responses, row.request_bytes, row.response_bytes) == (0, 1, 0, 10)


def test_unknown_apis_are_named_by_their_keys(captured: Build, request_row: Build) -> None:
    found = by_api(exchanges(captured(request_row(0, api=None, api_key=2000), request_row(1, api=None, api_key=2001))))
    assert set(found) == {"api 2000", "api 2001"}


def test_a_window_splits_the_counts_by_the_time_of_the_request(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    rows = [request_row(0), request_row(59), request_row(60), response_row(59)]
    found = (
        latency_by_api(exchanges(captured(*rows, events=[CLOSED])), window="1 minute").orderBy("window_start").collect()
    )
    assert [(row.window_start.minute, row.requests, row.responses) for row in found] == [(0, 2, 1), (1, 1, 0)]


def test_long_polls_have_rows_of_their_own_and_a_fetch_whose_data_was_there_has_not(spark: SparkSession) -> None:
    waits = [None, "full", "tail", "empty", "error", "members", "includes_wait"]
    rows: list[tuple[object, ...]] = [
        ("answered", "Fetch", 1, None, None, 1, 1, 10**6 * at, [], wait) for at, wait in enumerate(waits)
    ]
    found = {row.wait: row for row in latency_by_api(spark.createDataFrame(rows, EXCHANGES)).collect()}
    assert {wait: (row.requests, row.p50_ms, row.p99_ms) for wait, row in found.items()} == {
        None: (2, 0.0, 1.0),
        "wait": (4, 3.0, 5.0),
        "includes_wait": (1, 6.0, 6.0),
    }


def test_percentiles_are_those_of_the_plain_twin(spark: SparkSession) -> None:
    chance = random.Random(7)
    groups = {f"{count} values": chance.sample(range(10**10), count) for count in (1, 2, 3, 19, 20, 21, 100, 3000)}
    groups["ties"] = [chance.randrange(3) for _ in range(50)]
    rows: list[tuple[object, ...]] = [
        ("answered", api, 1, None, None, 1, 1, value, [], None) for api, values in groups.items() for value in values
    ]
    found = by_api(spark.createDataFrame(rows, EXCHANGES))
    for api, values in groups.items():
        twin = [nearest_rank(values, share) for share in (0.5, 0.95, 0.99)]
        assert [found[api].p50_ms, found[api].p95_ms, found[api].p99_ms] == twin, api


def test_percentiles_of_buckets_are_within_four_and_a_half_percent_of_exact_ones(
    captured: Build, response_row: Build
) -> None:
    """Takes latencies from a microsecond to a day, spread as real ones are, in buckets of many minutes."""
    chance = random.Random(7)
    groups = {f"{count} values": [int(10 ** chance.uniform(3, 14)) for _ in range(count)] for count in SIZES}
    every = [(api, latency) for api, latencies in groups.items() for latency in latencies]
    rows = [response_row(number, api=api, latency_ns=latency) for number, (api, latency) in enumerate(every)]
    buckets = latency_buckets(captured(*rows))
    found = {row.api: row for row in percentiles_of_buckets(buckets).collect()}
    assert {api: row["count"] for api, row in found.items()} == {
        api: len(latencies) for api, latencies in groups.items()
    }
    for api, latencies in groups.items():
        for told, share in zip(
            (found[api].p50_ms, found[api].p95_ms, found[api].p99_ms), (0.5, 0.95, 0.99), strict=True
        ):
            exact = nearest_rank(latencies, share)
            assert abs(told - exact) <= 0.045 * (exact + 0.001), (api, share)


def test_buckets_of_two_captures_add_up_and_waits_stand_apart(spark: SparkSession) -> None:
    columns = "api string, wait string, bucket int, count bigint"
    one = spark.createDataFrame([("Fetch", None, 80, 98), ("Fetch", "includes_wait", 152, 5)], columns)
    other = spark.createDataFrame([("Fetch", None, 80, 1), ("Fetch", None, 160, 1)], columns)
    rows = percentiles_of_buckets(one.unionByName(other)).collect()
    found = {row.wait: (row["count"], row.p95_ms, row.p99_ms) for row in rows}
    near_one_ms, half_a_second = (2 ** (80.5 / 8) - 1) / 1000, (2 ** (152.5 / 8) - 1) / 1000
    assert found == {
        None: (100, pytest.approx(near_one_ms), pytest.approx(near_one_ms)),
        "includes_wait": (5, pytest.approx(half_a_second), pytest.approx(half_a_second)),
    }

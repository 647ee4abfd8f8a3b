"""Tests of errors by api: codes have Kafka's names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.questions.errors import errors_by_api

pytestmark = pytest.mark.real
KEYS = {"ApiVersions": 18}
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def exchanges(spark: SparkSession, *rows: tuple[str | None, list[int] | None]) -> DataFrame:
    schema = "api string, api_key smallint, at timestamp, error_codes array<smallint>"
    return spark.createDataFrame([(api, KEYS.get(api or "", 1), NOON, codes) for api, codes in rows], schema)


def test_codes_are_counted_and_so_are_the_exchanges_that_hold_them(spark: SparkSession) -> None:
    found = errors_by_api(exchanges(spark, ("Fetch", [6, 6, 1]), ("Fetch", [6]), ("Produce", [6])))
    assert sorted(map(tuple, found.collect())) == [
        ("Fetch", 1, "OFFSET_OUT_OF_RANGE", False, False, 1, 1),
        ("Fetch", 6, "NOT_LEADER_OR_FOLLOWER", True, False, 3, 2),
        ("Produce", 6, "NOT_LEADER_OR_FOLLOWER", True, False, 1, 1),
    ]


def test_a_code_that_only_one_api_has_in_its_normal_course_is_two_rows_of_other_groups(spark: SparkSession) -> None:
    found = errors_by_api(exchanges(spark, ("ApiVersions", [35]), ("Fetch", [35])), by=())
    assert sorted((row.flow, row.error, row["count"]) for row in found.collect()) == [
        (False, "UNSUPPORTED_VERSION", 1),
        (True, "UNSUPPORTED_VERSION", 1),
    ]


def test_no_errors_and_unread_bodies_are_no_rows(spark: SparkSession) -> None:
    assert errors_by_api(exchanges(spark, ("Fetch", []), ("Fetch", None))).collect() == []


def test_a_code_that_kafka_had_not_yet_is_named_by_its_number(spark: SparkSession) -> None:
    (row,) = errors_by_api(exchanges(spark, ("Fetch", [3000]))).collect()
    assert (row.error, row.retriable) == ("ERROR_3000", False)


def test_the_unknown_server_error_has_its_name_too(spark: SparkSession) -> None:
    (row,) = errors_by_api(exchanges(spark, (None, [-1]))).collect()
    assert (row.api, row.error) == ("api 1", "UNKNOWN_SERVER_ERROR")


def test_a_window_splits_the_counts(spark: SparkSession) -> None:
    (row,) = errors_by_api(exchanges(spark, ("Fetch", [1])), window="1 hour").collect()
    assert (row.window_start, row["count"]) == (datetime(2026, 11, 21, 12), 1)

"""Tests of the columns by which answers are grouped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from recorder.analysis import columns as t
from recorder.analysis.questions.groups import groups
from recorder.capture import frames as c

pytestmark = pytest.mark.real
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SCHEMA = "api string, api_key smallint, at timestamp"


Rows = list[tuple[str | None, int, datetime]]


def grouped(spark: SparkSession, rows: Rows, window: str | None) -> list[list[object]]:
    found = spark.createDataFrame(rows, SCHEMA).groupBy(*groups((c.API,), window)).count()
    return sorted([list(row) for row in found.collect()], key=str)


def test_without_a_window_the_api_is_all(spark: SparkSession) -> None:
    rows: Rows = [("Fetch", 1, NOON), ("Fetch", 1, NOON + timedelta(days=1)), ("Metadata", 3, NOON)]
    assert grouped(spark, rows, None) == [["Fetch", 2], ["Metadata", 1]]


def test_apis_that_the_catalog_lacks_stay_apart(spark: SparkSession) -> None:
    rows: Rows = [(None, 1234, NOON), (None, 1235, NOON), (None, 1234, NOON)]
    assert grouped(spark, rows, None) == [["api 1234", 2], ["api 1235", 1]]


def test_a_window_comes_first_and_is_named_by_its_start(spark: SparkSession) -> None:
    rows = [("Fetch", 1, NOON + timedelta(seconds=second)) for second in (0, 59, 60)]
    frame = spark.createDataFrame(rows, SCHEMA).groupBy(*groups((c.API,), "1 minute")).count()
    assert frame.columns[:2] == [t.WINDOW_START, c.API]
    starts = frame.selectExpr(f"unix_timestamp({t.WINDOW_START})", "count").collect()
    assert sorted(map(tuple, starts)) == [(NOON.timestamp(), 2), (NOON.timestamp() + 60, 1)]


def test_times_beyond_any_calendar_are_counted_without_a_window(spark: SparkSession) -> None:
    times = spark.createDataFrame([(1 << 62,), (-(1 << 62),), (0,)], "us bigint")
    rows = times.selectExpr("'Fetch' api", "1s api_key", "timestamp_micros(us) at")
    found = rows.groupBy(*groups((c.API,), "1 minute")).count().collect()
    assert {(row.window_start is None, row["count"]) for row in found} == {(True, 2), (False, 1)}

"""Tests of the count of responses that could be read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.questions.coverage import coverage_by_api

pytestmark = pytest.mark.real
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SCHEMA = "api string, api_key smallint, answered_at timestamp, unread string"


def test_each_api_has_its_responses_those_that_were_read_and_why_others_were_not(spark: SparkSession) -> None:
    rows: list[tuple[object, ...]] = [
        ("Fetch", 1, NOON, why) for why in (None, None, "omitted", "omitted", "cut", "malformed")
    ]
    rows += [(None, 2000, NOON, "unknown_version"), ("Fetch", 1, None, None)]
    found = {row.api: row.asDict() for row in coverage_by_api(spark.createDataFrame(rows, SCHEMA)).collect()}
    nothing = dict.fromkeys(("masked", "unknown_version", "malformed", "omitted", "cut", "too_large", "over_budget"), 0)
    counted = {"omitted": 2, "cut": 1, "malformed": 1}
    assert found["Fetch"] == {"api": "Fetch", "responses": 6, "read": 2, **nothing, **counted}
    assert found["api 2000"] == {"api": "api 2000", "responses": 1, "read": 0, **nothing, "unknown_version": 1}

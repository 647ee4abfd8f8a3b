"""Tests of the report's section on delivery, by topic and over time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.questions.sections.delivery import delivery
from recorder.analysis.tables.deliveries import DELIVERIES
from tests.recorder.analysis.by_hand import NOON, Row, table_of
from tests.recorder.analysis.questions.sections.timeline import LINE

pytestmark = pytest.mark.real


def batch(topic: str | None, produced: float, delivery_ms: float | None, age_ms: float | None = None) -> Row:
    at = NOON + timedelta(seconds=produced)
    return {"topic": topic, "produced_at": at, "delivery_ms": delivery_ms, "age_ms": age_ms}


def test_batches_count_by_topic_and_in_the_bin_in_which_they_were_produced(spark: SparkSession) -> None:
    rows = [
        *(batch("t", 5, took, 2 * took) for took in range(1, 101)),
        *(batch("u", 35, 7.5) for _ in range(3)),
        batch("t", 45, None),
        batch(None, 45, 3),
    ]
    found = delivery(table_of(spark, DELIVERIES, rows), LINE)
    told = [(one.topic, one.batches, one.p50_ms, one.p95_ms, one.p99_ms, one.most_ms) for one in found.topics]
    assert told == [("t", 100, 50, 95, 99, 100), ("u", 3, 7.5, 7.5, 7.5, 7.5)]
    assert [one.age_p50_ms for one in found.topics] == [100, None]
    assert found.usual_ms.values == (50, None, None, 7.5, None, None)
    assert found.slow_ms.values == (99, None, None, 7.5, None, None)

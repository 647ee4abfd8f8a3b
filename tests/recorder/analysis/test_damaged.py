"""Tests that all readers of a capture report the same losses."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from recorder.capture import frames as c
from recorder.capture.compactor import compact
from recorder.inspect.summary import as_json, summarize
from tests.recorder.capture.looks import event_rows
from tests.recorder.capture.test_compaction import delete, flip, record

COLUMNS = [name for name, _ in c.EVENT_COLUMNS if name != c.AT]


@pytest.mark.real
def test_spark_and_inspect_read_the_same_of_a_damaged_session(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(7)
    recorded = record(tmp_path, rng, 4, 12, 2500)
    numbers = sorted(recorded.logs)
    for spoil, number in ((delete, numbers[0]), (flip, numbers[2]), (delete, numbers[-1])):
        spoil(recorded.path(number), rng)
    compact(tmp_path)
    # one row per event, as text, because nulls can't be sorted
    wanted = sorted(json.dumps([row[name] for name in COLUMNS]) for row in event_rows(tmp_path))
    read = spark.read.parquet(str(tmp_path / c.EVENTS_FOLDER)).select(COLUMNS).collect()
    assert sorted(json.dumps(list(row)) for row in read) == wanted
    gaps = [row for row in event_rows(tmp_path) if row[c.KIND] == c.EVENT_GAP]
    assert {gap[c.CONNECTION] for gap in gaps} > {None}
    assert len(as_json(summarize(tmp_path))["gaps"]) == len(gaps)

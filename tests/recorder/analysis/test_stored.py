"""Captures in an S3 bucket have the tables of the folder that they were copied from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from recorder.analysis import sources
from recorder.analysis.data_source import NAME, register
from recorder.analysis.scan import files_in
from recorder.capture.frames import events_schema
from tests import hadoop_aws
from tests.faults.live import ROOT
from tests.recorder.analysis.conftest import EVENT, write_frames
from tests.recorder.analysis.decode.frames import request, response
from tests.recorder.analysis.test_bodies import some_frames
from tests.s3 import Store, store

Build = Callable[..., Any]
TABLES = ("frames", "exchanges", "messages", "connections")


@pytest.fixture
def capture(tmp_path: Path, request_row: Build, response_row: Build) -> Path:
    """Frames of many kinds, and heartbeats, whose codes Spark reads by itself."""
    rows = [request_row(0) | row for row in some_frames(7)]
    for number in range(100, 120):
        beat = {"session": "s", "exchange": number, "sequence": 2 * number, "connection": 2}
        rows.append(request_row(number) | request(12, 4, {"group_id": "g"}) | beat)
        answer = response(12, 4, {"error_code": 27 if number % 3 else 0})
        rows.append(response_row(number) | answer | beat | {"sequence": 2 * number + 1})
    capture = tmp_path / "capture"
    write_frames(capture, rows, 40)
    hour = capture / "events" / "date=2026-11-21" / "hour=12"
    hour.mkdir(parents=True)
    opened = EVENT | {"connection": 2, "kind": "opened", "detail": '{"client": "10.0.0.1:5000"}'}
    pq.write_table(pa.Table.from_pylist([opened], events_schema()), hour / "s-1-1.parquet")
    return capture


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with store() as opened:
        for name, value in opened.environment.items():
            monkeypatch.setenv(name, value)
        yield opened


@pytest.fixture
def workers(spark: SparkSession, served: Store) -> Iterator[Store]:
    """The store is in the surroundings of Spark's Python workers too, as where Spark starts in them."""
    before = dict(spark.sparkContext.environment)
    spark.sparkContext.environment.update(served.environment)
    yield served
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)


@pytest.mark.real
def test_a_bucket_has_the_tables_of_its_folder(spark: SparkSession, workers: Store, capture: Path) -> None:
    url = workers.put(capture, "bucket")
    local = sources.captured(spark, str(capture), files_in(str(capture)))
    stored = sources.captured(spark, url)
    for name in TABLES:
        here, there = (sorted(map(str, sources.load(one, name).collect())) for one in (local, stored))
        assert there == here, name
        assert here, name
    register(spark)
    found = spark.read.format(NAME).option("table", "messages").load(url)
    assert found.count() == sources.load(local, "messages").count()


def analyzed(place: str, *options: str) -> dict[str, list[str]]:
    """What `kafka-wiretap analyze` says of a place, but for its notes. Rows of the same weight come in any order."""
    command = [sys.executable, "-c", "from recorder.commands import analyze; analyze()", place, "--format", "json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    del found["missing"]
    return {name: sorted(map(str, rows)) for name, rows in found.items()}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_analyze_says_the_same_of_a_folder_and_of_both_ways_to_a_bucket(served: Store, capture: Path) -> None:
    url = served.put(capture, "bucket")
    here = analyzed(str(capture))
    assert analyzed(url) == here
    settings = {
        "spark.driver.extraClassPath": hadoop_aws.class_path(),
        "spark.hadoop.fs.s3a.endpoint": served.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": served.environment["AWS_REGION"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    assert analyzed(url.replace("s3://", "s3a://"), *options) == here

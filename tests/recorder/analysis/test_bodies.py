"""Tests that both roads and the data source make the same rows, with a row for each unread frame."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from proxy.wire import records
from recorder.analysis.bodies import Captured, Road, rows
from recorder.analysis.data_source import NAME, register
from recorder.analysis.decode.messages import MESSAGES
from recorder.analysis.decode.record_rows import RECORDS
from recorder.analysis.report_decoders import OF_REPORT
from recorder.analysis.table_cache import TableCache
from recorder.facts.batches import BATCHES
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.facts.frames import request, response
from tests.sweeps import is_thorough, mostly_long

Build = Callable[..., Any]
NOON_NS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 10**9


def some_frames(seed: int) -> list[dict[str, Any]]:
    """Requests and responses of several APIs; some are damaged, masked, cut off or large."""
    rng = random.Random(seed)
    made = []
    for number in range(60):
        batch = records.write_batch([records.Record(n, 1000, value=b"v" * rng.randrange(60)) for n in range(3)])
        produced = {"index": number, "records": batch}
        fetched = {"partition_index": number, "records": batch, "high_watermark": 3}
        row = rng.choice(
            [
                request(0, 9, {"topic_data": [{"name": "t", "partition_data": [produced]}]}),
                response(1, 12, {"responses": [{"topic": "t", "partitions": [fetched]}]}),
                response(3, 12, {"cluster_id": "c"}),
            ]
        )
        row |= rng.choice(
            [
                {},
                {},
                {"frame": row["frame"][:15], "stored": 15, "size": 15},
                {"frame": row["frame"][:15], "stored": 15, "omitted": [{"start": 15, "length": row["size"] - 15}]},
                {"masked": [{"start": 4, "length": 10}]},
                {"api_version": 99},
            ]
        )
        made.append(row | {"sequence": number, "exchange": number})
    return made


@pytest.fixture
def each_way(spark: SparkSession, captured: Build, tmp_path: Path) -> Callable[..., list[list[str]]]:
    """Returns the rows by each road and by the data source, as text, because nulls can't be sorted."""

    def each_way(frames: list[dict[str, Any]], decoder: Any, **settings: Any) -> list[list[str]]:
        found = both(captured, frames, decoder, **settings)
        register(spark)
        reader = spark.read.format(NAME).option("table", decoder.name).option("path", str(tmp_path))
        for name, value in settings.items():
            reader = reader.option(name.removesuffix("_ns"), moment(value) if name.endswith("_ns") else value)
        return [*found, sorted(map(str, reader.load().collect()))]

    return each_way


def moment(ns: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).isoformat()


def both(captured: Build, frames: list[dict[str, Any]], decoder: Any, **settings: Any) -> list[list[str]]:
    """Returns the rows by each road."""
    found = []
    for road in (Road.WORKER, Road.JVM):
        capture: Captured = captured(*frames, row_group_size=7, road=road, **settings)
        assert capture.by_workers == (road is Road.WORKER)
        found.append(sorted(map(str, rows(capture, decoder).collect())))
    return found


@pytest.fixture
def complete(request_row: Build) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A frame of `decode.frames` as a capture's row."""
    return lambda row: request_row(0) | row


@pytest.mark.real
@pytest.mark.parametrize(
    "decoder", mostly_long([RECORDS, TOPIC_PARTITIONS, BATCHES, MESSAGES], usual=1), ids=lambda one: one.name
)
def test_both_roads_and_the_data_source_make_the_same_rows(each_way: Build, complete: Build, decoder: Any) -> None:
    frames = [complete(row) for row in some_frames(3)]
    worker, jvm, source = each_way(frames, decoder)
    assert worker == jvm == source
    assert len(worker) > 30


@pytest.mark.real
@pytest.mark.sweep
def test_tables_that_are_made_in_one_pass_are_those_that_are_made_alone(captured: Build, complete: Build) -> None:
    frames = [complete(row) | {"at_ns": NOON_NS + number * 1000} for number, row in enumerate(some_frames(3))]
    settings = {"largest": sorted(row["size"] for row in frames)[40], "until_ns": NOON_NS + 50_000}
    for road in (Road.WORKER, Road.JVM):
        alone = captured(*frames, row_group_size=7, road=road, **settings)
        together = replace(alone, together=OF_REPORT, cache=TableCache())
        found = 0
        for decoder in OF_REPORT if is_thorough() else OF_REPORT[1::5]:
            mine, theirs = (sorted(map(str, rows(capture, decoder).collect())) for capture in (together, alone))
            assert mine == theirs, (road, decoder.name)
            found += len(mine)
        assert found > 30, road


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_roads_and_data_source_agree_over_many_captures(each_way: Build, complete: Build, seed: int) -> None:
    rng = random.Random(seed)
    frames = [complete(row) for row in some_frames(seed)]
    first, last = sorted(rng.sample(range(len(frames)), 2))
    begin = NOON_NS + first * 10**9
    settings = {"largest": rng.choice([50, 100, 1 << 20]), "since_ns": begin, "until_ns": NOON_NS + last * 10**9}
    for number, row in enumerate(frames):
        row["at_ns"] = NOON_NS + number * 10**9
    for decoder in (TOPIC_PARTITIONS, BATCHES, RECORDS, MESSAGES):
        worker, jvm, source = each_way(frames, decoder, **settings)
        assert worker == jvm == source


@pytest.mark.real
def test_frames_that_are_left_out_or_too_large_are_rows_each_way(
    captured: Build, each_way: Build, complete: Build
) -> None:
    frames = [complete(row) for row in some_frames(4)]
    limit = sorted(row["size"] for row in frames)[40]
    worker, jvm, source = each_way(frames, MESSAGES, largest=limit)
    assert worker == jvm == source
    assert len(worker) == len(frames)
    reasons = [row.unread for row in rows(captured(*frames, largest=limit), MESSAGES).collect()]
    omitted = [row for row in frames if row["stored"] < row["size"]]
    large = [row for row in frames if row["size"] > limit and "omitted" not in row]
    assert (reasons.count("omitted"), reasons.count("too_large")) == (len(omitted), len(large))
    assert len(large) > 0 < len(omitted)


@pytest.mark.real
def test_tables_have_the_frames_of_the_requested_time_each_way(each_way: Build, complete: Build) -> None:
    frames = [complete(row) | {"at_ns": NOON_NS + number * 1000} for number, row in enumerate(some_frames(5))]
    worker, jvm, source = each_way(frames, MESSAGES, since_ns=NOON_NS + 10_000, until_ns=NOON_NS + 39_000)
    assert worker == jvm == source
    assert len(worker) == 30


@pytest.mark.real
def test_a_damaged_file_is_named(captured: Build, complete: Build, tmp_path: Path) -> None:
    capture = captured(*map(complete, some_frames(6)), road=Road.WORKER)
    (file,) = tmp_path.glob("frames/*/*/*.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(Exception, match=f"{file} can't be read"):
        rows(capture, MESSAGES).collect()

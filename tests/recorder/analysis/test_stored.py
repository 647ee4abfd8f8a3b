"""Tests that a capture in an S3 bucket has the same tables as the folder it was copied from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector, FileType
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import sources
from recorder.analysis.data_source import NAME, register
from recorder.analysis.questions.encodings import answer
from recorder.analysis.scan import files_in
from recorder.capture.frames import events_schema
from tests import hadoop_aws
from tests.brokers.children import spawn
from tests.brokers.waiting import wait_for
from tests.clients.harness import PROGRAM
from tests.faults.live import ROOT
from tests.recorder.analysis import test_streaming
from tests.recorder.analysis.conftest import EVENT, NOON, write_frames
from tests.recorder.analysis.test_bodies import some_frames
from tests.recorder.facts.frames import request, response
from tests.s3 import Store, store

Build = Callable[..., Any]
TABLES = ("frames", "exchanges", "messages", "connections")


segments = test_streaming.segments


@pytest.fixture
def capture(tmp_path: Path, request_row: Build, response_row: Build) -> Path:
    """Frames of many kinds, and Heartbeats, whose error codes Spark reads by itself."""
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


@contextmanager
def in_environment(monkeypatch: pytest.MonkeyPatch, *, is_back: bool = False) -> Iterator[Store]:
    """Runs a store within the block. Commands find it in their environment."""
    with store(is_back=is_back) as opened:
        for name, value in opened.environment.items():
            monkeypatch.setenv(name, value)
        yield opened


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with in_environment(monkeypatch) as opened:
        yield opened


@pytest.fixture
def workers(spark: SparkSession, served: Store) -> Iterator[Store]:
    """Spark's Python workers get the store's settings by environment variables, as Spark itself does."""
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


@pytest.mark.long
@pytest.mark.real
def test_a_bucket_has_the_study_of_encodings_and_the_sample_of_its_folder(
    spark: SparkSession, workers: Store, capture: Path
) -> None:
    def studied(place: str) -> tuple[list[str], Any, list[str]]:
        found = answer(sources.captured(spark, place, files_in(place)), since_ns=None, until_ns=None, with_sample=True)
        return sorted(map(str, found.rows)), found.unread, sorted(map(str, found.sample))

    here = studied(str(capture))
    assert studied(workers.put(capture, "bucket")) == here
    assert all(here[part] for part in (0, 2))


def analyzed(place: str, *options: str) -> dict[str, list[str]]:
    """Returns the answers of `kafka-wiretap analyze`, without its notes. Rows of equal weight come in any order."""
    command = [sys.executable, "-c", "from recorder.commands import analyze; analyze()", place, "--format", "json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    del found["missing"]
    return {name: sorted(map(str, rows)) for name, rows in found.items()}


@pytest.mark.long
def test_analyze_says_the_same_of_a_folder_and_of_both_ways_to_a_bucket(served: Store, capture: Path) -> None:
    url = served.put(capture, "bucket")
    here = analyzed(str(capture))
    assert analyzed(url) == here
    assert analyzed(url.replace("s3://", "s3a://"), *hadoop_aws.options(served)) == here


# --- a stream, all of whose folders are in buckets -----------------------------------------------------


def published(files: list[Path], store: Store) -> None:
    for file in files:
        with store.system().open_output_stream(f"bucket/kept/frames/date=2026-11-21/hour=12/{file.name}") as target:
            target.write(file.read_bytes())


def objects(store: Store, folder: str) -> list[str]:
    """The keys of the objects below a folder."""
    found = store.system().get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    return [one.path for one in found if one.type is FileType.File]


def counted(store: Store, table: str, folder: Path) -> str:
    """Copies the files that a table's logs name. Returns their folder."""
    system, target = store.system(), folder / table
    target.mkdir()
    for log in objects(store, f"bucket/out/{table}/_spark_metadata"):
        for line in system.open_input_file(log).read().decode().splitlines()[1:]:
            path = json.loads(line)["path"].removeprefix("s3a://")
            (target / Path(path).name).write_bytes(system.open_input_file(path).read())
    return str(target)


@contextmanager
def in_bucket(store: Store, log: Path, *more: str) -> Iterator[subprocess.Popen[Any]]:
    """Runs the command; at the block's end it is killed with its JVM, if it still runs."""
    places = ["s3a://bucket/kept", "--output", "s3a://bucket/out"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [*test_streaming.COMMAND, *places, *test_streaming.SHORT, *hadoop_aws.options(store), *more]
    child = spawn(command, output=log, env=environment, cwd=ROOT)
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@pytest.mark.long
def test_a_killed_stream_from_bucket_to_bucket_has_each_window_once_and_as_batch_has_it(
    spark: SparkSession, served: Store, segments: list[Path], tmp_path: Path
) -> None:
    served.system().create_dir("bucket")
    log = tmp_path / "stream.log"
    published(segments[:5], served)
    with in_bucket(served, log, *test_streaming.PLAIN) as first:
        ended = lambda: log.read_text() if first.poll() is not None else None  # noqa: E731
        has_written = lambda: objects(served, "bucket/out/latency_by_api/_spark_metadata")  # noqa: E731
        wait_for(has_written, "a window", seconds=400, hopeless=ended)
    published(segments[5:], served)
    with in_bucket(served, log, "--once", *test_streaming.PLAIN) as last:
        assert last.wait(500) == 0, log.read_text()
    assert_each_window_is_there_once(spark, served, segments, tmp_path)


def assert_each_window_is_there_once(spark: SparkSession, store: Store, segments: list[Path], folder: Path) -> None:
    """Compares the bucket's output with the answers of batch about the same segments."""
    test_streaming.publish(segments, folder / "capture")
    complete = F.col("window_start") + F.expr("interval 31 seconds") <= F.lit(NOON + timedelta(seconds=420))
    for name, found in test_streaming.in_batch(spark, folder / "capture", "1 second").items():
        streamed = spark.read.parquet(counted(store, name, folder))
        assert test_streaming.as_text(streamed) == test_streaming.as_text(found.filter(complete))


# settings that don't retry an unreachable store
IMPATIENT = [
    word for name in ("attempts.maximum", "retry.limit") for word in ("--conf", f"spark.hadoop.fs.s3a.{name}=1")
]


def is_within_a_batch(store: Store, after: int) -> bool:
    """True if a query has begun a batch of a number above `after`, and has not committed it."""
    query = "bucket/out/_checkpoint/latency_by_api"
    begun, committed = (numbers(objects(store, f"{query}/{log}")) for log in ("offsets", "commits"))
    return max(begun, default=-1) > max(after, max(committed, default=-1))


def numbers(paths: list[str]) -> list[int]:
    return [int(Path(path).name) for path in paths if Path(path).name.isdigit()]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_store_that_goes_away_within_a_batch_is_one_line_and_the_stream_continues_when_it_is_back(
    spark: SparkSession, segments: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "stream.log"
    with ExitStack() as stack:
        with in_environment(monkeypatch) as served:
            served.system().create_dir("bucket")
            published(segments[:5], served)
            child = stack.enter_context(in_bucket(served, log, *IMPATIENT, *test_streaming.PLAIN))
            ended = lambda: log.read_text() if child.poll() is not None else None  # noqa: E731
            wait_for(lambda: "latency_by_api: " in log.read_text(), "a window", seconds=900, hopeless=ended)
            told = max(numbers(objects(served, "bucket/out/_checkpoint/latency_by_api/commits")))
            published(segments[5:7], served)
            wait_for(lambda: is_within_a_batch(served, told), "another batch", seconds=400, hopeless=ended)
        assert child.wait(900) == 2
    starting, _, _, *batches, last = test_streaming.told(log)
    assert starting == "starting a stream of s3a://bucket/kept to s3a://bucket/out"
    assert all("_by_api: " in line for line in batches)
    assert last == "Error: s3a://bucket/kept can't be read: Connection refused"
    with in_environment(monkeypatch, is_back=True) as back:
        published(segments[7:], back)
        with in_bucket(back, log, "--once", *test_streaming.PLAIN) as next_one:
            assert next_one.wait(900) == 0, log.read_text()
        assert_each_window_is_there_once(spark, back, segments, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("command", ["analyze", "stream"])
def test_a_missing_bucket_is_one_line(served: Store, tmp_path: Path, command: str) -> None:
    words = [command, "s3a://nowhere/kept", *hadoop_aws.options(served)]
    words += ["--output", str(tmp_path / "out")] if command == "stream" else []
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    said = done.stderr.splitlines()[-1]
    assert said == "Error: s3a://nowhere/kept can't be read: The specified bucket does not exist"
    assert "Traceback" not in done.stderr

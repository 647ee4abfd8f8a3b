"""Tests of the session's settings, and of executor processes that keep within their memory."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from proxy.wire import catalog
from recorder.analysis import job
from recorder.capture.frames import frames_schema

FETCH = {"api_key": 1, "api": "Fetch", "api_version": 12}
MEGABYTE = 1_000_000
Build = Callable[..., Any]


def test_a_users_setting_wins_and_local_masters_bind_to_loopback() -> None:
    chosen = job.settings("local[3]", {"spark.ui.enabled": "true"})
    assert (chosen["spark.master"], chosen["spark.ui.enabled"]) == ("local[3]", "true")
    assert chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in job.settings("spark://host:7077", {})
    on_loopback = job.settings("spark://127.0.0.1:7077", {})
    assert (on_loopback["spark.driver.host"], on_loopback.get("spark.sql.shuffle.partitions")) == ("127.0.0.1", None)


def test_outside_of_spark_submit_nothing_was_submitted() -> None:
    assert job.submitted() == {}


@pytest.mark.parametrize("name", ["DataFrameQueryContextLogger", "SQLQueryContextLogger"])
def test_pyspark_does_not_write_exceptions_to_the_terminal_itself(name: str) -> None:
    job._prepare("local[1]")
    logger, paper = PySparkLogger.getLogger(name), StringIO()
    handler = logging.StreamHandler(paper)
    logger.addHandler(handler)
    logger.exception("wrong", file="a.py", line="1")
    logger.removeHandler(handler)
    assert paper.getvalue() == ""


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a program in place of the JVM. The tests' own session is put aside meanwhile."""
    started: list[subprocess.Popen[bytes]] = []
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)

    def start(*command: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=started[-1]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.real
def test_a_jvm_whose_session_can_not_open_is_ended(jvm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def fails(*_settings: Any) -> Any:
        started.append(jvm("cat"))
        raise RuntimeError("no master")

    monkeypatch.setattr(job, "_open", fails)
    with pytest.raises(RuntimeError, match="no master"), job.session("local[1]"):
        pass
    assert [process.poll() is not None for process in started] == [True]


@pytest.mark.real
def test_a_second_interrupt_leaves_no_jvm_behind(jvm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program goes on although its standard input is closed, as a JVM does that cleans up."""
    process = jvm("sleep", "1000")
    wait, interrupts = process.wait, [KeyboardInterrupt]

    def interrupted(timeout: float | None = None) -> int:
        if interrupts:
            raise interrupts.pop()
        return int(wait(timeout))

    monkeypatch.setattr(process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        job._end_jvm()
    assert process.poll() is not None


@pytest.mark.real
def test_batches_on_their_way_to_python_are_bounded_in_bytes_and_rows(
    spark: SparkSession, capture: Build, response_row: Build
) -> None:
    def sizes(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    large = capture(*(response_row(n, bytes(MEGABYTE), **FETCH) for n in range(60)))
    found = large.select("frame").mapInArrow(sizes, "rows bigint, bytes bigint").collect()
    assert sum(row.rows for row in found) == 60
    assert max(row.bytes for row in found) < (16 << 20) + 2 * MEGABYTE
    small = spark.range(5000, numPartitions=1).mapInArrow(sizes, "rows bigint, bytes bigint").collect()
    assert max(row.rows for row in small) == 1000


def write_fetches(folder: Path, response_row: Build, count: int) -> None:
    """Fetch responses of 1 MB that don't compress, in row groups of the capture's size; one in ten is an error."""
    place = folder / "frames" / "date=2026-11-21" / "hour=12"
    place.mkdir(parents=True)
    records = os.urandom(MEGABYTE)
    frames = [catalog.encode_response(1, 12, 1, {"error_code": code, "responses": [topic(records)]}) for code in (0, 6)]
    with pq.ParquetWriter(place / "s-1-1.parquet", frames_schema(), compression="zstd") as writer:
        for start in range(0, count, 60):
            some = range(start, min(start + 60, count))
            rows = [response_row(n, frames[n % 10 == 0], at_ns=n, **FETCH) for n in some]
            writer.write_table(pa.Table.from_pylist(rows, frames_schema()))


def topic(records: bytes) -> dict[str, Any]:
    return {"topic": "t", "partitions": [{"partition_index": 0, "records": records}]}


def analyze(folder: Path, *options: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """`kafka-wiretap analyze` in a process of its own; the two tables."""
    program = "from recorder.commands import analyze; analyze()"
    command = [sys.executable, "-c", program, str(folder), *options, "--out", str(folder / "out"), "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    begun, *progress = done.stderr.splitlines()
    assert begun.startswith("reading ")
    # a slow machine is told each ten seconds how far it is
    assert all(re.match(r"\d+ s: ", line) for line in progress), progress
    return table(folder / "out" / "latency_by_api"), table(folder / "out" / "errors_by_api")


def table(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("*.csv")
    rows: list[dict[str, Any]] = pyarrow.csv.read_csv(file).to_pylist()
    return rows


@pytest.mark.real
@pytest.mark.long
def test_executor_processes_give_the_same_answer_as_threads(
    tmp_path: Path, capture: Build, request_row: Build, response_row: Build
) -> None:
    frame = catalog.encode_response(3, 12, 1, {"topics": [{"error_code": 3, "name": "t", "partitions": []}]})
    capture(*(make(n) for n in range(200) for make in (request_row, lambda n: response_row(n, frame, latency_ns=n))))
    latency, errors = analyze(tmp_path, "--master", "local-cluster[1,2,1024]", "--conf", "spark.executor.memory=1g")
    assert [(row["api"], row["requests"], row["responses"], row["errors"]) for row in latency] == [
        ("Metadata", 200, 200, 200)
    ]
    assert latency[0]["p50_ms"] == 99 / 1e6
    assert [(row["error"], row["count"]) for row in errors] == [("UNKNOWN_TOPIC_OR_PARTITION", 200)]


@pytest.mark.long
def test_frames_of_a_megabyte_go_through_an_executor_that_holds_few_of_them(
    tmp_path: Path, response_row: Build
) -> None:
    write_fetches(tmp_path, response_row, 600)
    options = ["--master", "local-cluster[1,1,512]", "--conf", "spark.executor.memory=512m"]
    latency, errors = analyze(tmp_path, *options)
    assert [(row["api"], row["responses"], row["errors"]) for row in latency] == [("Fetch", 600, 60)]
    assert [(row["error"], row["count"]) for row in errors] == [("NOT_LEADER_OR_FOLLOWER", 60)]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_five_thousand_frames_of_a_megabyte_go_through_an_executor_of_two_gigabytes(
    tmp_path: Path, response_row: Build
) -> None:
    write_fetches(tmp_path, response_row, 5000)
    options = ["--master", "local-cluster[1,2,2048]", "--conf", "spark.executor.memory=2g"]
    latency, errors = analyze(tmp_path, *options)
    assert [(row["api"], row["responses"], row["errors"]) for row in latency] == [("Fetch", 5000, 500)]
    assert [(row["error"], row["count"]) for row in errors] == [("NOT_LEADER_OR_FOLLOWER", 500)]


@pytest.mark.real
def test_a_terminal_shows_the_current_step_while_the_jvm_starts(tmp_path: Path) -> None:
    program = """
import pathlib, subprocess, sys
from recorder.analysis.job import _stderr_to
with _stderr_to(pathlib.Path(sys.argv[1])):
    print("Spark is starting \\udcff", file=sys.stderr)
    subprocess.run("echo of the JVM >&2", shell=True, check=True)
print("Spark is at work", file=sys.stderr)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "spark.log")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "Spark is starting \\udcff\nSpark is at work\n"
    assert (tmp_path / "spark.log").read_text() == "of the JVM\n"


TOLD_TO_END = """
import os, signal, sys, types
from pyspark import java_gateway
from proxy import cli

def popen(*arguments, **options):
    process = launch(*arguments, **options)
    print(process.pid, flush=True)
    return process

def sleep(seconds):
    # Java runs, and has not said yet where it listens
    java_gateway.time = time
    os.kill(os.getpid(), signal.SIGTERM)

launch, time = java_gateway.Popen, java_gateway.time
java_gateway.Popen, java_gateway.time = popen, types.SimpleNamespace(sleep=sleep)
cli.main(["analyze", sys.argv[1], "--engine", "spark"])
"""


@pytest.mark.real
@pytest.mark.long
def test_a_sigterm_while_the_jvm_starts_ends_both_with_a_line(
    capture: Build, request_row: Build, tmp_path: Path
) -> None:
    capture(request_row(0))
    command = [sys.executable, "-c", TOLD_TO_END, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGTERM
    begun, *_, last = done.stderr.splitlines()
    assert begun.startswith("reading ")
    assert last == "ended by SIGTERM"
    assert "Traceback" not in done.stderr
    assert not Path(f"/proc/{int(done.stdout)}").exists()

"""Tests of streams over growing captures: each window is written once, as a batch computes it, even after a kill."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import catalog
from recorder.analysis import sources, streaming
from recorder.analysis.batch_progress import Progress
from recorder.analysis.questions.errors import errors_by_api
from recorder.analysis.questions.latency import latency_by_api
from recorder.analysis.streaming import FORM, QUESTIONS, Streamed, run
from recorder.capture.compactor import compact
from recorder.capture.frames import frames_schema
from recorder.capture.session import SPOOL_FOLDER
from tests.brokers.children import spawn
from tests.brokers.waiting import wait_for
from tests.faults.live import ROOT, LiveProxy, Load, broker, mixed
from tests.recorder.analysis.conftest import NOON
from tests.recorder.analysis.test_batch_progress import Query, finished

pytestmark = pytest.mark.real
Build = Callable[..., Any]
HEARTBEAT = {"api_key": 12, "api": "Heartbeat", "api_version": 4}
WINDOW = "1 minute"
# exchanges by hand, one every 7 s, and the longest latency of most of them
EXCHANGES, LATENCIES_MS = 60, (1, 20, 90_000)


def beat(number: int, latency_ms: int) -> list[tuple[float, dict[str, Any]]]:
    """The rows of a heartbeat, each with the second after noon when it arrived; one response in five is an error."""
    frame = catalog.encode_response(12, 4, number, {"error_code": 27 if number % 5 == 0 else 0})
    asked, told = float(number * 7), number * 7 + latency_ms / 1000
    answer = {"frame": frame, "size": len(frame), "stored": len(frame), "latency_ns": latency_ms * 10**6}
    return [(asked, {"kind": "request"}), (told, {"kind": "response", **answer})]


@pytest.fixture
def segments(tmp_path: Path, request_row: Build, response_row: Build) -> list[Path]:
    """Published files of a capture, one for each minute of arrival, outside of the capture.

    Some exchanges have their request in one file and their response in another. The last request expects no response.
    """
    rng = random.Random(5)
    rows: list[tuple[float, dict[str, Any]]] = []
    for number in range(EXCHANGES):
        for second, told in beat(number, rng.choice(LATENCIES_MS) + rng.randrange(9)):
            build = request_row if told["kind"] == "request" else response_row
            rows.append((second, build(number, at=NOON + timedelta(seconds=second), **HEARTBEAT, **told)))
    rows.append((EXCHANGES * 7, request_row(EXCHANGES, at=NOON + timedelta(seconds=EXCHANGES * 7), awaits=False)))
    last = int(max(second for second, _ in rows)) // 60
    return [write(tmp_path, at, [row for second, row in rows if second // 60 == at]) for at in range(last + 1)]


def write(folder: Path, number: int, rows: list[dict[str, Any]]) -> Path:
    table = [row | {"at_ns": int(row["at"].timestamp() * 10**6) * 1000} for row in rows]
    file = folder / "kept" / f"s-{number}-{number}.parquet"
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(table, frames_schema()), file)
    return file


def publish(files: list[Path], capture: Path) -> None:
    hour = capture / "frames" / "date=2026-11-21" / "hour=12"
    hour.mkdir(parents=True, exist_ok=True)
    for file in files:
        # the compactor does it like this: first the whole file, then its name
        shutil.copy(file, hour / f".{file.name}")
        (hour / f".{file.name}").rename(hour / file.name)


def streamed(folder: Path, **other: Any) -> Streamed:
    return Streamed(str(folder / "capture"), str(folder / "out"), str(folder / "checkpoint"), **{"every": None} | other)


def written(spark: SparkSession, folder: Path, name: str) -> list[str]:
    return as_text(spark.read.parquet(str(folder / "out" / name)))


def as_text(found: DataFrame) -> list[str]:
    return sorted(str(sorted(row.asDict().items())) for row in found.collect())


def in_batch(spark: SparkSession, capture: Path, window: str) -> dict[str, DataFrame]:
    """A batch's answer about exchanges that have a response, or expect none."""
    files = {kind: [str(file) for file in capture.glob(f"{kind}/*/*/*.parquet")] for kind in ("frames", "events")}
    found = sources.all_exchanges(sources.captured(spark, str(capture), files))
    known = found.filter(F.col("outcome").isin("answered", "by_proxy", "one_way"))
    latency = latency_by_api(known, window=window).drop("unanswered")
    return {"latency_by_api": latency, "errors_by_api": errors_by_api(known, window=window).drop("flow")}


def test_a_capture_that_grows_has_each_window_once_and_as_batch_has_it(
    spark: SparkSession, tmp_path: Path, segments: list[Path]
) -> None:
    asked = streamed(tmp_path, watermark="2 minutes", window=WINDOW)
    told: list[Progress] = []
    # a segment may arrive before an older one, if the difference is less than the watermark
    for part in ([segments[1], segments[0], *segments[2:5]], segments[5:]):
        publish(part, tmp_path / "capture")
        told += run(spark, asked)
    assert not [one for one in told if one.late]
    batch = in_batch(spark, tmp_path / "capture", WINDOW)
    newest = NOON + timedelta(seconds=EXCHANGES * 7)
    for name, found in batch.items():
        complete = F.col("window_start") + F.expr("interval 3 minutes") <= F.lit(newest)
        assert written(spark, tmp_path, name) == as_text(found.filter(complete))
    assert len(written(spark, tmp_path, "latency_by_api")) > 3


@pytest.mark.long
def test_an_exchange_later_than_its_written_window_is_counted_and_dropped(
    spark: SparkSession, tmp_path: Path, segments: list[Path]
) -> None:
    asked = streamed(tmp_path, watermark="1 minute", window=WINDOW)
    publish([segments[0], *segments[2:]], tmp_path / "capture")
    assert not [one for one in run(spark, asked) if one.late]
    before = written(spark, tmp_path, "latency_by_api")
    publish([segments[1]], tmp_path / "capture")
    late = {one.table: one.late for one in run(spark, asked) if one.late}
    assert late == {"latency_by_api": late["latency_by_api"], "errors_by_api": late["errors_by_api"]}
    assert written(spark, tmp_path, "latency_by_api") == before


MILLISECONDS = (
    "transform(percentile_approx(latency_ns, array(0.5D, 0.95D, 0.99D), 10000), "
    "lambdafunction((CAST(namedlambdavariable() AS DOUBLE) / CAST(1000000.0D AS DOUBLE)), namedlambdavariable()))"
)
API = "coalesce(api, concat('api ', CAST(api_key AS STRING)))"
WAIT = (
    "CASE WHEN (wait IN ('tail', 'empty', 'error', 'members')) THEN 'wait' "
    "WHEN (wait = 'includes_wait') THEN 'includes_wait' END"
)
# Each form that streams have had: what a query of default options scans, groups by, aggregates and writes. A checkpoint
# is of no use to another form, so a new one is added here together with its number, `streaming.FORM`.
FORMS = {
    1: {
        "latency_by_api": {
            "scans": 3,
            "groups": ["window", API, WAIT],
            "aggregates": [
                "window AS _window",
                f"{API} AS api",
                f"{WAIT} AS wait",
                "count_if((NOT (outcome = 'request_lost'))) AS requests",
                "count(answered_at) AS responses",
                "count_if((outcome = 'unanswered')) AS unanswered",
                "count_if((size(error_codes) > 0)) AS errors",
                "coalesce(sum(CASE WHEN (NOT (outcome = 'request_lost')) THEN request_size END), CAST(0 AS BIGINT)) "
                "AS request_bytes",
                "coalesce(sum(response_size), CAST(0 AS BIGINT)) AS response_bytes",
                f"{MILLISECONDS}[0] AS p50_ms",
                f"{MILLISECONDS}[1] AS p95_ms",
                f"{MILLISECONDS}[2] AS p99_ms",
            ],
            "columns": "window_start timestamp, api string, wait string, requests bigint, responses bigint, "
            "errors bigint, request_bytes bigint, response_bytes bigint, p50_ms double, p95_ms double, p99_ms double",
        },
        "errors_by_api": {
            "scans": 3,
            "groups": ["window", "api", "error_code"],
            "aggregates": ["window AS _window", "api", "error_code", "sum(count) AS count", "count(1) AS exchanges"],
            "columns": "window_start timestamp, api string, error_code smallint, error string, retriable boolean, "
            "count bigint, exchanges bigint",
        },
    },
}


def form_of(windows: DataFrame) -> dict[str, Any]:
    """The form of a streaming query, of its plan. Spark compares a checkpoint with its scans, groups and aggregates."""
    plan: Any = windows._jdf.queryExecution().analyzed()
    (aggregate,) = [node for node in nodes_of(plan) if node.nodeName() == "Aggregate"]
    return {
        "scans": sum(node.nodeName() == "StreamingRelation" for node in nodes_of(plan)),
        "groups": sql_of(aggregate.groupingExpressions()),
        "aggregates": sql_of(aggregate.aggregateExpressions()),
        "columns": ", ".join(f"{name} {kind}" for name, kind in windows.dtypes),
    }


def nodes_of(plan: Any) -> Iterator[Any]:
    yield plan
    for at in range(plan.children().size()):
        yield from nodes_of(plan.children().apply(at))


def sql_of(expressions: Any) -> list[str]:
    return [expressions.apply(at).sql() for at in range(expressions.size())]


def test_a_query_of_another_form_has_another_number(spark: SparkSession, tmp_path: Path, segments: list[Path]) -> None:
    publish(segments[:1], tmp_path / "capture")
    asked = streamed(tmp_path)
    assert {name: form_of(streaming.windows_of(spark, name, asked)) for name in QUESTIONS} == FORMS[FORM]
    assert max(FORMS) == FORM


@pytest.mark.long
def test_a_batch_that_finished_before_a_stop_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Query):
        isActive = True  # noqa: N815 - Spark's name
        has_ended = False

        def exception(self) -> None: ...

        def stop(self) -> None:
            self.has_ended = True

    queries = [Stopped(finished(0, written=3)), Stopped(finished(0), finished(1, written=2))]
    starting = iter(queries)
    monkeypatch.setattr(streaming, "_started", lambda *_: next(starting))
    stop = Event()
    stop.set()
    told = run(cast(SparkSession, None), Streamed("capture", "out", "checkpoint"), stop)
    assert [one.written for one in told] == [3, 0, 2]
    assert [query.has_ended for query in queries] == [True, True]


# the command as users run it; windows are short, so many are written while processes are killed
COMMAND = [sys.executable, "-c", "from proxy.cli import main; main()", "stream"]
SHORT = ["--window", "1s", "--watermark", "30s", "--trigger", "1s", "--master", "local[2]"]
# for so few rows, Java code is not generated or compiled
PLAIN = [
    word for name in ("wholeStage=false", "factoryMode=NO_CODEGEN") for word in ("--conf", f"spark.sql.codegen.{name}")
]
TURNS = 5
# seconds that only a hang takes, as JVMs start slowly on a busy machine
PATIENCE = 900
# more than the bytes of a segment
SEGMENT = 3_000_000
FLAGS = ("--record-spool", "8MiB", "--record-when-full", "wait")
BATCH = mixed((5, 5, 5, 5, 300, 20_000), 12)


@contextmanager
def stream(folder: Path, *more: str) -> Iterator[subprocess.Popen[Any]]:
    """Runs the command; at the block's end it is killed with its JVM, if it still runs."""
    command = [*COMMAND, str(folder / "capture"), "--output", str(folder / "out"), *SHORT, *more]
    child = spawn(command, output=folder / "stream.log", env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=ROOT)
    try:
        yield child
    finally:
        if child.poll() is None:
            # the process group has the command, its JVM and their workers
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def ctrl_c(child: Any) -> None:
    child.send_signal(signal.SIGINT)


def end_of_a_service(child: Any) -> None:
    """systemd ends all processes of a service at once, and so the JVM."""
    os.killpg(child.pid, signal.SIGTERM)


def told(log: Path) -> list[str]:
    """The lines of a stream's output, but not how long a step takes ("10 s: Spark is starting ...")."""
    return [line for line in log.read_text().splitlines() if not re.match(r"\d+ s: ", line)]


@pytest.mark.long
@pytest.mark.parametrize("end", [ctrl_c, end_of_a_service])
def test_a_stream_waits_for_a_first_segment_and_ends_cleanly_on_request(
    tmp_path: Path, segments: list[Path], monkeypatch: pytest.MonkeyPatch, end: Callable[[Any], None]
) -> None:
    scratch, log = tmp_path / "scratch", tmp_path / "stream.log"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    (tmp_path / "capture" / SPOOL_FOLDER).mkdir(parents=True)
    with stream(tmp_path, *PLAIN) as child:
        ended = lambda: log.read_text() if child.poll() is not None else None  # noqa: E731
        wait_for(lambda: "waiting for the first segment" in log.read_text(), "the wait", hopeless=ended)
        assert not (tmp_path / "out" / "latency_by_api").exists()
        assert_no_second_stream(tmp_path)
        publish(segments, tmp_path / "capture")
        wait_for(lambda: "latency_by_api: " in log.read_text(), "a batch", seconds=PATIENCE, hopeless=ended)
        assert_no_second_stream(tmp_path)
        end(child)
        assert child.wait(PATIENCE) == 0
    starting, _, _, waiting, *batches, last = told(log)
    assert starting == f"starting a stream of {tmp_path}/capture to {tmp_path}/out"
    assert waiting.endswith("holds no frames: waiting for the first segment")
    assert all(" rows written, " in line or " row written, " in line for line in batches)
    assert last == f"stopped: the same command goes on from {tmp_path}/out/_checkpoint"
    assert list(scratch.iterdir()) == []


@pytest.mark.long
def test_a_stream_starts_at_once_when_the_one_before_is_killed(
    spark: SparkSession, tmp_path: Path, segments: list[Path]
) -> None:
    log = tmp_path / "stream.log"
    publish(segments[:5], tmp_path / "capture")
    with stream(tmp_path, *PLAIN) as first:
        ended = lambda: log.read_text() if first.poll() is not None else None  # noqa: E731
        wait_for(lambda: steps_of(tmp_path) > 0, "a batch", seconds=PATIENCE, hopeless=ended)
        # only the command is killed; its JVM ends by itself a moment later
        first.kill()
        first.wait()
        publish(segments[5:], tmp_path / "capture")
        with stream(tmp_path, "--once", *PLAIN) as next_one:
            assert next_one.wait(PATIENCE) == 0, log.read_text()
    newest = NOON + timedelta(seconds=EXCHANGES * 7)
    complete = F.col("window_start") + F.expr("interval 31 seconds") <= F.lit(newest)
    for name, found in in_batch(spark, tmp_path / "capture", "1 second").items():
        assert written(spark, tmp_path, name) == as_text(found.filter(complete))


def assert_no_second_stream(folder: Path) -> None:
    """A second run of the same command must end at once."""
    second = subprocess.run(
        [*COMMAND, str(folder / "capture"), "--output", str(folder / "out"), *SHORT],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=False,
    )
    assert second.returncode == 2
    assert second.stderr.splitlines()[-1].startswith(f"Error: another stream writes to {folder / 'out'} now: ")
    assert "Traceback" not in second.stderr


def steps_of(folder: Path) -> int:
    """How many batches the stream has begun, and how many it has ended."""
    return len([*folder.glob("out/_checkpoint/*/offsets/[0-9]*"), *folder.glob("out/_checkpoint/*/commits/[0-9]*")])


def has_begun(folder: Path, steps: int) -> bool:
    return steps_of(folder) >= steps


def go_on(load: Load, folder: Path, steps: int) -> None:
    """Returns when the stream has run so many more steps; each takes a new segment."""
    for _ in range(steps):
        until = steps_of(folder) + 1
        load.reach(SEGMENT)
        with load.paused():
            wait_for(partial(has_begun, folder, until), "a step of the stream", seconds=PATIENCE)


def write_a_day_later(capture: Path, row: dict[str, Any]) -> datetime:
    """Writes a frame that is newer than all others by more than the watermark. Returns its time."""
    at = datetime.now(UTC) + timedelta(days=1)
    hour = capture / "frames" / f"date={at:%Y-%m-%d}" / f"hour={at:%H}"
    hour.mkdir(parents=True)
    told = row | {"at": at, "at_ns": int(at.timestamp() * 10**6) * 1000}
    pq.write_table(pa.Table.from_pylist([told], frames_schema()), hour / "z-1-1.parquet")
    return at


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_proxy_and_stream_killed_at_random_moments_leave_each_window_once_and_as_batch_has_it(
    spark: SparkSession, tmp_path: Path, request_row: Build
) -> None:
    rng, capture = random.Random(11), tmp_path / "capture"
    with broker() as upstream:
        for turn in range(TURNS):
            proxy = LiveProxy(upstream, capture, tmp_path / f"proxy-{turn}.log", *FLAGS)
            load = Load([*proxy.nodes().values()] * 2, BATCH, turn)
            with stream(tmp_path):
                go_on(load, tmp_path, rng.randint(1, 7))
                proxy.kill()
            load.stop()
    assert not compact(capture).failed
    end = write_a_day_later(capture, request_row(0, awaits=False))
    with stream(tmp_path, "--once") as last:
        assert last.wait(PATIENCE) == 0, (tmp_path / "stream.log").read_text()
    assert "too late" not in (tmp_path / "stream.log").read_text()
    for name, found in in_batch(spark, capture, "1 second").items():
        streamed_rows = written(spark, tmp_path, name)
        assert streamed_rows == as_text(found.filter(F.col("window_start") < F.lit(end - timedelta(hours=1))))
        assert len(streamed_rows) > TURNS

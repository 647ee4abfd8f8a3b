"""Provides one Spark session for the run, and builds rows of a capture by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from proxy.wire import encode_request, encode_response, records
from recorder.analysis import embedded, job, sources
from recorder.analysis.bodies import Captured
from recorder.analysis.findings.tables import Tables
from recorder.analysis.tables.frames import frames
from recorder.capture.frames import events_schema, frames_schema
from tests.recorder.analysis.by_hand import tables_of
from tests.sweeps import is_thorough

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = dict[str, Any]
# values that all rows of events share
EVENT = {"session": "s", "connection": 1, "at": NOON, "at_ns": 0, "mono_ns": 0, "detail": "{}"}


# The settings for a capture of few rows; plans are printed in full, because tests read them.
SETTINGS = {
    **job.FEW_ROWS,
    "spark.sql.maxMetadataStringLength": "10000",
    "spark.sql.debug.maxToStringFields": "1000",
}


# the rooms whose tests ask the embedded engine, and Spark in `make test-long`
ROOMS_OF_BOTH = ("tables", "questions", "findings")


@pytest.fixture(scope="session")
def on_spark() -> Iterator[SparkSession]:
    """The run's only session on Spark."""
    with job.session("local[2]", extra=SETTINGS, quick=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session of a module's tests, on Spark if the module says ON_SPARK."""
    asks_both = request.path.parent.name in ROOMS_OF_BOTH and not getattr(request.module, "ON_SPARK", False)
    if not asks_both or is_thorough():
        yield request.getfixturevalue("on_spark")
        return
    with embedded.session() as opened:
        yield opened


@pytest.fixture
def as_for_many_rows(spark: SparkSession) -> Iterator[None]:
    """Spark plans as for a capture of any size."""
    for name in job.FEW_ROWS:
        spark.conf.unset(name)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    for name, value in job.FEW_ROWS.items():
        spark.conf.set(name, value)


@pytest.fixture
def request_row() -> Callable[..., Row]:
    """A request's row: `exchange`, and the values that differ from those of a Metadata 12 request at noon."""

    def build(exchange: int, **other: Any) -> Row:
        row = {"session": "s", "connection": 1, "sequence": 2 * exchange, "exchange": exchange, "dialect": "kafka"}
        row |= {"kind": "request", "made_by": "client", "at": NOON + timedelta(seconds=exchange), "awaits": True}
        row |= {"api_key": 3, "api": "Metadata", "api_version": 12, "correlation_id": exchange, "client_id": "app"}
        row |= {"size": 20, "stored": 20}
        return row | other

    return build


@pytest.fixture
def response_row() -> Callable[..., Row]:
    """A response's row: `exchange`, bytes, and values that differ from a Metadata 12 response 5 ms after noon."""

    def build(exchange: int, frame: bytes | None = None, **other: Any) -> Row:
        at = NOON + timedelta(seconds=exchange, milliseconds=5)
        row = {"session": "s", "connection": 1, "sequence": 2 * exchange + 1, "exchange": exchange, "dialect": "kafka"}
        row |= {"kind": "response", "made_by": "broker", "at": at, "api_key": 3, "api": "Metadata", "api_version": 12}
        row |= {"correlation_id": exchange, "client_id": "app", "request_size": 20, "latency_ns": 5_000_000}
        size = 100 if frame is None else len(frame)
        row |= {"size": size, "stored": size, "frame": frame}
        return row | other

    return build


@pytest.fixture
def rows(request_row: Callable[..., Row], response_row: Callable[..., Row]) -> list[Row]:
    """Two clients that request Metadata, and write and read a topic."""
    batch = records.write_batch([records.Record(0, 1000, value=b"v")])
    partition = {"partition_index": 0, "high_watermark": 1, "records": batch}
    produced = {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]}
    frames: dict[int, tuple[Row, Row]] = {
        3: ({"topics": None}, {"cluster_id": "c", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}),
        0: (produced, {"responses": [{"name": "t", "partition_responses": [{"index": 0}]}]}),
        1: ({"topics": [{"topic": "t"}]}, {"responses": [{"topic": "t", "partitions": [partition]}]}),
    }
    version, name = {3: 9, 0: 8, 1: 11}, {3: "Metadata", 0: "Produce", 1: "Fetch"}
    found = []
    for connection in (1, 2):
        for number in range(60):
            key = (3, 0, 1)[number % 3]
            facts = {"api_key": key, "api": name[key], "api_version": version[key], "connection": connection}
            request = encode_request(key, version[key], number, "app", frames[key][0])
            sent = {"frame": request, "size": len(request), "stored": len(request)}
            found += [
                request_row(number, **facts, **sent),
                response_row(number, encode_response(key, version[key], number, frames[key][1]), **facts),
            ]
    return found


def with_ns(row: Row) -> Row:
    """The row with `at` in ns as well, as every capture has it."""
    at = row["at"] - datetime(1970, 1, 1, tzinfo=UTC)
    return {"at_ns": at // timedelta(microseconds=1) * 1000} | row


@pytest.fixture
def capture(spark: SparkSession, tmp_path: Path) -> Callable[..., DataFrame]:
    """Writes the rows as a capture on disk, and returns its frames."""

    def build(*rows: Row, row_group_size: int = 1000) -> DataFrame:
        write_frames(tmp_path, rows, row_group_size)
        return frames(spark, str(tmp_path))

    return build


def write_frames(folder: Path, rows: Sequence[Row], row_group_size: int) -> None:
    """Writes the rows as a capture's only file of frames."""
    hour = folder / "frames" / "date=2026-11-21" / "hour=12"
    hour.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([with_ns(row) for row in rows], frames_schema())
    pq.write_table(table, hour / "s-1-1.parquet", row_group_size=row_group_size, write_page_checksum=True)


@pytest.fixture
def captured(spark: SparkSession, tmp_path: Path) -> Callable[..., Captured]:
    """Writes the rows as a capture on disk. `events`: rows of events; `settings`: arguments of `sources.captured`."""

    def build(*rows: Row, events: Sequence[Row] = (), row_group_size: int = 1000, **settings: Any) -> Captured:
        return _captured(spark, tmp_path, rows, events, row_group_size, **settings)

    return build


@pytest.fixture(scope="module")
def captured_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Captured]:
    """A capture that all tests of a module share; otherwise like `captured`."""

    def build(*rows: Row, events: Sequence[Row] = ()) -> Captured:
        return _captured(spark, tmp_path_factory.mktemp("capture"), rows, events)

    return build


def _captured(
    spark: SparkSession,
    folder: Path,
    rows: Sequence[Row],
    events: Sequence[Row] = (),
    row_group_size: int = 1000,
    **settings: Any,
) -> Captured:
    write_frames(folder, rows, row_group_size)
    hour = "date=2026-11-21/hour=12"
    files = {"frames": [str(folder / "frames" / hour / "s-1-1.parquet")], "events": []}
    if events:
        (folder / "events" / hour).mkdir(parents=True, exist_ok=True)
        files["events"] = [str(folder / "events" / hour / "s-1-1.parquet")]
        pq.write_table(pa.Table.from_pylist([EVENT | row for row in events], events_schema()), files["events"][0])
    return sources.captured(spark, str(folder), files, **settings)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Callable[..., Tables]:
    """Builds tables for rules and sections from exchanges and events by hand: `by_hand.tables_of`."""
    return partial(tables_of, spark)

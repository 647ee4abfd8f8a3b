"""One Spark session for the run, and rows of a capture written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis import job
from recorder.analysis.tables.frames import frames
from recorder.capture.frames import frames_schema

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = dict[str, Any]


# Few partitions, because rows are few; plans in full, because tests read them.
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.maxMetadataStringLength": "10000",
    "spark.sql.debug.maxToStringFields": "1000",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with job.session("local[2]", extra=SETTINGS, quick=True) as opened:
        yield opened


@pytest.fixture
def request_row() -> Callable[..., Row]:
    """A request's row: `exchange` and what differs from a Metadata 12 request at noon."""

    def build(exchange: int, **other: Any) -> Row:
        row = {"session": "s", "connection": 1, "sequence": 2 * exchange, "exchange": exchange, "dialect": "kafka"}
        row |= {"kind": "request", "made_by": "client", "at": NOON + timedelta(seconds=exchange), "awaits": True}
        row |= {"api_key": 3, "api": "Metadata", "api_version": 12, "correlation_id": exchange, "client_id": "app"}
        row |= {"size": 20, "stored": 20}
        return row | other

    return build


@pytest.fixture
def response_row() -> Callable[..., Row]:
    """A response's row: `exchange`, its bytes, and what differs from a Metadata 12 response 5 ms after noon."""

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
def capture(spark: SparkSession, tmp_path: Path) -> Callable[..., DataFrame]:
    """The rows as a capture on disk, read back as its frames."""

    def build(*rows: Row, row_group_size: int = 1000) -> DataFrame:
        hour = tmp_path / "frames" / "date=2026-11-21" / "hour=12"
        hour.mkdir(parents=True)
        table = pa.Table.from_pylist(list(rows), frames_schema())
        pq.write_table(table, hour / "s-1-1.parquet", row_group_size=row_group_size)
        return frames(spark, str(tmp_path))

    return build

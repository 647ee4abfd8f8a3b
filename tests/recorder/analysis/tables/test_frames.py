"""Tests that the capture's DataFrame has the capture's columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from recorder.analysis.tables.frames import events, frames
from recorder.capture.frames import FRAME_COLUMNS, frames_schema

pytestmark = pytest.mark.real
ON_SPARK = True


def test_every_column_of_the_capture_is_there_and_the_hour_besides(
    capture: Callable[..., Any], request_row: Callable[..., Any]
) -> None:
    found = capture(request_row(0, masked=[{"start": 3, "length": 4}]))
    assert found.columns == [*(name for name, _ in FRAME_COLUMNS), "date", "hour"]
    (row,) = found.collect()
    assert (row.masked[0].start, row.masked[0].length, row.hour) == (3, 4, 12)


def test_a_column_that_an_older_file_lacks_is_null(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "frames" / "date=2026-11-21" / "hour=12"
    place.mkdir(parents=True)
    table = pa.Table.from_pylist([{"session": "s", "note": "x"}], frames_schema()).drop_columns(["note"])
    pq.write_table(table, place / "s-1-1.parquet")
    (row,) = frames(spark, str(tmp_path)).collect()
    assert (row.session, row.note) == ("s", None)


def test_files_that_are_not_finished_are_invisible(
    capture: Callable[..., Any], request_row: Callable[..., Any], tmp_path: Path, spark: SparkSession
) -> None:
    capture(request_row(0))
    (tmp_path / "frames" / "date=2026-11-21" / "hour=12" / ".s-2-2.parquet").write_bytes(b"half")
    assert frames(spark, f"{tmp_path}/").count() == 1


def test_nothing_is_read_but_the_files_that_are_named(
    capture: Callable[..., Any], request_row: Callable[..., Any], tmp_path: Path, spark: SparkSession
) -> None:
    """Spark would follow links, and treat names as patterns."""
    capture(request_row(0))
    hour = tmp_path / "frames" / "date=2026-11-21" / "hour=12"
    odd = (hour / "s-1-1.parquet").rename(hour / "s{1,2}[x]*-1-1.parquet")
    (hour / "data").symlink_to(odd)
    (tmp_path / "frames" / "more").symlink_to(tmp_path / "frames" / "date=2026-11-21")
    named = {"frames": [str(odd)], "events": []}
    (row,) = frames(spark, str(tmp_path), named).collect()
    assert (row.session, row.date.isoformat(), row.hour) == ("s", "2026-11-21", 12)
    assert events(spark, str(tmp_path), named).collect() == []

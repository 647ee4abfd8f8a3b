"""Tests of the format `kafka-wiretap`: options, columns, and filters that skip row groups."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.data_source import NAME, CaptureReader, CaptureSource, read_options, register
from recorder.analysis.job import mixes_up_filters
from tests.brokers.waiting import wait_for
from tests.recorder.analysis.conftest import write_frames
from tests.recorder.facts.frames import request
from tests.sweeps import mostly_long
from tests.tables import each_row

Build = Callable[..., Any]
# of 20 rows, the first half are Heartbeat requests, the second half Metadata requests
GROUP = 10


@pytest.fixture
def half_destroyed(tmp_path: Path, request_row: Build) -> Path:
    """A capture of two row groups. Of the first one, only the footer is left."""
    beats = [request_row(number, api="Heartbeat", api_key=12) for number in range(GROUP)]
    asks = [request_row(GROUP + number) | request(3, 12, {}) for number in range(GROUP)]
    write_frames(tmp_path, [*beats, *asks], GROUP)
    (file,) = tmp_path.glob("frames/*/*/*.parquet")
    begins = pq.ParquetFile(file).metadata.row_group(1).column(0).dictionary_page_offset
    data = file.read_bytes()
    file.write_bytes(data[:4] + bytes(begins - 4) + data[begins:])
    return tmp_path


def opened(spark: SparkSession, folder: Path, table: str, **options: str) -> DataFrame:
    register(spark)
    return spark.read.format(NAME).options(table=table, **options).load(str(folder))


@pytest.mark.real
@pytest.mark.parametrize(
    "condition",
    mostly_long(["api = 'Metadata'", "at > '2026-11-21 12:00:09'", "api in ('Metadata', 'Fetch')"], usual=2),
    ids=["api", "at", "apis"],
)
@pytest.mark.parametrize("table", ["frames", "messages"])
def test_a_filter_reads_only_the_row_groups_that_may_hold_its_rows(
    spark: SparkSession, half_destroyed: Path, table: str, condition: str
) -> None:
    found = opened(spark, half_destroyed, table, pushdown="true")
    assert found.filter(condition).count() == GROUP
    with pytest.raises(Exception, match="can't be read"):
        opened(spark, half_destroyed, table, pushdown="true").collect()


@pytest.mark.real
def test_a_filter_of_heads_is_evaluated_by_the_source_alone(spark: SparkSession, half_destroyed: Path) -> None:
    found = opened(spark, half_destroyed, "frames", pushdown="true").filter("api_key = 3")
    assert "Filter " not in found._jdf.queryExecution().executedPlan().toString()
    assert found.count() == GROUP


@pytest.mark.real
def test_a_dataframe_answers_each_of_its_queries(spark: SparkSession, tmp_path: Path, request_row: Build) -> None:
    write_frames(tmp_path, [request_row(number, api_key=number) for number in range(3)], GROUP)
    found = opened(spark, tmp_path, "frames", columns="api_key,sequence")
    one, other = found.filter("api_key = 1"), found.filter("api_key = 2")
    assert (one.count(), found.count(), other.count(), found.count()) == (1, 3, 1, 3)
    assert sorted(row.api_key for row in one.union(other).collect()) == [1, 2]
    assert one.join(found, "sequence").count() == 1


@pytest.mark.real
def test_spark_mixes_up_pushed_filters_in_the_listed_versions(
    spark: SparkSession, tmp_path: Path, request_row: Build
) -> None:
    write_frames(tmp_path, [request_row(number, api_key=number) for number in range(3)], GROUP)
    found = opened(spark, tmp_path, "frames", columns="api_key", pushdown="true")
    both = found.filter("api_key = 1").union(found.filter("api_key = 2"))
    assert (sorted(row.api_key for row in both.collect()) != [1, 2]) == mixes_up_filters(spark)


@pytest.mark.real
def test_fewer_columns_are_read_by_option_or_by_schema(spark: SparkSession, half_destroyed: Path) -> None:
    by_option = opened(spark, half_destroyed, "messages", columns="api,sequence", apis="metadata")
    register(spark)
    reader = spark.read.format(NAME).option("table", "messages").option("apis", "Metadata")
    by_schema = reader.schema("api string, sequence bigint").load(str(half_destroyed))
    assert by_option.columns == by_schema.columns == ["api", "sequence"]
    assert by_option.collect() == by_schema.collect()
    assert by_option.count() == GROUP


@pytest.mark.real
def test_a_table_that_needs_joins_is_refused_with_those_that_are_offered(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        Exception, match="lag is no table of one scan; right would be frames, events, messages, topic_p"
    ):
        opened(spark, tmp_path, "lag")


def _why_a_stream_ends(spark: SparkSession, capture: Path) -> str | None:
    """Returns Spark's error for a stream of the capture; None if its Python took too long to start."""
    frames = spark.readStream.format(NAME).load(str(capture))
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frames.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        with pytest.raises(StreamingQueryException) as caught:
            query.processAllAvailable()
    return None if "failed to connect back" in str(caught.value) else str(caught.value)


@pytest.mark.real
@pytest.mark.long
def test_a_stream_is_refused_with_what_streams_a_capture(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    why = wait_for(lambda: _why_a_stream_ends(spark, tmp_path), "a worker that Spark's ten seconds are enough for")
    assert why is not None
    said = [line for line in why.splitlines() if "Error: " in line]
    right = f"right would be kafka-wiretap stream {tmp_path}, or streaming.exchanges_as_they_come"
    assert len(said) == 1
    assert f"ValueError: kafka-wiretap reads what is there, and is no stream; {right}" in said[0]


@each_row(
    ("options", "says"),
    [
        ({"tabel": "frames"}, "tabel is no option of kafka-wiretap; right would be path, table, columns"),
        ({"table": "frame"}, "frame is no table of one scan"),
        ({"columns": "api,colour"}, "frames has no column colour; it has session"),
        ({"apis": "Fetch,Bogus"}, "apis: no API is called Bogus"),
        ({"since": "noon"}, "since 'noon' is no time; right would be 2026-11-21T13:48"),
        ({"apis": "Fetch", "table": "events"}, "events has no column api; it has session"),
        ({"pushdown": "yes"}, "pushdown 'yes' is neither true nor false"),
        ({"largest": "64m"}, "largest '64m' is no number of bytes; right would be 67108864"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else None,
)
def test_a_wrong_option_says_what_is_right(options: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        CaptureSource({"path": "/captures", **options})


def test_a_relative_path_is_the_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_options({"path": "capture"}).path == str(tmp_path / "capture")
    assert read_options({"path": "s3://bucket/capture"}).path == "s3://bucket/capture"


@pytest.mark.parametrize("url", ["s3a://bucket/capture", "hdfs:///capture", "file:///capture", "S3://bucket/capture"])
def test_a_url_that_spark_alone_reads_is_refused(url: str) -> None:
    with pytest.raises(
        ValueError, match=f"^{url} is read by Spark alone: right would be a path, or s3://BUCKET/FOLDER"
    ):
        read_options({"path": url})


def test_without_a_path_the_call_is_shown() -> None:
    with pytest.raises(ValueError, match="no capture: right would be"):
        read_options({"table": "frames"})


def test_a_folder_without_frames_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no frames: right would be a capture's folder"):
        CaptureReader(read_options({"path": str(tmp_path)})).partitions()


def test_a_capture_without_a_file_of_the_requested_time_has_no_task(half_destroyed: Path) -> None:
    reader = CaptureReader(read_options({"path": str(half_destroyed), "since": "2026-11-21T13:00"}))
    assert reader.partitions() == []

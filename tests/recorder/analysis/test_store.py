"""Tests of unreachable URLs: one line names the reason, before a question is asked."""

from __future__ import annotations

import socket
from pathlib import Path

import click
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from recorder.analysis.store import StoreGone, blamed, check_answers, check_found

pytestmark = pytest.mark.real


def refused(spark: SparkSession, url: str) -> str:
    """Returns the line that refuses a URL."""
    with pytest.raises(click.UsageError) as caught:
        check_found(spark, url, "frames")
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_folder_with_what_is_wanted_is_found(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    check_found(spark, f"file://{tmp_path}", "frames")
    check_found(spark, f"file://{tmp_path}/", "frames")


def test_a_folder_without_it_is_refused_and_may_still_be_written_to(spark: SparkSession, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/nowhere"
    assert refused(spark, url) == f"{url} holds no frames: right would be the URL of a folder with frames in it"
    check_answers(spark, url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3a://bucket/kept", "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
        ("nonsense://bucket/kept", 'No FileSystem for scheme "nonsense"'),
    ],
    ids=["jar", "scheme"],
)
def test_a_missing_file_system_is_named_with_the_jars_that_it_needs(spark: SparkSession, url: str, why: str) -> None:
    needs = "right would be its jars on the class path, as docs/clusters.md says"
    assert refused(spark, url) == f"{url} can't be read: {why}; {needs}"


def test_an_unreachable_store_is_distinguished_from_a_missing_capture(spark: SparkSession) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"hdfs://127.0.0.1:{bound.getsockname()[1]}/kept"
        assert refused(spark, url) == f"{url} can't be read: Connection refused"
        with pytest.raises(click.UsageError, match="can't be read: Connection refused"):
            check_answers(spark, url)


def test_a_store_that_goes_away_is_to_blame_for_what_fails_then_in_one_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"hdfs://127.0.0.1:{bound.getsockname()[1]}/kept"
        with pytest.raises(StoreGone) as caught:
            fail(spark, (f"file://{tmp_path}", str(tmp_path), url))
    caught.value.show()
    assert capsys.readouterr().err == f"Error: {url} can't be read: Connection refused\n"
    assert caught.value.exit_code == 2


def test_an_answering_store_is_not_blamed(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException):
        fail(spark, (f"file://{tmp_path}", "/nowhere"))


def fail(spark: SparkSession, folders: tuple[str, ...]) -> None:
    with blamed(spark, folders):
        spark.read.parquet("/nowhere")

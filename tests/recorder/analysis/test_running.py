"""Tests of unreadable files: they are left out and named, and the question is still answered."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy, rmtree
from typing import Any, cast

import click
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from recorder.analysis import job, running
from recorder.analysis.bodies import Captured
from recorder.analysis.place import Place
from recorder.analysis.running import _answer, ask, in_utc
from recorder.analysis.scan import files_in
from recorder.analysis.sources import load
from recorder.analysis.tables.answers import answers
from recorder.facts_at_hand import facts_at_hand
from tests.recorder.capture.looks import frame_rows
from tests.recorder.capture.recorded import two_sessions

Build = Callable[..., Any]


@pytest.fixture
def place(captured: Build, request_row: Build, tmp_path: Path) -> tuple[Place, Path]:
    """A capture of two files of the same two frames, the second of which is damaged."""
    captured(request_row(0), request_row(1))
    (file,) = tmp_path.glob("frames/*/*/*.parquet")
    other = file.with_name("s-2-2.parquet")
    copy(file, other)
    return Place(str(tmp_path), files={"frames": [str(file), str(other)], "events": []}), other


def last_byte(file: Path, name: str) -> int:
    """The offset of a column's last byte: that of a number of the last row."""
    group = pq.read_metadata(file).row_group(0)
    (column,) = (each for at in range(group.num_columns) if (each := group.column(at)).path_in_schema == name)
    return int((column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1)


@pytest.mark.real
@pytest.mark.parametrize(
    ("table", "damage"),
    [("frames", "no end"), ("messages", "no end"), ("frames", "no pages"), ("frames", "a bit"), ("messages", "a bit")],
)
def test_a_broken_file_is_named_and_the_others_are_read(
    spark: SparkSession, place: tuple[Place, Path], table: str, damage: str
) -> None:
    asked, file = place
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[last_byte(file, "mono_ns")] ^= 1
    damaged: dict[str, bytes | bytearray] = {
        "no end": whole[:-20],
        "no pages": whole[:4] + bytes(600) + whole[604:],
        "a bit": flipped,
    }
    file.write_bytes(damaged[damage])
    rows = _answer(spark, asked, lambda captured: load(captured, table).collect())
    assert len(rows) == 2
    ((broken, why),) = asked.broken.items()
    assert broken == str(file)
    assert why
    assert "\n" not in why


@pytest.mark.real
def test_a_capture_of_broken_files_alone_has_no_rows(spark: SparkSession, place: tuple[Place, Path]) -> None:
    asked, _ = place
    for file in (asked.files or {})["frames"]:
        Path(file).write_bytes(b"PAR1 no more")
    assert _answer(spark, asked, lambda captured: load(captured, "frames").count()) == 0
    assert len(asked.broken) == 2


@pytest.mark.parametrize("is_told", [True, False])
def test_a_file_that_is_removed_meanwhile_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_told: bool
) -> None:
    listed = [tmp_path / "old.parquet", tmp_path / "new.parquet"]
    for file in listed:
        file.touch()

    def question(files: Any) -> list[str]:
        listed[0].unlink(missing_ok=True)
        # an engine may take what has gone for an empty file
        return [name for name in files["frames"] if (os.stat(name) if is_told else os.path.exists(name))]

    monkeypatch.setattr(running, "captured", lambda _spark, _folder, files, **_: files)
    place = Place(str(tmp_path), files={"frames": [*map(str, listed)], "events": []}, is_embedded=True)
    assert _answer(cast(SparkSession, None), place, question) == [str(listed[1])]
    assert place.broken.keys() == {str(listed[0])}
    assert "removed meanwhile" in place.broken[str(listed[0])]


def test_times_are_utc_wherever_the_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    spark_has = int(noon.timestamp()) * 1_000_000
    with in_utc():
        assert TimestampType().fromInternal(spark_has) == noon.replace(tzinfo=None)
    assert os.environ["TZ"] == "Europe/Berlin"
    assert TimestampType().fromInternal(spark_has) == noon.replace(hour=13, tzinfo=None)
    monkeypatch.undo()
    time.tzset()


def test_a_session_of_a_command_has_times_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(*_: Any, **__: Any) -> Iterator[Any]:
        yield os.environ["TZ"]

    monkeypatch.setattr(job, "session", session)
    with running.opened("local[1]", {}, quick=True) as zone:
        assert str(zone) == "UTC"


def test_a_store_that_disappears_is_reported_once_and_not_for_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file, asked = "s3://bucket/kept/frames/date=2026-11-21/hour=12/s-1-1.parquet", []

    def question(_captured: Any) -> None:
        asked.append(1)
        raise PySparkException(f"{file} can't be read: network connection")

    def gone(_folder: str) -> None:
        raise OSError("AWS Error NETWORK_CONNECTION during ListObjectsV2 operation: Could not connect")

    monkeypatch.setattr(running, "captured", lambda *_, **__: None)
    monkeypatch.setattr(running, "files_in", gone)
    place = Place("s3://bucket/kept", files={"frames": [file], "events": []})
    with pytest.raises(
        click.UsageError, match="s3://bucket/kept can't be read any more: network connection: Could not"
    ):
        _answer(cast(SparkSession, None), place, question)
    assert (asked, place.broken) == ([1], {})


@pytest.mark.real
@pytest.mark.parametrize("is_embedded", [True, pytest.param(False, marks=pytest.mark.long)])
def test_where_facts_go_while_they_are_read_frames_are_opened(tmp_path: Path, is_embedded: bool) -> None:
    folder = two_sessions(tmp_path / "capture")
    files = files_in(str(folder))
    facts = dict(facts_at_hand(folder).files)
    place = Place(str(folder), "local[1]", files=files, facts=facts, is_embedded=is_embedded)

    def question(captured: Captured) -> int:
        found = answers(captured)
        rmtree(folder / "facts", ignore_errors=True)
        return found.count()

    told = ask(place, question)
    assert told == sum(row["kind"] == "response" and row["exchange"] is not None for row in frame_rows(folder))
    assert place.facts == {}
    assert place.broken == {}


def test_a_file_that_is_removed_after_it_was_listed_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    files = [str(tmp_path / "a"), str(tmp_path / "removed")]
    assert Place(str(tmp_path), files={"frames": files, "events": []}).size == 3


@pytest.mark.real
def test_a_question_that_takes_too_much_memory_fails_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> None:
        with running.opened_embedded() as session:
            first, second = (session.range(10**6).selectExpr("id", f"cast(id as string) as {one}") for one in "ab")
            first.join(second, "id").count()

    monkeypatch.setenv("SAIL_RUNTIME__MEMORY_POOL__TYPE", "greedy")
    monkeypatch.setenv("SAIL_RUNTIME__MEMORY_POOL__GREEDY__MAX_SIZE", str(4 << 20))
    with pytest.raises(click.ClickException, match="more memory than it may take") as failed:
        asked()
    assert not isinstance(failed.value, click.UsageError)

"""Tests of `kafka-wiretap facts`: one line, what is right, and the exit code."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import duckdb
import pandas
import polars
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from proxy import cli
from recorder.capture import reader
from recorder.capture.bucket_facts import state_in
from recorder.capture.fact_files import State, stems
from recorder.capture.remote import S3Path
from recorder.facts.tables import TABLES
from tests.recorder.capture.recorded import two_sessions
from tests.s3 import Store


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_sessions(tmp_path_factory.mktemp("capture"))


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "capture"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["facts", *map(str, arguments)])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_facts_are_made_once(folder: Path) -> None:
    told = json.loads(run(folder, "--processes", 1, "--json").stdout)
    captured = reader.files(folder)
    assert (told["made"], told["current"], told["failed"]) == (len(captured), 0, [])
    assert told["rows"]["frames"] == sum(map(reader.row_count, captured))
    assert told["bytes"] == sum(path.stat().st_size for path in (folder / "facts").rglob("*.parquet"))
    again = run(folder, "--processes", 1)
    assert again.exit_code == 0
    assert "nothing to make" in again.stdout


def by_pandas(table: Path) -> tuple[list[str], int]:
    found = pandas.read_parquet(table)
    return [*found.columns], len(found)


def by_polars(table: Path) -> tuple[list[str], int]:
    found = polars.read_parquet(f"{table}/**/*.parquet")
    return found.columns, len(found)


def by_duckdb(table: Path) -> tuple[list[str], int]:
    found = duckdb.sql(f"SELECT * FROM '{table}/**/*.parquet'")
    assert found is not None
    return found.columns, len(found.fetchall())


@pytest.mark.parametrize("read", [by_pandas, by_polars, by_duckdb])
def test_other_readers_read_each_table_with_their_plainest_call(
    folder: Path, read: Callable[[Path], tuple[list[str], int]]
) -> None:
    run(folder, "--processes", 1)
    tables = [decoder for decoder in TABLES if (folder / "facts" / decoder.name).exists()]
    assert len(tables) > 3
    for decoder in tables:
        columns, rows = read(folder / "facts" / decoder.name)
        assert set(decoder.table.names) <= set(columns)
        files = (folder / "facts" / decoder.name).rglob("*.parquet")
        assert rows == sum(pq.ParquetFile(path).metadata.num_rows for path in files)


def test_a_damaged_file_of_frames_is_named_and_the_others_get_facts(folder: Path) -> None:
    path = Path(str(reader.files(folder)[-1].path))
    path.write_bytes(path.read_bytes()[:-50])
    done = run(folder, "--processes", 1)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: no facts of {path.stem}: {path} can't be read")
    assert "made the facts of" in done.stdout


def test_a_url_of_another_store_is_refused_in_a_sentence() -> None:
    done = run("hdfs://host/capture")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].endswith("no capture's URL; right would be s3://BUCKET/FOLDER")


@pytest.mark.parametrize("options", [["--master", "local[2]"], ["--conf", "spark.executor.memory=1g"]])
def test_either_processes_or_spark_make_facts(folder: Path, options: list[str]) -> None:
    done = run(folder, "--processes", 2, *options)
    assert done.exit_code == 2
    assert "right would be either" in done.stderr
    assert not (folder / "facts").exists()


@pytest.mark.real
def test_the_facts_in_a_bucket_are_those_of_a_folder_and_are_made_once(s3: Store, folder: Path) -> None:
    url = s3.put(folder, "made")
    done = run(url)
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert run(folder).stdout == done.stdout
    made = (path for path in (folder / "facts").rglob("*") if path.is_file())
    mine = {str(path.relative_to(folder)): path.read_bytes() for path in made}
    assert s3.content("made/kept/facts") == mine
    assert "nothing to make" in run(url).stdout


@pytest.mark.real
@pytest.mark.parametrize("spoil", [b"", b"x" * 100])
def test_facts_that_are_gone_or_damaged_in_a_bucket_are_made_anew(s3: Store, folder: Path, spoil: bytes) -> None:
    url = s3.put(folder, f"spoilt-{len(spoil)}")
    run(url, "--processes", 1)
    before = s3.content(f"spoilt-{len(spoil)}/kept/facts")
    (first, *_) = (name for name in before if "/partitions/" in name)
    s3.write(f"spoilt-{len(spoil)}/kept/{first}", spoil)
    assert json.loads(run(url, "--processes", 1, "--json").stdout)["made"] == 1
    assert s3.content(f"spoilt-{len(spoil)}/kept/facts") == before


@pytest.mark.real
def test_the_facts_of_frames_that_have_gone_from_a_bucket_are_removed(s3: Store, folder: Path) -> None:
    url = s3.put(folder, "gone")
    run(url, "--processes", 1)
    (gone, *_) = (file.path for file in reader.files(folder))
    assert isinstance(gone, Path)
    s3.system().delete_file(f"gone/kept/{gone.relative_to(folder)}")
    run(url, "--processes", 1)
    left = s3.content("gone/kept/facts")
    assert left
    assert not [name for name in left if gone.stem in name]


@pytest.mark.real
def test_a_bucket_that_takes_no_facts_is_one_line(s3: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.put(folder, "closed")

    def refused(self: S3Path, mode: str = "rb") -> Any:
        if mode == "wb":
            raise OSError("When initiating: AWS Error ACCESS_DENIED during PutObject operation: Access Denied")
        return opened(self, mode)

    opened = S3Path.open
    monkeypatch.setattr(S3Path, "open", refused)
    done = run(url, "--processes", 1)
    assert done.exit_code == 1
    assert {line.split(": ", 2)[-1] for line in done.stderr.splitlines()[1:]} == {"access denied: Access Denied"}


@pytest.mark.real
def test_tables_are_published_in_a_bucket_before_the_marker_that_counts_them(
    s3: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = s3.put(folder, "steps")
    states: list[State] = []

    opened, place = S3Path.open, S3Path(PurePosixPath(url.removeprefix("s3://")))

    def opening(self: S3Path, mode: str = "rb") -> Any:
        if mode == "wb":
            states.append(state_in(place, stem))
        return opened(self, mode)

    stem = stems(place)[-1]
    monkeypatch.setattr(S3Path, "open", opening)
    run(url, "--processes", 1)
    assert len(states) > 3
    assert set(states) == {State.MISSING}
    assert state_in(place, stem, checked=True) is State.CURRENT


def test_nothing_is_written_into_a_folder_without_a_capture(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.exit_code == 2
    assert not [*tmp_path.iterdir()]


def test_nothing_is_written_into_another_users_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.facts_at_hand.os.geteuid", lambda: os.getuid() + 1)
    before = sorted(folder.rglob("*"))
    done = run(folder)
    assert done.exit_code == 2
    assert "another user's" in done.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.real
def test_several_processes_make_the_facts_that_one_makes(folder: Path) -> None:
    run(folder, "--processes", 1)
    alone = files(folder)
    shutil.rmtree(folder / "facts")
    assert run(folder, "--processes", 2).exit_code == 0
    assert files(folder) == alone

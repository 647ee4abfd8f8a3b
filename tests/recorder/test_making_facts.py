"""Tests of `kafka-wiretap facts`: one line, what is right, and the exit code."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from proxy import cli
from recorder.capture import reader
from recorder.facts.tables import TABLES
from tests.recorder.capture.recorded import two_sessions


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


@pytest.mark.parametrize("given", ["s3://bucket/capture", "hdfs://host/capture"])
def test_a_url_is_refused_in_a_sentence(given: str) -> None:
    done = run(given)
    assert done.exit_code == 2
    assert done.stderr == f"Error: {given} is a URL; right would be a folder of this machine\n"


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

"""A kept table is made once, whoever asks first."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.at_once import THREADS, ask_all
from recorder.analysis.job import is_known_empty, shared_folder
from recorder.analysis.kept import Kept


class Made:
    """A stand-in for a DataFrame, that counts how often it is worked out."""

    def __init__(self) -> None:
        self.times = 0

    def localCheckpoint(self, **_: Any) -> Made:  # noqa: N802 - as Spark calls it
        self.times += 1
        return self


def test_a_table_that_several_threads_ask_for_is_worked_out_once() -> None:
    kept, made = Kept(), Made()
    found = ask_all([partial(kept.table, "exchanges", lambda: made)] * (3 * THREADS))  # type: ignore[arg-type, return-value]
    assert made.times == 1
    assert all(one is made for one in found)


def test_tables_of_other_times_are_other_tables_and_one_may_be_made_of_another() -> None:
    kept, names, rows = Kept(), Made(), Made()

    def rows_with_names() -> Any:
        assert kept.table(("names", None), lambda: names) is names  # type: ignore[arg-type, return-value]
        return rows

    assert kept.table(("rows", 0), rows_with_names) is rows
    assert kept.table(("rows", 1), rows_with_names) is rows
    assert (names.times, rows.times) == (1, 2)


@pytest.mark.real
def test_kept_rows_are_in_memory_as_they_are_read(spark: SparkSession) -> None:
    kept = Kept().table("numbers", lambda: spark.range(3).toDF("number"))
    plan: Any = kept._jdf.queryExecution().analyzed()
    level = plan.rdd().getStorageLevel()
    assert (level.useMemory(), level.useDisk(), level.deserialized()) == (True, True, True)
    assert kept.count() == 3


@pytest.mark.real
def test_long_tables_are_files_in_the_folder_and_made_once(spark: SparkSession, tmp_path: Path) -> None:
    asked: list[str] = []

    def make() -> Any:
        asked.append("numbers")
        return spark.range(5).select("id", F.array(F.col("id").cast("smallint")).alias("codes"))

    kept = Kept(str(tmp_path))
    found = kept.file("numbers", make)
    assert kept.file("numbers", make) is found
    assert asked == ["numbers"]
    assert all(Path(name.removeprefix("file://")).is_relative_to(tmp_path) for name in found.inputFiles())
    assert sorted(map(tuple, found.collect())) == [(n, [n]) for n in range(5)]


@pytest.mark.real
def test_a_table_that_is_empty_is_known_to_be(spark: SparkSession, tmp_path: Path) -> None:
    some = spark.range(5).toDF("number")
    none = some.filter(F.col("number") > 7)
    assert not is_known_empty(none)
    kept = Kept(str(tmp_path))
    assert is_known_empty(kept.file("looked at", lambda: none))
    assert not is_known_empty(kept.file("of rows", lambda: some))
    assert is_known_empty(kept.table("planned", lambda: some.filter(F.lit(False))))
    assert kept.table("planned", lambda: some).schema == some.schema


@pytest.mark.real
def test_a_local_session_shares_a_folder_with_its_workers(spark: SparkSession) -> None:
    folder = shared_folder(spark)
    assert folder is not None
    assert Path(folder).is_dir()

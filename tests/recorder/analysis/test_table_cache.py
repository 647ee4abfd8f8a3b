"""Tests of the table cache: each is computed once, by the first question that needs it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.parallel_questions import THREADS, ask_all
from recorder.analysis.table_cache import TableCache


class Made:
    """A stand-in for a DataFrame that counts how often it is computed."""

    def __init__(self) -> None:
        self.times = 0

    def localCheckpoint(self, **_: Any) -> Made:  # noqa: N802 - as Spark calls it
        self.times += 1
        return self

    def isEmpty(self) -> bool:  # noqa: N802 - as Spark calls it
        return False


def test_a_table_that_several_threads_ask_for_is_worked_out_once() -> None:
    cache = TableCache()
    made: Any = Made()
    found = ask_all([partial(cache.table, "exchanges", lambda: made)] * (3 * THREADS))
    assert made.times == 1
    assert all(one is made for one in found)


def test_tables_of_other_times_are_other_tables_and_one_may_be_made_of_another() -> None:
    cache = TableCache()
    names: Any = Made()
    rows: Any = Made()

    def rows_with_names() -> Any:
        assert cache.table(("names", None), lambda: names) is names
        return rows

    found = [cache.table(("rows", time), rows_with_names) for time in (0, 1)]
    assert all(one is rows for one in found)
    assert (names.times, rows.times) == (1, 2)


@pytest.mark.real
def test_kept_rows_are_bytes_in_memory_or_on_disk(spark: SparkSession) -> None:
    kept = TableCache().table("numbers", lambda: spark.range(3).toDF("number"))
    plan: Any = kept._jdf.queryExecution().analyzed()
    level = plan.rdd().getStorageLevel()
    assert (level.useMemory(), level.useDisk(), level.deserialized()) == (True, True, False)
    assert kept.count() == 3


@pytest.mark.real
def test_questions_about_an_empty_kept_table_run_no_task(spark: SparkSession) -> None:
    numbers = spark.range(3).toDF("number")
    empty = TableCache().table("none", lambda: numbers.filter("number > 5"))
    asked: Any = numbers.join(empty, "number").groupBy("number").count()
    assert asked._jdf.queryExecution().optimizedPlan().toString().startswith("LocalRelation <empty>")
    assert empty.columns == ["number"]

"""Tests of the aggregate that counts a rule's cases by window, and holds the rule's further values."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.findings.counting import counted, tallied

pytestmark = pytest.mark.real


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Two clients in one window: one of them has a case, and the larger row is no case."""
    at = F.timestamp_micros(F.lit(0))
    told = [("a", 1, True, 3), ("a", 1, False, 9), ("b", 1, False, 5)]
    found = spark.createDataFrame(told, "who string, window bigint, is_bad boolean, size int")
    return found.withColumns({"session": F.lit("s"), "connection": F.lit(1), "at": at})


def test_further_aggregates_are_of_all_rows_and_not_of_cases_alone(rows: DataFrame) -> None:
    found = tallied(rows, ["who"], F.col("is_bad"), more={"largest": F.max("size")}).orderBy("who")
    assert [(row["who"], row["cases"], row["of"], row["largest"]) for row in found.collect()] == [
        ("a", 1, 2, 9),
        ("b", 0, 1, 5),
    ]


def test_a_subject_without_cases_is_not_counted(rows: DataFrame) -> None:
    found = counted(rows, ["who"], F.col("is_bad"), more={"largest": F.max("size")}).collect()
    assert [(row["who"], row["largest"]) for row in found] == [("a", 9)]


@pytest.mark.parametrize("connections", [(1, 2), (2, 1)])
def test_of_cases_that_are_equally_bad_the_one_with_the_highest_numbers_is_shown(
    spark: SparkSession, connections: tuple[int, int]
) -> None:
    found = spark.createDataFrame([("a", 1, one) for one in connections], "who string, window bigint, connection int")
    placed = found.withColumns({"session": F.lit("s"), "at": F.timestamp_micros(F.lit(0))})
    for worst in (None, F.lit(7)):
        (row,) = tallied(placed.coalesce(1), ["who"], worst=worst).collect()
        assert row["evidence"]["connection"] == 2

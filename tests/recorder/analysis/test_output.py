"""Tests of rows as files and as lines: a program reads back the recorded values."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis import output

# possible client ids; a spreadsheet takes the first ones for formulas
VALUES = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-1", "\t=1", ' a"b ', '\\"', '","', "a\nb", "a\rb", "\\", "'a"]


def told(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(list(enumerate(VALUES)), "number int, client_id string")


def read(text: str) -> list[str]:
    rows = csv.DictReader(StringIO(text, newline=""))
    return [row["client_id"] for row in sorted(rows, key=lambda row: int(row["number"]))]


@pytest.mark.real
def test_lines_of_csv_hold_what_was_recorded(spark: SparkSession) -> None:
    assert read("".join(f"{line}\r\n" for line in output.lines(told(spark), "csv"))) == VALUES


@pytest.mark.real
def test_files_of_csv_hold_what_was_recorded(spark: SparkSession, tmp_path: Path) -> None:
    output.write(told(spark).coalesce(1), str(tmp_path / "out"), "csv", overwrite=False)
    (file,) = tmp_path.glob("out/*.csv")
    with file.open(newline="") as opened:
        assert read(opened.read()) == VALUES

"""Tests of rows as files and as lines: a program reads back the recorded values."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis import output
from tests.recorder.replay.drawn import drawn

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


class Found:
    """Rows as of a DataFrame, without Spark."""

    def __init__(self, kinds: dict[str, str], rows: list[tuple[Any, ...]]) -> None:
        self.dtypes = [*kinds.items()]
        self.columns = [*kinds]
        self.rows = rows

    def limit(self, number: int) -> Found:
        return Found(dict(self.dtypes), self.rows[:number])

    def collect(self) -> list[tuple[Any, ...]]:
        return self.rows


def on_a_terminal(found: Found, width: int) -> list[str]:
    table, _ = output.table(cast("DataFrame", found), "uses", width, 50)
    assert table is not None
    return [" ".join(line.split()) for line in drawn([table], width).splitlines()]


USES = {"cluster": "string", "topic": "string", "principal": "string", "bytes": "bigint", "at": "timestamp"}
AT = datetime(2026, 11, 27, 7, 36, 38, 123_456)


def test_columns_with_one_value_are_left_out_first_and_named_with_it() -> None:
    rows = [("mock", name, "", number, AT) for number, name in enumerate(("orders", "bills"), 10**9)]
    lines = on_a_terminal(Found(USES, rows), 24)
    assert lines[:3] == ["uses, 2026-11-27", "topic bytes", "orders 1000000000"]
    left_out = "cluster (mock in all rows), at (07:36:38.123 in all rows)"
    assert " ".join(lines[4:]) == f"no room here for: {left_out}"


def test_the_fourth_name_of_a_row_is_left_out_before_its_numbers() -> None:
    kinds = dict.fromkeys(("topic", "use", "client", "software"), "string") | {"records": "bigint"}
    rows = [(f"t{number}", f"u{number}", f"c{number}", f"s{number}", number) for number in (1, 2)]
    lines = on_a_terminal(Found(kinds, rows), 26)
    assert lines[1:3] == ["topic use client records", "t1 u1 c1 1"]
    assert lines[-1] == "no room here for: software"


def test_the_columns_of_a_single_row_are_left_out_from_the_right() -> None:
    lines = on_a_terminal(Found(USES, [("mock", "orders", "", 1, AT)]), 30)
    assert lines[1:] == ["cluster topic bytes", "mock orders 1", "no room here for: at"]


def test_times_of_several_days_have_their_day_and_are_not_broken() -> None:
    rows = [("mock", "orders", "", 1, AT), ("mock", "bills", "", 2, AT + timedelta(days=1))]
    assert on_a_terminal(Found(USES, rows), 100)[:3] == [
        "uses",
        "cluster topic principal bytes at",
        "mock orders 1 2026-11-27 07:36:38.123",
    ]


@pytest.mark.real
def test_files_of_csv_hold_what_was_recorded(spark: SparkSession, tmp_path: Path) -> None:
    output.write(told(spark).coalesce(1), str(tmp_path / "out"), "csv", overwrite=False)
    (file,) = tmp_path.glob("out/*.csv")
    with file.open(newline="") as opened:
        assert read(opened.read()) == VALUES

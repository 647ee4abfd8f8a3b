"""Tests that each table has the columns that it declares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.sources import SOURCES, load
from recorder.analysis.sources import captured as opened
from recorder.capture.merging import merge
from tests.recorder.capture.recorded import two_sessions
from tests.tables import each_row

Build = Callable[..., Any]


@each_row("name", SOURCES)
def test_each_column_has_one_name_a_type_and_a_meaning(name: str) -> None:
    table = SOURCES[name].table
    assert table.name == name
    assert len({*table.names}) == len(table.names)
    assert all(column.meaning for column in table.columns)


@pytest.mark.real
@pytest.mark.parametrize("name", SOURCES)
def test_a_table_has_the_columns_that_it_declares(captured: Build, request_row: Build, name: str) -> None:
    found = load(captured(request_row(0)), name)
    assert [f"{field.name} {field.dataType.simpleString()}" for field in found.schema] == [
        column.ddl.replace(": ", ":").replace(", ", ",") for column in SOURCES[name].table.columns
    ]


@pytest.mark.real
@pytest.mark.long
def test_tables_of_a_merged_capture_are_those_of_its_small_files(spark: SparkSession, tmp_path: Path) -> None:
    folders = [two_sessions(tmp_path / "capture"), tmp_path / "merged"]
    merge(*folders, now_ns=1 << 62)
    for name in ("exchanges", "connections", "messages", "topic_partitions"):
        rows = [load(opened(spark, str(folder)), name).collect() for folder in folders]
        of_small, of_merged = (sorted(map(str, found)) for found in rows)
        assert of_small == of_merged
        assert of_small

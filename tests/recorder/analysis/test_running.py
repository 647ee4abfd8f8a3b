"""A file that can't be read is left out and named; everything else is answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.running import Place, _asked
from recorder.analysis.sources import load

Build = Callable[..., Any]


@pytest.fixture
def place(captured: Build, request_row: Build, tmp_path: Path) -> tuple[Place, Path]:
    """A capture of two files of the same two frames, the second of which is damaged."""
    captured(request_row(0), request_row(1))
    (file,) = tmp_path.glob("frames/*/*/*.parquet")
    other = file.with_name("s-2-2.parquet")
    copy(file, other)
    return Place(str(tmp_path), files={"frames": [str(file), str(other)], "events": []}), other


@pytest.mark.real
@pytest.mark.parametrize("table", ["frames", "messages"])
@pytest.mark.parametrize("damage", ["no end", "no pages"])
def test_a_broken_file_is_named_and_the_others_are_answered(
    spark: SparkSession, place: tuple[Place, Path], table: str, damage: str
) -> None:
    asked, file = place
    whole = file.read_bytes()
    file.write_bytes(whole[:-20] if damage == "no end" else whole[:4] + bytes(600) + whole[604:])
    rows = _asked(spark, asked, lambda captured: load(captured, table).collect())
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
    assert _asked(spark, asked, lambda captured: load(captured, "frames").count()) == 0
    assert len(asked.broken) == 2

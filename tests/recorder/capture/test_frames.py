"""Tests of the columns of `frames`, and of the conversions from older formats."""

import re
import subprocess
import sys

import pyarrow as pa
import pytest

from recorder.capture import frames as c
from recorder.capture.frames import UnknownFormatError


def test_the_names_need_no_pyarrow() -> None:
    probe = "import sys, recorder.capture.frames; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


def test_the_schemas_have_the_columns_of_the_tables_in_their_order() -> None:
    assert c.frames_schema().names == [name for name, _ in c.FRAME_COLUMNS]
    assert c.events_schema().names == [name for name, _ in c.EVENT_COLUMNS]


def test_a_schema_carries_the_formats_number() -> None:
    assert c.format_of(c.frames_schema().metadata) == c.FORMAT
    assert c.format_of(c.events_schema().metadata) == c.FORMAT


@pytest.mark.parametrize("metadata", [None, {}, {c.FORMAT_KEY: b"newest"}])
def test_a_file_without_a_format_number_is_not_part_of_a_capture(metadata: dict[bytes, bytes] | None) -> None:
    with pytest.raises(UnknownFormatError, match="no part of a capture"):
        c.format_of(metadata)


def test_an_old_table_takes_every_step_up() -> None:
    steps = {1: lambda table: [*table, "1 to 2"], 2: lambda table: [*table, "2 to 3"]}
    assert c.upgraded([], 1, steps, newest=3) == ["1 to 2", "2 to 3"]
    assert c.upgraded([], 2, steps, newest=3) == ["2 to 3"]
    assert c.upgraded([], 3, steps, newest=3) == []


def test_a_newer_capture_is_refused() -> None:
    with pytest.raises(
        UnknownFormatError, match=re.escape(f"format {c.FORMAT + 1}, this program knows up to {c.FORMAT}")
    ):
        c.upgraded(pa.table({}), c.FORMAT + 1)


def test_there_is_a_step_for_every_older_format() -> None:
    assert set(c.UPGRADES) == set(range(1, c.FORMAT))

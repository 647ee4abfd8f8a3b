"""Tests of row groups read within an allowance: hostile files are refused, honest ones are read."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from proxy.wire.errors import OverBudget
from recorder.capture import frames as c
from recorder.capture import reader
from recorder.capture.frames import DamagedFileError, frames_schema
from recorder.replay.stream import happenings
from tests.recorder.capture import looks

MIB = 1 << 20
MANY = 500_000
SESSION = "20261121T120000Z-abc"
PLACE = Path("frames") / "date=2026-11-21" / "hour=12" / f"{SESSION}-1-1.parquet"
HEADS = {
    "session": SESSION,
    "connection": 1,
    "sequence": 0,
    "dialect": "kafka",
    "kind": "request",
    "made_by": "client",
    "at_ns": 1,
    "mono_ns": 1,
    "size": 4,
    "stored": 4,
}


def repeated(rows: int, **columns: Any) -> Any:
    """A table of equal rows; `columns` have all their values."""
    arrays = []
    for field in frames_schema():
        value = pa.scalar(HEADS.get(field.name), field.type)
        arrays.append(columns.get(field.name, pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, field.type)))
    fields = [field.with_type(array.type) for field, array in zip(frames_schema(), arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=frames_schema().metadata))


def once(rows: int, value: Any) -> Any:
    """A column with one value, repeated."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([value]))


def spans(count: int) -> Any:
    each = pa.repeat(pa.scalar(1, pa.int32()), count)
    inner = pa.StructArray.from_arrays([each, each], ["start", "length"])
    return pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), inner)


BOMBS: dict[str, Callable[[], Any]] = {
    "rows": lambda: repeated(MANY),
    "texts": lambda: repeated(1000, client_id=once(1000, "x" * MIB)),
    "bodies": lambda: repeated(1000, frame=once(1000, b"x" * MIB)),
    "page": lambda: repeated(1, frame=pa.array([bytes(100 * MIB)])),
    "spans": lambda: repeated(1, masked=spans(MANY)),
}


def written(folder: Path, table: Any, **how: Any) -> Path:
    path = folder / PLACE
    path.parent.mkdir(parents=True)
    dictionaries = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    how = {"use_dictionary": dictionaries, "dictionary_pagesize_limit": 1 << 30, "compression": "zstd"} | how
    pq.write_table(table, path, row_group_size=len(table), **how)
    return path


@pytest.mark.real
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_row_group_beyond_the_allowance_is_not_read(tmp_path: Path, bomb: str) -> None:
    path = written(tmp_path, BOMBS[bomb]())
    assert path.stat().st_size < MIB
    with pytest.raises(OverBudget, match=f"{SESSION}-1-1.parquet: reading makes more than {64 * MIB} bytes"):
        next(looks.rows(tmp_path, most=64 * MIB))


@pytest.mark.real
def test_a_bomb_takes_little_memory_to_refuse(tmp_path: Path) -> None:
    """The bombs run in one process, which would need gigabytes without an allowance."""
    program = """
import re, sys
from pathlib import Path
from proxy.wire.errors import OverBudget
from tests.recorder.capture import looks
for folder in map(Path, sys.argv[1:]):
    try:
        next(looks.rows(folder, most=64 << 20))
        sys.exit(f"{folder} was read")
    except OverBudget:
        pass
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
    for name, bomb in BOMBS.items():
        written(tmp_path / name, bomb())
    command = [sys.executable, "-c", program, *(str(tmp_path / name) for name in BOMBS)]
    # pyarrow itself takes 130 MiB. (A child's figure in `resource` begins with its parent's memory.)
    assert int(subprocess.run(command, capture_output=True, check=True, text=True).stdout) * 1024 < 400 * MIB


@contextmanager
def without_collector() -> Iterator[None]:
    """Within the block, reference cycles are not collected. At its start there are no young objects."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


LOOKS: dict[str, Callable[[reader.CaptureFile], object]] = {
    "tables": lambda file: list(reader.row_groups(file)),
    "streamed bodies": lambda file: list(reader.streamed_bodies(file, 0)),
    "first times": reader.first_times,
    "groups by bytes": lambda file: reader.groups_between(file, 0, 1 << 40),
    "replaying": lambda file: list(happenings(looks.local_path(file).parents[3])),
}


@pytest.mark.parametrize("look", LOOKS)
def test_the_footer_of_a_file_that_was_read_is_gone_before_the_collector_comes(tmp_path: Path, look: str) -> None:
    """A large file's footer takes megabytes in two small objects, so the collector has no reason to run."""
    file = reader.file_at(written(tmp_path, repeated(1)))
    with without_collector():
        LOOKS[look](file)
        left = [one for one in gc.get_objects(generation=0) if type(one).__module__.startswith("pyarrow._parquet")]
    assert left == []


def test_bodies_that_are_not_read_cost_nothing(tmp_path: Path) -> None:
    written(tmp_path, BOMBS["bodies"]())
    assert sum(1 for _ in looks.rows(tmp_path, reader.HEADS, most=16 * MIB)) == 1000


def test_all_texts_of_a_row_group_are_written_out_within_one_allowance(tmp_path: Path) -> None:
    """Each column fits alone. The group is never kept, so only writing the texts out can be refused."""
    text = once(100, "x" * 100_000)
    written(tmp_path, repeated(100, client_id=text, principal=text))
    nothing = pc.field(c.SEQUENCE) == 7
    assert list(looks.rows(tmp_path, reader.HEADS, where=nothing, most=21 * MIB)) == []
    with pytest.raises(OverBudget):
        list(looks.rows(tmp_path, reader.HEADS, where=nothing, most=12 * MIB))


def test_only_the_wanted_rows_bodies_are_charged(tmp_path: Path) -> None:
    table = repeated(1000, frame=once(1000, b"x" * MIB), sequence=pa.array(range(1000), pa.int64()))
    written(tmp_path, table)
    (row,) = looks.rows(tmp_path, where=pc.field(c.SEQUENCE) == 7, most=16 * MIB)
    assert row["frame"] == b"x" * MIB


def test_all_row_groups_of_a_file_are_charged_together(tmp_path: Path) -> None:
    path = tmp_path / PLACE
    path.parent.mkdir(parents=True)
    table = repeated(100, frame=pa.array([bytes(100_000)] * 100))
    pq.write_table(table, path, row_group_size=10, compression="zstd")
    assert len(list(looks.rows(tmp_path, most=16 * MIB))) == 100
    with pytest.raises(OverBudget):
        list(looks.rows(tmp_path, most=4 * MIB))


@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_rows_are_the_same_however_their_columns_are_stored(tmp_path: Path, dictionary: bool) -> None:
    texts = ["a", None, "", "é" * 10] * 50
    bodies = [b"one", None, b"", b"x" * 1000] * 50
    lists = [[{"start": 1, "length": 2}], None, [], [{"start": 3, "length": 4}] * 3] * 50
    kind = frames_schema().field("masked").type
    table = repeated(200, client_id=pa.array(texts), frame=pa.array(bodies), masked=pa.array(lists, kind))
    written(tmp_path, table, use_dictionary=dictionary)
    found = list(looks.rows(tmp_path))
    assert [row["client_id"] for row in found] == texts
    assert [row["frame"] for row in found] == bodies
    assert [row["masked"] for row in found] == lists
    assert {row["session"] for row in found} == {SESSION}


@pytest.mark.parametrize("column", ["session", "sequence", "kind", "at_ns", "size"])
def test_a_hole_in_a_column_that_is_never_null_is_damage(tmp_path: Path, column: str) -> None:
    table = repeated(1)
    hole = pa.nulls(1, table.schema.field(column).type)
    written(tmp_path, table.set_column(table.schema.get_field_index(column), column, hole))
    with pytest.raises(DamagedFileError, match=f"1-1.parquet can't be read: its column {column} has holes"):
        list(looks.rows(tmp_path))


def test_a_text_that_is_no_utf_8_is_damage(tmp_path: Path) -> None:
    wrong = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    written(tmp_path, repeated(1, client_id=wrong))
    with pytest.raises(DamagedFileError, match=r"1-1.parquet can't be read: .*UTF8"):
        list(looks.rows(tmp_path))


def test_pages_that_hold_more_than_the_footer_says_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_file: Any, column: Any) -> None:
        raise DamagedFileError(f"the pages of {column.path_in_schema} hold more than the footer says")

    written(tmp_path, repeated(1))
    monkeypatch.setattr("recorder.capture.row_group.check_pages", check)
    with pytest.raises(DamagedFileError, match=r"1-1.parquet can't be read: the pages of"):
        list(looks.rows(tmp_path))

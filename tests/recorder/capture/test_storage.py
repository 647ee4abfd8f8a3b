"""Files become visible whole, in the hour of their rows, and stay."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recorder.capture import frames as c
from recorder.capture import storage
from recorder.capture.storage import RangeFile

NOON = 13 + 24 * 20_000


def range_file(folder: Path, kind: str = "frames", hour: int = NOON) -> RangeFile:
    return RangeFile(folder, kind, hour, "s-1-1", c.events_schema())


def rows(count: int) -> pa.Table:
    columns = [pa.array([None] * count, field.type) for field in c.events_schema()]
    return pa.Table.from_arrays(columns, schema=c.events_schema())


def visible(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("[!._]*.parquet"))


def test_an_hour_is_named_by_date_and_hour_of_utc() -> None:
    assert storage.hour_folder(0) == "date=1970-01-01/hour=00"
    assert storage.hour_folder(NOON) == "date=2024-10-04/hour=13"


def test_a_file_is_invisible_until_it_is_published(tmp_path: Path) -> None:
    file = range_file(tmp_path)
    file.write(rows(2))
    file.write(rows(3))
    assert visible(tmp_path) == []
    storage.publish([file], storage.no_steps)
    assert visible(tmp_path) == ["frames/date=2024-10-04/hour=13/s-1-1.parquet"]
    written = pq.ParquetFile(tmp_path / visible(tmp_path)[0])
    assert [written.metadata.row_group(group).num_rows for group in range(2)] == [2, 3]
    assert c.format_of(written.schema_arrow.metadata) == c.FORMAT


def test_a_rerun_replaces_what_it_made_before(tmp_path: Path) -> None:
    for count in (5, 2):
        file = range_file(tmp_path)
        file.write(rows(count))
        storage.publish([file], storage.no_steps)
    assert pq.read_metadata(tmp_path / visible(tmp_path)[0]).num_rows == 2


def test_no_file_is_renamed_before_all_are_whole(tmp_path: Path) -> None:
    files = [range_file(tmp_path), range_file(tmp_path, "events")]
    for file in files:
        file.write(rows(1))
    steps: list[str] = []
    storage.publish(files, lambda step: steps.append(step.split()[0]))
    assert steps == ["close", "close", "rename", "rename", "sync", "sync"]


def test_what_a_crash_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    range_file(tmp_path).write(rows(1))
    other = RangeFile(tmp_path, "frames", NOON, "other-1-1", c.events_schema())
    other.write(rows(1))
    published = range_file(tmp_path, "events")
    published.write(rows(1))
    storage.publish([published], storage.no_steps)
    storage.remove_unpublished(tmp_path, "s")
    assert [path.name for path in tmp_path.rglob(".*.parquet")] == [".other-1-1.parquet"]
    assert visible(tmp_path) == ["events/date=2024-10-04/hour=13/s-1-1.parquet"]


def test_a_discarded_file_leaves_nothing(tmp_path: Path) -> None:
    file = range_file(tmp_path)
    file.write(rows(1))
    file.discard()
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_file_and_its_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(storage, "sync", lambda path: synced.append(path.name))
    file = range_file(tmp_path)
    file.write(rows(1))
    storage.publish([file], storage.no_steps)
    assert synced == [tmp_path.name, "frames", "date=2024-10-04", ".s-1-1.parquet", "hour=13"]


def test_a_file_written_at_once_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    storage.write_synced(tmp_path / "state", b"old")
    storage.write_synced(tmp_path / "state", b"new")
    assert (tmp_path / "state").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]

"""Tests of publishing files: they become visible when whole, in the folder of their hour, and stay."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy.files import StrangeFileError
from recorder.capture import frames as c
from recorder.capture import storage
from recorder.capture.partitions import range_name
from recorder.capture.storage import TableFile

NOON = 13 + 24 * 20_000


def table_file(folder: Path, kind: str = "frames", hour: int = NOON) -> TableFile:
    return TableFile(folder, kind, hour, range_name("s", 1), c.events_schema())


def rows(count: int) -> pa.Table:
    columns = [pa.array([None] * count, field.type) for field in c.events_schema()]
    return pa.Table.from_arrays(columns, schema=c.events_schema())


def visible(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("[!._]*.parquet"))


def test_a_file_is_invisible_until_it_is_published(tmp_path: Path) -> None:
    file = table_file(tmp_path)
    file.write(rows(2))
    file.write(rows(3))
    assert visible(tmp_path) == []
    storage.publish([file], storage.ignore_step)
    assert visible(tmp_path) == ["frames/date=2024-10-04/hour=13/s-00000001-00000001.parquet"]
    written = pq.ParquetFile(tmp_path / visible(tmp_path)[0])
    assert [written.metadata.row_group(group).num_rows for group in range(2)] == [2, 3]
    assert c.format_of(written.schema_arrow.metadata) == c.FORMAT


def test_a_rerun_replaces_what_it_made_before(tmp_path: Path) -> None:
    for count in (5, 2):
        file = table_file(tmp_path)
        file.write(rows(count))
        storage.publish([file], storage.ignore_step)
    assert pq.read_metadata(tmp_path / visible(tmp_path)[0]).num_rows == 2


def test_no_file_is_renamed_before_all_are_whole(tmp_path: Path) -> None:
    files = [table_file(tmp_path), table_file(tmp_path, "events")]
    for file in files:
        file.write(rows(1))
    steps: list[str] = []
    storage.publish(files, lambda step: steps.append(step.split()[0]))
    assert steps == ["close", "close", "rename", "rename", "sync", "sync"]


@pytest.mark.parametrize("other", ["other", "s-2", "s-00000001"])
def test_only_the_unpublished_files_of_a_crash_are_removed(tmp_path: Path, other: str) -> None:
    table_file(tmp_path).write(rows(1))
    others = TableFile(tmp_path, "frames", NOON, range_name(other, 1), c.events_schema())
    others.write(rows(1))
    published = table_file(tmp_path, "events")
    published.write(rows(1))
    storage.publish([published], storage.ignore_step)
    storage.remove_unpublished(tmp_path, "s")
    assert [path.name for path in tmp_path.rglob(".*.parquet")] == [f".{range_name(other, 1)}"]
    assert visible(tmp_path) == ["events/date=2024-10-04/hour=13/s-00000001-00000001.parquet"]


def test_a_discarded_file_leaves_nothing(tmp_path: Path) -> None:
    file = table_file(tmp_path)
    file.write(rows(1))
    file.discard()
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_file_and_its_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    file = table_file(tmp_path)
    file.write(rows(1))
    storage.publish([file], storage.ignore_step)
    assert synced == [tmp_path.name, "frames", "date=2024-10-04", ".s-00000001-00000001.parquet", "hour=13"]


@pytest.mark.parametrize("link", ["frames", "frames/date=2024-10-04", "frames/date=2024-10-04/hour=13"])
def test_no_file_is_made_behind_a_link(tmp_path: Path, link: str) -> None:
    capture, elsewhere = tmp_path / "capture", tmp_path / "elsewhere"
    for folder in ((capture / link).parent, elsewhere):
        folder.mkdir(parents=True)
    (capture / link).symlink_to(elsewhere)
    with pytest.raises(StrangeFileError, match=f"{link} is a symbolic link, not a folder"):
        table_file(capture)
    with pytest.raises(StrangeFileError, match=f"{link} is a symbolic link, not a folder"):
        storage.remove_unpublished(capture, "s")
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "name", [".s-00000001-00000001.parquet", "s-00000001-00000001.parquet"], ids=["hidden", "final"]
)
def test_no_file_is_written_through_a_link_nor_takes_its_place(tmp_path: Path, name: str) -> None:
    capture, elsewhere = tmp_path / "capture", tmp_path / "elsewhere"
    elsewhere.write_text("old")
    folder = capture / "frames" / "date=2024-10-04" / "hour=13"
    folder.mkdir(parents=True)
    (folder / name).symlink_to(elsewhere)

    def publish() -> None:
        file = table_file(capture)
        file.write(rows(1))
        storage.publish([file], storage.ignore_step)

    with pytest.raises(StrangeFileError, match="is a symbolic link, not a file"):
        publish()
    assert elsewhere.read_text() == "old"
    assert (folder / name).is_symlink()

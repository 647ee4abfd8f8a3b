"""Tests of a range's files: a row goes to the file of its hour, and full row groups are written."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from recorder.capture import columns, storage
from recorder.capture.columns import ConnectionColumns, FrameRows, FrameType, RowNumbers
from recorder.capture.frames import HOUR_NS
from recorder.capture.ranges import RangeFiles

FIRST = 480_000 * HOUR_NS


def range_files(folder: Path) -> RangeFiles:
    files = RangeFiles(folder, "s", 7, "prod")
    files.shared.connections.index_of(ConnectionColumns(1, None, None, None, None))
    files.shared.frame_types.index_of(FrameType("request", "client", 3, "Metadata", 9))
    files.shared.client_ids.index_of(None)
    return files


def add(group: FrameRows, frame: bytes) -> None:
    group.numbers += RowNumbers(0, 0, 0, 1, 1, 5, 5, True, 1, len(frame), None, None, None, None)
    group.body += frame


def published(files: RangeFiles, folder: Path) -> dict[str, list[int]]:
    """Returns the rows of each row group, by path."""
    storage.publish(files.finish(), storage.ignore_step)
    found = {}
    for path in sorted(folder.rglob("*.parquet")):
        metadata = pq.read_metadata(path)
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        found[str(path.relative_to(folder))] = groups
    return found


def test_rows_go_into_the_file_of_their_hour(tmp_path: Path) -> None:
    files = range_files(tmp_path)
    for at_ns in (FIRST, FIRST + HOUR_NS - 1, FIRST + HOUR_NS, FIRST):
        add(files.frame_rows(at_ns, 0, 1, carries_records=True), b"x")
    files.event_rows(FIRST + HOUR_NS).add("session", None, 0, 0)
    name = "s-00000007-00000007.parquet"
    assert published(files, tmp_path) == {
        f"events/date=2024-10-04/hour=01/{name}": [1],
        f"frames/date=2024-10-04/hour=00/{name}": [3],
        f"frames/date=2024-10-04/hour=01/{name}": [1],
    }


def test_a_full_group_is_written_and_a_large_frame_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MAX_BYTES", 10)
    files = range_files(tmp_path)
    for size in (4, 4, 4, 50, 1):
        add(files.frame_rows(FIRST, 0, size, carries_records=True), bytes(size))
    assert list(published(files, tmp_path).values()) == [[2, 1, 1, 1]]


def test_frames_with_records_have_row_groups_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_BYTES", 10)
    monkeypatch.setattr(columns, "MAX_BYTES_WITHOUT_RECORDS", 5)
    files = range_files(tmp_path)
    for size, carries_records in ((4, True), (1, False), (4, True), (4, False), (4, True), (1, False)):
        add(files.frame_rows(FIRST, 0, size, carries_records=carries_records), bytes(size))
    assert list(published(files, tmp_path).values()) == [[2, 2, 1, 1]]


@pytest.mark.parametrize("bound", ["MAX_EVENTS", "MAX_BYTES"])
def test_events_do_not_wait_for_the_end_of_a_range_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(columns, bound, 3)
    files = range_files(tmp_path)
    for _ in range(7):
        files.event_rows(FIRST).add("session", None, 0, 0, detail="1")
    assert list(published(files, tmp_path).values()) == [[3, 3, 1]]


def test_a_clock_that_was_set_begins_a_group(tmp_path: Path) -> None:
    files = range_files(tmp_path)
    add(files.frame_rows(FIRST, 0, 1, carries_records=True), b"x")
    add(files.frame_rows(FIRST, 9, 1, carries_records=True), b"x")
    assert list(published(files, tmp_path).values()) == [[1, 1]]


def test_discarded_files_leave_nothing(tmp_path: Path) -> None:
    files = range_files(tmp_path)
    add(files.frame_rows(FIRST, 0, 1, carries_records=True), b"x")
    files.finish()
    files.discard()
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_range_without_rows_has_no_files(tmp_path: Path) -> None:
    assert range_files(tmp_path).finish() == []

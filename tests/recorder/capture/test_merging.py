"""Tests of merging small files into large ones of an hour and session.

The rows stay the same. Hours that may still grow are left alone. No half-written file becomes visible.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from proxy.files import Folder
from recorder.capture import columns, merging, reader
from recorder.capture import frames as c
from recorder.capture.frames import Origin
from recorder.capture.merging import QUIET_NS, CannotMerge, Merged, merge
from recorder.capture.origins import Origins, origin_of
from recorder.capture.rows import RECORD_APIS
from tests.recorder.capture import looks
from tests.recorder.capture.recorded import two_sessions

KEY = itemgetter("session", "connection", "sequence")
# after all times of the recorded traffic
LATER = 1 << 62


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_sessions(tmp_path_factory.mktemp("capture"))


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "capture"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "merged"


def frames(folder: Path) -> list[dict[str, Any]]:
    return sorted(looks.rows(folder), key=KEY)


def names(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.parquet"))]


def test_the_merged_capture_has_the_same_rows_in_one_file_an_hour_and_session(folder: Path, out: Path) -> None:
    before = looks.everything(folder)
    small = reader.files(folder)
    hours = {(file.session, file.date, file.hour) for file in small}
    done = merge(folder, out, now_ns=LATER)
    assert frames(out) == frames(folder)
    assert sorted(map(str, looks.rows(out, kind="events", columns=[n for n, _ in c.EVENT_COLUMNS]))) == sorted(
        map(str, looks.rows(folder, kind="events", columns=[n for n, _ in c.EVENT_COLUMNS]))
    )
    large = reader.files(out)
    assert len(large) == len(hours) < len(small)
    assert {(file.session, file.first, file.last) for file in large} == {
        (
            session,
            min(file.first for file in small if file.session == session),
            max(file.last for file in small if file.session == session),
        )
        for session in ("s0", "s1")
    }
    assert done.small_files == len(small) + len(reader.files(folder, c.EVENTS_FOLDER))
    assert (done.frames, done.merged_before, done.waiting) == (len(frames(folder)), 0, ())
    assert looks.everything(folder) == before


def test_row_groups_hold_frames_with_records_or_others_and_keep_their_bounds(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MAX_BYTES", 20_000)
    monkeypatch.setattr(columns, "MAX_BYTES_WITHOUT_RECORDS", 10_000)
    merge(folder, out, now_ns=LATER)
    kinds = []
    for file in reader.files(out):
        for table in reader.row_groups(file):
            kinds.append({api in RECORD_APIS for api in table["api"].to_pylist()})
            assert table.nbytes <= 20_000 or len(table) == 1
    assert all(len(kind) == 1 for kind in kinds)
    assert {True} in kinds
    assert {False} in kinds


@pytest.mark.real
def test_a_large_file_ends_where_its_bytes_or_its_rows_are_enough(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [looks.local_path(file).stat().st_size for file in reader.files(folder)]
    merge(folder, out, file_bytes=max(sizes) * 2, now_ns=LATER)
    assert 2 < len(reader.files(out)) < len(sizes)
    assert frames(out) == frames(folder)
    monkeypatch.setattr(merging, "FILE_ROWS", 1)
    merge(folder, out.with_name("again"), now_ns=LATER)
    assert names(out.with_name("again")) == names(folder)


def test_a_second_run_makes_what_is_missing_alone(folder: Path, out: Path) -> None:
    first = merge(folder, out, now_ns=LATER)
    wanted, inode = looks.everything(out), {path: path.stat().st_ino for path in out.rglob("*.parquet")}
    assert merge(folder, out, now_ns=LATER) == Merged(merged_before=first.small_files)
    gone = next(out.rglob("frames/**/*.parquet"))
    gone.unlink()
    assert merge(folder, out, now_ns=LATER).large_files == 1
    assert looks.everything(out) == wanted
    assert all(path == gone or path.stat().st_ino == number for path, number in inode.items())


def test_the_current_hour_is_not_merged_yet(folder: Path, out: Path) -> None:
    newest = max(file.hour_ns for file in reader.files(folder))
    for path in folder.rglob("*.parquet"):
        os.utime(path, (0, 0))
    done = merge(folder, out, now_ns=newest + 10 * QUIET_NS // 9)
    assert done.waiting
    assert not [file for file in reader.files(out) if file.hour_ns >= newest]


def test_a_just_published_file_is_not_merged_yet(folder: Path, out: Path) -> None:
    done = merge(folder, out)
    assert done == Merged(waiting=done.waiting)
    assert done.waiting
    assert not out.exists()


@pytest.mark.real
def test_rows_published_after_a_merge_become_a_further_file(folder: Path, out: Path) -> None:
    last = max(file.last for file in reader.files(folder))
    late = list(folder.rglob(f"*-{last:08d}.parquet"))
    for path in late:
        path.rename(path.with_name(f".{path.name}"))
    merge(folder, out, now_ns=LATER)
    before = looks.everything(out)
    for path in late:
        path.with_name(f".{path.name}").rename(path)
    assert frames(out) != frames(folder)
    done = merge(folder, out, now_ns=LATER)
    assert done.small_files == len(late)
    assert frames(out) == frames(folder)
    assert before.items() <= looks.everything(out).items()


def test_two_merges_at_a_time_are_refused(folder: Path, out: Path) -> None:
    out.mkdir()
    with Folder.at(out) as held:
        assert held.lock()
        with pytest.raises(CannotMerge, match="another process is merging"):
            merge(folder, out, now_ns=LATER)
    assert not list(out.iterdir())


def test_a_disk_that_lies_is_noticed_and_leaves_nothing(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = merging._RowGroups._write

    def lossy(groups: Any, carries_records: bool) -> None:
        groups._waiting[carries_records] = [table.slice(1) for table in groups._waiting[carries_records]]
        write(groups, carries_records)

    monkeypatch.setattr(merging._RowGroups, "_write", lossy)
    with pytest.raises(CannotMerge, match="was written wrongly"):
        merge(folder, out, now_ns=LATER)
    assert not [path for path in out.rglob("*") if path.is_file()]


def test_a_crash_leaves_whole_files_and_the_next_run_the_rest(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []
    compare = merging._compare

    def crash(*arguments: Any) -> None:
        calls.append(out)
        if len(calls) == 2:
            raise KeyboardInterrupt
        compare(*arguments)

    monkeypatch.setattr(merging, "_compare", crash)
    with pytest.raises(KeyboardInterrupt):
        merge(folder, out, now_ns=LATER)
    assert len([path for path in out.rglob("*") if path.is_file()]) == 1
    merge(folder, out, now_ns=LATER)
    assert frames(out) == frames(folder)


def test_a_file_that_a_killed_run_left_hidden_is_replaced(folder: Path, out: Path) -> None:
    merge(folder, out, now_ns=LATER)
    path = next(out.rglob("frames/**/*.parquet"))
    path.rename(path.with_name("." + path.name))
    merge(folder, out, now_ns=LATER)
    assert frames(out) == frames(folder)
    assert not list(out.rglob(".*.parquet"))


@pytest.mark.real
def test_hidden_files_of_a_killed_merge_are_removed_whatever_their_names(folder: Path, out: Path) -> None:
    merge(folder, out, now_ns=LATER)
    for path in [*out.rglob("*.parquet")]:
        path.rename(path.with_name("." + path.name))
    merge(folder, out, file_bytes=1, now_ns=LATER)
    assert frames(out) == frames(folder)
    assert not list(out.rglob(".*.parquet"))


def test_origins_that_a_killed_run_left_hidden_go_too(folder: Path, out: Path) -> None:
    origins = Origins(folder, "s0")
    origins.add(1, 0, Origin("original", 7, 0))
    origins.close(60)
    merge(folder, out, now_ns=LATER)
    left = out / "origins" / "date=2026-11-21" / "hour=12" / ".s0-00000001-00000007.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    merge(folder, out, now_ns=LATER)
    assert not left.exists()
    assert origin_of(out, "s0", 1, 0, most=1 << 20) == Origin("original", 7, 0)


def a_link_to_nothing(out: Path) -> None:
    out.symlink_to(out.with_name("nothing"))


def a_fifo(out: Path) -> None:
    os.mkfifo(out)


@pytest.mark.parametrize("make", [a_link_to_nothing, a_fifo, Path.touch], ids=["link", "fifo", "file"])
def test_an_output_that_can_not_be_a_folder_is_refused(folder: Path, out: Path, make: Callable[[Path], None]) -> None:
    make(out)
    with pytest.raises(CannotMerge, match=f"{out} can't be written: "):
        merge(folder, out, now_ns=LATER)


def inside(folder: Path) -> Path:
    return folder / "merged"


def around(folder: Path) -> Path:
    return folder.parent


def the_same(folder: Path) -> Path:
    return folder


@pytest.mark.parametrize("where", [inside, around, the_same], ids=["inside", "around", "the-same"])
def test_folders_that_are_not_apart_are_refused(folder: Path, where: Callable[[Path], Path]) -> None:
    before = looks.everything(folder)
    with pytest.raises(CannotMerge, match="must be apart"):
        merge(folder, where(folder), now_ns=LATER)
    assert looks.everything(folder) == before


def test_the_folder_of_a_recording_is_refused(folder: Path, out: Path) -> None:
    (out / "_spool").mkdir(parents=True)
    with pytest.raises(CannotMerge, match="is the folder of a recording"):
        merge(folder, out, now_ns=LATER)


def test_hours_may_be_removed_once_they_are_merged(folder: Path, out: Path) -> None:
    merge(folder, out, now_ns=LATER)
    before = looks.everything(out)
    looks.local_path(reader.files(folder)[0]).unlink()
    assert merge(folder, out, now_ns=LATER).large_files == 0
    assert looks.everything(out) == before


def test_rows_are_never_there_twice(folder: Path, out: Path) -> None:
    merge(folder, out, now_ns=LATER)
    before = looks.everything(out)
    path = looks.local_path(reader.files(folder)[0])
    path.rename(path.with_name(f"{path.name.rsplit('-', 1)[0]}-00000099.parquet"))
    with pytest.raises(CannotMerge, match="is merged already: choose another folder"):
        merge(folder, out, now_ns=LATER)
    assert looks.everything(out) == before


def test_captures_of_several_proxies_may_share_a_folder(folder: Path, out: Path) -> None:
    other = folder.with_name("other")
    shutil.copytree(folder, other)
    for path in other.rglob("s*.parquet"):
        path.unlink() if path.name.startswith("s0") else path.rename(path.with_name(path.name.replace("s1", "s7")))
    for path in folder.rglob("s1*.parquet"):
        path.unlink()
    merge(folder, out, now_ns=LATER)
    merge(other, out, now_ns=LATER)
    assert {file.session for file in reader.files(out)} == {"s0", "s7"}


def test_a_damaged_file_is_named_and_keeps_its_session_and_hour_alone_from_being_merged(
    folder: Path, out: Path
) -> None:
    path = looks.local_path(reader.files(folder)[-1])
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    (why,) = merge(folder, out, now_ns=LATER).failed
    assert path.name in why
    assert not [file for file in reader.files(out) if file.session == "s1"]
    assert [file for file in reader.files(out) if file.session == "s0"]
    path.write_bytes(whole)
    merge(folder, out, now_ns=LATER)
    assert frames(out) == frames(folder)


def test_rows_of_format_1_become_rows_of_todays(folder: Path, out: Path) -> None:
    wanted = frames(folder)
    for file in reader.files(folder):
        table = pq.read_table(file.path, partitioning=None)
        old = table.drop_columns([*c.COLUMNS_SINCE])
        pq.write_table(old.replace_schema_metadata({c.FORMAT_KEY: b"1"}), file.path)
    merge(folder, out, now_ns=LATER)
    assert frames(out) == wanted
    assert {c.format_of(pq.read_schema(file.path).metadata) for file in reader.files(out)} == {c.FORMAT}

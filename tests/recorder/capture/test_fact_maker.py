"""Tests of the facts beside a capture's frames: made once, whole or not at all, and made anew if anything is wrong."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from proxy.files import Folder
from recorder.capture import fact_files, reader
from recorder.capture.fact_files import Stem, open_facts, state_of, stems
from recorder.capture.fact_maker import Busy, fact_rows, make, make_missing, missing
from recorder.capture.storage import TableFile
from recorder.facts.tables import TABLES
from tests.recorder.capture.recorded import two_sessions
from tests.sweeps import is_thorough


class Killed(Exception):
    """Stands for a crash."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_sessions(tmp_path_factory.mktemp("capture"))


@pytest.fixture(scope="module")
def complete(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(recorded, tmp_path_factory.mktemp("complete") / "capture"))
    assert make_missing(folder) == []
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "capture"))


@pytest.fixture
def whole(complete: Path, tmp_path: Path) -> Path:
    """A capture with all facts."""
    return Path(shutil.copytree(complete, tmp_path / "capture"))


def facts(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table as any reader of Parquet finds them, in the order of the files."""
    found: dict[str, list[dict[str, Any]]] = {decoder.name: [] for decoder in TABLES}
    for name, rows in found.items():
        for path in sorted((folder / "facts" / name).rglob("*.parquet")):
            rows += pq.ParquetFile(path).read().to_pylist()
    return found


def of_frames(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table by the frames, in the order of the files."""
    found: dict[str, list[dict[str, Any]]] = {decoder.name: [] for decoder in TABLES}
    for file in sorted(reader.files(folder), key=lambda file: (file.date, file.hour, file.path.name)):
        for decoder, batch in fact_rows(file):
            found[decoder.name] += batch.to_pylist()
    return found


def states(folder: Path) -> set[str]:
    return {state_of(folder, stem).value for stem in stems(folder)}


def marker_of(folder: Path, stem: Stem) -> Path:
    return folder / "facts" / "_done" / stem.name


def some_file(folder: Path) -> Path:
    return min((folder / "facts" / "frames").rglob("*.parquet"))


def test_each_files_facts_are_those_of_its_frames(whole: Path) -> None:
    found = facts(whole)
    assert found == of_frames(whole)
    assert len(found["frames"]) == sum(map(reader.row_count, reader.files(whole)))
    assert states(whole) == {"current"}
    assert not [path for path in whole.rglob(".*") if path.is_file()]


def test_a_table_without_rows_has_no_file(whole: Path) -> None:
    rows = facts(whole)
    for name, found in rows.items():
        assert bool(found) == any((whole / "facts" / name).rglob("*.parquet")), name
    assert not all(rows.values())


@pytest.mark.parametrize("processes", [1, 2])
def test_facts_that_are_there_are_not_made_again(whole: Path, processes: int) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    assert make_missing(whole, processes=processes) == []
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()} == before


def steps_of(folder: Path) -> list[str]:
    """All steps of making the first stem's facts, in a copy."""
    copy = Path(shutil.copytree(folder, folder.with_name("copy")))
    seen: list[str] = []
    with closing(open_facts(copy)) as done:
        make(copy, done, stems(copy)[0], seen.append)
    return seen


@pytest.mark.real
@pytest.mark.parametrize("is_made_before", [False, True])
def test_a_crash_before_any_step_leaves_no_facts_that_count_and_the_next_run_makes_them(
    folder: Path, complete: Path, is_made_before: bool
) -> None:
    if is_made_before:
        shutil.copytree(complete / "facts", folder / "facts")
        for stem in stems(folder):
            told = json.loads(marker_of(folder, stem).read_bytes())
            marker_of(folder, stem).write_text(json.dumps(told | {"number": 0}))
    stem, wanted = stems(folder)[0], of_frames(folder)
    count = len(steps_of(folder))
    assert count > 8
    for last in range(count):
        seen: list[str] = []

        def crash(step: str, seen: list[str] = seen, last: int = last) -> None:
            seen.append(step)
            if len(seen) > last:
                raise Killed

        with closing(open_facts(folder)) as done, pytest.raises(Killed):
            make(folder, done, stem, crash)
        assert state_of(folder, stem) is not fact_files.State.CURRENT, seen
        if is_thorough() or last % 6 == 0:
            assert make_missing(folder) == []
            assert facts(folder) == wanted, seen
            marker_of(folder, stem).unlink()
    assert make_missing(folder) == []
    assert facts(folder) == wanted
    assert states(folder) == {"current"}
    assert not [path for path in folder.rglob(".*") if path.is_file()]


def a_hidden_file_of_a_crash(folder: Path) -> None:
    """A process that was killed removes nothing."""
    path = some_file(folder)
    path.with_name("." + path.name).write_bytes(b"PAR1 half a file")
    marker_of(folder, stems(folder)[0]).unlink()


def a_lost_file(folder: Path) -> None:
    some_file(folder).unlink()


def a_short_file(folder: Path) -> None:
    os.truncate(some_file(folder), 100)


def a_lost_marker(folder: Path) -> None:
    marker_of(folder, stems(folder)[0]).unlink()


def no_marker(folder: Path) -> None:
    marker_of(folder, stems(folder)[0]).write_bytes(b'{"number": "one"')


def an_endless_marker(folder: Path) -> None:
    marker_of(folder, stems(folder)[0]).write_bytes(b"[" * 5_000_000)


def another_number(folder: Path) -> None:
    path = marker_of(folder, stems(folder)[0])
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"number": 99}))


def facts_of_another_file(folder: Path) -> None:
    first, second = stems(folder)[:2]
    shutil.copy(marker_of(folder, second), marker_of(folder, first))


def other_frames_of_the_same_size(folder: Path) -> None:
    path = Path(str(stems(folder)[0].files[0].path))
    data = bytearray(path.read_bytes())
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - 1), path, write_page_checksum=True)
    size = path.stat().st_size
    assert size != len(data)
    marker = marker_of(folder, stems(folder)[0])
    told = json.loads(marker.read_bytes())
    for hour in told["hours"].values():
        hour["size"] = size
    marker.write_text(json.dumps(told))
    os.utime(path, ns=(1 << 62, 1 << 62))


def everything(folder: Path) -> None:
    shutil.rmtree(folder / "facts")


DAMAGES = [
    a_hidden_file_of_a_crash,
    a_lost_file,
    a_short_file,
    a_lost_marker,
    no_marker,
    an_endless_marker,
    another_number,
    facts_of_another_file,
    other_frames_of_the_same_size,
    everything,
]


@pytest.mark.real
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_facts_that_do_not_count_are_made_anew(whole: Path, damage: Callable[[Path], None]) -> None:
    damage(whole)
    assert [*missing(whole)] != []
    assert make_missing(whole) == []
    assert facts(whole) == of_frames(whole)
    assert states(whole) == {"current"}
    assert not [path for path in whole.rglob(".*") if path.is_file()]


def test_frames_that_can_not_be_read_cost_their_own_facts_alone(folder: Path) -> None:
    bad, *others = stems(folder)
    path = Path(str(bad.files[0].path))
    path.write_bytes(path.read_bytes()[:-50])
    ((name, reason),) = make_missing(folder)
    assert name == bad.name
    assert str(path) in reason
    assert state_of(folder, bad) is fact_files.State.MISSING
    assert {state_of(folder, stem) for stem in others} == {fact_files.State.CURRENT}


def test_facts_of_frames_that_have_gone_are_removed(whole: Path) -> None:
    gone, *others = stems(whole)
    for file in gone.files:
        Path(str(file.path)).unlink()
    assert make_missing(whole) == []
    assert not [path for path in (whole / "facts").rglob(f"{gone.name}*") if path.is_file()]
    assert facts(whole) == of_frames(whole)
    assert {state_of(whole, stem) for stem in others} == {fact_files.State.CURRENT}


def close_only(file: TableFile, discard: Callable[[TableFile], None] = TableFile.discard) -> None:
    """Stands for `TableFile.discard` of a process that is killed: the file stays."""
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(Folder, "remove", lambda *_: None)
        discard(file)


@pytest.mark.real
def test_what_a_crash_leaves_goes_with_its_frames(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableFile, "discard", close_only)
    gone, *_ = stems(whole)
    frames = {path: path.read_bytes() for path in (Path(str(file.path)) for file in gone.files)}
    for last in range(0, len(steps_of(whole)), 4):
        steps = iter(range(last))

        def crash(_step: str, steps: Iterator[int] = steps) -> None:
            if next(steps, None) is None:
                raise Killed

        for path, content in frames.items():
            path.write_bytes(content)
        with closing(open_facts(whole)) as done, pytest.raises(Killed):
            make(whole, done, gone, crash)
        (whole / "facts" / "_done" / f".{gone.name}").write_bytes(b"{")
        for path in frames:
            path.unlink()
        assert make_missing(whole) == []
        assert not [path for path in (whole / "facts").rglob(f"*{gone.name}*") if path.is_file()], last


def test_a_marker_can_not_name_files_elsewhere(whole: Path) -> None:
    victim = whole / "frames.parquet"
    victim.write_bytes(b"mine")
    marker = marker_of(whole, stems(whole)[0]).with_name("frames")
    hour = {"size": 1, "digest": "", "tables": {}}
    marker.write_text(json.dumps({"number": 1, "hours": {"../..": hour, "../../..": hour, "date=1/hour=/": hour}}))
    assert make_missing(whole) == []
    assert victim.read_bytes() == b"mine"
    assert not marker.exists()


def test_no_link_in_the_facts_is_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "facts").symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic link"):
        make_missing(folder)
    assert not [*elsewhere.iterdir()]


def test_two_processes_do_not_make_the_same_facts(folder: Path) -> None:
    with closing(open_facts(folder)) as done:
        assert done.lock()
        with pytest.raises(Busy):
            make_missing(folder)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Every descriptor that a test has opened is closed."""
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    yield
    assert not before or len(os.listdir("/proc/self/fd")) <= before + 1

"""Tests of the facts that a reader finds or makes: where they are, and that nothing of somebody else is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import recorder
from proxy import user_folders
from proxy.files import Folder
from recorder import facts_at_hand as at_hand
from recorder.capture import reader
from recorder.capture.fact_maker import make_missing
from recorder.facts_at_hand import facts_at_hand
from recorder.reading.capture import Capture
from tests.recorder.capture.recorded import two_sessions
from tests.s3 import Store


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of three files."""
    folder = two_sessions(tmp_path_factory.mktemp("capture"))
    for file in reader.files(folder)[3:]:
        Path(str(file.path)).unlink()
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(recorded, tmp_path / "capture"))


@pytest.fixture
def of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    all_but_the_cache_are_anothers(monkeypatch)
    return folder


def all_but_the_cache_are_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    def owner(folder: Folder) -> int:
        return os.geteuid() + (not folder.path.is_relative_to(user_folders.cache_folder()))

    monkeypatch.setattr(Folder, "owner", property(owner))


def cache_folder() -> Path:
    return user_folders.cache_folder() / "facts"


def every_file(folder: Path) -> set[str]:
    return {str(file.path) for file in reader.files(folder)}


def below(folder: Path, place: Path) -> bool:
    """True if all facts at hand, at least one, are below a place."""
    paths = [path for tables in facts_at_hand(folder).files.values() for path in tables.values()]
    return bool(paths) and all(Path(path).is_relative_to(place) for path in paths)


def test_missing_facts_are_made_beside_the_frames_once(folder: Path) -> None:
    first, second = facts_at_hand(folder), facts_at_hand(folder)
    assert first.files == second.files
    assert first.files.keys() == every_file(folder)
    assert first.made is not None
    assert str(folder / "facts") in first.made
    assert second.made is None
    assert below(folder, folder / "facts")
    assert not cache_folder().exists()


def test_nothing_is_written_into_another_users_capture(of_another_user: Path) -> None:
    before = sorted(of_another_user.rglob("*"))
    assert below(of_another_user, cache_folder())
    assert facts_at_hand(of_another_user).files.keys() == every_file(of_another_user)
    assert sorted(of_another_user.rglob("*")) == before


def test_another_users_facts_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_missing(folder)
    all_but_the_cache_are_anothers(monkeypatch)
    assert below(folder, cache_folder())


def test_another_users_cache_is_neither_read_nor_written(
    of_another_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts_at_hand(of_another_user)
    monkeypatch.setattr(Folder, "owner", os.geteuid() + 1)
    assert facts_at_hand(of_another_user).files == {}
    shutil.rmtree(cache_folder())
    assert facts_at_hand(of_another_user).files == {}
    assert not cache_folder().exists()


def test_a_capture_that_can_not_be_written_keeps_its_facts_and_gets_the_others_in_the_cache(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = facts_at_hand(folder).files
    (folder / "facts" / "_done" / Path(first).stem).unlink()
    monkeypatch.setattr(Folder, "is_writable", False)
    found = facts_at_hand(folder).files
    assert found.keys() == every_file(folder)
    for file, tables in found.items():
        place = cache_folder() if file == first else folder
        assert all(Path(path).is_relative_to(place) for path in tables.values())


def test_the_executors_of_a_cluster_get_no_facts_from_the_cache(of_another_user: Path) -> None:
    assert facts_at_hand(of_another_user, with_cache=False).files == {}
    assert not cache_folder().exists()


def test_facts_with_a_flipped_bit_are_made_anew(folder: Path) -> None:
    found = facts_at_hand(folder).files
    path = next(Path(path) for tables in found.values() for path in tables.values())
    good = path.read_bytes()
    path.write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
    assert facts_at_hand(folder).made is not None
    assert path.read_bytes() == good


def test_frames_that_can_not_be_read_have_no_facts_and_stop_nothing(folder: Path) -> None:
    bad = Path(str(reader.files(folder)[-1].path))
    bad.write_bytes(bad.read_bytes()[:-50])
    assert facts_at_hand(folder).files.keys() == every_file(folder) - {str(bad)}


def test_frames_that_have_changed_get_other_facts(of_another_user: Path, recorded: Path) -> None:
    facts_at_hand(of_another_user)
    one, other, *_ = reader.files(of_another_user)
    shutil.copyfile(str(other.path), str(one.path))
    assert facts_at_hand(of_another_user).made is not None


def test_the_cache_forgets_the_captures_that_were_asked_for_the_longest_ago(
    of_another_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [Path(shutil.copytree(of_another_user, tmp_path / name)) for name in ("a", "b", "c")]
    facts_at_hand(copies[0])
    (kept,) = cache_folder().iterdir()
    size = sum(file.stat().st_size for file in kept.rglob("*") if file.is_file())
    os.utime(kept, (1, 1))
    monkeypatch.setattr(at_hand, "CACHE_BYTES", size * 5 // 2)
    for folder in copies[1:]:
        facts_at_hand(folder)
    assert not kept.exists()
    assert [facts_at_hand(folder).made for folder in copies[1:]] == [None, None]


def test_the_cache_keeps_a_capture_that_was_asked_for_again(
    of_another_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [Path(shutil.copytree(of_another_user, tmp_path / name)) for name in ("a", "b", "c")]
    facts_at_hand(copies[0])
    (again,) = cache_folder().iterdir()
    facts_at_hand(copies[1])
    (other,) = (each for each in cache_folder().iterdir() if each != again)
    for at, place in enumerate((again, other)):
        os.utime(place, (at, at))
    assert facts_at_hand(copies[0]).made is None
    size = sum(file.stat().st_size for file in again.rglob("*") if file.is_file())
    monkeypatch.setattr(at_hand, "CACHE_BYTES", size * 5 // 2)
    facts_at_hand(copies[2])
    assert again.exists()
    assert not other.exists()


def test_a_cache_that_can_not_be_made_costs_no_answer(
    of_another_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert facts_at_hand(of_another_user).files == {}


def rows_of(opened: Capture, table: str) -> list[dict[str, Any]]:
    return opened.facts(table).to_table().to_pylist()  # type: ignore[no-any-return]


def put_facts(s3: Store, capture: Path, bucket: str) -> None:
    """Copies the markers, which `put` leaves out."""
    for marker in (capture / "facts" / "_done").iterdir():
        with s3.system().open_output_stream(f"{bucket}/kept/facts/_done/{marker.name}") as target:
            target.write(marker.read_bytes())


@pytest.mark.real
def test_facts_of_a_bucket_are_made_and_kept_for_this_process_if_it_has_none(s3: Store, folder: Path) -> None:
    there = recorder.open(s3.put(folder, "without-facts"))
    before = [*there.notes]
    found = rows_of(there, "partitions")
    said = [*before, "made the facts of 3 files of frames, for as long as this process runs"]
    assert there.notes == said
    # they are made once
    assert rows_of(there, "partitions") == found
    assert there.notes == said
    facts_at_hand(folder)
    assert found == rows_of(recorder.open(folder), "partitions")
    assert len(found) > 0


@pytest.mark.real
@pytest.mark.parametrize("what", ["whole", "damaged", "of other frames", "no marker", "other tables"])
def test_facts_in_a_bucket_are_read_if_they_match(s3: Store, folder: Path, what: str) -> None:
    facts_at_hand(folder)
    expected = rows_of(recorder.open(folder), "partitions")
    (first, *_) = sorted((folder / "facts" / "partitions").rglob("*.parquet"))
    if what == "damaged":
        first.write_bytes(first.read_bytes()[:-1] + b"x")
    for marker in (folder / "facts" / "_done").iterdir():
        told = marker.read_bytes()
        if what == "of other frames":
            marker.write_bytes(told.replace(b'"size":', b'"size":1'))
        elif what == "no marker":
            marker.write_bytes(b"{}")
        elif what == "other tables":
            marker.write_bytes(told.replace(b'"partitions":', b'"../../partitions":'))
    bucket = f"facts-{what.replace(' ', '-')}"
    url = s3.put(folder, bucket)
    put_facts(s3, folder, bucket)
    there = recorder.open(url)
    before = [*there.notes]
    assert rows_of(there, "partitions") == expected
    made = [note for note in there.notes if note not in before]
    assert bool(made) == (what != "whole")

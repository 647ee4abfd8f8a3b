"""Tests of the private folder: nobody else may enter, and what a killed proxy leaves is removed by the next."""

import stat
import tempfile
from pathlib import Path

import pytest

from recorder.live import folder
from recorder.live.folder import LiveFolder, NoMemoryFolder


@pytest.fixture(autouse=True)
def _of_this_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folder, "SHARED_MEMORY", tmp_path / "nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_the_folder_is_its_owners_alone() -> None:
    made = LiveFolder.make(in_memory=False)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert folder.is_held(made.path)


def test_a_folder_that_must_be_in_memory_is_not_made_on_a_disk() -> None:
    with pytest.raises(NoMemoryFolder, match="is no tmpfs that can be written"):
        LiveFolder.make(in_memory=True)


def test_a_folder_that_nobody_holds_is_removed_by_the_next_proxy_and_one_that_is_held_stays() -> None:
    held = LiveFolder.make(in_memory=False)
    left = held.path.with_name(f"{held.path.name}-left")
    (left / "feed").mkdir(parents=True)
    (left / "owner.lock").touch()
    LiveFolder.make(in_memory=False)
    assert held.path.exists()
    assert not left.exists()
    held.discard()
    assert not held.path.exists()


def test_two_proxies_that_start_at_the_same_moment_leave_each_other_their_folders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others: list[LiveFolder] = []

    def and_then_another_starts(**where: str) -> str:
        with monkeypatch.context() as alone:
            alone.setattr(tempfile, "mkdtemp", make)
            made = make(**where)
            others.append(LiveFolder.make(in_memory=False))
        return made

    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", and_then_another_starts)
    for one in (LiveFolder.make(in_memory=False), *others):
        assert folder.is_held(one.path)
        assert one.path.is_dir()

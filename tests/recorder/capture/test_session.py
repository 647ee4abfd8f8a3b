"""Tests of a session's folder: how it is made and removed, and which files of a capture are left alone."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.files import Folder, StrangeFileError
from recorder.capture import session as sessions
from recorder.capture.lock import WRITER_LOCK
from recorder.capture.session import FolderError, RecordSettings
from tests.recorder.capture.looks import everything, session_folder, take_lock


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    folder = tmp_path / "capture"
    sessions.ensure_writable(folder)
    return folder


@pytest.fixture
def begin(capture: Path) -> Iterator[Callable[[str], None]]:
    """Begins a session whose writer is gone."""
    opened: list[Folder] = []

    def begun(name: str) -> None:
        folder, lock = sessions.begin(capture, name)
        opened.append(folder)
        lock.release()

    yield begun
    for folder in opened:
        folder.close()


STRANGERS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "link": lambda path: path.symlink_to("elsewhere"),
    "folder": Path.mkdir,
}


def ignore_step(step: str) -> None:
    pass


def test_a_session_is_seen_only_with_its_writers_lock_held(capture: Path) -> None:
    folder, lock = sessions.begin(capture, "one")
    assert sessions.sessions(capture) == ["one"]
    assert folder.path == session_folder(capture, "one")
    assert take_lock(folder.path, WRITER_LOCK) is None
    lock.release()
    folder.close()


def test_a_session_is_live_as_long_as_its_writer(capture: Path) -> None:
    folder, lock = sessions.begin(capture, "one")
    assert sessions.is_live(capture, "one")
    lock.release()
    folder.close()
    assert not sessions.is_live(capture, "one")
    assert not sessions.is_live(capture, "two")


def test_a_session_is_begun_once(capture: Path, begin: Callable[[str], None]) -> None:
    begin("one")
    with pytest.raises(FolderError, match="one exists already"):
        begin("one")


def test_a_removed_session_is_gone_for_everybody(capture: Path, begin: Callable[[str], None]) -> None:
    begin("one")
    steps: list[str] = []
    sessions.remove(capture, "one", steps.append)
    assert steps == ["remove session", "remove folder"]
    assert os.listdir(capture / sessions.SPOOL_FOLDER) == []
    sessions.remove(capture, "one", ignore_step)


def test_a_session_that_was_being_removed_when_its_process_ended_is_removed_by_the_next(
    capture: Path, begin: Callable[[str], None]
) -> None:
    begin("one")

    def killed(step: str) -> None:
        if step == "remove folder":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sessions.remove(capture, "one", killed)
    assert sessions.sessions(capture) == []
    sessions.remove_all_hidden(capture)
    sessions.remove_all_hidden(capture)
    assert os.listdir(capture / sessions.SPOOL_FOLDER) == []


def test_foreign_files_in_a_finished_session_stay(capture: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "00000001.log").write_text("kept")
    spool = capture / sessions.SPOOL_FOLDER
    (spool / ".one.done").symlink_to(outside)
    (spool / ".two.done").mkdir()
    (spool / ".two.done" / "notes.txt").write_text("kept")
    (spool / ".two.done" / "00000001.log").write_text("removed")
    (spool / ".two.done" / "writer.lock").symlink_to(outside / "00000001.log")
    sessions.remove_all_hidden(capture)
    assert everything(outside) == {"00000001.log": b"kept"}
    assert sorted(everything(spool)) == [".one.done", ".two.done", ".two.done/notes.txt", ".two.done/writer.lock"]


def test_a_folder_without_a_spool_has_no_sessions(tmp_path: Path) -> None:
    assert sessions.sessions(tmp_path / "missing") == []
    assert sessions.sessions(tmp_path) == []
    sessions.remove_all_hidden(tmp_path)


def test_names_of_sessions_differ_and_lead_nowhere_else(capture: Path) -> None:
    assert len({sessions.new_session() for _ in range(50)}) == 50
    for bad in ("../up", ".hidden", "", "a/b", "a" * 201):
        for touch in (sessions.open_session, sessions.begin):
            with pytest.raises(ValueError, match="not a session's name"):
                touch(capture, bad)


def test_a_folder_that_is_called_like_no_session_or_is_none_is_not_taken_for_one(capture: Path) -> None:
    spool = capture / sessions.SPOOL_FOLDER
    for name in ("s1", "two words", "line\n", "_temporary"):
        (spool / name).mkdir()
    (spool / "link").symlink_to("s1")
    (spool / "file").touch()
    assert sessions.sessions(capture) == ["s1"]
    with pytest.raises(StrangeFileError, match="link is a symbolic link, not a folder"):
        sessions.open_session(capture, "link")


@pytest.mark.parametrize("name", ["00000001.log", ".00000007.state", "status.json", ".status.json", "writer.lock"])
@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_session_with_something_else_in_place_of_a_file_is_reported(capture: Path, begin, name, stranger) -> None:
    begin("one")
    with sessions.open_session(capture, "one") as opened:
        sessions.check_plain_files(capture, opened)
        path = opened.path / name
        path.unlink(missing_ok=True)
        STRANGERS[stranger](path)
        with pytest.raises(StrangeFileError, match=f"{name} is a"):
            sessions.check_plain_files(capture, opened)


def test_a_capture_with_a_link_in_place_of_a_table_is_refused(capture: Path, begin) -> None:
    begin("one")
    (capture / "frames").mkdir()
    (capture / "events").symlink_to("frames")
    with sessions.open_session(capture, "one") as opened, pytest.raises(StrangeFileError, match="events is a symbolic"):
        sessions.check_plain_files(capture, opened)


def test_a_session_belongs_to_the_user_that_made_it(capture: Path, begin, monkeypatch: pytest.MonkeyPatch) -> None:
    begin("one")
    assert sessions.is_own(capture, "one")
    assert sessions.is_own(capture, "gone")
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert not sessions.is_own(capture, "one")
    (capture / "_spool" / ".two.done").mkdir()
    sessions.remove_all_hidden(capture, only_own=True)
    assert (capture / "_spool" / ".two.done").is_dir()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match=r"the capture folder .*file can't be written"):
        sessions.ensure_writable(tmp_path / "file")
    sessions.ensure_writable(tmp_path / "new" / "folder")
    assert os.listdir(tmp_path / "new" / "folder" / sessions.SPOOL_FOLDER) == []


def test_a_spool_that_leads_elsewhere_is_not_recorded_into(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "_spool").symlink_to("elsewhere")
    with pytest.raises(FolderError, match=r"can't be written: .*_spool is a symbolic link, not a folder"):
        sessions.ensure_writable(tmp_path)


@pytest.mark.parametrize("wrong", [{"queue": 0}, {"spool": -1}, {"segment": 0}, {"segment_seconds": 0.0}])
def test_a_limit_of_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="right would be"):
        RecordSettings(**wrong)  # type: ignore[arg-type]

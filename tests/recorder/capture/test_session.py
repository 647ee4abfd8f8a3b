"""A session's folder: who may write it, who may take it over, how it comes and goes."""

import os
from pathlib import Path

import pytest

from recorder.capture import session as sessions
from recorder.capture.session import FolderError, Lock, RecordSettings, Status


def test_a_lock_is_one_holders_until_it_is_released(tmp_path: Path) -> None:
    first = Lock.take(tmp_path / "lock")
    assert first is not None
    assert Lock.take(tmp_path / "lock") is None
    first.release()
    first.release()
    assert Lock.take(tmp_path / "lock") is not None


def test_a_session_is_seen_only_with_its_writers_lock_held(tmp_path: Path) -> None:
    sessions.check_writable(tmp_path)
    lock = sessions.begin(tmp_path, "one")
    assert sessions.sessions(tmp_path) == ["one"]
    assert Lock.take(sessions.spool_folder(tmp_path, "one") / sessions.WRITER_LOCK) is None
    lock.release()


def test_a_session_is_live_as_long_as_its_writer(tmp_path: Path) -> None:
    sessions.check_writable(tmp_path)
    lock = sessions.begin(tmp_path, "one")
    assert sessions.is_live(tmp_path, "one")
    lock.release()
    assert not sessions.is_live(tmp_path, "one")
    assert not sessions.is_live(tmp_path, "two")


def test_a_session_is_begun_once(tmp_path: Path) -> None:
    sessions.check_writable(tmp_path)
    sessions.begin(tmp_path, "one")
    with pytest.raises(FolderError, match="one exists already"):
        sessions.begin(tmp_path, "one")


def test_a_hidden_session_is_gone_for_everybody(tmp_path: Path) -> None:
    sessions.check_writable(tmp_path)
    sessions.begin(tmp_path, "one")
    sessions.hide(sessions.spool_folder(tmp_path, "one"))
    assert sessions.sessions(tmp_path) == []
    sessions.remove_all_hidden(tmp_path)
    assert list((tmp_path / sessions.SPOOL_FOLDER).iterdir()) == []


def test_a_hidden_session_may_be_removed_by_two_at_once(tmp_path: Path) -> None:
    sessions.check_writable(tmp_path)
    sessions.begin(tmp_path, "one").release()
    gone = sessions.hide(sessions.spool_folder(tmp_path, "one"))
    sessions.remove_hidden(gone)
    sessions.remove_hidden(gone)
    assert not gone.exists()


def test_a_folder_without_a_spool_has_no_sessions(tmp_path: Path) -> None:
    assert sessions.sessions(tmp_path / "missing") == []


def test_names_of_sessions_differ_and_lead_nowhere_else(tmp_path: Path) -> None:
    names = {sessions.new_session() for _ in range(50)}
    assert len(names) == 50
    for name in names:
        assert sessions.spool_folder(tmp_path, name).parent == tmp_path / sessions.SPOOL_FOLDER
    for bad in ("../up", ".hidden", "", "a/b"):
        with pytest.raises(ValueError, match="not a session's name"):
            sessions.spool_folder(tmp_path, bad)


def test_a_status_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    assert sessions.read_status(tmp_path) is None
    sessions.write_status(tmp_path, Status(frames=3, position=5))
    sessions.write_status(tmp_path, Status(frames=4, segment=2))
    assert sessions.read_status(tmp_path) == Status(frames=4, segment=2)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match=r"the capture folder .*file can't be written"):
        sessions.check_writable(tmp_path / "file")
    sessions.check_writable(tmp_path / "new" / "folder")
    assert os.listdir(tmp_path / "new" / "folder" / sessions.SPOOL_FOLDER) == []


@pytest.mark.parametrize("wrong", [{"queue": 0}, {"spool": -1}, {"segment": 0}, {"segment_seconds": 0.0}])
def test_a_limit_of_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="right would be"):
        RecordSettings(**wrong)  # type: ignore[arg-type]


def test_a_folder_that_is_called_like_no_session_is_not_taken_for_one(tmp_path: Path) -> None:
    for name in ("s1", "two words", "line\n", "_temporary"):
        (tmp_path / "_spool" / name).mkdir(parents=True)
    assert sessions.sessions(tmp_path) == ["s1"]


@pytest.mark.parametrize("text", ["{junk", '{"a": 1}', "[]"])
def test_a_status_that_is_none_is_as_good_as_none_yet(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.json").write_text(text)
    assert sessions.read_status(tmp_path) is None

"""Tests of locks: who may write or compact a session, even after lock files were removed."""

import fcntl
import os
import time
from collections.abc import Iterator

import pytest

from proxy.files import Folder
from recorder.capture import lock as locks
from recorder.capture.lock import COMPACTOR_LOCK, WRITER_LOCK, Lock


@pytest.fixture
def written(session: Folder) -> Iterator[int]:
    """Writes the newest segment, as its writer does."""
    os.close(session.create("00000001.log"))
    descriptor = session.create("00000002.log")
    locks.lock_segment(descriptor)
    yield descriptor
    os.close(descriptor)


def test_a_lock_is_one_holders_until_it_is_released(session: Folder) -> None:
    first = Lock.take(session, "lock")
    assert first is not None
    assert Lock.take(session, "lock") is None
    first.release()
    first.release()
    assert Lock.take(session, "lock") is not None


def test_a_process_that_looks_if_a_session_is_live_keeps_nobody_from_the_lock(
    session: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = session.create("lock")
    fcntl.flock(looking, fcntl.LOCK_SH)

    def looked(seconds: float) -> None:
        if seconds:
            fcntl.flock(looking, fcntl.LOCK_UN)

    monkeypatch.setattr(time, "sleep", looked)
    assert Lock.take(session, "lock") is not None
    os.close(looking)


def test_a_session_whose_writers_lock_was_removed_is_live_while_its_segment_is_written(
    session: Folder, written: int
) -> None:
    assert not session.is_file(WRITER_LOCK)
    assert locks.is_live(session)
    assert locks.take_writer_lock(session) is None


def test_a_session_without_held_locks_is_not_live(session: Folder, written: int) -> None:
    fcntl.flock(written, fcntl.LOCK_UN)
    assert not locks.is_live(session)
    assert locks.take_writer_lock(session) is not None
    assert locks.take_writer_lock(session) is None


def test_a_second_compactor_waits_though_the_firsts_lock_was_removed(session: Folder) -> None:
    first = locks.take_compactor_lock(session)
    assert first is not None
    session.remove(COMPACTOR_LOCK)
    with Folder.at(session.path) as other:
        assert locks.take_compactor_lock(other) is None
    session.close()
    with Folder.at(session.path) as other:
        assert locks.take_compactor_lock(other) is not None


def test_the_lock_files_alone_count_where_folders_and_segments_have_no_locks(
    session: Folder, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def only_files(descriptor: int, how: int) -> None:
        if not os.readlink(f"/proc/self/fd/{descriptor}").endswith(".lock"):
            raise OSError(37, "No locks available")
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", only_files)
    locks.lock_segment(written)
    assert not locks.is_live(session)
    writer, compactor = locks.take_writer_lock(session), locks.take_compactor_lock(session)
    assert writer is not None
    assert compactor is not None
    assert locks.is_live(session)
    assert locks.take_compactor_lock(session) is None

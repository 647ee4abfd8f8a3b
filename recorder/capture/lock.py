"""The locks of a session: one for its writer, one for its compactor. They are flocks, which end with their process.

    writer.lock         held by the proxy that writes the session, afterwards by the compactor that finishes it
    compactor.lock      held by the process that compacts the session

A lock file can be removed while it is locked, and another process would create it anew. So the writer also locks the
segment that it writes, and the compactor the folder itself, if the file system has such locks.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress

from proxy.files import Folder
from recorder.capture.segments import segment_name, segments

WRITER_LOCK = "writer.lock"
COMPACTOR_LOCK = "compactor.lock"
# seconds before each try to take a lock; several, because `is_live` of another process holds a shared lock for a moment
_PAUSES = (0, 0.001, 0.002, 0.004)


class Lock:
    """A flock on a file, held until `release` or the process's end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, session: Folder, name: str) -> Lock | None:
        """The lock of this file; None if another process holds it.

        Raises OSError if the folder can't be written, or its file system has no flocks.
        """
        descriptor = session.open(name, os.O_RDWR | os.O_CREAT)
        try:
            for seconds in _PAUSES:
                time.sleep(seconds)
                if _try_lock(descriptor, fcntl.LOCK_EX):
                    return cls(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take_compactor_lock(session: Folder) -> Lock | None:
    """The lock for compacting a session, valid while `session` is open; None if another process holds it."""
    lock = Lock.take(session, COMPACTOR_LOCK)
    if lock is not None and not session.lock():
        lock.release()
        return None
    return lock


def take_writer_lock(session: Folder) -> Lock | None:
    """The writer's lock; None if a process holds it, or writes the session though the lock file was removed."""
    lock = Lock.take(session, WRITER_LOCK)
    if lock is not None and _is_being_written(session):
        lock.release()
        return None
    return lock


def is_live(session: Folder) -> bool:
    """True if a proxy writes the session, or its compactor holds the writer's lock to finish it. Changes nothing."""
    return is_locked(session, WRITER_LOCK) or _is_being_written(session)


def _try_lock(descriptor: int, kind: int) -> bool:
    """True once the descriptor's file is locked; False if another process holds its lock. Raises OSError: no locks."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_segment(descriptor: int) -> None:
    """Locks a segment as being written, for as long as the descriptor is open. Without effect if there are no locks."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_being_written(session: Folder) -> bool:
    numbers = segments(session)
    return bool(numbers) and is_locked(session, segment_name(numbers[-1]))


def is_locked(session: Folder, name: str) -> bool:
    """True if a process holds the lock of this file. Changes nothing."""
    try:
        descriptor = session.open(name)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    except OSError:
        # a file system without locks
        return False
    finally:
        os.close(descriptor)

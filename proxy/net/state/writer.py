"""Writes the newest state into its file, in a thread of its own: nothing waits for the disk, however long it takes.

Not every state is written: while the disk is busy with one, only the newest one that came meanwhile is next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from logging import ERROR, INFO, WARNING
from pathlib import Path

from proxy.log import log
from proxy.net.state.file import State, write_state
from proxy.threads import NoThread, start_thread


class StateWriter:
    """Writes one file. `newest`: the state as it is now; called in the thread."""

    def __init__(self, path: Path, newest: Callable[[], State]) -> None:
        self._path = path
        self._newest = newest
        self._changes = threading.Condition()
        # something has changed since the state was looked at that was written last
        self._is_behind = False
        self._is_writing = False
        self._is_closed = False
        self._has_failed = False

    def changed(self) -> None:
        """The newest state is to be kept. Never blocks."""
        with self._changes:
            if self._is_closed:
                return
            self._is_behind = True
            if not self._is_writing:
                self._begin_to_write()

    def close(self) -> None:
        """What changes from now on is not kept. Blocks until the newest state is, or could not be."""
        with self._changes:
            self._is_closed = True
            self._changes.wait_for(lambda: not self._is_writing)
        # what no thread could be had for
        self._write_all()

    def _begin_to_write(self) -> None:
        try:
            start_thread(self._write_all, "wiretap-state")
        except NoThread as error:
            # the next change tries again, or the end
            self._say_failed(error)
        else:
            self._is_writing = True

    def _write_all(self) -> None:
        while self._begin():
            self._write()

    def _begin(self) -> bool:
        with self._changes:
            self._is_writing, self._is_behind = self._is_behind, False
            self._changes.notify_all()
            return self._is_writing

    def _write(self) -> None:
        try:
            write_state(self._path, self._newest())
        except OSError as error:
            self._say_failed(error)
        except Exception:
            # this thread is waited for at the end, so it goes on
            log(ERROR, "state file can't be written: a fault", trace=True, path=self._path)
        else:
            if self._has_failed:
                log(INFO, "state file is written again", path=self._path)
            self._has_failed = False

    def _say_failed(self, error: OSError) -> None:
        if not self._has_failed:
            log(WARNING, "state file can't be written", path=self._path, reason=error.strerror)
        self._has_failed = True

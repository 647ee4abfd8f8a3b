"""Writes the node table's state into the state file, in a thread. Only `close` waits for the disk.

Changes during a write are covered by one further write. A failed write is tried again only after a further change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from logging import ERROR, INFO, WARNING
from pathlib import Path

from proxy.log import log
from proxy.net.state.file import SavedState, write_state
from proxy.threads import NoThread, start_thread


class StateWriter:
    """Writes one file. `newest` returns the current state; the writing thread and `close` call it."""

    def __init__(self, path: Path, newest: Callable[[], SavedState]) -> None:
        self._path = path
        self._newest = newest
        self._changes = threading.Condition()
        # True if the state has changed since the last write read it
        self._has_change = False
        self._is_writing = False
        self._is_closed = False
        self._has_failed = False

    def changed(self) -> None:
        """Reports that the state has changed, so it is written soon. Never blocks."""
        with self._changes:
            if self._is_closed:
                return
            self._has_change = True
            if not self._is_writing:
                self._start_writing()

    def close(self) -> None:
        """Blocks until the newest state is written, or its write has failed. Later changes are ignored."""
        with self._changes:
            self._is_closed = True
            self._changes.wait_for(lambda: not self._is_writing)
        # a change is left if no thread could be started
        self._write_all()

    def _start_writing(self) -> None:
        try:
            start_thread(self._write_all, "wiretap-state")
        except NoThread as error:
            # the next change tries to start a thread again; `close` writes without one
            self._log_failure(error)
        else:
            self._is_writing = True

    def _write_all(self) -> None:
        while self._begin_write():
            self._write()

    def _begin_write(self) -> bool:
        """Returns True if there is a change to write; else the writing has ended."""
        with self._changes:
            self._is_writing, self._has_change = self._has_change, False
            self._changes.notify_all()
            return self._is_writing

    def _write(self) -> None:
        try:
            write_state(self._path, self._newest())
        except OSError as error:
            self._log_failure(error)
        except Exception:
            # the thread must go on to `_begin_write`: `close` waits for that
            log(ERROR, "state file can't be written: a fault", trace=True, path=self._path)
        else:
            if self._has_failed:
                log(INFO, "state file is written again", path=self._path)
            self._has_failed = False

    def _log_failure(self, error: OSError) -> None:
        if not self._has_failed:
            log(WARNING, "state file can't be written", path=self._path, reason=error.strerror)
        self._has_failed = True

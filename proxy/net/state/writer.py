"""Writes the newest state into its file, in a thread of its own: until `close`, nothing waits for the disk.

Not every state is written: of the changes during a write, only the newest state is written next.
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
    """Writes one file. `newest`: the state as it is now; called in the thread."""

    def __init__(self, path: Path, newest: Callable[[], SavedState]) -> None:
        self._path = path
        self._newest = newest
        self._changes = threading.Condition()
        # the state has changed since the last write took it
        self._is_behind = False
        self._is_writing = False
        self._is_closed = False
        self._has_failed = False

    def changed(self) -> None:
        """The state has changed, and is to be written. Never blocks."""
        with self._changes:
            if self._is_closed:
                return
            self._is_behind = True
            if not self._is_writing:
                self._start_writing()

    def close(self) -> None:
        """Blocks until the newest state is written, or could not be. Later changes are not written."""
        with self._changes:
            self._is_closed = True
            self._changes.wait_for(lambda: not self._is_writing)
        # a change for which no thread could be had
        self._write_all()

    def _start_writing(self) -> None:
        try:
            start_thread(self._write_all, "wiretap-state")
        except NoThread as error:
            # the next change tries again, or `close`
            self._log_failure(error)
        else:
            self._is_writing = True

    def _write_all(self) -> None:
        while self._begin_write():
            self._write()

    def _begin_write(self) -> bool:
        with self._changes:
            self._is_writing, self._is_behind = self._is_behind, False
            self._changes.notify_all()
            return self._is_writing

    def _write(self) -> None:
        try:
            write_state(self._path, self._newest())
        except OSError as error:
            self._log_failure(error)
        except Exception:
            # `close` waits for this thread, so it goes on
            log(ERROR, "state file can't be written: a fault", trace=True, path=self._path)
        else:
            if self._has_failed:
                log(INFO, "state file is written again", path=self._path)
            self._has_failed = False

    def _log_failure(self, error: OSError) -> None:
        if not self._has_failed:
            log(WARNING, "state file can't be written", path=self._path, reason=error.strerror)
        self._has_failed = True

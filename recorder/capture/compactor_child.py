"""Keeps a session's compactor running beside this process, in a thread; for a recording that no proxy looks after."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress

from recorder.capture.tap import Tap

# seconds until a compactor that has failed runs again
_PAUSE = 1.0


class CompactorChild:
    """Keeps the compactor running.

    Its process has a session of its own, so that Ctrl-C does not reach it. Resource handling: a thread and a child run
    until `close`.
    """

    def __init__(self, tap: Tap, command: Sequence[str]) -> None:
        self._tap, self._command = tap, command
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="compactor", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_closing.is_set():
            with suppress(OSError):
                subprocess.run(
                    self._command,
                    input=self._tap.child_input,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                    check=False,
                )
            self._tap.child_ended()
            self._is_closing.wait(_PAUSE)

    def close(self) -> None:
        """Waits until the compactor has finished what was written. Blocks."""
        self._is_closing.set()
        self._thread.join()

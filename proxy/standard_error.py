"""Standard error that never blocks its writers, for processes that others depend on.

The reader of a log may hang: a collector that is stuck, a terminal that was stopped by Ctrl-S. The pipe is full then,
and writing a line would block the event loop: all traffic, and the signal that should end the process. Here lines go
through a queue to a thread, in order. Lines that do not fit are dropped and counted; the count is logged as soon as
lines are read again. This covers everything that Python writes to `sys.stderr`, tracebacks and warnings included.
"""

from __future__ import annotations

import atexit
import os
import select
import sys
import threading
from collections import deque
from logging import ERROR
from typing import TextIO, cast

from proxy.log import log
from proxy.threads import start_thread

# characters of waiting lines: some thousand lines, which a healthy reader reads in milliseconds
MAX_WAITING = 1024 * 1024
# how long an ending process waits until its last lines are written
LAST_SECONDS = 1.0


class StandardError:
    """Replaces a text file that has a descriptor. Text is written once its line has ended.

    Raises:
        OSError: the file has no descriptor, or the machine refuses a thread.
    """

    errors = "backslashreplace"

    def __init__(self, file: TextIO) -> None:
        self._descriptor = file.fileno()
        self.encoding = file.encoding
        # text without an end of line yet
        self._partial = ""
        self._waiting: deque[str] = deque()
        # characters of all waiting lines, including those that are being written
        self._size = 0
        self._dropped = 0
        self._changes = threading.Condition()
        start_thread(self._write_all, "standard error")

    def write(self, text: str) -> int:
        """Queues the text for the thread and returns its length. Never blocks."""
        with self._changes:
            self._partial += text
            if self._partial.endswith("\n"):
                self._queue_partial()
        return len(text)

    def flush(self) -> None:
        """Does nothing: lines are written by the thread."""

    def fileno(self) -> int:
        """The file's descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """True if the file is a terminal."""
        return os.isatty(self._descriptor)

    def wait_written(self, seconds: float) -> bool:
        """Blocks until all lines are written, for `seconds` at most. Returns True if they are."""
        with self._changes:
            if self._partial:
                self._queue_partial()
            return self._changes.wait_for(lambda: not self._waiting, seconds)

    def _queue_partial(self) -> None:
        lines, self._partial = self._partial, ""
        if self._size + len(lines) > MAX_WAITING:
            self._dropped += lines.count("\n")
            return
        self._waiting.append(lines)
        self._size += len(lines)
        self._changes.notify_all()

    def _write_all(self) -> None:
        while True:
            with self._changes:
                self._changes.wait_for(lambda: self._waiting)
                lines = self._waiting[0]
            # one write for each entry: several processes share the pipe, and the kernel keeps short writes whole
            self._write(lines.encode(self.encoding, self.errors))
            if dropped := self._take_dropped():
                log(ERROR, "lines of the log were dropped: nobody read them", lines=dropped)

    def _take_dropped(self) -> int:
        """Removes the written entry. Returns the number of dropped lines; 0 while the queue is more than half full."""
        with self._changes:
            self._size -= len(self._waiting.popleft())
            self._changes.notify_all()
            if self._size > MAX_WAITING // 2:
                return 0
            dropped, self._dropped = self._dropped, 0
            return dropped

    def _write(self, rest: bytes) -> None:
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                # another process that shares the pipe has set O_NONBLOCK
                select.select([], [self._descriptor], [])
            except OSError:
                # the reader is gone: the lines are lost, as in any other program
                return


def queue_standard_error() -> None:
    """From now on no writer in this process waits for the reader of its standard error.

    Standard error stays as it is if it has no descriptor, or if the machine refuses a thread.
    """
    try:
        waiting = StandardError(sys.stderr)
    except OSError:
        return
    sys.stderr = cast(TextIO, waiting)
    # called after the traceback of an error that ends the process
    atexit.register(waiting.wait_written, LAST_SECONDS)


def flush_standard_error(seconds: float) -> None:
    """Blocks until all lines on standard error are written, for `seconds` at most."""
    if isinstance(sys.stderr, StandardError):
        sys.stderr.wait_written(seconds)

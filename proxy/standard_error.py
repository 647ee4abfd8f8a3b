"""Standard error for processes that others depend on: whoever writes there waits for no reader.

The reader of a log may hang: a collector that is stuck, a terminal that was stopped by Ctrl-S. Then the pipe takes no
more, and who writes a line would wait with it: the event loop, so all traffic, and the signal that is to end it. Here
lines go through a queue to a thread, in their order. What does not fit is dropped, and counted; the count is logged as
soon as lines are read again. Because all goes this way that Python writes to `sys.stderr`, tracebacks and warnings do.
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

# characters of lines that wait: some thousand lines, which a reader that is well takes in milliseconds
MOST_WAITING = 1024 * 1024
# how long a process that ends waits for the reader of its last lines
LAST_SECONDS = 1.0


class StandardError:
    """Takes the place of a text file that has a descriptor. A line is written when it ends.

    Raises:
        OSError: the file has no descriptor, or there is no thread to be had.
    """

    errors = "backslashreplace"

    def __init__(self, file: TextIO) -> None:
        self._descriptor = file.fileno()
        self.encoding = file.encoding
        # what has no end of a line yet
        self._begun = ""
        self._waiting: deque[str] = deque()
        # of all that wait, the one that is being written included
        self._size = 0
        self._dropped = 0
        self._changes = threading.Condition()
        start_thread(self._write_all, "standard error")

    def write(self, text: str) -> int:
        """Never blocks."""
        with self._changes:
            self._begun += text
            if self._begun.endswith("\n"):
                self._queue_begun()
        return len(text)

    def flush(self) -> None:
        """Nobody waits."""

    def fileno(self) -> int:
        """Of the file."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether the file is a terminal."""
        return os.isatty(self._descriptor)

    def written(self, seconds: float) -> bool:
        """Blocks until all is written, but no longer than this. Whether it is."""
        with self._changes:
            if self._begun:
                self._queue_begun()
            return self._changes.wait_for(lambda: not self._waiting, seconds)

    def _queue_begun(self) -> None:
        lines, self._begun = self._begun, ""
        if self._size + len(lines) > MOST_WAITING:
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
            # one by one, as several processes write to the same pipe: the kernel keeps short pieces whole
            self._write(lines.encode(self.encoding, self.errors))
            self._say_dropped(self._done())

    def _done(self) -> int:
        """The first of those that wait is written. How many lines have been dropped, once there is room again."""
        with self._changes:
            self._size -= len(self._waiting.popleft())
            self._changes.notify_all()
            if self._size > MOST_WAITING // 2:
                return 0
            dropped, self._dropped = self._dropped, 0
            return dropped

    def _say_dropped(self, lines: int) -> None:
        if lines:
            log(ERROR, "lines of the log were dropped: nobody read them", lines=lines)

    def _write(self, rest: bytes) -> None:
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                # somebody else has it open, and has said that nobody is to wait
                select.select([], [self._descriptor], [])
            except OSError:
                # the reader has gone: as for a program that writes by itself, nobody is told
                return


def never_wait() -> None:
    """From now on nobody in this process waits for who reads its standard error.

    Where this is no file, or no thread is to be had, all stays as it was.
    """
    try:
        waiting = StandardError(sys.stderr)
    except OSError:
        return
    sys.stderr = cast(TextIO, waiting)
    # behind the traceback of what ends the process
    atexit.register(waiting.written, LAST_SECONDS)


def all_written(seconds: float) -> None:
    """Blocks until what was said on standard error is written, but no longer than this."""
    if isinstance(sys.stderr, StandardError):
        sys.stderr.written(seconds)

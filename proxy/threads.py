"""Threads that the machine may refuse: when a cgroup's `pids.max` or RLIMIT_NPROC is reached, no thread can start.

Python raises a RuntimeError then, which no caller expects. A thread is a resource like a file or a port, so here its
lack is an OSError. Callers retry work that can wait, and do other work without a thread.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable


class NoThread(OSError):
    """The machine refuses to start a thread at present."""


def no_thread() -> NoThread:
    """A `NoThread` with errno and text."""
    return NoThread(errno.EAGAIN, "no thread can be had")


def begin(thread: threading.Thread) -> None:
    """Starts a thread. Raises NoThread."""
    try:
        thread.start()
    except RuntimeError as error:
        raise no_thread() from error


def start_thread(work: Callable[[], object], name: str) -> threading.Thread:
    """Starts a daemon thread, so the process does not wait for it at its end. Raises NoThread."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    begin(thread)
    return thread

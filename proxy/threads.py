"""Threads that the machine refuses: where a cgroup's `pids.max` or RLIMIT_NPROC is reached, no more are to be had.

Python raises a RuntimeError, which no caller expects. A thread is a resource like a file or a port, so here its lack is
an OSError. Callers try work again that can wait, and do other work without a thread.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable


class NoThread(OSError):
    """The machine gives no thread just now."""


def no_thread() -> NoThread:
    """A `NoThread` with its errno and text."""
    return NoThread(errno.EAGAIN, "no thread can be had")


def begin(thread: threading.Thread) -> None:
    """Starts a thread. Raises NoThread."""
    try:
        thread.start()
    except RuntimeError as error:
        raise no_thread() from error


def start_thread(work: Callable[[], object], name: str) -> threading.Thread:
    """Starts a thread that the process does not wait for at its end. Raises NoThread."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    begin(thread)
    return thread

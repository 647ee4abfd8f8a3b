"""What Spark's work has resident: driver, JVMs and their Python workers together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import psutil


@contextmanager
def resident() -> Iterator[list[int]]:
    """The resident bytes of this process and of all below it, looked at twice a second."""
    own, seen, ended = psutil.Process(), [0], Event()

    def look() -> None:
        while not ended.wait(0.5):
            seen.append(sum(map(_resident, [own, *own.children(recursive=True)])))

    thread = Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0

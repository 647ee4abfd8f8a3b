"""A pipe that nobody reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def fill(writing: int) -> None:
    """Fills the pipe with empty lines."""
    os.set_blocking(writing, False)
    for size in (4096, 1):
        while _took(writing, b" " * (size - 1) + b"\n"):
            pass
    os.set_blocking(writing, True)


def _took(writing: int, filling: bytes) -> bool:
    try:
        return os.write(writing, filling) > 0
    except BlockingIOError:
        return False


@contextmanager
def full_pipe() -> Iterator[int]:
    """The writing end of a full pipe."""
    reading, writing = os.pipe()
    fill(writing)
    try:
        yield writing
    finally:
        os.close(reading)
        os.close(writing)

"""A machine that refuses new threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio._core._thread_cache as trios


def _refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@contextmanager
def no_threads() -> Iterator[None]:
    """Within the block, no thread can be started, and trio has no idle one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        patch.setattr(trios, "THREAD_CACHE", trios.ThreadCache())
        yield

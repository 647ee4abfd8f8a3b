"""Runs blocking calls in threads, and starts processes (trio starts them from threads).

These threads do not count against trio's limit of 40 threads, so 40 hanging calls do not keep the recorder from its
last writes. A machine that gives no more threads causes an OSError (`NoThread`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import trio

from proxy.threads import NoThread, no_thread

T = TypeVar("T")


async def in_thread(blocking: Callable[[], T], limiter: trio.CapacityLimiter | None = None) -> T:
    """Calls `blocking` in a thread; returns its result, or raises its error. If cancelled, leaves the thread running.

    Args:
        limiter: limits the threads that run at a time; None: no limit.

    Raises:
        NoThread: no thread could be started, so `blocking` was not called.
    """
    has_begun = False

    def work() -> T:
        nonlocal has_begun
        has_begun = True
        return blocking()

    limiter = limiter or trio.CapacityLimiter(1)
    try:
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
    except RuntimeError as error:
        if has_begun:
            raise
        raise no_thread() from error


async def in_thread_or_inline(blocking: Callable[[], None]) -> None:
    """As `in_thread`, but calls `blocking` in the event loop if there is no thread: for calls that a stop needs."""
    try:
        await in_thread(blocking)
    except NoThread:
        blocking()


async def open_process(command: Sequence[str], **options: Any) -> trio.Process:
    """As `trio.lowlevel.open_process`. Raises OSError: the process, or the thread that starts it, can't be started."""
    try:
        return await trio.lowlevel.open_process(list(command), **options)
    except RuntimeError as error:
        raise no_thread() from error

"""Calls that block, beside the event loop: in threads, and in processes (which trio starts from threads).

These threads are not trio's own 40, which everything shares: calls that hang there would keep the recorder from its
last writes. Where the machine gives no thread, that is an OSError (`proxy.threads`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import trio

from proxy.threads import NoThread, no_thread

T = TypeVar("T")


async def in_thread(blocking: Callable[[], T], limiter: trio.CapacityLimiter | None = None) -> T:
    """Returns or raises what `blocking` does. If this is cancelled, the thread goes on alone.

    Args:
        limiter: limits how many such threads run at a time; None: no limit.

    Raises:
        NoThread: `blocking` was not called.
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
    """As `in_thread`, for calls that a stop must not leave out: without a thread to be had, called right here."""
    try:
        await in_thread(blocking)
    except NoThread:
        blocking()


async def open_process(command: Sequence[str], **options: Any) -> trio.Process:
    """As `trio.lowlevel.open_process`. Raises OSError: the process can't be started, or no thread is to be had."""
    try:
        return await trio.lowlevel.open_process(list(command), **options)
    except RuntimeError as error:
        raise no_thread() from error

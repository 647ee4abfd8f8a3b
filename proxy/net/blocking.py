"""Calls that block, beside the event loop: in threads, and in processes (which trio starts from threads).

A thread here is nobody else's: trio's own 40 are shared by all, and what hangs in them would keep the rest from the
recorder's last writes. Where the machine gives no thread, that is an OSError (`proxy.threads`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import trio

from proxy.threads import NoThread, no_thread

T = TypeVar("T")


async def in_thread(blocking: Callable[[], T], limiter: trio.CapacityLimiter | None = None) -> T:
    """What `blocking` returns or raises. Where this is cancelled, its thread goes on alone.

    Args:
        limiter: how many such threads there may be at a time; None: this one waits for no other.

    Raises:
        NoThread: it was not called.
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


async def at_last(blocking: Callable[[], None]) -> None:
    """As `in_thread`, for what a stop has to do: where there is no thread, it is done without one."""
    try:
        await in_thread(blocking)
    except NoThread:
        blocking()


async def open_process(command: Sequence[str], **options: Any) -> trio.Process:
    """As `trio.lowlevel.open_process`. Raises OSError: it can't be started, or there is no thread to do so."""
    try:
        return await trio.lowlevel.open_process(list(command), **options)
    except RuntimeError as error:
        raise no_thread() from error

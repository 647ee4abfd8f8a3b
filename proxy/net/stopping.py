"""How a proxy ends: what each signal asks for, and what is done when the process does not end by itself.

    first signal            exchanges in flight finish (`drain`), then the recorder writes what it has
    second                  only the recorder is waited for, and that for a moment
    third, or any signal    nothing is waited for
    while it writes

A call to the kernel that hangs (a disk that is gone) can't be ended, only left. So what may hang is done in threads
that can be abandoned, and should something hang that nobody thought of, the process ends without Python's own end.
It is the event loop that hears of signals: a line of the log must not hold it up (`proxy.standard_error`).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import partial
from logging import ERROR, WARNING

import trio

from proxy.log import log
from proxy.net.blocking import at_last
from proxy.standard_error import all_written
from proxy.threads import NoThread, start_thread

# the recorder's last writes: its queue (64 MiB by default) onto a disk that takes 3.2 MiB a second
RECORDER_SECONDS = 20.0
# likewise, once somebody is in a hurry: a disk that is well takes the queue in less
HURRIED_SECONDS = 2.0
# what a stop takes beyond the drain at most, whatever hangs: the recorder, and the end of the processes
STOP_SECONDS = 30.0
# likewise, once somebody is in a hurry
HURRIED_STOP_SECONDS = 10.0

# how long a line of the log may take, when the process is to end
SAY_SECONDS = 1.0

EXIT_CLEAN, EXIT_CUT_OFF = 0, 1


class Urgency(IntEnum):
    """How urgent the end is."""

    NONE = 0
    DRAIN = 1
    HURRY = 2
    AT_ONCE = 3


class Stop:
    """What is known of the end. `begun`, `hurried` and `at_once` are set in this order, and stay set."""

    def __init__(self) -> None:
        self.begun, self.hurried, self.at_once = trio.Event(), trio.Event(), trio.Event()
        self.urgency = Urgency.NONE
        # nothing but the recorder is waited for
        self._only_recorder = False

    def ask(self, urgency: Urgency | None = None) -> None:
        """Somebody wants the end. `urgency`: None is one more than before; less than before changes nothing."""
        wanted = self._more() if urgency is None else urgency
        if wanted > self.urgency:
            self.urgency = Urgency.AT_ONCE if self._only_recorder else wanted
        for event in (self.begun, self.hurried, self.at_once)[: self.urgency]:
            event.set()

    def _more(self) -> Urgency:
        return Urgency(min(self.urgency + 1, Urgency.AT_ONCE))

    async def last_words(self, close: Callable[[], None]) -> bool:
        """Calls `close`, which blocks, in a thread, and waits for it no longer than it may take. Whether it returned.

        Not cancelled with what is around it. One that has not returned goes on in its thread. Where there is no thread
        to be had, only the last resort ends a call that hangs.
        """
        self._only_recorder = True
        seconds = HURRIED_SECONDS if self.hurried.is_set() else RECORDER_SECONDS
        returned = False
        with trio.CancelScope(deadline=trio.current_time() + seconds, shield=True) as patience:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_at_once, patience)
                await at_last(close)
                returned = True
                nursery.cancel_scope.cancel()
        return returned

    async def _end_at_once(self, patience: trio.CancelScope) -> None:
        await self.at_once.wait()
        patience.cancel()


class LastResort:
    """Ends the process from a thread of its own, when it does not end in time.

    The thread is there from the start: a machine that gives no more threads is one on which something may hang.
    """

    def __init__(self) -> None:
        self._deadline = math.inf
        self._is_forgotten = False
        self._changes = threading.Condition()
        try:
            self._thread: threading.Thread | None = start_thread(self._watch, "last resort")
        except NoThread as error:
            self._thread = None
            log(WARNING, "should a stop hang, nothing ends it", reason=error.strerror)

    def end_within(self, seconds: float) -> None:
        """From now. A deadline that was set before holds where it is earlier: nobody puts the end off by a signal."""
        with self._changes:
            self._deadline = min(self._deadline, time.monotonic() + seconds)
            self._changes.notify()

    def forget(self) -> None:
        """It has ended, or is about to."""
        with self._changes:
            self._is_forgotten = True
            self._changes.notify()

    def _watch(self) -> None:
        with self._changes:
            while not self._is_forgotten and (left := self._deadline - time.monotonic()) > 0:
                self._changes.wait(min(left, threading.TIMEOUT_MAX))
            hangs = not self._is_forgotten
        if hangs:
            leave(EXIT_CUT_OFF)


def leave(code: int) -> None:
    """Ends the process at once: Python's own end would wait for what hangs."""
    # standard error may be what hangs, and be one that is waited for
    with suppress(NoThread):
        start_thread(partial(_say_left, code), "last line of the log").join(SAY_SECONDS)
    all_written(SAY_SECONDS)
    os._exit(code)


def _say_left(code: int) -> None:
    log(ERROR, "something hangs: exiting without waiting for it", exit_code=code)

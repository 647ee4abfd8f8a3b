"""How a proxy ends: the meaning of each signal, and the last resort if the process does not end by itself.

    first signal                            exchanges in flight finish (`drain`), then the recorder writes its queue
    second signal                           the proxy waits only for the recorder, and only HURRIED_SECONDS
    third signal                            the proxy waits for nothing
    any signal while the queue is written   the proxy waits for nothing

A system call that hangs (on a disk that is gone) can't be ended. So calls that may hang are made in threads, which the
proxy abandons. If something else hangs, the process exits without Python's own clean-up (`LastResort`). The event loop
handles signals, so no log line may block the loop (`proxy.standard_error`).

At any urgency, the proxy waits up to a second for its state files to be written (`server.RELEASE_SECONDS`).
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
from proxy.net.blocking import in_thread_or_inline
from proxy.standard_error import flush_standard_error
from proxy.threads import NoThread, start_thread

# for the recorder's last writes: enough for its queue (64 MiB by default) at 3.2 MiB a second
RECORDER_SECONDS = 20.0
# for the recorder's last writes after a second signal: a healthy disk takes the queue in less
HURRIED_SECONDS = 2.0
# the longest that a stop takes beyond the drain, whatever hangs: RECORDER_SECONDS, and time for processes to end
STOP_SECONDS = 30.0
# the longest that a stop takes from a second signal on, whatever hangs
HURRIED_STOP_SECONDS = 10.0

# how long each of the last two steps may take when the process exits: logging the last line, and writing all log lines
# that are still queued
LOG_SECONDS = 1.0

EXIT_CLEAN, EXIT_CUT_OFF = 0, 1


class Urgency(IntEnum):
    """How urgently the proxy is to end, as rows 1 to 3 of the module's table."""

    NONE = 0
    DRAIN = 1
    HURRY = 2
    AT_ONCE = 3


class Stop:
    """The state of a stop. `begun`, `hurried` and `at_once` are set in this order, and stay set."""

    def __init__(self) -> None:
        self.begun, self.hurried, self.at_once = trio.Event(), trio.Event(), trio.Event()
        self.urgency = Urgency.NONE
        # True once the proxy waits only for the recorder
        self._only_recorder = False

    def ask(self, urgency: Urgency | None = None) -> None:
        """Asks the proxy to end. `urgency` None: one step further. The urgency never falls."""
        wanted = Urgency(min(self.urgency + 1, Urgency.AT_ONCE)) if urgency is None else urgency
        if wanted > self.urgency:
            self.urgency = Urgency.AT_ONCE if self._only_recorder else wanted
        for event in (self.begun, self.hurried, self.at_once)[: self.urgency]:
            event.set()

    async def close_recorder(self, close: Callable[[], None]) -> bool:
        """Calls `close`, which blocks, in a thread. Returns True if `close` has returned in time.

        Shielded from cancellation. A call that takes longer goes on in its thread. If no thread can be started, `close`
        runs in the event loop; if it then hangs, only `LastResort` ends the process.
        """
        self._only_recorder = True
        seconds = HURRIED_SECONDS if self.hurried.is_set() else RECORDER_SECONDS
        returned = False
        with trio.CancelScope(deadline=trio.current_time() + seconds, shield=True) as timeout:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_when, self.at_once, timeout)
                await in_thread_or_inline(close)
                returned = True
                nursery.cancel_scope.cancel()
        return returned


async def cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    """Waits for an event, then cancels a scope."""
    await event.wait()
    scope.cancel()


class LastResort:
    """Ends the process from a thread of its own, if the process does not end in time.

    The thread is started early: when something hangs, the machine may have no more threads.
    """

    def __init__(self) -> None:
        self._deadline = math.inf
        self._is_forgotten = False
        self._changes = threading.Condition()
        try:
            self._thread: threading.Thread | None = start_thread(self._watch, "last resort")
        except NoThread as error:
            self._thread = None
            log(WARNING, "a stop that hangs will not be ended", reason=error.strerror)

    def end_within(self, seconds: float) -> None:
        """Sets the deadline, from now. An earlier deadline stays: a further signal never delays the end."""
        with self._changes:
            self._deadline = min(self._deadline, time.monotonic() + seconds)
            self._changes.notify()

    def forget(self) -> None:
        """Lifts the deadline: the process is ending by itself."""
        with self._changes:
            self._is_forgotten = True
            self._changes.notify()

    def _watch(self) -> None:
        with self._changes:
            while not self._is_forgotten and (left := self._deadline - time.monotonic()) > 0:
                self._changes.wait(min(left, threading.TIMEOUT_MAX))
            hangs = not self._is_forgotten
        if hangs:
            exit_now(EXIT_CUT_OFF)


def exit_now(code: int) -> None:
    """Ends the process at once: Python's own clean-up would wait for threads that hang."""
    # in a thread: writing to standard error may block
    with suppress(NoThread):
        last_line = partial(log, ERROR, "something hangs: exiting without waiting for it", exit_code=code)
        start_thread(last_line, "last line of the log").join(LOG_SECONDS)
    flush_standard_error(LOG_SECONDS)
    os._exit(code)

"""Waiting for the sockets of all relays, in one place.

Each wait of a task in trio is a turn of its loop and a system call that has the kernel watch the socket again: together
more work than passing a small frame on. Here the kernel goes on watching, and one task waits for all sockets: what
comes is dealt with by that task at once (`Watch.read`), as far as that needs no waiting, and the connections' own tasks
sleep meanwhile. While bytes come it does not go back to trio after each of them either: it blocks the loop itself, for
a moment at a time, until nothing comes for a moment or another task wants its turn.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any, TypeVar

import outcome
import trio

from proxy.net.sockets.polling import Polling

clock = time.monotonic

# most answers come within this, and the next requests soon after; all else in the proxy may be so much later
MOMENT = 0.001
# sockets that are looked at in one go
MOST = 256

NOTHING, READ, WRITE = 0, select.EPOLLIN, select.EPOLLOUT

T = TypeVar("T")


class Watch:
    """One socket, and who waits for it: one task that reads, one that writes."""

    __slots__ = ("_descriptor", "_reader", "_waits", "_writer", "look", "wanted")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits: Waits | None = None
        self._reader: trio.lowlevel.Task | None = None
        self._writer: trio.lowlevel.Task | None = None
        # what the task that reads waits with
        self.look: Callable[[], Any] | None = None
        # what the kernel watches it for: READ may stand although nobody reads, until something comes
        self.wanted = NOTHING

    async def read(self, look: Callable[[], T | None]) -> T:
        """Waits until `look`, called whenever there may be something to read, returns or raises something."""
        if not self.wanted & READ:
            self._want(self.wanted | READ)
        self._reader, self.look = trio.lowlevel.current_task(), look

        def abort(_: object) -> trio.lowlevel.Abort:
            self._reader = self.look = None
            return trio.lowlevel.Abort.SUCCEEDED

        found: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return found

    async def write(self) -> None:
        """Waits until there may be room to write."""
        self._want(self.wanted | WRITE)
        self._writer = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def readable(self) -> None:
        """Looks, if somebody reads."""
        if self.look is None:
            return
        try:
            found = self.look()
        except BaseException as error:
            self.end_read(outcome.Error(error))
        else:
            if found is not None:
                self.end_read(outcome.Value(found))

    def other(self, flags: int) -> None:
        """What is not just something to read for somebody who reads: room to write, a broken connection."""
        if flags & ~READ:
            self._end_write(outcome.Value(None))
        if flags & ~WRITE:
            self.readable()
        self._want((READ if self.look else NOTHING) | (WRITE if self._writer else NOTHING))

    def close(self, reason: Exception) -> None:
        """The socket is about to be closed: who waits is told the reason."""
        self._want(NOTHING)
        self._end_write(outcome.Error(reason))
        self.end_read(outcome.Error(reason))

    def end_read(self, result: outcome.Outcome[Any]) -> None:
        # it may have been cancelled by what it read
        if self._reader is not None:
            task, self._reader, self.look = self._reader, None, None
            self._resume(task, result)

    def _end_write(self, result: outcome.Outcome[None]) -> None:
        if self._writer is not None:
            task, self._writer = self._writer, None
            self._resume(task, result)

    def _resume(self, task: trio.lowlevel.Task, result: outcome.Outcome[Any]) -> None:
        assert self._waits is not None
        self._waits.others = True
        trio.lowlevel.reschedule(task, result)

    def _want(self, flags: int) -> None:
        if flags != self.wanted:
            self._waits = self._waits or waits()
            self._waits.want(self._descriptor, self, self.wanted, flags)
            self.wanted = flags


class Waits:
    """All sockets of one run of trio."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.polling = Polling(self._epoll.poll)
        self._watches: dict[int, Watch] = {}
        # another task has something to do
        self.others = False

    async def run(self) -> None:
        """Deals with what comes, until cancelled."""
        with self._epoll:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                while self._turn():
                    await trio.lowlevel.checkpoint()

    def _turn(self) -> bool:
        """Deals with what comes. Returns whether there may soon be more: nothing has come for a moment if not."""
        wait, watches = self.polling.wait, self._watches
        # one that the last turn has woken may not have run yet, and trio does not count it
        others = self.others or trio.lowlevel.current_statistics().tasks_runnable > 0
        patience = NOTHING if others else MOMENT
        until = clock() + MOMENT
        self.others = False
        while events := wait(patience, MOST):
            for descriptor, flags in events:
                watch = watches.get(descriptor)
                if watch is None:
                    # closed by what came before it in this batch
                    continue
                look = watch.look
                if flags == READ and look is not None:
                    # as in `readable`; this is where a busy proxy spends its time
                    try:
                        found = look()
                    except BaseException as error:
                        watch.end_read(outcome.Error(error))
                    else:
                        if found is not None:
                            watch.end_read(outcome.Value(found))
                else:
                    watch.other(flags)
            if self.others or clock() > until:
                return True
        return others

    def want(self, descriptor: int, watch: Watch, before: int, flags: int) -> None:
        """Has the kernel watch a socket for other things than before."""
        if self._epoll.closed:
            return
        if not before:
            # there may be no room for one more (fs.epoll.max_user_watches)
            self._epoll.register(descriptor, flags)
            self._watches[descriptor] = watch
        elif flags:
            self._epoll.modify(descriptor, flags)
        else:
            del self._watches[descriptor]
            self._epoll.unregister(descriptor)


_waits: trio.lowlevel.RunVar[Waits] = trio.lowlevel.RunVar("waits")


def waits() -> Waits:
    """Those of the run that this is called in."""
    try:
        return _waits.get()
    except LookupError:
        found = Waits()
        _waits.set(found)
        trio.lowlevel.spawn_system_task(found.run)
        return found

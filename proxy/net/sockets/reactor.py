"""Waiting for the sockets of all relays, in one place.

Each wait of a task in trio is a turn of its loop and a system call that has the kernel watch the socket again: together
more work than passing a small frame on. Here the kernel goes on watching, and one task waits for all sockets. That task
handles bytes at once (`WatchedSocket.read`), as far as that needs no waiting, and the connections' own tasks sleep
meanwhile. While bytes come, it does not return to trio's loop after each event either. It blocks the loop, for a moment
at a time, until nothing comes for a moment or another task wants its turn.
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

# most responses come within this time, and the next requests soon after; other tasks may be delayed by as much
BLOCK_SECONDS = 0.001
# sockets that are handled in one go
MAX_EVENTS = 256

NOTHING, READ, WRITE = 0, select.EPOLLIN, select.EPOLLOUT

T = TypeVar("T")


class WatchedSocket:
    """One socket, and the tasks that wait for it: one that reads, one that writes."""

    __slots__ = ("_descriptor", "_reactor", "_reader", "_writer", "look", "wanted")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._reactor: Reactor | None = None
        self._reader: trio.lowlevel.Task | None = None
        self._writer: trio.lowlevel.Task | None = None
        # the function that the reading task has passed to `read`
        self.look: Callable[[], Any] | None = None
        # the events that the kernel watches for: READ may stay set although no task reads, until something comes
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
        """Calls `look`, if a task reads."""
        if self.look is None:
            return
        try:
            found = self.look()
        except BaseException as error:
            self.end_read(outcome.Error(error))
        else:
            if found is not None:
                self.end_read(outcome.Value(found))

    def handle_other(self, flags: int) -> None:
        """Handles events other than bytes for a task that reads: room to write, a broken connection."""
        if flags & ~READ:
            self._end_write(outcome.Value(None))
        if flags & ~WRITE:
            self.readable()
        self._want((READ if self.look else NOTHING) | (WRITE if self._writer else NOTHING))

    def close(self, reason: Exception) -> None:
        """The socket is about to be closed: raises `reason` in the tasks that wait."""
        self._want(NOTHING)
        self._end_write(outcome.Error(reason))
        self.end_read(outcome.Error(reason))

    def end_read(self, result: outcome.Outcome[Any]) -> None:
        # `look` may have cancelled the task
        if self._reader is not None:
            task, self._reader, self.look = self._reader, None, None
            self._resume(task, result)

    def _end_write(self, result: outcome.Outcome[None]) -> None:
        if self._writer is not None:
            task, self._writer = self._writer, None
            self._resume(task, result)

    def _resume(self, task: trio.lowlevel.Task, result: outcome.Outcome[Any]) -> None:
        assert self._reactor is not None
        self._reactor.others_ready = True
        trio.lowlevel.reschedule(task, result)

    def _want(self, flags: int) -> None:
        if flags != self.wanted:
            self._reactor = self._reactor or reactor()
            self._reactor.want(self._descriptor, self, self.wanted, flags)
            self.wanted = flags


class Reactor:
    """All sockets of one run of trio."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.polling = Polling(self._epoll.poll)
        self._watches: dict[int, WatchedSocket] = {}
        # another task is ready to run
        self.others_ready = False

    async def run(self) -> None:
        """Handles events until cancelled."""
        with self._epoll:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                while self._turn():
                    await trio.lowlevel.checkpoint()

    def _turn(self) -> bool:
        """Handles events. Returns False once none has come for a moment."""
        wait, watches = self.polling.wait, self._watches
        # a task that the last turn has woken may not have run yet, and trio does not count it
        others_ready = self.others_ready or trio.lowlevel.current_statistics().tasks_runnable > 0
        seconds = NOTHING if others_ready else BLOCK_SECONDS
        until = clock() + BLOCK_SECONDS
        self.others_ready = False
        while events := wait(seconds, MAX_EVENTS):
            for descriptor, flags in events:
                watch = watches.get(descriptor)
                if watch is None:
                    # closed by an earlier event of this batch
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
                    watch.handle_other(flags)
            if self.others_ready or clock() > until:
                return True
        return others_ready

    def want(self, descriptor: int, watch: WatchedSocket, before: int, flags: int) -> None:
        """Has the kernel watch a socket for other events than before."""
        if self._epoll.closed:
            return
        if not before:
            # raises OSError where the kernel takes no more sockets (fs.epoll.max_user_watches)
            self._epoll.register(descriptor, flags)
            self._watches[descriptor] = watch
        elif flags:
            self._epoll.modify(descriptor, flags)
        else:
            del self._watches[descriptor]
            self._epoll.unregister(descriptor)


_reactor: trio.lowlevel.RunVar[Reactor] = trio.lowlevel.RunVar("reactor")


def reactor() -> Reactor:
    """The `Reactor` of the trio run that this is called in."""
    try:
        return _reactor.get()
    except LookupError:
        found = Reactor()
        _reactor.set(found)
        trio.lowlevel.spawn_system_task(found.run)
        return found

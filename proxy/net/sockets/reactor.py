"""Waits for the sockets of all relays in one task. `Stream` uses it for every socket.

A task that waits for a socket in trio costs a turn of trio's loop, and a system call that registers the socket anew.
Together that is more work than passing on a small frame. Here sockets stay registered, and the task of `Reactor` waits
for all. It calls a function for each readable socket (`WatchedSocket.read`); the connection's own task sleeps until
that function has a result. While it waits for events, `Reactor` blocks trio's loop for up to BLOCK_SECONDS, unless
another task is ready.
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

# most responses, and the requests after them, come within this time; other tasks may be late by as much
BLOCK_SECONDS = 0.001
# events that one call of epoll returns
MAX_EVENTS = 256

NOTHING, READ, WRITE = 0, select.EPOLLIN, select.EPOLLOUT

T = TypeVar("T")


class WatchedSocket:
    """One socket, and the tasks that wait for it: at most one that reads, and one that writes."""

    __slots__ = ("_descriptor", "_reactor", "_reader", "_writer", "interest", "on_readable")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._reactor: Reactor | None = None
        self._reader: trio.lowlevel.Task | None = None
        self._writer: trio.lowlevel.Task | None = None
        # the function that the reading task has passed to `read`
        self.on_readable: Callable[[], Any] | None = None
        # the events that epoll watches for. READ stays set after a read, until bytes come while no task reads
        self.interest = NOTHING

    async def read(self, on_readable: Callable[[], T | None]) -> T:
        """Calls `on_readable` whenever the socket may be readable, until it returns a value other than None, or raises.

        Returns that value, or raises that error. Another task calls `on_readable`, mostly the task of `Reactor`.
        """
        if not self.interest & READ:
            self._set_interest(self.interest | READ)
        self._reader, self.on_readable = trio.lowlevel.current_task(), on_readable

        def abort(_: object) -> trio.lowlevel.Abort:
            self._reader = self.on_readable = None
            return trio.lowlevel.Abort.SUCCEEDED

        result: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return result

    async def write(self) -> None:
        """Waits until the socket may be writable."""
        self._set_interest(self.interest | WRITE)
        self._writer = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def call_on_readable(self) -> None:
        """Calls `on_readable`, if a task waits in `read`."""
        if self.on_readable is None:
            return
        try:
            result = self.on_readable()
        except BaseException as error:
            self.end_read(outcome.Error(error))
        else:
            if result is not None:
                self.end_read(outcome.Value(result))

    def handle_other(self, flags: int) -> None:
        """Handles the events of `_turn` that are not READ alone, or that come while no task waits in `read`."""
        if flags & ~READ:
            self._end_write(outcome.Value(None))
        if flags & ~WRITE:
            self.call_on_readable()
        self._set_interest((READ if self.on_readable else NOTHING) | (WRITE if self._writer else NOTHING))

    def close(self, reason: Exception) -> None:
        """Stops watching the socket, which is about to be closed. Raises `reason` in the tasks that wait for it."""
        self._set_interest(NOTHING)
        self._end_write(outcome.Error(reason))
        self.end_read(outcome.Error(reason))

    def end_read(self, result: outcome.Outcome[Any]) -> None:
        """Resumes the task that waits in `read`, if there is one."""
        # None if `on_readable` has cancelled the reading task
        if self._reader is not None:
            task, self._reader, self.on_readable = self._reader, None, None
            self._resume(task, result)

    def _end_write(self, result: outcome.Outcome[None]) -> None:
        if self._writer is not None:
            task, self._writer = self._writer, None
            self._resume(task, result)

    def _resume(self, task: trio.lowlevel.Task, result: outcome.Outcome[Any]) -> None:
        assert self._reactor is not None
        self._reactor.others_ready = True
        trio.lowlevel.reschedule(task, result)

    def _set_interest(self, flags: int) -> None:
        if flags != self.interest:
            self._reactor = self._reactor or reactor()
            self._reactor.set_interest(self._descriptor, self, self.interest, flags)
            self.interest = flags


class Reactor:
    """Waits for all watched sockets of one run of trio. `polling`: how it waits."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.polling = Polling(self._epoll.poll)
        self._watches: dict[int, WatchedSocket] = {}
        # True if a task has been resumed since the last turn began
        self.others_ready = False

    async def run(self) -> None:
        """Handles events until cancelled."""
        with self._epoll:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                while self._turn():
                    await trio.lowlevel.checkpoint()

    def _turn(self) -> bool:
        """Handles events for a while. Returns False after BLOCK_SECONDS without an event, if no other task is ready."""
        wait, watches = self.polling.wait, self._watches
        # trio's count lacks the tasks that run later in the same pass of its loop as this task
        others_ready = self.others_ready or trio.lowlevel.current_statistics().tasks_runnable > 0
        seconds = 0 if others_ready else BLOCK_SECONDS
        until = clock() + BLOCK_SECONDS
        self.others_ready = False
        while events := wait(seconds, MAX_EVENTS):
            for descriptor, flags in events:
                watch = watches.get(descriptor)
                if watch is None:
                    # an earlier event of these has closed the socket
                    continue
                on_readable = watch.on_readable
                if flags == READ and on_readable is not None:
                    # as in `call_on_readable`, without the call: a busy proxy spends its time here
                    try:
                        result = on_readable()
                    except BaseException as error:
                        watch.end_read(outcome.Error(error))
                    else:
                        if result is not None:
                            watch.end_read(outcome.Value(result))
                else:
                    watch.handle_other(flags)
            if self.others_ready or clock() > until:
                return True
        return others_ready

    def set_interest(self, descriptor: int, watch: WatchedSocket, before: int, flags: int) -> None:
        """Registers, modifies or unregisters a socket. `before`, `flags`: the former and the new events to watch."""
        if self._epoll.closed:
            return
        if not before:
            # raises OSError if the kernel takes no more sockets (fs.epoll.max_user_watches)
            self._epoll.register(descriptor, flags)
            self._watches[descriptor] = watch
        elif flags:
            self._epoll.modify(descriptor, flags)
        else:
            del self._watches[descriptor]
            self._epoll.unregister(descriptor)


_reactor: trio.lowlevel.RunVar[Reactor] = trio.lowlevel.RunVar("reactor")


def reactor() -> Reactor:
    """The `Reactor` of the current run of trio, made and started at the first call."""
    try:
        return _reactor.get()
    except LookupError:
        new = Reactor()
        _reactor.set(new)
        trio.lowlevel.spawn_system_task(new.run)
        return new

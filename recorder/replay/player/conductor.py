"""Connects an engine with sockets, the capture's happenings and the clock.

One task reads all plain sockets (`sockets`); each TLS connection has a task of its own (`dial`). The task that reads an
answer calls the engine, and its actions are carried out at once. A thread reads the capture, a little at a time, so
that the sockets never wait.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import trio

from proxy.wire.errors import OverBudget
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.replay.engine.channels import Close, Load, Open, Send
from recorder.replay.engine.engine import Engine
from recorder.replay.engine.world import World
from recorder.replay.outcome import Ending
from recorder.replay.plan import OfferedVersions, Values
from recorder.replay.player.dial import Connection, NotReached, Target, dial
from recorder.replay.player.guard import Forbidden
from recorder.replay.player.renewal import RenewingWire
from recorder.replay.player.reread import RereadFrames
from recorder.replay.player.sockets import PlainWire, Sockets, Wire
from recorder.replay.stream import DiskRead, Happening

# happenings that are fed between two looks at the sockets
_SLICE = 16
# How long (ns) before the first request is due reading begins: a file is opened, and the first happenings are fed. A
# late start would delay all requests that follow soon.
_LEAD = 5 * 10**8
# how long nothing may happen before the engine is woken (ns), and before it is asked again for room (s)
_IDLE, _LOOK = 5 * 10**8, 0.01


class Conductor:
    """Plays a world's capture. `rows`: its happenings, oldest first."""

    def __init__(self, world: World, target: Target, rows: Iterator[Happening | DiskRead]) -> None:
        self._target, self._rows, self._result = target, rows, world.result
        self._cluster = world.cluster
        # what reading has come to
        self._must_read = self._has_ended = False
        lead = 0 if world.options.speed is None else _LEAD
        self.engine = Engine(world, time.monotonic_ns() + lead, self._look_at)
        self._connections: dict[int, Wire | None] = {}
        # channel -> the address that was dialled, for open connections
        self._reached: dict[int, tuple[str, int]] = {}
        self._places = RereadFrames()
        self._sockets = Sockets(self._notice)
        self._changed, self._room = trio.Event(), trio.Event()
        self._wakes_at: int | None = None
        self._nursery: trio.Nursery | None = None
        # nothing more is sent: an answer has told that its node is of another cluster
        self._is_cut = False
        self._reading = trio.CapacityLimiter(1)

    async def run(self) -> None:
        """Plays to the end."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._sockets.run)
            nursery.start_soon(self._feed)
            while not (self.engine.finished or self._is_cut):
                self._do()
                await self._wait()
                self.engine.wake(time.monotonic_ns())
            nursery.cancel_scope.cancel()

    def stop(self, ending: Ending) -> None:
        """Ends the replay in order."""
        self.engine.stop(ending, time.monotonic_ns())
        self._notice()

    async def _wait(self) -> None:
        wake, now = self.engine.next_wake, time.monotonic_ns()
        if self.engine.finished:
            return
        idle = now + _IDLE
        self._wakes_at = idle if wake is None else min(max(wake, now), idle)
        with trio.move_on_after((self._wakes_at - now) / 10**9):
            await self._changed.wait()
        self._changed = trio.Event()

    def _notice(self) -> None:
        """Carries out the engine's actions.

        Wakes the tasks that wait for the clock, or for room, if they are concerned.
        """
        self._do()
        wake = self.engine.next_wake
        if self.engine.finished or (wake is not None and (self._wakes_at is None or wake < self._wakes_at)):
            self._changed.set()
        if not self._room.is_set() and self.engine.wants(time.monotonic_ns()):
            self._room.set()

    async def _feed(self) -> None:
        while True:
            if self._target.recording is not None:
                await self._target.recording.room()
            if not self.engine.wants(time.monotonic_ns()):
                # answers, and time, make room again
                self._room = trio.Event()
                with trio.move_on_after(_LOOK):
                    await self._room.wait()
                continue
            try:
                is_end = await self._feed_some()
            except (DamagedFileError, UnknownFormatError, OverBudget, OSError):
                # the survey could read it: what was begun is ended in order
                self.stop(Ending.DAMAGED)
                return
            self._notice()
            if is_end:
                return
            await trio.lowlevel.checkpoint()

    async def _feed_some(self) -> bool:
        """Feeds a few happenings. True at the end.

        A thread does nothing but read from the disk: more would slow this one down.
        """
        rows = self._few()
        if self._must_read:
            self._notice()
            rows = iter(await trio.to_thread.run_sync(lambda: [*self._few(1)], limiter=self._reading))
        self.engine.feed(rows, time.monotonic_ns())
        if self._has_ended:
            self.engine.end(time.monotonic_ns())
        return self._has_ended

    def _few(self, most: int = _SLICE) -> Iterator[Happening]:
        """The next happenings, up to a step that reads from the disk."""
        self._must_read = False
        for _ in range(most):
            row = next(self._rows, None)
            if row is None or isinstance(row, DiskRead):
                self._has_ended, self._must_read = row is None, row is not None
                return
            yield row

    def _do(self) -> None:
        assert self._nursery is not None
        if self._is_cut:
            return
        while actions := self.engine.actions():
            sends: dict[int, list[Send]] = {}
            for action in actions:
                if isinstance(action, Send):
                    sends.setdefault(action.channel, []).append(action)
                elif isinstance(action, Open):
                    self._connections[action.channel] = None
                    self._nursery.start_soon(self._serve, action)
                elif isinstance(action, Load):
                    self._nursery.start_soon(self._load, action)
                else:
                    self._hang_up(action, sends)
            for channel, each in sends.items():
                self._write(channel, each)

    def _look_at(self, node: int, api_key: int, answer: Values) -> None:
        self._target.guard.check_answer(*self._cluster.nodes.get(node, ("", 0)), api_key, answer)

    def _cut(self, why: str) -> None:
        """Ends the replay at once: connections that were the target's are so no more."""
        self._is_cut = True
        for wire in self._connections.values():
            if wire is not None:
                wire.cut()
        self._end_forbidden(why)
        self._changed.set()

    def _hang_up(self, action: Close, sends: dict[int, list[Send]]) -> None:
        if action.channel in sends:
            self._write(action.channel, sends.pop(action.channel))
        wire = self._connections.pop(action.channel, None)
        if wire is not None:
            wire.close()

    def _write(self, channel: int, sends: list[Send]) -> None:
        wire = self._connections.get(channel)
        if wire is None:
            return
        began = time.monotonic_ns()
        if begun := wire.write(sends):
            self.engine.wrote(channel, begun, began)

    def _has_begun(self, channel: int, count: int) -> None:
        self.engine.wrote(channel, count, time.monotonic_ns())
        self._notice()

    async def _load(self, action: Load) -> None:
        # one thread reads the capture at a time: frames that two threads read would be in memory twice
        frames = await trio.to_thread.run_sync(
            self._places.frames, action.place, action.answer_place, limiter=self._reading
        )
        self.engine.loaded(action.origin, *frames, time.monotonic_ns())
        self._notice()

    async def _serve(self, action: Open) -> None:
        channel = action.channel
        try:
            connection, said = await dial(self._target, action.host, action.port, action.principal, action.node)
        except (NotReached, Forbidden) as error:
            self._connections.pop(channel, None)
            self.engine.closed(channel, time.monotonic_ns())
            if isinstance(error, Forbidden):
                # connections that were made to this address may lead where it leads now
                reached = (action.host, action.port) in self._reached.values()
                (self._cut if reached else self._end_forbidden)(str(error))
            self._notice()
            return
        self._reached[channel] = action.host, action.port
        try:
            if channel in self._connections:
                await self._exchange_frames(channel, connection, said.offered)
        finally:
            del self._reached[channel]
            await connection.aclose()

    def _end_forbidden(self, why: str) -> None:
        """Ends the replay; what it has begun elsewhere ends in order. A replay that was ending has failed, too."""
        self._result.ending, self._result.ended_why = Ending.FORBIDDEN, self._result.ended_why or why
        self.stop(Ending.FORBIDDEN)

    async def _exchange_frames(self, channel: int, connection: Connection, offered: OfferedVersions) -> None:
        def received(frames: list[bytes]) -> None:
            if self._is_cut:
                return
            try:
                self.engine.received(channel, frames, time.monotonic_ns())
            except Forbidden as error:
                self._cut(str(error))

        begun, session = partial(self._has_begun, channel), connection.session
        if session is None or not session.has_end:
            self._connections[channel], running = self._wire(connection, received, begun)
        else:
            renewing = RenewingWire(session, channel, received, begun)
            renewing.wire, below = self._wire(connection, renewing.received, renewing.begun)
            self._connections[channel], running = renewing, renewing.run(below)
        self.engine.opened(channel, offered, time.monotonic_ns())
        received(connection.early())
        self._notice()
        await running
        self._connections.pop(channel, None)
        self.engine.closed(channel, time.monotonic_ns())
        self._notice()

    def _wire(
        self, connection: Connection, received: Callable[[list[bytes]], None], begun: Callable[[int], None]
    ) -> tuple[Wire, Awaitable[None]]:
        """A connection as it is written to, and what runs it. `Sockets` notices what plain ones have received."""

        def told(frames: list[bytes]) -> None:
            received(frames)
            self._notice()

        if connection.plain is None:
            return connection, connection.run(told, begun)
        wire = PlainWire(self._sockets, connection.plain, connection.frames, received, begun)
        return wire, wire.run()

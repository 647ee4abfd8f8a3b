"""Brings an engine together with sockets, rows and the clock.

One task for each connection reads; the engine is called where the bytes arrive, and its actions are done at once. Rows
are read by a thread, a few at a time, so that the sockets never wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

import trio

from proxy.wire.errors import WireError
from recorder.replay.channels import Close, Open, Send
from recorder.replay.engine import Engine
from recorder.replay.outcome import Ending
from recorder.replay.player.dial import Connection, NotReached, Target, dial
from recorder.replay.stream import Happening
from recorder.replay.world import World

# rows that the thread reads at a time, and those fed between two looks at the sockets
_ROWS, _SLICE = 512, 16
_IDLE = 0.5


class Conductor:
    """Plays a world's capture. `rows`: what happened, oldest first."""

    def __init__(self, world: World, target: Target, rows: Iterator[Happening]) -> None:
        self._target, self._rows = target, rows
        self.engine = Engine(world, time.monotonic_ns())
        self._connections: dict[int, Connection | None] = {}
        self._changed = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._reading = trio.CapacityLimiter(1)

    async def run(self) -> None:
        """Plays to the end."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._feed)
            while not self.engine.finished:
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
        with trio.move_on_after(_IDLE if wake is None else min(max(wake - now, 0) / 10**9, _IDLE)):
            await self._changed.wait()
        self._changed = trio.Event()

    def _notice(self) -> None:
        """Does what the engine asks for, and has the clock looked at again."""
        self._do()
        self._changed.set()

    async def _feed(self) -> None:
        while True:
            if self._target.recording is not None:
                await self._target.recording.room()
            if not self.engine.wants(time.monotonic_ns()):
                # answers, or time, make room again
                with trio.move_on_after(0.01):
                    await self._changed.wait()
                continue
            rows = await trio.to_thread.run_sync(lambda: [*islice(self._rows, _ROWS)], limiter=self._reading)
            if not rows:
                self.engine.end(time.monotonic_ns())
                self._notice()
                return
            await self._feed_all(rows)

    async def _feed_all(self, rows: list[Happening]) -> None:
        for at in range(0, len(rows), _SLICE):
            for row in rows[at : at + _SLICE]:
                self.engine.feed(row, time.monotonic_ns())
            self._notice()
            await trio.lowlevel.checkpoint()

    def _do(self) -> None:
        assert self._nursery is not None
        while actions := self.engine.actions():
            sends: dict[int, list[Send]] = {}
            for action in actions:
                if isinstance(action, Send):
                    sends.setdefault(action.channel, []).append(action)
                elif isinstance(action, Open):
                    self._connections[action.channel] = None
                    self._nursery.start_soon(self._serve, action)
                else:
                    self._hang_up(action, sends)
            for channel, each in sends.items():
                self._write(channel, each)

    def _hang_up(self, action: Close, sends: dict[int, list[Send]]) -> None:
        if action.channel in sends:
            self._write(action.channel, sends.pop(action.channel))
        connection = self._connections.pop(action.channel, None)
        if connection is not None:
            connection.close()

    def _write(self, channel: int, sends: list[Send]) -> None:
        connection = self._connections.get(channel)
        if connection is None:
            return
        began = time.monotonic_ns()
        if connection.write(sends):
            self.engine.wrote(channel, began, began)
        elif connection.began is None:
            connection.began = began

    def _drained(self, channel: int, connection: Connection) -> None:
        now = time.monotonic_ns()
        began, connection.began = connection.began or now, None
        self.engine.wrote(channel, began, now)
        self._notice()

    async def _serve(self, action: Open) -> None:
        channel = action.channel
        try:
            connection, said, _ = await dial(self._target, action.host, action.port, action.principal, action.node)
        except NotReached:
            self._connections.pop(channel, None)
            self.engine.closed(channel, time.monotonic_ns())
            self._notice()
            return
        try:
            if channel in self._connections:
                self._connections[channel] = connection
                await self._talk(channel, connection, said.offered)
        finally:
            await connection.aclose()

    async def _talk(self, channel: int, connection: Connection, offered: object) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write_rest, connection, lambda: self._drained(channel, connection))
            self.engine.opened(channel, offered, time.monotonic_ns())  # type: ignore[arg-type]
            self._notice()
            await self._read(channel, connection)
            self._connections.pop(channel, None)
            self.engine.closed(channel, time.monotonic_ns())
            self._notice()
            nursery.cancel_scope.cancel()

    async def _write_rest(self, connection: Connection, drained: Callable[[], None]) -> None:
        try:
            await connection.run_writer(drained)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _read(self, channel: int, connection: Connection) -> None:
        """Hands over each answer, until the connection ends or sends what is no answer."""
        try:
            while (frames := await connection.chunk()) is not None:
                now = time.monotonic_ns()
                for frame in frames:
                    self.engine.received(channel, frame, now)
                self._notice()
        except (trio.BrokenResourceError, trio.ClosedResourceError, WireError):
            return

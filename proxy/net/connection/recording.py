"""What the recorder is told of one connection, and where its chunks wait for the recorder."""

from __future__ import annotations

import time

from proxy.conversation import Direction, Exchange, Step
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.observer import Observer


class Recording:
    """One connection's side of the observer, which is None where nothing is recorded.

    is_waiting: a chunk waits for the recorder; no peer is to blame that nothing moves.
    """

    __slots__ = ("_connection", "_room", "is_waiting", "observer")

    def __init__(self, connection: int, observer: Observer | None, room: RecorderBackpressure | None) -> None:
        self._connection = connection
        self.observer = observer
        self._room = room
        self.is_waiting = False

    def arrived(self, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> bool:
        """Has the observer take a chunk before it is sent on. Whether the chunk must then wait: `until_room`."""
        observer = self.observer
        if observer is None:
            return False
        observer.arrived(self._connection, direction, chunk, at_ns, step)
        return observer.full and self._room is not None

    async def until_room(self) -> None:
        """This is where a socket waits for a slow disk."""
        assert self._room is not None
        self.is_waiting = True
        await self._room.wait()
        self.is_waiting = False

    def made(self, exchange: Exchange, frame: bytes, at_ns: int) -> None:
        """The proxy itself answers this exchange with this frame."""
        if self.observer is not None:
            assert exchange.correlation_id is not None
            self.observer.made(self._connection, exchange.correlation_id, frame, at_ns)

    def half_closed(self, direction: Direction) -> None:
        """The peer that sends in this direction has sent its end of stream."""
        if self.observer is not None:
            self.observer.half_closed(self._connection, direction, time.monotonic_ns())

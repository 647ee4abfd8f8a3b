"""Reports one connection's chunks to the recorder, and makes the relay wait when the recorder demands it."""

from __future__ import annotations

import time

from proxy.conversation import Direction, Exchange, Step
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.observer import Observer


class Recording:
    """Reports one connection to the observer. Observer and backpressure are both None if nothing is recorded."""

    __slots__ = ("_backpressure", "_connection", "_waiting_chunks", "observer")

    def __init__(self, connection: int, observer: Observer | None, backpressure: RecorderBackpressure | None) -> None:
        self._connection = connection
        self.observer = observer
        self._backpressure = backpressure
        # at most one in each direction
        self._waiting_chunks = 0

    @property
    def is_waiting(self) -> bool:
        """True if a chunk waits for the recorder, so the connection is not idle or stalled."""
        return self._waiting_chunks > 0

    def arrived(self, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> bool:
        """Reports a chunk before it is sent on. True if the relay must then await `until_recorder_ready`."""
        observer = self.observer
        if observer is None:
            return False
        observer.arrived(self._connection, direction, chunk, at_ns, step)
        return observer.must_wait and self._backpressure is not None

    async def until_recorder_ready(self) -> None:
        """Waits until the observer takes more."""
        assert self._backpressure is not None
        self._waiting_chunks += 1
        try:
            await self._backpressure.wait()
        finally:
            self._waiting_chunks -= 1

    def answered(self, exchange: Exchange, frame: bytes, at_ns: int) -> None:
        """Reports that the proxy itself answers an exchange. `frame`: the response, with its length."""
        if self.observer is not None:
            assert exchange.correlation_id is not None
            self.observer.answered(self._connection, exchange.correlation_id, frame, at_ns)

    def half_closed(self, direction: Direction) -> None:
        """Reports the end of stream in this direction."""
        if self.observer is not None:
            self.observer.half_closed(self._connection, direction, time.monotonic_ns())

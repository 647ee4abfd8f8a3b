"""Reports one connection to the recorder, and makes its chunks wait while the recorder is full."""

from __future__ import annotations

import time

from proxy.conversation import Direction, Exchange, Step
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.observer import Observer


class Recording:
    """Reports one connection to the observer. Observer and backpressure are None where nothing is recorded.

    is_waiting: a chunk waits for the recorder, so no peer is to blame for the silence.
    """

    __slots__ = ("_backpressure", "_connection", "is_waiting", "observer")

    def __init__(self, connection: int, observer: Observer | None, backpressure: RecorderBackpressure | None) -> None:
        self._connection = connection
        self.observer = observer
        self._backpressure = backpressure
        self.is_waiting = False

    def arrived(self, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> bool:
        """Hands a chunk to the observer before it is sent on. True if the chunk must wait (`until_recorder_ready`)."""
        observer = self.observer
        if observer is None:
            return False
        observer.arrived(self._connection, direction, chunk, at_ns, step)
        return observer.full and self._backpressure is not None

    async def until_recorder_ready(self) -> None:
        """Waits until the observer takes more: here a socket waits for a slow disk."""
        assert self._backpressure is not None
        self.is_waiting = True
        await self._backpressure.wait()
        self.is_waiting = False

    def answered(self, exchange: Exchange, frame: bytes, at_ns: int) -> None:
        """Reports that the proxy itself answers this exchange with this frame."""
        if self.observer is not None:
            assert exchange.correlation_id is not None
            self.observer.answered(self._connection, exchange.correlation_id, frame, at_ns)

    def half_closed(self, direction: Direction) -> None:
        """Reports that the sender of this direction has sent its end of stream."""
        if self.observer is not None:
            self.observer.half_closed(self._connection, direction, time.monotonic_ns())

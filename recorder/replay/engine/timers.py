"""Calls that are due at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

# cancelled calls that may stay in the queue in any case
_FEW = 32


class Timer:
    """A call that is due at `when`. `call`: None once it is cancelled or done."""

    __slots__ = ("call", "ticket", "when")

    def __init__(self, when: int, ticket: int, call: Callable[[int], None]) -> None:
        self.when, self.ticket = when, ticket
        self.call: Callable[[int], None] | None = call

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.ticket) < (other.when, other.ticket)


class Timers:
    """Calls by time; calls of one time in the order in which they were asked for.

    A cancelled call is dropped at once. Its place in the queue is freed when half of the queue is such places.
    """

    def __init__(self) -> None:
        self._queue: list[Timer] = []
        self._tickets = count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def next_at(self) -> int | None:
        """When the next call is due."""
        while self._queue and self._queue[0].call is None:
            heapq.heappop(self._queue)
            self._cancelled -= 1
        return self._queue[0].when if self._queue else None

    def at(self, when: int, call: Callable[[int], None]) -> Timer:
        """Calls `call` at `when` or soon after, with the time of the call."""
        timer = Timer(when, next(self._tickets), call)
        heapq.heappush(self._queue, timer)
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancels a call. One that has been made already stays made."""
        if timer.call is None:
            return
        timer.call = None
        self._cancelled += 1
        if self._cancelled > max(_FEW, len(self._queue) // 2):
            self._queue = [each for each in self._queue if each.call is not None]
            heapq.heapify(self._queue)
            self._cancelled = 0

    def run(self, now: int) -> None:
        """Makes all calls that are due."""
        while (when := self.next_at) is not None and when <= now:
            timer = heapq.heappop(self._queue)
            call, timer.call = timer.call, None
            assert call is not None
            call(now)

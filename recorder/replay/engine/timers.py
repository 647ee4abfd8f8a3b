"""What is to be called at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class Timers:
    """Calls by time; calls of one time in the order in which they were asked for."""

    def __init__(self) -> None:
        self._calls: list[tuple[int, int, Callable[[int], None]]] = []
        self._tickets = count()

    @property
    def next_at(self) -> int | None:
        """When the next call is due."""
        return self._calls[0][0] if self._calls else None

    def at(self, when: int, call: Callable[[int], None]) -> None:
        """Calls back at `when`, with the time that it is then."""
        heapq.heappush(self._calls, (when, next(self._tickets), call))

    def run(self, now: int) -> None:
        """All calls that are due."""
        while self._calls and self._calls[0][0] <= now:
            heapq.heappop(self._calls)[2](now)

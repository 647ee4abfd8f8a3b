"""Connections spread over the workers: each knows how many the others have, and lets one that has fewer go first.

Left to itself the worker that wakes first takes all that wait, again and again. The counts are in memory that all
processes share, a number a worker, each written by its own worker alone; whoever has more than another waits a moment
before it accepts, and looks again. A worker that hangs must not keep clients from the others: who has waited in vain
waits half as long the next time, until the others' counts move again.
"""

from __future__ import annotations

import mmap
import os

import trio

# long enough for an idle process to wake up, and a small part of what a connection takes to be opened
HESITATION = 0.001
# so many times: on a busy machine a process may be kept waiting for its processor
MOST_PATIENCE = 16
# a place that no worker has
_NOBODY = (1 << 63) - 1


class Places:
    """How many connections each worker has. `descriptor`: of the memory, to be given to workers."""

    def __init__(self, descriptor: int, count: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, 8 * count)
        self._numbers = memoryview(self._memory).cast("q")

    @classmethod
    def made(cls, count: int) -> Places:
        """New ones, that nobody has."""
        descriptor = os.memfd_create("connections")
        os.truncate(descriptor, 8 * count)
        places = cls(descriptor, count)
        for place in range(count):
            places.vacate(place)
        return places

    def vacate(self, place: int) -> None:
        """Its worker has ended, or does not accept yet: nobody waits for it."""
        self._numbers[place] = _NOBODY

    def take(self, place: int) -> Place:
        """For a worker: its own."""
        return Place(self._numbers, place)


class Place:
    """A worker's count, beside the others'."""

    def __init__(self, numbers: memoryview[int], place: int) -> None:
        self._numbers = numbers
        self._place = place
        self._open = 0
        self._patience = MOST_PATIENCE
        # what the one with the fewest had when it was last waited for
        self._fewest = -1

    def begin(self) -> None:
        """From now on this worker accepts."""
        self._numbers[self._place] = self._open

    def opened(self) -> None:
        """A connection more."""
        self._open += 1
        self._numbers[self._place] = self._open

    def closed(self) -> None:
        """A connection less."""
        self._open -= 1
        self._numbers[self._place] = self._open

    async def turn(self) -> None:
        """Returns at once if no other worker has fewer connections, else when it has as many, or does not move."""
        for _ in range(self._look()):
            await trio.sleep(HESITATION)
            if self._open <= min(self._numbers):
                return

    def _look(self) -> int:
        """How often to hesitate now."""
        fewest = min(self._numbers)
        if self._open <= fewest:
            return 0
        self._patience = max(self._patience // 2, 1) if fewest == self._fewest else MOST_PATIENCE
        self._fewest = fewest
        return self._patience

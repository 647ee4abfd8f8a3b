"""Spreads connections over the workers: a worker lets another one that has fewer connections accept first.

Without this the worker that wakes first accepts all clients that wait, again and again. The counts are in memory that
all processes share, one number for each slot; only the slot's worker writes it. A worker that has more connections than
another waits a moment before it accepts, and compares again. A worker that hangs must not keep clients from the others:
a worker that has waited in vain waits half as long the next time, until the others' counts change again.
"""

from __future__ import annotations

import mmap
import os

import trio

# long enough for an idle process to wake up, and a small part of what a connection takes to be opened
HESITATION = 0.001
# the most hesitations before one accept: on a busy machine another process may wait long for its processor
MAX_HESITATIONS = 16
# the count of a slot that no worker accepts in: more than any worker has
_VACANT = (1 << 63) - 1


class ConnectionCounts:
    """The workers' numbers of connections. `descriptor`: of the shared memory, for workers to inherit."""

    def __init__(self, descriptor: int, count: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, 8 * count)
        self._numbers = memoryview(self._memory).cast("q")

    @classmethod
    def create(cls, count: int) -> ConnectionCounts:
        """New counts, of slots without workers."""
        descriptor = os.memfd_create("connections")
        os.truncate(descriptor, 8 * count)
        counts = cls(descriptor, count)
        for slot in range(count):
            counts.vacate(slot)
        return counts

    def vacate(self, slot: int) -> None:
        """The slot's worker has ended, or does not accept yet: no other worker waits for it."""
        self._numbers[slot] = _VACANT

    def of(self, slot: int) -> OwnCount:
        """The count of the slot's worker, for that worker."""
        return OwnCount(self._numbers, slot)


class OwnCount:
    """A worker's own count, and its view of the other workers' counts."""

    def __init__(self, numbers: memoryview[int], slot: int) -> None:
        self._numbers = numbers
        self._slot = slot
        self._open = 0
        self._hesitations = MAX_HESITATIONS
        # how many connections the worker with the fewest had when this one last waited for it
        self._fewest = -1

    def begin(self) -> None:
        """This worker accepts from now on."""
        self._numbers[self._slot] = self._open

    def opened(self) -> None:
        """This worker has one connection more."""
        self._open += 1
        self._numbers[self._slot] = self._open

    def closed(self) -> None:
        """This worker has one connection less."""
        self._open -= 1
        self._numbers[self._slot] = self._open

    async def wait_turn(self) -> None:
        """Returns at once if no other worker has fewer connections; else once it has as many, or after hesitating."""
        for _ in range(self._look()):
            await trio.sleep(HESITATION)
            if self._open <= min(self._numbers):
                return

    def _look(self) -> int:
        """How often this worker has to hesitate now."""
        fewest = min(self._numbers)
        if self._open <= fewest:
            return 0
        self._hesitations = max(self._hesitations // 2, 1) if fewest == self._fewest else MAX_HESITATIONS
        self._fewest = fewest
        return self._hesitations

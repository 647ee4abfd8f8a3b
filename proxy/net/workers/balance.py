"""Spreads connections over the workers: a worker lets a worker with fewer connections accept first.

Without this, the worker that wakes first accepts all waiting clients, again and again. The counts of connections are in
memory that all processes share: one number for each slot, written by the slot's worker (by the parent while the slot
has none). A worker that has more connections than another waits a moment before it accepts, and compares again.

A worker that hangs must not keep clients from the others. So a worker that waits twice for the same smallest count
waits half as long the second time, and so on until the smallest count changes. After RECOVERY it waits in full again:
the other worker may only have been slow, as one that has just started on a busy machine is, and would get no clients.
"""

from __future__ import annotations

import math
import mmap
import os

import trio

from proxy.memory_files import memory_file

# seconds: long enough for an idle process to wake up, and a small part of the time that opening a connection takes
HESITATION = 0.001
# the most hesitations before one accept: on a busy machine another process may wait long for a processor
MAX_HESITATIONS = 16
# seconds after which a worker that hesitated in vain hesitates in full again; a worker that hangs costs the others' new
# clients 3 % of that
RECOVERY = 1.0
# the count of a slot whose worker does not accept: more than any worker has
_VACANT = (1 << 63) - 1


class ConnectionCounts:
    """The workers' numbers of connections. `descriptor`: the shared memory's, which workers inherit."""

    def __init__(self, descriptor: int, count: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, 8 * count)
        self._numbers = memoryview(self._memory).cast("q")

    @classmethod
    def create(cls, count: int) -> ConnectionCounts:
        """Returns new counts: no slot has a worker."""
        descriptor = memory_file("connections")
        os.truncate(descriptor, 8 * count)
        counts = cls(descriptor, count)
        for slot in range(count):
            counts.vacate(slot)
        return counts

    def vacate(self, slot: int) -> None:
        """Marks a slot whose worker has ended or does not accept yet. No other worker waits for it."""
        self._numbers[slot] = _VACANT

    def of(self, slot: int) -> OwnCount:
        """Returns the count of the slot's worker, for use by that worker."""
        return OwnCount(self._numbers, slot)


class OwnCount:
    """A worker's own count, and its view of the other workers' counts."""

    def __init__(self, numbers: memoryview[int], slot: int) -> None:
        self._numbers = numbers
        self._slot = slot
        self._open = 0
        self._accepts = False
        self._hesitations = MAX_HESITATIONS
        # the smallest count when this worker last hesitated in full, and when that was
        self._fewest = -1
        self._in_full_at = -math.inf

    def begin(self) -> None:
        """Publishes this worker's count: the worker accepts from now on. Before, nobody must wait for it."""
        self._accepts = True
        self._publish()

    def end(self) -> None:
        """This worker accepts no more, so nobody must wait for it."""
        self._accepts = False
        self._publish()

    def opened(self) -> None:
        """Counts a connection as open."""
        self._open += 1
        self._publish()

    def closed(self) -> None:
        """Counts a connection as ended."""
        self._open -= 1
        self._publish()

    def _publish(self) -> None:
        self._numbers[self._slot] = self._open if self._accepts else _VACANT

    async def wait_turn(self) -> None:
        """Returns when no worker has fewer connections than this one, or when this worker has hesitated long enough."""
        for _ in range(self._hesitations_due()):
            await trio.sleep(HESITATION)
            if self._open <= min(self._numbers):
                return

    def _hesitations_due(self) -> int:
        """Returns how often this worker must hesitate now."""
        fewest = min(self._numbers)
        if self._open <= fewest:
            return 0
        now = trio.current_time()
        if fewest == self._fewest and now - self._in_full_at < RECOVERY:
            self._hesitations = max(self._hesitations // 2, 1)
        else:
            self._hesitations, self._fewest, self._in_full_at = MAX_HESITATIONS, fewest, now
        return self._hesitations

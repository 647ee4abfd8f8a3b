"""Differences between the target's and the recorded offsets of one partition, from both answers to each Produce.

A pair of offsets holds from its recorded offset up to the next pair's; the first one also below. A pair with the same
difference as the one before is dropped, except recent ones: answers to several producers come in any order, so another
pair may still come between the two. Memory: 10,000 pairs; beyond that, every second one of the older half is dropped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

MOST = 10_000
# Recent pairs, which are never dropped: as many as many producers' batches in flight.
RECENT = 64


class Differences:
    """The pairs of offsets of one partition."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._differences: list[int] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, recorded: int, target: int) -> None:
        """Adds a record's offset on both sides. A later pair with the same recorded offset replaces the earlier one."""
        at = bisect_left(self._offsets, recorded)
        if at < len(self) and self._offsets[at] == recorded:
            self._differences[at] = target - recorded
            return
        self._offsets.insert(at, recorded)
        self._differences.insert(at, target - recorded)
        self._drop_if_same(min(at, len(self) - RECENT))
        if len(self) > MOST:
            self._sample()

    def target(self, recorded: int) -> int | None:
        """The target's offset for a recorded one; None without a pair."""
        if not self._offsets:
            return None
        at = max(bisect_right(self._offsets, recorded) - 1, 0)
        return recorded + self._differences[at]

    def _drop_if_same(self, at: int) -> None:
        if at > 0 and self._differences[at] == self._differences[at - 1]:
            del self._offsets[at], self._differences[at]

    def _sample(self) -> None:
        half = MOST // 2
        self._offsets[:half] = self._offsets[:half:2]
        self._differences[:half] = self._differences[:half:2]

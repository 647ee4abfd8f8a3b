"""How far the target's offsets of one partition are from the recorded ones, by what both sides said of each Produce.

A pair holds from its recorded offset up to the next pair's; the first one below, too. Pairs with the difference of the
one before are dropped, but not the latest: answers of several producers come in any order, so a pair may still come
between two of them. Memory: 10,000 pairs; beyond, every second one of the older half is dropped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

MOST = 10_000
# Pairs that are kept although their difference is that of the one before: some batches in flight of many producers.
RECENT = 64


class Differences:
    """The pairs of one partition."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._differences: list[int] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, recorded: int, target: int) -> None:
        """The same record's offset on both sides. A later pair of an offset replaces the earlier one."""
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

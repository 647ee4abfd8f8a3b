"""Offsets that a share group's member has acquired in one partition: the k-th on one side is the k-th on the other.

Both sides acquire the same records in the same order, at other offsets and in other ranges. An offset that was acquired
more than once is the latest: an acknowledgement speaks of that. Memory: the last 2,000 ranges of each side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

# A broker lets 2,000 records of a partition be acquired at a time (group.share.partition.max.record.locks).
MOST = 2_000


class _Range(NamedTuple):
    """Offsets that were acquired together. `number`: that of the first, counted over all that were acquired."""

    first: int
    last: int
    number: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class Run(NamedTuple):
    """Neighbours on both sides."""

    recorded: int
    target: int
    length: int


class _Side:
    def __init__(self) -> None:
        self.ranges: list[_Range] = []
        self._numbers: list[int] = []
        self._following = 0

    def add(self, first: int, last: int) -> None:
        if not 0 <= first <= last:
            return
        self.ranges.append(_Range(first, last, self._following))
        self._numbers.append(self._following)
        self._following += last - first + 1
        if len(self.ranges) > MOST:
            del self.ranges[: MOST // 2], self._numbers[: MOST // 2]

    def runs(self, number: int, length: int) -> Iterator[tuple[int, int, int]]:
        """Number, offset and length of runs of the acquired ones from a number on, as far as there are any."""
        at, end = max(bisect_right(self._numbers, number) - 1, 0), number + length
        for each in self.ranges[at:]:
            first, last = max(number, each.number), min(end, each.number + each.length)
            if each.number >= end:
                return
            if first < last:
                yield first, each.first + first - each.number, last - first


class Acquired:
    """What both sides have acquired."""

    def __init__(self) -> None:
        self._recorded, self._target = _Side(), _Side()

    def recorded(self, first: int, last: int) -> None:
        """The recording acquired these offsets."""
        self._recorded.add(first, last)

    def target(self, first: int, last: int) -> None:
        """The target acquired these."""
        self._target.add(first, last)

    def runs(self, first: int, last: int) -> list[Run]:
        """Where the target has recorded offsets, in their order; those that it has not acquired are left out."""
        found: list[Run] = []
        open_ = [(first, last)]
        for each in reversed(self._recorded.ranges):
            if not open_:
                break
            open_ = [part for asked in open_ for part in self._take(each, asked, found)]
        return sorted(found)

    def _take(self, acquired: _Range, asked: tuple[int, int], found: list[Run]) -> Iterator[tuple[int, int]]:
        """Adds what a range has of the offsets that are asked for; what else was asked."""
        first, last = max(acquired.first, asked[0]), min(acquired.last, asked[1])
        if first > last:
            yield asked
            return
        number = acquired.number + first - acquired.first
        for at, target, length in self._target.runs(number, last - first + 1):
            found.append(Run(acquired.first + at - acquired.number, target, length))
        if asked[0] < first:
            yield asked[0], first - 1
        if last < asked[1]:
            yield last + 1, asked[1]

"""Differences between the target's and the recorded offsets of one partition, from both answers to each Produce.

A pair of offsets holds from its recorded offset up to the next pair's; the first one also below. A pair with the same
difference as the one before is dropped, except recent ones: answers to several producers come in any order, so another
pair may still come between the two. Memory: 10,000 pairs; beyond that, every second one of the older half is dropped.

Batches of several producers may stand in another order on the target. A record is then where its own pair says. A
boundary between two records is not: a consumer that reads on from it must find all that the recording has behind it.

    recorded   A0 A1 | B2 B3        boundary 2, before B, is 0 on the target: A follows there
    target     B0 B1   A2 A3        boundary 4, behind both, is 4
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

MOST = 10_000
# Recent pairs, which are never dropped: as many as many producers' batches in flight.
RECENT = 64


class Differences:
    """The pairs of offsets of one partition. `beginning`: the first pair. A later pair may replace it for the record,
    not for the boundary.
    """

    def __init__(self, beginning: tuple[int, int] | None = None) -> None:
        self._offsets: list[int] = []
        self._differences: list[int] = []
        self._lengths: list[int] = []
        self._beginning = beginning
        if beginning:
            self.add(*beginning)

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, recorded: int, target: int, length: int = 0) -> None:
        """Adds the offset of batches on both sides. A later pair of a recorded offset replaces the earlier one.

        `length`: the number of offsets that the batches take; 0: unknown.
        """
        at = bisect_left(self._offsets, recorded)
        if at < len(self) and self._offsets[at] == recorded:
            self._differences[at], self._lengths[at] = target - recorded, length
            return
        self._offsets.insert(at, recorded)
        self._differences.insert(at, target - recorded)
        self._lengths.insert(at, length)
        self._drop_if_same(min(at, len(self) - RECENT))
        if len(self) > MOST:
            self._sample()

    def target(self, recorded: int) -> int | None:
        """The target's offset of a recorded record; None without a pair."""
        if not self._offsets:
            return None
        at = bisect_right(self._offsets, recorded) - 1
        return recorded + self._differences[max(0, at)]

    def behind_earlier(self, recorded: int) -> int | None:
        """Where the target has all that the recording has before a record, and at least where it has the record.

        None without a pair.
        """
        nearest = self.target(recorded)
        if nearest is None or recorded <= self._offsets[0]:
            # no pair is below
            return nearest
        return max([nearest, *self._ends(recorded, self._around(recorded))])

    def end(self) -> int:
        """Where the last records of recent pairs end on the target; there is a pair."""
        recent = range(max(len(self) - RECENT, 0), len(self))
        return max(self._offsets[each] + self._differences[each] + self._lengths[each] for each in recent)

    def first_gap(self) -> int | None:
        """Where the target's offsets between recent pairs begin of which none tells; None if there are none."""
        recent = range(max(len(self) - RECENT, 0), len(self))
        starts = sorted((self._offsets[each] + self._differences[each], self._lengths[each]) for each in recent)
        behind = ((start + length, following) for (start, length), (following, _) in pairwise(starts) if length)
        return next((end for end, following in behind if end < following), None)

    def boundary(self, recorded: int) -> int | None:
        """Where the target has all that the recording has from an offset on; None without a pair."""
        found = self._behind(recorded)
        at = bisect_right(self._offsets, recorded) - 1
        if found is None or at < 0 or recorded >= self._offsets[at] + self._lengths[at]:
            return found
        # inside batches, whose rest may stand before all that follow in the recording
        return min(found, recorded + self._differences[at])

    def _behind(self, recorded: int) -> int | None:
        """The boundary, if no batch has records on both sides of the offset."""
        if self._beginning and recorded <= self._beginning[0]:
            return self._beginning[1] + recorded - self._beginning[0]
        nearest = self.target(recorded)
        at = bisect_left(self._offsets, recorded)
        around = self._around(recorded)
        targets = [*self._targets(around)]
        lowest = min(targets[at - around.start :], default=None)
        if nearest is None or targets == sorted(targets):
            return nearest
        ends = self._ends(recorded, around)
        if lowest is None:
            return max(ends)
        return min(max([nearest, *ends]), lowest)

    def _around(self, recorded: int) -> range:
        """The pairs near an offset."""
        at = bisect_left(self._offsets, recorded)
        return range(max(at - RECENT, 0), min(at + RECENT, len(self)))

    def _targets(self, numbers: Iterable[int]) -> Iterator[int]:
        """The target's offsets of these pairs."""
        return (self._offsets[each] + self._differences[each] for each in numbers)

    def _ends(self, recorded: int, around: range) -> list[int]:
        """Where those of the pairs end that are below an offset."""
        in_order = sorted(self._targets(around))
        return [self._end(each, recorded, in_order) for each in around if self._offsets[each] < recorded]

    def _end(self, number: int, recorded: int, in_order: list[int]) -> int:
        """Where a pair ends on the target: where it ends in the recording, or another one begins."""
        start = self._offsets[number] + self._differences[number]
        behind = min([recorded, *self._offsets[number + 1 : number + 2]])
        following = in_order[bisect_right(in_order, start) :][:1]
        return min([behind + self._differences[number], *following])

    def _drop_if_same(self, at: int) -> None:
        if at > 0 and self._differences[at] == self._differences[at - 1]:
            self._lengths[at - 1] = self._offsets[at] + self._lengths[at] - self._offsets[at - 1]
            del self._offsets[at], self._differences[at], self._lengths[at]

    def _sample(self) -> None:
        half = MOST // 2
        self._offsets[:half] = self._offsets[:half:2]
        self._differences[:half] = self._differences[:half:2]
        self._lengths[:half] = self._lengths[:half:2]

"""Two streams of records matched with each other, whichever comes first: recorded ones, and those of the target.

A record waits, as a number (`digests`), until its like comes from the other side. So it doesn't matter how either side
cuts its records into answers, nor how far one is ahead. Each side counts its records; a pair of positions that is out
of order with an earlier pair of the same producer is reordered. (Producers without an id can't be told apart, and the
records of two producers may mix in any way.)

Too many that wait become sums: the matching then knows whether all were equal, but no more which were not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntEnum

from recorder.replay.consumers.digests import MASK, without_time

# An entry is one integer, since millions may wait: position, producer's number, timestamp.
_POSITION_BITS, _PRODUCER_BITS = 48, 32
_POSITION, _PRODUCER = (1 << _POSITION_BITS) - 1, (1 << _PRODUCER_BITS) - 1
_TIME_FROM = _POSITION_BITS + _PRODUCER_BITS
_TIME_SIGN = 1 << 63
# of records whose producer has no id
NO_PRODUCER = 0


class Side(IntEnum):
    """Where a record comes from."""

    RECORDED = 0
    REPLAYED = 1


class Waiting:
    """The records of one side that wait, by number; those of one number in their order."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        # further ones of the same number, which are rare
        self._further: dict[int, deque[int]] = {}
        self.count = 0

    def put(self, number: int, entry: int) -> None:
        """Adds one that waits."""
        self.count += 1
        if number in self._first:
            self._further.setdefault(number, deque()).append(entry)
        else:
            self._first[number] = entry

    def take(self, number: int) -> int | None:
        """The one of this number that waits longest; None if none does."""
        entry = self._first.pop(number, None)
        if entry is None:
            return None
        self.count -= 1
        further = self._further.get(number)
        if further:
            self._first[number] = further.popleft()
            if not further:
                del self._further[number]
        return entry

    def in_order(self) -> list[tuple[int, int]]:
        """Numbers and entries, by position."""
        return sorted(self, key=lambda waiting: waiting[1] & _POSITION)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        yield from self._first.items()
        for number, entries in self._further.items():
            yield from ((number, entry) for entry in entries)


class Matching:
    """The records of one stream, of both sides."""

    def __init__(self) -> None:
        self.waiting = (Waiting(), Waiting())
        self.counts = [0, 0]
        self.equal = self.reordered = 0
        # surplus of recorded records, and of their numbers: once the waiting ones became sums
        self.sums: tuple[int, int] | None = None
        self._sums_numbers = True
        self._last_equal = -1  # position on the target
        # producer's number -> the last positions that were equal, on both sides
        self._last_of: dict[int, tuple[int, int]] = {}

    def add(self, side: Side, number: int, timestamp: int, producer: int) -> None:
        """Takes the next record of a side.

        Args: producer: a number of the recording's own, for recorded ones; NO_PRODUCER otherwise.
        """
        position = self.counts[side]
        self.counts[side] += 1
        if self.sums is not None:
            self._add_to_sums(side, number)
            return
        entry = _entry(position, producer, timestamp)
        other = self.waiting[1 - side].take(number)
        if other is None:
            self.waiting[side].put(number, entry)
        else:
            self._pair(*((entry, other) if side is Side.RECORDED else (other, entry)))

    def _pair(self, recorded: int, replayed: int) -> None:
        self.equal += 1
        here, there = recorded & _POSITION, replayed & _POSITION
        self._last_equal = max(self._last_equal, there)
        producer = recorded >> _POSITION_BITS & _PRODUCER
        if producer != NO_PRODUCER:
            # One of both came just now and is the last of its side, so its partner must be as well.
            last_here, last_there = self._last_of.get(producer, (-1, -1))
            self.reordered += here < last_here or there < last_there
            self._last_of[producer] = max(here, last_here), max(there, last_there)

    @property
    def waiting_count(self) -> int:
        """Records of both sides that wait."""
        return self.waiting[0].count + self.waiting[1].count

    @property
    def owed(self) -> int:
        """Recorded records that the target has not given."""
        return self.waiting[Side.RECORDED].count if self.sums is None else max(0, self.sums[0])

    @property
    def ahead(self) -> int:
        """The target's records that the recording has not given."""
        return self.waiting[Side.REPLAYED].count if self.sums is None else max(0, -self.sums[0])

    @property
    def extra(self) -> int:
        """The target's records that the recording lacks. Those behind the last equal one count as read ahead."""
        if self.sums is None:
            waiting = (entry & _POSITION for _, entry in self.waiting[Side.REPLAYED])
            return sum(place < self._last_equal for place in waiting)
        return int(self.is_unlike)

    @property
    def is_unlike(self) -> bool:
        """True if sums say that as many records of both sides are not the same."""
        return self.sums is not None and self.sums[0] == 0 and self.sums[1] != 0

    def forget_times(self) -> None:
        """Renumbers what waits: the timestamps of one side turned out to be its brokers'."""
        if self.sums is not None:
            # the sum of times is in it and can't be taken out
            self.sums, self._sums_numbers = (self.sums[0], 0), False
            return
        waited = self.waiting
        self.waiting = (Waiting(), Waiting())
        for number, entry in waited[Side.RECORDED].in_order():
            self.waiting[Side.RECORDED].put(without_time(number, _timestamp(entry)), entry)
        for number, entry in waited[Side.REPLAYED].in_order():
            timeless = without_time(number, _timestamp(entry))
            recorded = self.waiting[Side.RECORDED].take(timeless)
            if recorded is None:
                self.waiting[Side.REPLAYED].put(timeless, entry)
            else:
                self._pair(recorded, entry)

    def sum_up(self) -> None:
        """Makes sums of what waits."""
        numbers = [sum(number for number, _ in side) for side in self.waiting]
        self.sums = self._surplus(), numbers[Side.RECORDED] - numbers[Side.REPLAYED] & MASK
        self.waiting = (Waiting(), Waiting())
        self._last_of.clear()

    def _add_to_sums(self, side: Side, number: int) -> None:
        _, numbers = self.sums or (0, 0)
        signed = number if side is Side.RECORDED else -number
        self.sums = self._surplus(), numbers + signed & MASK if self._sums_numbers else 0
        self.equal = min(self.counts) - self.is_unlike

    def _surplus(self) -> int:
        return self.counts[Side.RECORDED] - self.counts[Side.REPLAYED]


def _entry(position: int, producer: int, timestamp: int) -> int:
    return (timestamp + _TIME_SIGN << _TIME_FROM) | (producer & _PRODUCER) << _POSITION_BITS | position


def _timestamp(entry: int) -> int:
    return (entry >> _TIME_FROM) - _TIME_SIGN

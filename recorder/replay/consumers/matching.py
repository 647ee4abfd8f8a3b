"""Matches two streams of records, the recorded one and the target's, whichever is ahead.

A record waits, as a number (`digests`), until an equal one comes from the other side. So it doesn't matter how either
side cuts its records into answers, nor how far one is ahead. Each side counts its records. A pair of positions that is
out of order with an earlier pair of the same producer is reordered. (Producers without an id can't be told apart, and
records of two producers may mix in any way.)

Recorded records from before the recording are not owed: they are equal if the target gives them, and else they are only
counted. An equal record of the target counts for a record that is owed first.

When too many records wait, only sums of them are kept: they tell whether all were equal, not which were not.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from enum import IntEnum

from recorder.replay.consumers.digests import MASK, without_time

# an entry is one integer, since millions may wait: timestamp, offset, producer's number, position
_POSITION_BITS, _PRODUCER_BITS, _OFFSET_BITS = 48, 32, 64
_POSITION, _PRODUCER, _OFFSET = ((1 << bits) - 1 for bits in (_POSITION_BITS, _PRODUCER_BITS, _OFFSET_BITS))
_OFFSET_FROM = _POSITION_BITS + _PRODUCER_BITS
_TIME_FROM = _OFFSET_FROM + _OFFSET_BITS
_TIME_SIGN = 1 << 63
# the number of producers without id
NO_PRODUCER = 0
# in place of a producer: a record of the target before the one that its consumer began with
EARLIER = 1


class Side(IntEnum):
    """The side that a record comes from."""

    RECORDED = 0
    REPLAYED = 1


_OTHER = {Side.RECORDED: Side.REPLAYED, Side.REPLAYED: Side.RECORDED}


class WaitingRecords:
    """Records of one side that wait, by number; those of one number in order."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        # further ones of the same number, which are rare
        self._further: dict[int, deque[int]] = {}
        self.count = 0

    def put(self, number: int, entry: int) -> None:
        """Adds a record that waits."""
        self.count += 1
        if number in self._first:
            self._further.setdefault(number, deque()).append(entry)
        else:
            self._first[number] = entry

    def take(self, number: int) -> int | None:
        """The record with this number that has waited longest; None if there is none."""
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
        self.waiting = (WaitingRecords(), WaitingRecords())
        self.counts = [0, 0]
        self.equal = self.reordered = 0
        # once sums are kept: surplus of recorded records, and of their numbers
        self.sums: tuple[int, int] | None = None
        self._sums_numbers = True
        self._last_equal = -1  # the target's position
        self._earlier = 0  # such records that wait
        # how many of them had an equal one, by number
        self._equal_earlier = Counter[int]()
        # recorded records from before the recording: those that wait, all, those with an equal one, and these by number
        self._before = WaitingRecords()
        self._all_before = self._met_before = 0
        self._equal_before = Counter[int]()
        # producer's number -> its last equal positions, on both sides
        self._last_of: dict[int, tuple[int, int]] = {}

    def add(
        self, side: Side, number: int, timestamp: int, producer: int, offset: int = 0, *, is_before: bool = False
    ) -> None:
        """Takes the next record of a side.

        Args:
            producer: a number for a recorded record's producer; NO_PRODUCER or EARLIER for the target's records.
            offset: the record's, on its side.
            is_before: a recorded record is from before the recording.
        """
        position = self.counts[side]
        self.counts[side] += 1
        self._all_before += is_before
        if self.sums is not None:
            if not is_before:
                self._add_to_sums(side, number)
            return
        entry = _entry(position, producer, timestamp, offset)
        other = self._other(side, number)
        if is_before:
            self._add_before(number, entry, other)
        elif other is None and side is Side.RECORDED and self._equal_before[number]:
            # its equal one was taken for a record from before
            self._meet_before(number, -1)
        elif other is None:
            self.waiting[side].put(number, entry)
            self._earlier += _is_earlier(side, entry)
        else:
            self._earlier -= _is_earlier(_OTHER[side], other)
            self._pair(number, *((entry, other) if side is Side.RECORDED else (other, entry)))

    def _other(self, side: Side, number: int) -> int | None:
        """The equal record of the other side; None if none waits."""
        found = self.waiting[1 - side].take(number)
        if found is None and side is Side.REPLAYED:
            found = self._before.take(number)
            if found is not None:
                self._meet_before(number, 1)
        return found

    def _add_before(self, number: int, entry: int, other: int | None) -> None:
        if other is None:
            self._before.put(number, entry)
        else:
            self._meet_before(number, 1)
            self._earlier -= _is_earlier(Side.REPLAYED, other)
            self._pair(number, entry, other)

    def _meet_before(self, number: int, more: int) -> None:
        self._met_before += more
        self._equal_before[number] += more
        if not self._equal_before[number]:
            del self._equal_before[number]

    def _pair(self, number: int, recorded: int, replayed: int) -> None:
        self.equal += 1
        if _is_earlier(Side.REPLAYED, replayed):
            self._equal_earlier[number] += 1
        here, there = recorded & _POSITION, replayed & _POSITION
        self._last_equal = max(self._last_equal, there)
        producer = recorded >> _POSITION_BITS & _PRODUCER
        if producer != NO_PRODUCER:
            # One of the two came just now and is the last of its side, so the other must be as well.
            last_here, last_there = self._last_of.get(producer, (-1, -1))
            self.reordered += here < last_here or there < last_there
            self._last_of[producer] = max(here, last_here), max(there, last_there)

    @property
    def waiting_count(self) -> int:
        """Records of both sides that wait."""
        return self.waiting[0].count + self.waiting[1].count + self._before.count

    @property
    def before(self) -> int:
        """Recorded records from before the recording that the target has not given."""
        return self._all_before - self._met_before

    @property
    def owed(self) -> int:
        """Recorded records that the target has not given."""
        return self.waiting[Side.RECORDED].count if self.sums is None else max(0, self.sums[0])

    @property
    def ahead(self) -> int:
        """The target's records that the recording has not given."""
        return self.waiting[Side.REPLAYED].count - self._earlier if self.sums is None else max(0, -self.sums[0])

    def extra(self, stopped_at: int | None = None) -> int:
        """The target's records that the recording lacks. Those behind the last equal one count as read ahead.

        A record with an equal earlier one is not extra if that one is the counterpart of a recorded record.

        Args:
            stopped_at: the target's offset from which on the recorded consumer has not read; None: unknown.
        """
        if self.sums is not None:
            return int(self.is_unlike)
        waiting = Counter(
            number
            for number, entry in self.waiting[Side.REPLAYED]
            if not _is_earlier(Side.REPLAYED, entry)
            and entry & _POSITION < self._last_equal
            and (stopped_at is None or _offset(entry) < stopped_at)
        )
        return (waiting - self._equal_earlier).total()

    @property
    def is_unlike(self) -> bool:
        """True if both sides have as many records, but by their sums not the same ones."""
        return self.sums is not None and self.sums[0] == 0 and self.sums[1] != 0

    def forget_times(self) -> None:
        """Compares without timestamps from now on: a broker has set those of one side. Renumbers what waits."""
        if self.sums is not None:
            # the timestamps in the sum can't be subtracted
            self.sums, self._sums_numbers = (self.sums[0], 0), False
            return
        waited = self.waiting
        self.waiting = (WaitingRecords(), WaitingRecords())
        self._equal_earlier.clear()
        self._equal_before.clear()
        before, self._before = self._before, WaitingRecords()
        for kept, found in ((waited[Side.RECORDED], self.waiting[Side.RECORDED]), (before, self._before)):
            for number, entry in kept.in_order():
                found.put(without_time(number, _timestamp(entry)), entry)
        for number, entry in waited[Side.REPLAYED].in_order():
            timeless = without_time(number, _timestamp(entry))
            recorded = self._other(Side.REPLAYED, timeless)
            if recorded is None:
                self.waiting[Side.REPLAYED].put(timeless, entry)
            else:
                self._earlier -= _is_earlier(Side.REPLAYED, entry)
                self._pair(timeless, recorded, entry)

    def sum_up(self) -> None:
        """Keeps only sums of the records that wait. Those from before the recording are only counted from now on."""
        self._before = WaitingRecords()
        self._equal_before.clear()
        numbers = [sum(number for number, _ in side) for side in self.waiting]
        self.sums = self._surplus(), numbers[Side.RECORDED] - numbers[Side.REPLAYED] & MASK
        self.waiting = (WaitingRecords(), WaitingRecords())
        self._last_of.clear()

    def _add_to_sums(self, side: Side, number: int) -> None:
        _, numbers = self.sums or (0, 0)
        signed = number if side is Side.RECORDED else -number
        self.sums = self._surplus(), numbers + signed & MASK if self._sums_numbers else 0
        self.equal = min(self.counts[Side.RECORDED] - self.before, self.counts[Side.REPLAYED]) - self.is_unlike

    def _surplus(self) -> int:
        return self.counts[Side.RECORDED] - self.before - self.counts[Side.REPLAYED]


def _entry(position: int, producer: int, timestamp: int, offset: int) -> int:
    time, place = timestamp + _TIME_SIGN << _TIME_FROM, (offset & _OFFSET) << _OFFSET_FROM
    return time | place | (producer & _PRODUCER) << _POSITION_BITS | position


def _offset(entry: int) -> int:
    return entry >> _OFFSET_FROM & _OFFSET


def _is_earlier(side: Side, entry: int) -> bool:
    return side is Side.REPLAYED and entry >> _POSITION_BITS & _PRODUCER == EARLIER


def _timestamp(entry: int) -> int:
    return (entry >> _TIME_FROM) - _TIME_SIGN

"""What one connection keeps back: entries of the log to be, with what is masked and left out of them.

Whatever a peer sends, the work grows with the bytes alone: what may be written is taken from the front of a queue, what
is to be masked is found from its end, and spans come and stay in the order of the stream. There is a queue for the
bytes of each direction, because bytes that can't be told yet hold up only their own direction, and one for facts.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from operator import itemgetter

from recorder.capture.spool import EntryKind, Item

# what an entry takes beyond its bytes: the object (104), its numbers (96), the head of the bytes object (40), its place
# in a queue (8). CPython 3.11 on 64 bits. Who sends byte by byte must not fill the memory
PENDING_COST = 248
# a stream offset that no stream reaches
NOWHERE = 1 << 62

# start and stop, in offsets of the stream
Stretch = tuple[int, int]
_start, _stop = itemgetter(0), itemgetter(1)


class PendingEntry:
    """An entry to be. `before`: facts about its bytes, to be written first. `number`: its place among all that came."""

    __slots__ = ("at_ns", "before", "data", "direction", "kind", "left_out", "masks", "number", "offset")

    def __init__(self, kind: int, direction: int, offset: int, at_ns: int, data: bytes | bytearray) -> None:
        self.kind = kind
        self.direction = direction
        self.offset = offset
        self.at_ns = at_ns
        self.data = data
        self.number = 0
        # mostly there are none
        self.before: Sequence[PendingEntry] = ()
        self.masks: Sequence[Stretch] = ()
        self.left_out: Sequence[Stretch] = ()

    @property
    def end(self) -> int:
        """The stream offset behind its last byte."""
        return self.offset + len(self.data)

    @property
    def cost(self) -> int:
        """The memory it takes, its facts included."""
        return len(self.data) + PENDING_COST + sum(fact.cost for fact in self.before)

    def mask(self, start: int, stop: int) -> None:
        """Has masked what lies in this entry of the stream from `start` to `stop`. Called in the stream's order."""
        self.masks = self._with(self.masks, start, stop)

    def leave_out(self, start: int, stop: int) -> None:
        """Has left out what lies in this entry of the stream from `start` to `stop`. Called in the stream's order."""
        self.left_out = self._with(self.left_out, start, stop)

    def _with(self, stretches: Sequence[Stretch], start: int, stop: int) -> Sequence[Stretch]:
        """Stretches that touch become one; so does what lies between them and one that is out of order."""
        start, stop = max(start, self.offset), min(stop, self.end)
        if start >= stop:
            return stretches
        found = stretches if isinstance(stretches, list) else []
        while found and start <= found[-1][1]:
            first, last = found.pop()
            start, stop = min(start, first), max(stop, last)
        found.append((start, stop))
        return found

    def note(self, fact: PendingEntry) -> None:
        """Has a fact written before it, behind the others."""
        if not isinstance(self.before, list):
            self.before = []
        self.before.append(fact)

    def split(self, at: int) -> tuple[PendingEntry, PendingEntry]:
        """What stands before stream offset `at`, with the facts, and what stands behind it."""
        front, rest = self._part(self.offset, at), self._part(at, self.end)
        front.number = rest.number = self.number
        front.before = self.before
        return front, rest

    def _part(self, start: int, stop: int) -> PendingEntry:
        data = self.data[start - self.offset : stop - self.offset]
        part = PendingEntry(self.kind, self.direction, start, self.at_ns, data)
        part.masks = _within(self.masks, start, stop)
        part.left_out = _within(self.left_out, start, stop)
        return part

    def items(self, connection: int) -> Iterator[Item]:
        """As it is written: its facts, bytes, and the lengths of what is left out between them."""
        for fact in self.before:
            yield from fact.items(connection)
        at = self.offset
        for start, stop in self.left_out:
            if at < start:
                yield self._item(connection, at, start)
            length = json.dumps({"length": stop - start}).encode()
            yield int(EntryKind.OMITTED), self.direction, connection, start, self.at_ns, length, ()
            at = stop
        if at < self.end or not self.left_out:
            yield self._item(connection, at, self.end)

    def _item(self, connection: int, start: int, stop: int) -> Item:
        """A stretch of it: zeros where it is masked."""
        data = bytes(self.data[start - self.offset : stop - self.offset])
        spans = tuple((first - start, last - first) for first, last in _within(self.masks, start, stop))
        if spans:
            data = _blanked(data, spans)
        return self.kind, self.direction, connection, start, self.at_ns, data, spans


def _within(stretches: Sequence[Stretch], start: int, stop: int) -> list[Stretch]:
    """What of these stretches, which are in order, lies between two offsets."""
    first = bisect_right(stretches, start, key=_stop)
    last = bisect_left(stretches, stop, key=_start)
    return [(max(one, start), min(other, stop)) for one, other in stretches[first:last]]


def _blanked(data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    blanked = bytearray(data)
    for start, length in spans:
        blanked[start : start + length] = bytes(length)
    return bytes(blanked)


class Backlog:
    """What has arrived on a connection and has not been written, in the order of arrival."""

    def __init__(self) -> None:
        # bytes of each direction
        self._streams: tuple[deque[PendingEntry], deque[PendingEntry]] = (deque(), deque())
        # entries that are no bytes
        self._facts: deque[PendingEntry] = deque()
        self._arrived = 0
        self.cost = 0

    def __len__(self) -> int:
        return sum(map(len, (*self._streams, self._facts)))

    def add(self, kept: PendingEntry) -> None:
        """The newest entry."""
        self._arrived += 1
        kept.number = self._arrived
        (self._streams[kept.direction] if kept.kind == EntryKind.BYTES else self._facts).append(kept)
        self.cost += kept.cost

    def note(self, fact: PendingEntry) -> None:
        """A fact about what stands at its offset: before the bytes from there on, of which some may be here already."""
        about = self.since(fact.direction, fact.offset)
        if about:
            about[0].note(fact)
            self.cost += fact.cost
        else:
            self.add(fact)

    def split(self, direction: int, at: int) -> None:
        """Makes two entries of the newest one of a direction if stream offset `at` lies within it."""
        stream = self._streams[direction]
        if stream[-1].offset < at < stream[-1].end:
            newest = stream.pop()
            parts = newest.split(at)
            stream += parts
            self.cost += sum(part.cost for part in parts) - newest.cost

    def newest(self, direction: int) -> PendingEntry:
        """The newest bytes of a direction. Raises IndexError where there are none."""
        return self._streams[direction][-1]

    def since(self, direction: int, start: int) -> list[PendingEntry]:
        """The bytes of a direction from the entry on that holds stream offset `start`. It takes as long as they are."""
        found: list[PendingEntry] = []
        for kept in reversed(self._streams[direction]):
            if kept.end <= start:
                break
            found.append(kept)
            if kept.offset <= start:
                break
        found.reverse()
        return found

    def mask(self, direction: int, stretches: Sequence[Stretch]) -> None:
        """Has masked what is here of these stretches of a direction, which are in order."""
        if not stretches:
            return
        at = 0
        for kept in self.since(direction, stretches[0][0]):
            while at < len(stretches) and stretches[at][0] < kept.end:
                kept.mask(*stretches[at])
                if stretches[at][1] > kept.end:
                    # it goes on in the next one
                    break
                at += 1

    def leave_out(self, direction: int, start: int, stop: int) -> None:
        """Has left out what is here of a direction from `start` to `stop`."""
        for kept in self.since(direction, start):
            kept.leave_out(start, stop)

    def join(self, direction: int, start: int) -> None:
        """Makes one entry of the two newest of a direction if both stand behind `start`, where one frame begins.

        Nobody asks when the pieces of a frame came, other than its first and its last one.
        """
        stream = self._streams[direction]
        if len(stream) < 2 or stream[-2].offset < start:
            return
        newest = stream.pop()
        joined = stream[-1]
        if isinstance(joined.data, bytes):
            joined.data = bytearray(joined.data)
        joined.data += newest.data
        for fact in newest.before:
            joined.note(fact)
        for masked in newest.masks:
            joined.mask(*masked)
        for left_out in newest.left_out:
            joined.leave_out(*left_out)
        self.cost -= PENDING_COST

    def release(self, barriers: Sequence[int], holds_all: Sequence[bool]) -> Iterator[PendingEntry]:
        """Takes out what may be written, in the order of arrival.

        Args:
            barriers: for each direction, the stream offset from which on its bytes have to wait.
            holds_all: for each direction, whether all that came after those bytes waits with them.
        """
        while (queue := self._ready(barriers, holds_all)) is not None:
            kept = queue.popleft()
            self.cost -= kept.cost
            barrier = barriers[kept.direction]
            if kept.kind == EntryKind.BYTES and kept.end > barrier:
                kept, rest = kept.split(barrier)
                queue.appendleft(rest)
                self.cost += rest.cost
            yield kept

    def _ready(self, barriers: Sequence[int], holds_all: Sequence[bool]) -> deque[PendingEntry] | None:
        """The queue whose first entry is the next to be written."""
        found = self._facts or None
        until = NOWHERE
        for stream, barrier, holds in zip(self._streams, barriers, holds_all, strict=True):
            if not stream:
                continue
            if stream[0].offset < barrier:
                found = stream if found is None or stream[0].number < found[0].number else found
            elif holds:
                until = min(until, stream[0].number)
        return found if found is not None and found[0].number < until else None

    def clear(self) -> tuple[int | None, int | None]:
        """Forgets everything. Returns the offset of the first byte that was here, for each direction."""
        first = [stream[0].offset if stream else None for stream in self._streams]
        for queue in (*self._streams, self._facts):
            queue.clear()
        self.cost = 0
        return first[0], first[1]

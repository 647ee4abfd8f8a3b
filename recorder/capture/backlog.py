"""Entries of one connection that wait for the log: which of their bytes to mask or leave out is not known yet.

An entry holds bytes of a stream, or a fact, such as a login. There is a queue for the bytes of each direction, because
unclassified bytes hold up only their own direction, and one for facts. Whatever a peer sends, the work grows only as
its bytes do: entries leave at the front of a queue, masks apply to its end, and stretches come in stream order.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from operator import itemgetter

from recorder.capture.spool import EntryKind, Item

# memory of an entry beyond its bytes: the object (104), its numbers (96), the header of the bytes object (40), the
# pointer in a queue (8). CPython 3.11 on 64 bits. A peer that sends byte by byte must not fill the memory
PENDING_COST = 248
# an offset that no stream reaches
NOWHERE = 1 << 62

# start and stop, both offsets in the stream. A span, as the log has it, is (start in the entry, length)
Stretch = tuple[int, int]
_start, _stop = itemgetter(0), itemgetter(1)


class PendingEntry:
    """A future entry of the log. `before`: facts to write before its bytes. `number`: its rank in arrival order."""

    __slots__ = ("at_ns", "before", "data", "direction", "kind", "left_out", "masks", "number", "offset")

    def __init__(self, kind: int, direction: int, offset: int, at_ns: int, data: bytes | bytearray) -> None:
        self.kind = kind
        self.direction = direction
        self.offset = offset
        self.at_ns = at_ns
        self.data = data
        self.number = 0
        # mostly empty: a tuple until the first is added, because each empty list takes memory
        self.before: Sequence[PendingEntry] = ()
        self.masks: Sequence[Stretch] = ()
        self.left_out: Sequence[Stretch] = ()

    @property
    def end(self) -> int:
        """The stream offset after its last byte."""
        return self.offset + len(self.data)

    @property
    def cost(self) -> int:
        """Bytes of memory that the entry and its facts take."""
        return len(self.data) + PENDING_COST + sum(fact.cost for fact in self.before)

    def mask(self, start: int, stop: int) -> None:
        """Masks the stream from `start` to `stop`, as far as this entry holds it. Call in stream order."""
        self.masks = self._with(self.masks, start, stop)

    def leave_out(self, start: int, stop: int) -> None:
        """Leaves out the stream from `start` to `stop`, as far as this entry holds it. Call in stream order."""
        self.left_out = self._with(self.left_out, start, stop)

    def _with(self, stretches: Sequence[Stretch], start: int, stop: int) -> Sequence[Stretch]:
        """The stretches with one more; it is merged with all that end at its start or later, gaps included."""
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
        """Adds a fact, to be written before this entry's bytes and after its earlier facts."""
        if not isinstance(self.before, list):
            self.before = []
        self.before.append(fact)

    def split(self, at: int) -> tuple[PendingEntry, PendingEntry]:
        """The entry cut at stream offset `at`: the part before it, with the facts, and the part after it."""
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
        """The items to write: the facts, then the bytes, with an OMITTED item for each left-out stretch."""
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
        """The item of one stretch, with zeros in place of masked bytes."""
        data = bytes(self.data[start - self.offset : stop - self.offset])
        spans = tuple((first - start, last - first) for first, last in _within(self.masks, start, stop))
        if spans:
            data = _blanked(data, spans)
        return self.kind, self.direction, connection, start, self.at_ns, data, spans


def _within(stretches: Sequence[Stretch], start: int, stop: int) -> list[Stretch]:
    """The parts of these ordered stretches that lie between two offsets."""
    first = bisect_right(stretches, start, key=_stop)
    last = bisect_left(stretches, stop, key=_start)
    return [(max(one, start), min(other, stop)) for one, other in stretches[first:last]]


def _blanked(data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    blanked = bytearray(data)
    for start, length in spans:
        blanked[start : start + length] = bytes(length)
    return bytes(blanked)


class Backlog:
    """All entries of a connection that have not been written, in the order of arrival."""

    def __init__(self) -> None:
        # bytes of each direction
        self._streams: tuple[deque[PendingEntry], deque[PendingEntry]] = (deque(), deque())
        # facts that are entries of their own, in no other entry's `before`
        self._facts: deque[PendingEntry] = deque()
        self._arrived = 0
        self.cost = 0

    def __len__(self) -> int:
        return sum(map(len, (*self._streams, self._facts)))

    def add(self, pending: PendingEntry) -> None:
        """Adds the newest entry."""
        self._arrived += 1
        pending.number = self._arrived
        (self._streams[pending.direction] if pending.kind == EntryKind.BYTES else self._facts).append(pending)
        self.cost += pending.cost

    def note(self, fact: PendingEntry) -> None:
        """Adds a fact, to be written before the entry that holds its offset; if none does yet, as the newest entry."""
        entries = self.since(fact.direction, fact.offset)
        if entries:
            entries[0].note(fact)
            self.cost += fact.cost
        else:
            self.add(fact)

    def split(self, direction: int, at: int) -> None:
        """Cuts the newest entry of a direction in two if stream offset `at` lies within it."""
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
        """The entries of a direction from stream offset `start` on. Takes time proportional to their number."""
        found: list[PendingEntry] = []
        for pending in reversed(self._streams[direction]):
            if pending.end <= start:
                break
            found.append(pending)
            if pending.offset <= start:
                break
        found.reverse()
        return found

    def mask(self, direction: int, stretches: Sequence[Stretch]) -> None:
        """Masks these ordered stretches of a direction, as far as their bytes are here."""
        if not stretches:
            return
        at = 0
        for pending in self.since(direction, stretches[0][0]):
            while at < len(stretches) and stretches[at][0] < pending.end:
                pending.mask(*stretches[at])
                if stretches[at][1] > pending.end:
                    # the stretch goes on in the next entry
                    break
                at += 1

    def leave_out(self, direction: int, start: int, stop: int) -> None:
        """Leaves out a direction from `start` to `stop`, as far as its bytes are here."""
        for pending in self.since(direction, start):
            pending.leave_out(start, stop)

    def join(self, direction: int, start: int) -> None:
        """Joins the two newest entries of a direction if both belong to the unfinished frame that begins at `start`.

        The first piece's time is kept. Only a frame's first and last times are used, and its last piece is not joined.
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
        """Takes out the entries that may be written, in the order of arrival.

        Args:
            barriers: for each direction, the stream offset from which on its bytes must wait.
            holds_all: for each direction, whether all entries that arrived after those bytes wait with them.
        """
        while (queue := self._ready(barriers, holds_all)) is not None:
            pending = queue.popleft()
            self.cost -= pending.cost
            barrier = barriers[pending.direction]
            if pending.kind == EntryKind.BYTES and pending.end > barrier:
                pending, rest = pending.split(barrier)
                queue.appendleft(rest)
                self.cost += rest.cost
            yield pending

    def _ready(self, barriers: Sequence[int], holds_all: Sequence[bool]) -> deque[PendingEntry] | None:
        """The queue whose first entry is the next to be written; None: all entries must wait."""
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
        """Forgets all entries. Returns each direction's first kept-back offset; None where no bytes were kept back."""
        first = [stream[0].offset if stream else None for stream in self._streams]
        for queue in (*self._streams, self._facts):
            queue.clear()
        self.cost = 0
        return first[0], first[1]

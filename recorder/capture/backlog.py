"""Keeps back entries of one connection until it is known which of their bytes to mask or to leave out.

Used by `connection_recorder`. A bytes entry holds bytes of one direction; a control entry, for example a login, holds
none. Unclassified bytes hold up only their own direction, so each direction has a queue of bytes entries. A frame that
is searched for secrets holds up everything that arrived after it, in both directions (`holds_all`). A third queue holds
control entries. The work grows in proportion to the bytes, whatever a peer sends: entries leave at the front of a
queue, only entries at its end are masked, and stretches are added in stream order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from recorder.capture.spool import EntryKind, Item, Spans, Stretch, within, without

# memory of an entry beyond its bytes: the object (104), its numbers (96), the header of the bytes object (40), the
# pointer in a queue (8). CPython 3.11 on 64 bits. A peer that sends byte by byte must not fill the memory
PENDING_COST = 248
# an offset that no stream reaches
NOWHERE = 1 << 62

_CUT = int(EntryKind.CUT)


class PendingEntry:
    """A future entry of the log. `before`: control entries to write first. `number`: its rank in order of arrival."""

    __slots__ = ("at_ns", "before", "data", "direction", "dropped", "kind", "left_out", "masks", "number", "offset")

    def __init__(self, kind: int, direction: int, offset: int, at_ns: int, data: bytes | bytearray) -> None:
        self.kind = kind
        self.direction = direction
        self.offset = offset
        self.at_ns = at_ns
        self.data = data
        self.number = 0
        # tuples while they are empty, as most are, because each empty list takes memory
        self.before: Sequence[PendingEntry] = ()
        self.masks: Sequence[Stretch] = ()
        self.left_out: Sequence[Stretch] = ()
        # those of `left_out` that a rule for records leaves out stand here instead
        self.dropped: Sequence[Stretch] = ()

    @property
    def end(self) -> int:
        """The stream offset after the entry's last byte."""
        return self.offset + len(self.data)

    @property
    def cost(self) -> int:
        """Bytes of memory that this entry and the control entries before it take."""
        return len(self.data) + PENDING_COST + sum(entry.cost for entry in self.before)

    def mask(self, start: int, stop: int) -> None:
        """Masks the bytes from stream offset `start` to `stop` that this entry holds. Call in stream order."""
        self.masks = self._with(self.masks, start, stop)

    def leave_out(self, start: int, stop: int, *, are_records: bool = False) -> None:
        """Leaves out the bytes from stream offset `start` to `stop` that this entry holds. Call in stream order."""
        if are_records:
            self.dropped = self._with(self.dropped, start, stop)
        else:
            self.left_out = self._with(self.left_out, start, stop)

    def _with(self, stretches: Sequence[Stretch], start: int, stop: int) -> Sequence[Stretch]:
        """The stretches and a new one, which is merged with all that touch or overlap it: (0, 4) + (4, 6) -> (0, 6)."""
        start, stop = max(start, self.offset), min(stop, self.end)
        if start >= stop:
            return stretches
        merged = stretches if isinstance(stretches, list) else []
        while merged and start <= merged[-1][1]:
            first, last = merged.pop()
            start, stop = min(start, first), max(stop, last)
        merged.append((start, stop))
        return merged

    def add_before(self, control_entry: PendingEntry) -> None:
        """Adds a control entry, to be written before this entry's bytes and after the entries in `before`."""
        if not isinstance(self.before, list):
            self.before = []
        self.before.append(control_entry)

    def split(self, at: int) -> tuple[PendingEntry, PendingEntry]:
        """The two parts of this entry, cut at stream offset `at`. The first part has the control entries."""
        front, rest = self._part(self.offset, at), self._part(at, self.end)
        front.number = rest.number = self.number
        front.before = self.before
        return front, rest

    def _part(self, start: int, stop: int) -> PendingEntry:
        data = self.data[start - self.offset : stop - self.offset]
        part = PendingEntry(self.kind, self.direction, start, self.at_ns, data)
        part.masks = within(self.masks, start, stop)
        part.left_out = within(self.left_out, start, stop)
        part.dropped = within(self.dropped, start, stop)
        return part

    def items(self, connection: int) -> Iterator[Item]:
        """The items to write: the control entries, then the bytes, with an OMITTED item for each left-out stretch."""
        for control_entry in self.before:
            yield from control_entry.items(connection)
        at = self.offset
        for start, stop in self.left_out:
            if at < start:
                yield from self._items(connection, at, start)
            omitted = b'{"length":%d}' % (stop - start)
            yield int(EntryKind.OMITTED), self.direction, connection, start, self.at_ns, omitted, ()
            at = stop
        if at < self.end or at == self.offset:
            yield from self._items(connection, at, self.end)

    def _items(self, connection: int, start: int, stop: int) -> Iterator[Item]:
        """The items of one stretch: a CUT item for all of its bytes, or one for each dropped stretch beside others."""
        if not (self.dropped or self.masks):
            data = bytes(self.data[start - self.offset : stop - self.offset])
            yield self.kind, self.direction, connection, start, self.at_ns, data, ()
            return
        dropped, masks = within(self.dropped, start, stop), within(self.masks, start, stop)
        if dropped and not masks and self.kind == EntryKind.BYTES:
            yield self._item(_CUT, connection, start, stop, dropped)
            return
        for first, last in dropped:
            if start < first:
                yield self._item(self.kind, connection, start, first, within(masks, start, first))
            yield self._item(_CUT, connection, first, last, [(first, last)])
            start = last
        if start < stop or not dropped:
            yield self._item(self.kind, connection, start, stop, within(masks, start, stop))

    def _item(self, kind: int, connection: int, start: int, stop: int, stretches: Sequence[Stretch]) -> Item:
        """An item. `stretches`: zeros stand in place of these bytes; a CUT item lacks them."""
        data = bytes(self.data[start - self.offset : stop - self.offset])
        spans = tuple((first - start, last - first) for first, last in stretches)
        if spans:
            data = without(data, spans) if kind == _CUT else _blanked(data, spans)
        return kind, self.direction, connection, start, self.at_ns, data, spans


def _blanked(data: bytes, spans: Spans) -> bytes:
    blanked = bytearray(data)
    for start, length in spans:
        blanked[start : start + length] = bytes(length)
    return bytes(blanked)


class Backlog:
    """All entries of a connection that are kept back. `cost`: the bytes of memory that they take."""

    def __init__(self) -> None:
        # the bytes entries of each direction
        self._streams: tuple[deque[PendingEntry], deque[PendingEntry]] = (deque(), deque())
        # the control entries that are in no other entry's `before`
        self._control_entries: deque[PendingEntry] = deque()
        self._arrived = 0
        self.cost = 0

    def __len__(self) -> int:
        return sum(map(len, (*self._streams, self._control_entries)))

    def add(self, pending: PendingEntry) -> None:
        """Adds the newest entry."""
        self._arrived += 1
        pending.number = self._arrived
        (self._streams[pending.direction] if pending.kind == EntryKind.BYTES else self._control_entries).append(pending)
        self.cost += pending.cost

    def add_before_offset(self, control_entry: PendingEntry) -> None:
        """Adds a control entry before the bytes entry that holds its offset; if none does, as the newest entry."""
        entries = self.since(control_entry.direction, control_entry.offset)
        if entries:
            entries[0].add_before(control_entry)
            self.cost += control_entry.cost
        else:
            self.add(control_entry)

    def split(self, direction: int, at: int) -> None:
        """Cuts the newest bytes entry of a direction in two if stream offset `at` lies within it."""
        stream = self._streams[direction]
        if stream[-1].offset < at < stream[-1].end:
            newest = stream.pop()
            parts = newest.split(at)
            stream += parts
            self.cost += sum(part.cost for part in parts) - newest.cost

    def newest(self, direction: int) -> PendingEntry:
        """The newest bytes entry of a direction. Raises IndexError if there is none."""
        return self._streams[direction][-1]

    def since(self, direction: int, start: int) -> list[PendingEntry]:
        """The bytes entries of a direction from stream offset `start` on. Takes time in proportion to their number."""
        entries: list[PendingEntry] = []
        for pending in reversed(self._streams[direction]):
            if pending.end <= start:
                break
            entries.append(pending)
            if pending.offset <= start:
                break
        entries.reverse()
        return entries

    def mask(self, direction: int, stretches: Sequence[Stretch]) -> None:
        """Masks the bytes of these ordered stretches that are kept back."""
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

    def leave_out(self, direction: int, start: int, stop: int, *, are_records: bool = False) -> None:
        """Leaves out the kept-back bytes of a direction from stream offset `start` to `stop`."""
        for pending in self.since(direction, start):
            pending.leave_out(start, stop, are_records=are_records)

    def join(self, direction: int, start: int) -> None:
        """Joins the two newest bytes entries of a direction if both belong to the waiting frame that begins at `start`.

        Only the times of a frame's first and last byte are used later. The joined entry has the time of the first byte.
        The entry with the last byte stays apart, because `start` is no longer that frame's.
        """
        stream = self._streams[direction]
        if len(stream) < 2 or stream[-2].offset < start:
            return
        newest = stream.pop()
        joined = stream[-1]
        if isinstance(joined.data, bytes):
            joined.data = bytearray(joined.data)
        joined.data += newest.data
        for control_entry in newest.before:
            joined.add_before(control_entry)
        for masked in newest.masks:
            joined.mask(*masked)
        for left_out in newest.left_out:
            joined.leave_out(*left_out)
        for dropped in newest.dropped:
            joined.leave_out(*dropped, are_records=True)
        self.cost -= PENDING_COST

    def release(self, barriers: Sequence[int], holds_all: Sequence[bool]) -> Iterator[PendingEntry]:
        """Takes out the entries that may be written, the oldest first.

        Args:
            barriers: for each direction, the stream offset from which on its bytes must wait.
            holds_all: for each direction, True if its waiting bytes also hold up all later entries, of the other
                direction and control entries too (a frame that is searched for secrets).
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
        """The queue whose first entry is the next to be written; None if all entries must wait."""
        first = self._control_entries or None
        waits_from = NOWHERE
        for stream, barrier, holds in zip(self._streams, barriers, holds_all, strict=True):
            if not stream:
                continue
            if stream[0].offset < barrier:
                first = stream if first is None or stream[0].number < first[0].number else first
            elif holds:
                waits_from = min(waits_from, stream[0].number)
        return first if first is not None and first[0].number < waits_from else None

    def clear(self) -> tuple[int | None, int | None]:
        """Removes all entries. Returns the stream offset of each direction's first byte; None where there was none."""
        first = [stream[0].offset if stream else None for stream in self._streams]
        for queue in (*self._streams, self._control_entries):
            queue.clear()
        self.cost = 0
        return first[0], first[1]

"""One TCP connection's segments -> the bytes of both directions, in order. Sans-IO; knows no Kafka.

Segments may come twice, overlap, come late, or never. A direction's bytes are handed on in their order, and after the
bytes of the opposite direction that their sender had acknowledged: so a response never comes before its request,
whatever the order in the dump.

Bytes that the dump lacks hold up both directions for a while, because a later packet may bring them. They count as lost
once enough has come without them: sooner if the peer has acknowledged them, which a sender does not send again.

Offsets count a direction's bytes from 0, the first one that is known of: behind the SYN, or the first that is seen of a
connection that is older than the dump. Sequence numbers, which wrap around, are made offsets at once.
Source: RFC 9293.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from proxy.conversation import Direction
from recorder.pcap.layers import ACK, FIN, SYN, Segment
from recorder.pcap.pool import Pool

_WRAP = 1 << 32
# no window is larger: a segment further away is another connection's, whose SYN is not in the dump
FARTHEST = 1 << 30
# memory of a segment that waits, beyond its bytes
_COST = 300
# how long lost bytes are waited for: packets of the connection, and ns, if the peer has acknowledged them; if not
_SEEN = 64, 10**9
_UNSEEN = 4096, 30 * 10**9


class Piece(NamedTuple):
    """What comes next in a direction: bytes; or `lost` bytes that the dump lacks; or neither, which is its end."""

    direction: Direction
    at_ns: int
    data: bytes = b""
    lost: int = 0


class _Waiting(NamedTuple):
    """A segment that waits.

    `offset`: of its first byte. `needs`: how many bytes of the opposite direction its sender had.
    """

    offset: int
    number: int
    at_ns: int
    needs: int
    data: bytes
    missing: int
    is_last: bool


class _Half:
    """One direction. `offset`: of the next byte; `acknowledged`: up to which offset the peer has acknowledged it."""

    __slots__ = ("acknowledged", "first", "has_ended", "number", "offset", "waiting")

    def __init__(self) -> None:
        # the sequence numbers of the first byte, and of the next one
        self.first: int | None = None
        self.number: int | None = None
        self.offset = 0
        self.acknowledged = 0
        self.has_ended = False
        self.waiting: list[_Waiting] = []

    def begin(self, number: int) -> None:
        if self.number is None:
            self.first = self.number = number % _WRAP

    def distance(self, number: int) -> int:
        """How far a sequence number is behind the next byte; below 0: before it."""
        ahead = (number - (self.number or 0)) % _WRAP
        return ahead - _WRAP if ahead >= _WRAP // 2 else ahead

    def go_on(self, count: int) -> None:
        self.offset += count
        self.number = ((self.number or 0) + count) % _WRAP


class Reassembly:
    """Both directions of a connection. `pool`: the memory that all connections share."""

    __slots__ = ("_at_ns", "_count", "_halves", "_pool", "_size")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._halves = (_Half(), _Half())
        self._count = 0
        self._size = 0
        # times of a connection do not go back: what comes late has come when it was there
        self._at_ns = 0

    @property
    def has_ended(self) -> bool:
        """True if both directions have ended."""
        return all(half.has_ended for half in self._halves)

    def is_strange(self, direction: Direction, segment: Segment) -> bool:
        """True if a segment can't belong to this connection: it begins another, or is too far away."""
        half = self._halves[direction]
        if half.number is None:
            return False
        if segment.flags & SYN:
            return (segment.sequence + 1) % _WRAP != half.first
        return bool(segment.data) and abs(half.distance(segment.sequence)) > FARTHEST

    def take(self, direction: Direction, segment: Segment, at_ns: int) -> Iterator[Piece]:
        """Takes a segment; yields what comes next by it."""
        half, opposite = self._halves[direction], self._halves[1 - direction]
        self._count += 1
        needs = 0
        if segment.flags & ACK:
            opposite.begin(segment.acknowledged)
            ahead = opposite.distance(segment.acknowledged)
            if abs(ahead) <= FARTHEST:
                needs = opposite.offset + ahead
                opposite.acknowledged = max(opposite.acknowledged, needs)
        sequence = segment.sequence + (1 if segment.flags & SYN else 0)
        data, missing, is_last = segment.data, segment.missing, bool(segment.flags & FIN)
        if segment.flags & SYN:
            half.begin(sequence)
        if data or missing or is_last:
            half.begin(sequence)
            offset = half.offset + half.distance(sequence)
            if not self._size and offset == half.offset and needs <= opposite.offset and not missing and not is_last:
                self._at_ns = max(self._at_ns, at_ns)
                half.go_on(len(data))
                yield Piece(direction, self._at_ns, data)
                return
            if offset + len(data) + missing >= half.offset and not half.has_ended:
                self._wait(half, _Waiting(offset, self._count, at_ns, needs, data, missing, is_last))
        if self._size:
            yield from self._deliver()
            while self._size and self._is_overdue(at_ns):
                yield from self._give_up()

    def finish(self) -> Iterator[Piece]:
        """Yields all that waits: nothing more comes."""
        while self._size:
            yield from self._give_up()

    def _wait(self, half: _Half, waiting: _Waiting) -> None:
        heappush(half.waiting, waiting)
        self._add(len(waiting.data) + _COST)

    def _add(self, size: int) -> None:
        self._size += size
        self._pool.used += size

    def _deliver(self) -> Iterator[Piece]:
        """Yields what can come now, of either direction."""
        has_come = True
        while has_come:
            has_come = False
            for direction in Direction:
                half, opposite = self._halves[direction], self._halves[1 - direction]
                while (
                    half.waiting
                    and half.waiting[0].offset <= half.offset
                    and (half.waiting[0].needs <= opposite.offset or opposite.has_ended)
                ):
                    has_come = True
                    yield from self._pieces(direction, half, heappop(half.waiting))

    def _pieces(self, direction: Direction, half: _Half, first: _Waiting) -> Iterator[Piece]:
        self._add(-len(first.data) - _COST)
        self._at_ns = max(self._at_ns, first.at_ns)
        data = first.data[half.offset - first.offset :]
        if data:
            half.go_on(len(data))
            yield Piece(direction, self._at_ns, data)
        lost = first.offset + len(first.data) + first.missing - half.offset
        if lost > 0:
            half.go_on(lost)
            yield Piece(direction, self._at_ns, lost=lost)
        if first.is_last and not half.has_ended:
            half.has_ended = True
            while half.waiting:
                self._add(-len(heappop(half.waiting).data) - _COST)
            yield Piece(direction, self._at_ns)

    def _is_overdue(self, at_ns: int) -> bool:
        """True if the oldest segment that waits has waited long enough."""
        if self._size > self._pool.share:
            return True
        direction, _ = self._hole()
        half = self._halves[direction]
        packets, nanoseconds = _SEEN if half.acknowledged > half.offset else _UNSEEN
        oldest = self._oldest()
        return self._count - oldest.number >= packets or at_ns - oldest.at_ns >= nanoseconds

    def _oldest(self) -> _Waiting:
        return min((half.waiting[0] for half in self._halves if half.waiting), key=lambda waiting: waiting.number)

    def _hole(self) -> tuple[Direction, int]:
        """Where bytes are missed: the direction, and up to which offset. Needs a segment that waits."""
        first = self._oldest()
        direction = next(direction for direction in Direction if self._halves[direction].waiting[:1] == [first])
        half, opposite = self._halves[direction], self._halves[1 - direction]
        if first.offset > half.offset:
            return direction, first.offset
        until = min(first.needs, opposite.waiting[0].offset) if opposite.waiting else first.needs
        return Direction(1 - direction), until

    def _give_up(self) -> Iterator[Piece]:
        """Counts the bytes as lost that the oldest segment waits for."""
        oldest = self._oldest()
        direction, until = self._hole()
        half = self._halves[direction]
        lost = until - half.offset
        if lost > 0:
            self._at_ns = max(self._at_ns, oldest.at_ns)
            half.go_on(lost)
            yield Piece(direction, self._at_ns, lost=lost)
        else:
            # each direction waits for the other: one has been sent again, with an acknowledgement of later bytes
            direction = Direction(1 - direction)
            half = self._halves[direction]
            yield from self._pieces(direction, half, heappop(half.waiting))
        yield from self._deliver()

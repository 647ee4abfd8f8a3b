"""Tells which connections of a dump speak Kafka, and which side is the broker, by their bytes.

A connection speaks Kafka if its client's first bytes are a request's head. Of one that is older than the dump, it takes
the heads of requests in one direction, and later those of responses to them in the other: one at a segment's beginning,
or two anywhere. The packets are kept until that is known. An address that is known as a broker's needs no proof.
"""

from __future__ import annotations

from collections import Counter, deque
from enum import StrEnum

from proxy.conversation import Direction
from proxy.wire.framing import FrameLimits
from recorder.pcap.heads import WHOLE_HEAD, request_at, request_places, response_at, response_places
from recorder.pcap.layers import ACK, SYN, Endpoint, Segment
from recorder.pcap.pool import Pool
from recorder.pcap.tcp import Reassembly

# packets that are kept of a connection, and how many with bytes are looked at
_MAX_KEPT, _MAX_LOOKED_AT = 256, 512
# memory of a packet beyond its bytes
_COST = 400
# requests without an answer that are remembered
_MAX_ASKED = 16
# what shows that an endpoint answers requests: a response at a segment's beginning, or two anywhere
_ENOUGH = 2
# segments that begin like a record of TLS, on a connection whose beginning is not in the dump
_ENOUGH_TLS = 3


class Found(StrEnum):
    """What a connection speaks. UNKNOWN: more of it must come."""

    UNKNOWN = "unknown"
    OTHER = "something else"
    TLS = "TLS"


class Looking:
    """A connection of which it is not known yet what it speaks. `kept`: its packets, with their times."""

    def __init__(self, pool: Pool) -> None:
        self.kept: deque[tuple[Segment, int]] = deque()
        self._pool = pool
        self._size = 0
        self._looked_at = 0
        # of a connection that is older than the dump, by endpoint: the correlation ids that it has asked with, and how
        # much shows that it has answered
        self._asked: dict[Endpoint, deque[int]] = {}
        self._proof: Counter[Endpoint] = Counter()
        self._like_tls = 0
        # of one whose beginning is there: the client, and its first bytes
        self._client: Endpoint | None = None
        self._reassembly = Reassembly(pool)
        self._begun = bytearray()

    def take(self, segment: Segment, at_ns: int) -> Endpoint | Found:
        """Takes a packet. Returns the broker's address once it is known."""
        if segment.flags & SYN and not self.kept:
            self._client = segment.destination if segment.flags & ACK else segment.source
        self.kept.append((segment, at_ns))
        self._add(len(segment.data) + _COST)
        while len(self.kept) > _MAX_KEPT or (self._size > self._pool.share and self.kept):
            self._drop_oldest()
        self._looked_at += bool(segment.data)
        found = self._spoken(segment) if self._client is None else self._begins(self._client, segment, at_ns)
        return Found.OTHER if found is Found.UNKNOWN and self._looked_at >= _MAX_LOOKED_AT else found

    def forget(self) -> None:
        """Lets go of the packets."""
        while self.kept:
            self._drop_oldest()
        for _ in self._reassembly.finish():
            pass

    def _add(self, size: int) -> None:
        self._size += size
        self._pool.used += size

    def _drop_oldest(self) -> None:
        gone, _ = self.kept.popleft()
        self._add(-len(gone.data) - _COST)

    def _begins(self, client: Endpoint, segment: Segment, at_ns: int) -> Endpoint | Found:
        """What a connection speaks whose beginning is in the dump."""
        direction = Direction.REQUEST if segment.source == client else Direction.RESPONSE
        for piece in self._reassembly.take(direction, segment, at_ns):
            if piece.direction is Direction.REQUEST:
                if piece.lost and len(self._begun) < WHOLE_HEAD:
                    # it is as one that is older
                    self._client = None
                    return self._spoken(segment)
                self._begun += piece.data
        if len(self._begun) < WHOLE_HEAD:
            return Found.UNKNOWN
        if request_at(self._begun, 0, FrameLimits()) is None:
            return Found.TLS if _is_tls(self._begun) else Found.OTHER
        return segment.source if direction else segment.destination

    def _spoken(self, segment: Segment) -> Endpoint | Found:
        """What a connection speaks that is older than the dump."""
        data, asked = segment.data, self._asked.setdefault(segment.destination, deque(maxlen=_MAX_ASKED))
        for at in response_places(data, 0, {*asked}):
            response = response_at(data, at, FrameLimits()) if at >= 0 else None
            self._proof[segment.source] += 0 if response is None else _ENOUGH if at == 0 else 1
        if self._proof[segment.source] >= _ENOUGH:
            return segment.source
        for at in request_places(data, 0):
            request = request_at(data, at, FrameLimits())
            if request is not None:
                self._asked.setdefault(segment.source, deque(maxlen=_MAX_ASKED)).append(request[1])
        self._like_tls += _is_tls(data)
        return Found.TLS if self._like_tls >= _ENOUGH_TLS else Found.UNKNOWN


def _is_tls(data: bytes | bytearray) -> bool:
    """True for a record of TLS: a handshake, or data."""
    return len(data) >= 5 and data[0] in (22, 23) and data[1] == 3 and data[2] <= 4

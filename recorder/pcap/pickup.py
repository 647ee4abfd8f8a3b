"""Finds where a connection's frames begin again: behind bytes that the dump lacks, and in one that is older than it.

Both directions are kept meanwhile. A direction whose frames are known up to here is only followed. In the others, each
place that may be the head of a frame begins a *chain*: the next head must stand where that frame ends. A chain that
meets anything else is none. The conversation goes on as soon as several responses in a row answer requests in a row, by
their correlation ids; from the first of these frames on, all kept bytes are read as if they had just come.

Wrong chains are rare (a request's head has 80 bits that must fit), and do no lasting harm: the conversation ends at the
first response that answers nothing, and is picked up again.
Memory is bounded: a connection that is not picked up within its share loses its oldest bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from proxy.conversation import Conversation, Direction, Exchange
from proxy.wire.framing import RESPONSE_HEAD
from proxy.wire.keys import PRODUCE
from recorder.pcap.heads import WHOLE_HEAD, Head, request_at, request_places, response_at, response_places
from recorder.pcap.pool import Pool
from recorder.pcap.tcp import Piece

# responses that must answer requests, all in a row: if nothing is known of either direction; if one is
_ENOUGH, _ENOUGH_IF_KNOWN = 3, 2
# chains of a direction, heads of a chain, and correlation ids that responses are looked for by
_MAX_CHAINS, _MAX_HEADS, _MAX_IDS = 16, 64, 32
# memory of a piece beyond its bytes
_COST = 200
_HEAD_SIZES = (WHOLE_HEAD, RESPONSE_HEAD.size)


class Resumed(NamedTuple):
    """Where to go on. `offsets`, `awaited`: as `Conversation.resume` takes them; `pieces`: what has come since."""

    offsets: tuple[int | None, int | None]
    awaited: Exchange | None
    pieces: list[Piece]


class _Chain:
    """Frames in a row. `next`: the stream offset at which the next one begins."""

    __slots__ = ("heads", "next")

    def __init__(self, begin: int) -> None:
        self.heads: deque[Head] = deque(maxlen=_MAX_HEADS)
        self.next = begin


class _Side:
    """One direction. `known`: the chain of a direction whose frames are known; None if it is searched.

    `tail`: the newest bytes, from stream offset `tail_at` on, as far as heads are to be found in them.
    """

    __slots__ = ("arrived", "chains", "direction", "is_whole", "known", "searched_to", "tail", "tail_at")

    def __init__(self, direction: Direction, known_from: int | None, arrived: int) -> None:
        self.direction = direction
        self.known = None if known_from is None else _Chain(known_from)
        self.chains = [self.known] if self.known is not None else []
        self.arrived = self.tail_at = self.searched_to = arrived
        self.tail = bytearray()
        # False if bytes that have come are not kept any more
        self.is_whole = True

    @property
    def head_size(self) -> int:
        return _HEAD_SIZES[self.direction]


class Pickup:
    """One connection while it is not known where its frames begin.

    Args:
        searched: the directions in which frames are to be found.
    """

    def __init__(self, conversation: Conversation, searched: set[Direction], pool: Pool) -> None:
        self._conversation, self._pool = conversation, pool
        self._pieces: deque[tuple[int, Piece]] = deque()
        self._size = 0
        self._in_flight = [*conversation.in_flight]
        sides = []
        for direction, side in zip(Direction, (conversation.requests_side, conversation.responses_side), strict=True):
            # a head that has come in part is kept as what comes
            begin = side.offset if side.held else side.next_offset
            sides.append(_Side(direction, None if direction in searched else begin, side.arrived))
            if side.held and direction not in searched:
                sides[-1].arrived = sides[-1].tail_at = side.offset
        self._requests, self._responses = self._sides = sides[0], sides[1]
        for direction, side in zip(Direction, (conversation.requests_side, conversation.responses_side), strict=True):
            if side.held and direction not in searched:
                self.take(Piece(direction, side.held_at, side.held))

    @property
    def ends(self) -> tuple[int, int]:
        """The stream offsets behind all that has come."""
        return self._requests.arrived, self._responses.arrived

    def take(self, piece: Piece) -> None:
        """Takes what comes next."""
        side = self._sides[piece.direction]
        self._pieces.append((side.arrived, piece))
        self._add(len(piece.data) + _COST)
        if piece.lost:
            self._lose(side, piece.lost)
        else:
            side.tail += piece.data
            side.arrived += len(piece.data)
            self._search(side)
            self._follow(side)
            self._trim(side)
        while self._size > self._pool.share and self._pieces:
            self._evict()

    def forget(self) -> None:
        """Lets go of all that is kept."""
        self._add(-self._size)
        self._pieces.clear()

    def _add(self, size: int) -> None:
        self._size += size
        self._pool.used += size

    def _evict(self) -> None:
        """Lets go of the oldest piece, and of the heads in it."""
        offset, piece = self._pieces.popleft()
        self._add(-len(piece.data) - _COST)
        side, kept_from = self._sides[piece.direction], offset + len(piece.data) + piece.lost
        side.is_whole = False
        for chain in side.chains:
            while chain.heads and chain.heads[0].offset < kept_from:
                chain.heads.popleft()

    # heads

    def _lose(self, side: _Side, count: int) -> None:
        side.arrived += count
        side.tail.clear()
        side.tail_at = side.searched_to = side.arrived
        side.chains = [chain for chain in side.chains if chain.next >= side.arrived]
        if side.known is not None and side.known not in side.chains:
            side.known = None

    def _search(self, side: _Side) -> None:
        """Begins chains at the places of a searched direction that may be heads."""
        if side.known is not None:
            return
        begin = max(side.searched_to - side.tail_at, 0)
        places = (
            response_places(side.tail, begin, self._awaited_ids())
            if side.direction
            else request_places(side.tail, begin)
        )
        found = {head.offset for chain in side.chains for head in chain.heads} | {chain.next for chain in side.chains}
        for place in places:
            offset = side.tail_at + place
            if offset not in found and len(side.chains) < _MAX_CHAINS and self._head(side, offset) is not None:
                side.chains.append(_Chain(offset))
        side.searched_to = max(side.arrived - side.head_size + 1, side.searched_to)

    def _awaited_ids(self) -> set[int]:
        """The newest correlation ids that a response may have."""
        known = [exchange.correlation_id for exchange in islice(reversed(self._in_flight), _MAX_IDS)]
        for chain in self._requests.chains:
            known += [head.correlation_id for head in islice(reversed(chain.heads), _MAX_IDS)]
        return {correlation_id for correlation_id in known if correlation_id is not None}

    def _follow(self, side: _Side) -> None:
        """Follows the chains as far as their heads have come; drops those that meet none."""
        for chain in [*side.chains]:
            while chain.next + side.head_size <= side.arrived:
                head = self._head(side, chain.next, is_expected=chain is side.known or bool(chain.heads))
                if head is None:
                    side.chains.remove(chain)
                    side.known = None if chain is side.known else side.known
                    break
                chain.heads.append(head)
                chain.next = head.end

    def _head(self, side: _Side, offset: int, *, is_expected: bool = False) -> Head | None:
        at = offset - side.tail_at
        if at < 0 or at + side.head_size > len(side.tail):
            return None
        limits = self._conversation.limits
        if side.direction:
            response = response_at(side.tail, at, limits)
            return response and Head(offset, offset + 4 + response[0], response[1], None)
        request = request_at(side.tail, at, limits, is_expected=is_expected)
        return request and Head(offset, offset + 4 + request[0], *request[1:])

    def _trim(self, side: _Side) -> None:
        """Drops the bytes of the tail in which no head is to be found any more."""
        keep_from = max(side.arrived - side.head_size + 1, side.tail_at)
        del side.tail[: keep_from - side.tail_at]
        side.tail_at = keep_from

    # pairs

    def resumed(self, *, is_over: bool = False) -> Resumed | None:
        """Where to go on, if it is known. `is_over`: nothing more comes, so less is enough."""
        is_known = self._requests.known is not None or self._responses.known is not None
        enough = 1 if is_over else _ENOUGH_IF_KNOWN if is_known else _ENOUGH
        for requests in self._requests.chains:
            for responses in self._responses.chains:
                # at the end, nothing but whole frames may stand behind the pair
                if is_over and responses.next != self._responses.arrived:
                    continue
                found = self._aligned(requests, responses, enough)
                if found is not None:
                    return found
        return None

    def _aligned(self, requests: _Chain, responses: _Chain, enough: int) -> Resumed | None:
        asked: list[Exchange | Head] = []
        if requests is self._requests.known and self._requests.is_whole:
            asked += [exchange for exchange in self._in_flight if exchange.awaits]
        asked += requests.heads
        places = {one.correlation_id: place for place, one in reversed([*enumerate(asked)])}
        for number, response in enumerate(responses.heads):
            place = places.get(response.correlation_id)
            if place is not None and self._pairs(asked[place:], islice(responses.heads, number, None)) >= enough:
                return self._from(asked[place], response)
        return None

    def _pairs(self, asked: list[Exchange | Head], answers: Iterator[Head]) -> int:
        """How many responses in a row answer requests in a row; -1 if one doesn't. Produces may have none (acks=0)."""
        place = count = 0
        for answer in answers:
            while (
                place < len(asked)
                and asked[place].correlation_id != answer.correlation_id
                and asked[place].api_key == PRODUCE
            ):
                place += 1
            if place == len(asked) or asked[place].correlation_id != answer.correlation_id:
                return -1
            place, count = place + 1, count + 1
        return count

    def _from(self, request: Exchange | Head, response: Head) -> Resumed:
        side = self._conversation.requests_side
        begin: int | None
        if isinstance(request, Head):
            begin, awaited = request.offset, None
        else:
            begin, awaited = (side.offset if side.held else None), request
        begins = (side.arrived if begin is None else begin, response.offset)
        pieces = [
            _cut(offset, piece, begins[piece.direction])
            for offset, piece in self._pieces
            if offset + len(piece.data) + piece.lost > begins[piece.direction]
        ]
        self.forget()
        return Resumed((begin, response.offset), awaited, pieces)


def _cut(offset: int, piece: Piece, begin: int) -> Piece:
    """The part of a piece from stream offset `begin` on. `offset`: that of the piece."""
    count = max(begin - offset, 0)
    return piece._replace(lost=piece.lost - count) if piece.lost else piece._replace(data=piece.data[count:])

"""Leaves frames, or the bytes behind their heads, out of one connection's recording.

Only heads are looked at: API and client id of a request; a response follows its request. A request whose client id has
not come whole is undecided: its bytes wait. The bytes that pairing needs are always kept, so that the compactor goes on
framing and counting; the log holds the length of the bytes left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from proxy.conversation.acks import acks_at
from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction, Exchange, FrameKind
from proxy.conversation.step import Step
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.keys import PRODUCE, SASL_HANDSHAKE
from recorder.capture.backlog import NOWHERE
from recorder.capture.cutting import Arriving, FrameSpan, requests_in, responses_in, take_number
from recorder.capture.selection import OTHER, Selection

# bytes of a frame, its length included: before the client id's length, and behind that; before a response's body
CLIENT_ID_AT, CLIENT_ID = 12, 14
# bytes of a client id that are matched: it may come byte by byte, and each byte looks through the beginning again
LONGEST_CLIENT_ID = 256
RESPONSE_HEAD = 8
# the head of either direction in the dialect of 0.7: a length, and a type or an error code
HEAD_07 = 6
LENGTH = 4


class Cut(NamedTuple):
    """Stream offsets `start` to `stop` are left out, of a frame that begins at `begin`.

    `is_whole`: the whole frame is left out, and was decided in this step.
    """

    begin: int
    start: int
    stop: int
    is_whole: bool


class Sieve:
    """The sieve of one connection. `principal`: of its last login; `frames`, `bytes`: how many it has left out."""

    def __init__(self, talk: Conversation, selection: Selection, *, is_selected: bool, principal: str | None) -> None:
        self.selection = selection
        # True if the connection is recorded at all
        self.is_selected = is_selected
        self.principal = principal
        # the offset of a request whose client id has not come
        self.undecided = NOWHERE
        self.frames = 0
        self.bytes = 0
        self._talk = talk
        self._is_old = talk.dialect is Dialect.KAFKA_07
        # numbers of exchanges whose requests were left out and whose responses are to come
        self._unwanted: deque[int] = deque()
        self._arriving = [Arriving.now(talk, direction, FrameKind.REQUEST) for direction in Direction]
        # per direction: the offset from which on the arriving frame is left out
        self._cut_from = [NOWHERE, NOWHERE]
        # the bytes of the undecided request
        self._head = b""

    @property
    def unwanted(self) -> list[int]:
        """Exchanges whose responses will be left out."""
        return [*self._unwanted]

    @property
    def is_needless(self) -> bool:
        """True if nothing is left out from here on."""
        return (
            self.is_selected
            and self.selection.selects_everything
            and not self._unwanted
            and self._cut_from == [NOWHERE, NOWHERE]
            and self.undecided == NOWHERE
        )

    def look(self, direction: Direction, step: Step) -> list[Cut]:
        """The cuts in the bytes of a step. Called once for each step of the connection."""
        lay_out = responses_in if direction else requests_in
        frames = lay_out(self._talk, step, self._arriving[direction])
        cuts = [cut for frame in frames for cut in self._cut(direction, step, frame)]
        last = frames[-1].kind if frames else FrameKind.REQUEST
        self._arriving[direction] = Arriving.now(self._talk, direction, last)
        self.bytes += sum(cut.stop - cut.start for cut in cuts)
        return cuts

    def _cut(self, direction: Direction, step: Step, frame: FrameSpan) -> Iterator[Cut]:
        _, exchange, start, stop = frame
        if start == stop:
            # an answer of the proxy, which has no bytes in the stream
            if exchange is not None and take_number(self._unwanted, exchange.number):
                self.frames += 1
            return
        begin, end = step.offset + start, step.offset + stop
        here = step.offset + min(stop, step.stop)
        is_whole = False
        going_on = direction is Direction.REQUEST and begin == self.undecided
        if start >= 0 or going_on:
            head = (self._head if going_on else b"") + step.data[max(start, 0) : min(stop, step.stop)]
            verdict = self._verdict(direction, frame, head, here == end)
            if verdict is None:
                self.undecided, self._head = begin, head
                return
            if going_on:
                self.undecided, self._head = NOWHERE, b""
            is_whole, keep = verdict
            self.frames += is_whole
            self._cut_from[direction] = begin + keep if keep is not None else NOWHERE
            piece = begin
        else:
            piece = step.offset
        cut_from = max(self._cut_from[direction], piece)
        if is_whole or cut_from < here:
            yield Cut(begin, min(cut_from, here), here, is_whole)
        if here == end:
            self._cut_from[direction] = NOWHERE

    def _verdict(
        self, direction: Direction, frame: FrameSpan, head: bytes, all_here: bool
    ) -> tuple[bool, int | None] | None:
        """(left out whole, how many of its bytes are kept or None for all); None while undecided."""
        if frame.kind is FrameKind.TOKEN:
            return False, None
        if direction is Direction.RESPONSE:
            unwanted = frame.exchange is not None and take_number(self._unwanted, frame.exchange.number)
            return unwanted, self._kept(HEAD_07 if self._is_old else RESPONSE_HEAD, unwanted)
        return self._request_verdict(frame.exchange, head, all_here)

    def _request_verdict(
        self, exchange: Exchange | None, head: bytes, all_here: bool
    ) -> tuple[bool, int | None] | None:
        if exchange is None:
            unwanted = not self._takes(None, "")
            return unwanted, self._kept(LENGTH, unwanted)
        if self._is_old:
            # 0.7 has no client ids
            unwanted, size = not self._takes(exchange.api, ""), HEAD_07
        elif not self._takes(exchange.api, None):
            unwanted, size = True, CLIENT_ID_AT
        else:
            if self.selection.body_limit is None and self.selection.client_ids.matches_all:
                return False, None
            size = _client_id_size(head, 4 + exchange.request_size)
            client = head[CLIENT_ID : CLIENT_ID + min(size, LONGEST_CLIENT_ID)]
            if len(head) < CLIENT_ID + min(size, LONGEST_CLIENT_ID) and not all_here:
                return None
            unwanted = not self._takes(exchange.api, client.decode("utf-8", "replace"))
            size = CLIENT_ID if unwanted else CLIENT_ID + size
        if unwanted and exchange.awaits:
            self._unwanted.append(exchange.number)
        if exchange.api_key == SASL_HANDSHAKE and not self._is_old:
            # kept whole: it names the mechanism of the tokens behind it
            return unwanted, None
        return unwanted, self._kept(max(size, _behind_acks(exchange, head)), unwanted)

    def _kept(self, head: int, unwanted: bool) -> int | None:
        if unwanted:
            return head
        limit = self.selection.body_limit
        return None if limit is None else max(head, LENGTH + limit)

    def _takes(self, api: str | None, client_id: str | None) -> bool:
        """`client_id`: None if it has not come yet; it is not matched then."""
        chosen = self.selection
        return (
            self.is_selected
            and chosen.apis.matches(api or OTHER)
            and chosen.principals.matches(self.principal or "")
            and (client_id is None or chosen.client_ids.matches(client_id))
        )


class Unrecorded:
    """Counts the frames and bytes of a connection that is not recorded."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._frames = 0

    def more(self, size: int) -> tuple[int, int]:
        """The frames and bytes that a chunk of `size` bytes adds."""
        before, self._frames = self._frames, self._talk.sequence
        return self._frames - before, size


def _client_id_size(head: bytes, frame: int) -> int:
    """The client id's size; 0 if it is null, too large for the frame, or has not come yet."""
    size = int.from_bytes(head[CLIENT_ID_AT:CLIENT_ID], "big", signed=True) if len(head) >= CLIENT_ID else 0
    return size if 0 <= size <= frame - CLIENT_ID else 0


def _behind_acks(exchange: Exchange, head: bytes) -> int:
    """The offset behind `acks` in a Produce request: pairing must know whether a response is due. 0 for others."""
    version = exchange.api_version
    if version is None or exchange.api_key != PRODUCE or exchange.opaque is not None:
        return 0
    try:
        return acks_at(head, 0, version) + 2
    except WireError:
        return 0

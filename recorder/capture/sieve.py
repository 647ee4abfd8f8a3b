"""What is left out of one connection's recording: frames, and what stands behind heads.

Only heads are looked at: API and client id of a request, and for a response its request's verdict. A request whose
client id has not come whole is undecided: its bytes wait. What is kept of a frame in any case is what pairing it takes,
so that the compactor goes on framing and counting; what was left out is a length in the log.
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
from recorder.capture.cutting import Arriving, Found, requests_in, responses_in
from recorder.capture.selection import OTHER, Selection

# a frame's bytes, its length included, up to the length of the client id, and behind that; up to a response's body
CLIENT_ID_AT, CLIENT_ID = 12, 14
# so much of a client id counts: what waits for it may come byte by byte, and must not be more and more to look through
LONGEST_CLIENT_ID = 256
RESPONSE_HEAD = 8
# in the dialect of 0.7, of either: a length, and a type or an error code
HEAD_07 = 6
LENGTH = 4


class Cut(NamedTuple):
    """Stream offsets `start` to `stop` are left out, of a frame that begins at `begin`.

    `whole`: all of the frame is, and it begins in this step or was undecided until now.
    """

    begin: int
    start: int
    stop: int
    whole: bool


class Sieve:
    """One connection's. `principal`: who has logged in; `frames`, `bytes`: how many have been left out since asked."""

    def __init__(self, talk: Conversation, selection: Selection, *, taken: bool, principal: str | None) -> None:
        self.selection = selection
        # whether the connection is one that is recorded
        self.taken = taken
        self.principal = principal
        # where a request begins that can't be told yet
        self.undecided = NOWHERE
        self.frames = 0
        self.bytes = 0
        self._talk = talk
        self._is_old = talk.dialect is Dialect.KAFKA_07
        # requests left out whose responses are to come, by their exchanges' numbers
        self._unwanted: deque[int] = deque()
        self._arriving = [Arriving.now(talk, direction, FrameKind.REQUEST) for direction in Direction]
        # per direction: from where on the frame that is arriving is left out
        self._from = [NOWHERE, NOWHERE]
        # what has come of the undecided request
        self._head = b""

    @property
    def unwanted(self) -> list[int]:
        """Exchanges whose responses will be left out."""
        return [*self._unwanted]

    @property
    def is_needless(self) -> bool:
        """Whether nothing is left out any more, from here on."""
        return (
            self.taken
            and self.selection.takes_whole_connections
            and not self._unwanted
            and self._from == [NOWHERE, NOWHERE]
            and self.undecided == NOWHERE
        )

    def look(self, direction: Direction, step: Step) -> list[Cut]:
        """What is left out of what a step brought; once for each step of the connection."""
        lay_out = responses_in if direction else requests_in
        frames = lay_out(self._talk, step, self._arriving[direction])
        cuts = [cut for frame in frames for cut in self._cut(direction, step, frame)]
        last = frames[-1].kind if frames else FrameKind.REQUEST
        self._arriving[direction] = Arriving.now(self._talk, direction, last)
        self.bytes += sum(cut.stop - cut.start for cut in cuts)
        return cuts

    def _cut(self, direction: Direction, step: Step, frame: Found) -> Iterator[Cut]:
        _, exchange, start, stop = frame
        if start == stop:
            # an answer of the proxy, which has no bytes in the stream
            if exchange is not None and self._is_unwanted(exchange):
                self.frames += 1
            return
        begin, end = step.offset + start, step.offset + stop
        here = step.offset + min(stop, step.stop)
        whole = False
        going_on = direction is Direction.REQUEST and begin == self.undecided
        if start >= 0 or going_on:
            head = (self._head if going_on else b"") + step.data[max(start, 0) : min(stop, step.stop)]
            verdict = self._verdict(direction, frame, head, here == end)
            if verdict is None:
                self.undecided, self._head = begin, head
                return
            if going_on:
                self.undecided, self._head = NOWHERE, b""
            whole, keep = verdict
            self.frames += whole
            self._from[direction] = begin + keep if keep is not None else NOWHERE
            piece = begin
        else:
            piece = step.offset
        cut_from = max(self._from[direction], piece)
        if whole or cut_from < here:
            yield Cut(begin, min(cut_from, here), here, whole)
        if here == end:
            self._from[direction] = NOWHERE

    def _verdict(
        self, direction: Direction, frame: Found, head: bytes, all_here: bool
    ) -> tuple[bool, int | None] | None:
        """Whether the frame is left out whole, and how many of its bytes are kept (None: all); None: not yet."""
        if frame.kind is FrameKind.TOKEN:
            return False, None
        if direction is Direction.RESPONSE:
            unwanted = frame.exchange is not None and self._is_unwanted(frame.exchange)
            return unwanted, self._kept(HEAD_07 if self._is_old else RESPONSE_HEAD, unwanted)
        return self._request_verdict(frame.exchange, head, all_here)

    def _request_verdict(
        self, exchange: Exchange | None, head: bytes, all_here: bool
    ) -> tuple[bool, int | None] | None:
        if exchange is None:
            unwanted = not self._takes(None, "")
            return unwanted, self._kept(LENGTH, unwanted)
        if self._is_old:
            # nobody has a client id there
            unwanted, size = not self._takes(exchange.api, ""), HEAD_07
        elif not self._takes(exchange.api, None):
            unwanted, size = True, CLIENT_ID_AT
        else:
            if self.selection.most is None and self.selection.client_ids.take_all:
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
            # what it names is followed by tokens
            return unwanted, None
        return unwanted, self._kept(max(size, _behind_acks(exchange, head)), unwanted)

    def _kept(self, head: int, unwanted: bool) -> int | None:
        if unwanted:
            return head
        most = self.selection.most
        return None if most is None else max(head, LENGTH + most)

    def _takes(self, api: str | None, client_id: str | None) -> bool:
        """`client_id`: None is one that has no say yet."""
        chosen = self.selection
        return (
            self.taken
            and chosen.apis.take(api or OTHER)
            and chosen.principals.take(self.principal or "")
            and (client_id is None or chosen.client_ids.take(client_id))
        )

    def _is_unwanted(self, exchange: Exchange) -> bool:
        """Whether its request was left out; forgets it, and those before it that were never answered."""
        unwanted = self._unwanted
        while unwanted and unwanted[0] < exchange.number:
            unwanted.popleft()
        if unwanted and unwanted[0] == exchange.number:
            unwanted.popleft()
            return True
        return False


class Unrecorded:
    """A connection of which nothing is recorded, and how many of its frames have been counted."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._frames = 0

    def more(self, size: int) -> tuple[int, int]:
        """Frames and bytes since the last call, of which a chunk of `size` bytes is the latest."""
        before, self._frames = self._frames, self._talk.sequence
        return self._frames - before, size


def _client_id_size(head: bytes, frame: int) -> int:
    """Of one that is null, or none that can be in a frame of this size: 0. Also while the size itself has not come."""
    size = int.from_bytes(head[CLIENT_ID_AT:CLIENT_ID], "big", signed=True) if len(head) >= CLIENT_ID else 0
    return size if 0 <= size <= frame - CLIENT_ID else 0


def _behind_acks(exchange: Exchange, head: bytes) -> int:
    """Whether a Produce request wants an answer must be known to whoever pairs it."""
    version = exchange.api_version
    if version is None or exchange.api_key != PRODUCE or exchange.opaque is not None:
        return 0
    try:
        return acks_at(head, 0, version) + 2
    except WireError:
        return 0

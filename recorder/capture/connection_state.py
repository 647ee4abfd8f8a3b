"""One connection as the compactor sees it: its conversation, the frames still arriving, its facts.

Masks and omissions of coming frames stand in queues, in the order of the stream. Each is looked at once, when its frame
is complete, however many there are.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from proxy.conversation.conversation import DEFAULT_LIMITS, Conversation
from proxy.conversation.exchange import Exchange, FrameKind, OpaqueReason
from proxy.conversation.routes import Routes
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits
from proxy.wire.headers import CLIENT_ID_SIZE_AT
from proxy.wire.keys import API_VERSIONS
from recorder.capture.columns import Peers, Spans
from recorder.capture.cutting import take_number
from recorder.capture.frames import GAP_DAMAGE
from recorder.capture.spool import short_name

# no client id begins so: a length below -1
_NO_CLIENT = b"\x80\x00"
# every frame begins so: for a dialect without client ids
_NEVER_A_CLIENT = b""

# start and stop, in offsets of the stream
Stretches = deque[tuple[int, int]]


class ConnectionState:
    """`conversation` is None while the record is broken off; `broken` then describes the break.

    `facts` are empty while the opening is unknown. `next_entry`: the number of the connection's next entry in the log.
    """

    __slots__ = (
        "_answerable",
        "broken",
        "clients",
        "connection",
        "conversation",
        "facts",
        "first_ns",
        "kinds",
        "late",
        "left_out",
        "masks",
        "next_entry",
        "omissions",
        "parts",
        "peers",
        "principal",
        "reached",
        "sequence",
        "unreadable",
        "unwanted",
        "usual_client",
        "usual_client_number",
    )

    def __init__(self, connection: int, conversation: Conversation | None, facts: dict[str, Any]) -> None:
        self.connection = connection
        self.conversation = conversation
        self.facts: dict[str, Any] = {
            name: short_name(fact) if isinstance(fact, str) else fact for name, fact in facts.items()
        }
        self.broken: dict[str, Any] | None = None
        # while the record is broken off: the furthest offset seen in each direction; None if none was seen
        self.reached: list[int] | None = None
        self.next_entry = 0
        self.sequence = 0
        # the client certificate's, until the broker accepts a login
        self.principal: str | None = self.facts.get("principal")
        # (exchange number, client id) of the requests in flight without the connection's usual client id
        self.clients: deque[tuple[int, str | None]] = deque()
        self.usual_client = _NO_CLIENT if self.dialect is Dialect.KAFKA else _NEVER_A_CLIENT
        # indices into the range's tables of peers and of client ids
        self.peers = 0
        self.usual_client_number = 0
        # per direction: the frame that is arriving, its kind, its first time; masked and omitted stretches of the
        # stream; True once the bytes can't be framed any more
        self.parts: list[bytearray | None] = [None, None]
        self.kinds = [FrameKind.REQUEST, FrameKind.RESPONSE]
        self.first_ns = [0, 0]
        self.masks: tuple[Stretches, Stretches] = (deque(), deque())
        self.omissions: tuple[Stretches, Stretches] = (deque(), deque())
        self.unreadable = [False, False]
        # per direction: 1 if the record resumes within a frame; that frame is lost, and counted at its end
        self.late = [0, 0]
        # frames that become no rows: per direction, their offsets; and the exchanges whose responses become no rows
        self.left_out: tuple[set[int], set[int]] = (set(), set())
        self.unwanted: deque[int] = deque()
        # requests that the proxy answers itself and has not answered yet
        self._answerable: deque[Exchange] = deque()

    @classmethod
    def of_unknown(cls, connection: int, since_ns: int, *, is_new: bool) -> ConnectionState:
        """A connection whose opening is unknown. `is_new`: no earlier part of it can have been recorded."""
        track = cls(connection, None, {})
        track.broken = {"reason": GAP_DAMAGE, "since_ns": since_ns, "next_exchange": 0, "next_whole": 0}
        track.broken |= {"cut": None, "behind": 0 if is_new else None, "offsets": [0, 0] if is_new else None}
        return track

    def with_opening(self, facts: dict[str, Any]) -> ConnectionState:
        """This connection with the facts of its opening, now known."""
        known = ConnectionState(self.connection, None, facts)
        known.broken, known.reached, known.next_entry = self.broken, self.reached, self.next_entry
        return known

    @property
    def limits(self) -> FrameLimits:
        """The longest frames that the proxy lets through; the defaults for a log of format 1, which lacks them."""
        limits: tuple[int, int] | None = self.facts.get("limits")
        return DEFAULT_LIMITS if limits is None else FrameLimits(*limits)

    @property
    def dialect(self) -> Dialect:
        """The dialect that the connection speaks."""
        return Dialect(self.facts.get("dialect", Dialect.KAFKA))

    def described(self) -> Peers:
        """The values that all frames of the connection share, as they are known now."""
        facts = self.facts
        return Peers(
            self.connection,
            facts.get("node"),
            facts.get("listener"),
            facts.get("client"),
            short_name(self.principal),
            facts.get("cluster"),
            self.dialect.value,
        )

    @property
    def usual_client_id(self) -> str | None:
        """The client id of the first understood request, which most requests share; None before there is one."""
        return None if self.usual_client in (_NO_CLIENT, _NEVER_A_CLIENT) else _text(self.usual_client)

    def note_client(self, exchange: Exchange, frame: bytes) -> str | None:
        """The client id of a request without the usual one, remembered for the response; None if unreadable."""
        length = int.from_bytes(frame[CLIENT_ID_SIZE_AT : CLIENT_ID_SIZE_AT + 2], "big", signed=True)
        raw = frame[CLIENT_ID_SIZE_AT : CLIENT_ID_SIZE_AT + 2 + max(length, 0)]
        client = _text(raw) if -1 <= length <= len(raw) - 2 else None
        if self.usual_client == _NO_CLIENT and client is not None and exchange.opaque is None:
            self.usual_client = raw
            return client
        if exchange.awaits:
            self.clients.append((exchange.number, client))
        return client

    def hide_client(self, exchange: Exchange) -> None:
        """Makes the newest request's client id unknown: its bytes were masked."""
        if self.clients and self.clients[-1][0] == exchange.number:
            self.clients.pop()
        self.clients.append((exchange.number, None))

    def has_usual_client(self, number: int) -> bool:
        """True if the request of this exchange had the usual client id; otherwise `clients` begins with its client id.

        Exchanges end in order, so the client ids of earlier ones are forgotten.
        """
        clients = self.clients
        while clients and clients[0][0] < number:
            clients.popleft()
        return not clients or clients[0][0] != number

    def request_began(self, exchange: Exchange) -> None:
        """Remembers a request that the proxy may answer itself."""
        if _is_answerable(exchange):
            self._answerable.append(exchange)

    def answered_by_proxy(self, correlation_id: int) -> Exchange:
        """The request with this id, which the proxy has answered. The proxy answers requests in their order.

        Raises:
            LookupError: no such request is known.
        """
        if self._answerable and self._answerable[0].correlation_id == correlation_id:
            return self._answerable.popleft()
        for exchange in self.conversation.in_flight if self.conversation is not None else ():
            # an older proxy wrote the log: it answered because it did not know this version
            if exchange.correlation_id == correlation_id and exchange.api_key == API_VERSIONS and not exchange.by_proxy:
                return exchange
        raise LookupError(f"the proxy can't have answered {correlation_id}")

    def has_marks(self, direction: int) -> bool:
        """True if bytes that are arriving are masked, omitted or left out."""
        gone = self.left_out[direction] or (direction and self.unwanted)
        return bool(self.masks[direction] or self.omissions[direction] or gone)

    def leaves_out(self, direction: int, exchange: Exchange | None, begin: int) -> bool:
        """True if the frame that begins at this stream offset becomes no row. Called once for each frame."""
        gone = begin in self.left_out[direction]
        self.left_out[direction].discard(begin)
        if exchange is None:
            return gone
        if direction:
            return take_number(self.unwanted, exchange.number) or gone
        if gone and exchange.awaits:
            self.unwanted.append(exchange.number)
        return gone

    def spans(self, direction: int, start: int, stop: int) -> tuple[Spans, Spans]:
        """Removes and returns the masked and the omitted spans of a frame at these stream offsets."""
        return _cut_out(self.masks[direction], start, stop), _cut_out(self.omissions[direction], start, stop)

    def break_off(self, reason: str, since_ns: int) -> None:
        """Breaks off the record, and drops the frames that are arriving."""
        conversation = self.conversation
        if conversation is None:
            return
        open_request, next_exchange = conversation.requests_side.open_exchange, conversation.next_exchange
        whole = [_end_of_whole_frames(side) for side in (conversation.requests_side, conversation.responses_side)]
        self.broken = {
            "reason": reason,
            "since_ns": since_ns,
            "next_exchange": next_exchange,
            "next_response": min((exchange.number for exchange in conversation.unfinished), default=next_exchange),
            "next_whole": next_exchange if open_request is None else open_request.number,
            "cut": (open_request.api or "") if open_request is not None else None,
            "cut_size": open_request.request_size if open_request is not None else 0,
            "behind": sum(whole),
            "offsets": whole,
        }
        self.reached = None
        self.sequence += sum(self.late)
        self.late = [0, 0]
        self.conversation = None
        self.parts = [None, None]
        self._answerable.clear()
        for spans in (*self.masks, *self.omissions, *self.left_out):
            spans.clear()

    def reach(self, direction: int, offset: int) -> None:
        """Notes the furthest offset of a direction while the record is broken off."""
        if self.broken is None or self.broken["offsets"] is None:
            return
        self.reached = self.reached or [*self.broken["offsets"]]
        self.reached[direction] = max(self.reached[direction], offset)

    def count_lost_frame(self, direction: int) -> None:
        """Counts the lost frame within which the record resumed, if there is one: its end has come."""
        self.sequence += self.late[direction]
        self.late[direction] = 0

    def resume(
        self, conversation: Conversation, unwanted: Iterable[int] = (), arriving: tuple[bool, bool] = (False, False)
    ) -> None:
        """Resumes the record with a restored conversation. Client ids of lost requests are unknown.

        `arriving`: per direction, True if `conversation.sequence` already counts a frame whose end is still to come.
        """
        whole = 0 if self.broken is None else self.broken["next_whole"]
        self.clients.extend((exchange.number, None) for exchange in conversation.in_flight if exchange.number >= whole)
        self.conversation = conversation
        self._answerable = deque(filter(_is_answerable, conversation.in_flight))
        self.unwanted = deque(sorted(unwanted))
        self.late = [int(late) for late in arriving]
        self.sequence = conversation.sequence - sum(self.late)
        self.broken = self.reached = None
        self.unreadable = [False, False]

    def state(self, blob: bytearray) -> dict[str, Any]:
        """The state, ready for JSON; the bytes of unfinished frames are appended to `blob`."""
        parts: list[Any] = []
        for part in self.parts:
            parts.append(None if part is None else (len(blob), len(part)))
            blob += part or b""
        return {
            "connection": self.connection,
            "facts": self.facts,
            "talk": None if self.conversation is None else self.conversation.state(),
            "broken": self.broken,
            "sequence": self.sequence,
            "principal": self.principal,
            "clients": list(self.clients),
            "usual_client": base64.b64encode(self.usual_client).decode(),
            "parts": parts,
            "kinds": [kind.value for kind in self.kinds],
            "first_ns": self.first_ns,
            "masks": [list(stretches) for stretches in self.masks],
            "omissions": [list(stretches) for stretches in self.omissions],
            "deaf": self.unreadable,
            "left_out": [sorted(begins) for begins in self.left_out],
            "unwanted": list(self.unwanted),
            "next_entry": self.next_entry,
            "reached": self.reached,
            "late": self.late,
        }

    @classmethod
    def from_state(
        cls, routes: Mapping[Dialect, Routes], state: dict[str, Any], blob: bytes | memoryview
    ) -> ConnectionState:
        """Restores what `state` returned, and the blob beside it."""
        track = cls(state["connection"], None, state["facts"])
        if state["talk"] is not None:
            track.conversation = Conversation.from_state(routes[track.dialect], state["talk"], track.limits)
            track._answerable.extend(filter(_is_answerable, track.conversation.in_flight))
        track.broken = state["broken"]
        track.sequence, track.principal = state["sequence"], state["principal"]
        track.clients.extend((number, client) for number, client in state["clients"])
        track.usual_client = base64.b64decode(state["usual_client"])
        track.parts = [None if at is None else bytearray(blob[at[0] : at[0] + at[1]]) for at in state["parts"]]
        track.kinds = [FrameKind(kind) for kind in state["kinds"]]
        track.first_ns, track.unreadable = [*state["first_ns"]], [*state["deaf"]]
        # states of older versions lack the key
        track.left_out = (set(state.get("left_out", ([], []))[0]), set(state.get("left_out", ([], []))[1]))
        track.unwanted.extend(state.get("unwanted", ()))
        track.next_entry = state["next_entry"]
        track.reached = state["reached"] and [*state["reached"]]
        track.late = [*state["late"]]
        for name in ("masks", "omissions"):
            for spans, saved in zip(getattr(track, name), state[name], strict=True):
                spans.extend(tuple(span) for span in saved)
        return track


def _end_of_whole_frames(side: Any) -> int:
    """The stream offset where the last whole frame ends."""
    return int(side.open_begin if side.bytes_left else side.offset)


def _is_answerable(exchange: Exchange) -> bool:
    """True if the proxy answers this request itself and has not answered it yet."""
    is_newer = exchange.api_key == API_VERSIONS and exchange.opaque is OpaqueReason.UNKNOWN_VERSION
    return is_newer and not exchange.by_proxy


def _text(raw: bytes) -> str | None:
    return None if raw[:2] == b"\xff\xff" else raw[2:].decode("utf-8", "replace")


def _cut_out(stretches: Stretches, start: int, stop: int) -> Spans:
    """Removes the stretches up to `stop`; returns them as spans relative to `start`, merged where they touch."""
    found: Spans = []
    while stretches and stretches[0][0] < stop:
        first, last = stretches[0]
        begin, end = max(first, start) - start, min(last, stop) - start
        if found and sum(found[-1]) == begin < end:
            found[-1] = (found[-1][0], end - found[-1][0])
        elif begin < end:
            found.append((begin, end - begin))
        if last > stop:
            # the next frame begins within this stretch
            break
        stretches.popleft()
    return found

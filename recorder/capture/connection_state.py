"""One connection as the compactor sees it: its conversation, the frames that are arriving, and its opening.

Used by `assembly`, `streams`, `rows` and `events`. The masked and omitted stretches of frames that are not complete
stand in queues, in stream order. Each is looked at once, when its frame is complete, however many there are.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Exchange, FrameKind, OpaqueReason
from proxy.conversation.routes import Routes
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits
from proxy.wire.headers import CLIENT_ID_SIZE_AT, request_header_version
from proxy.wire.keys import API_VERSIONS
from recorder.capture.columns import ConnectionColumns, Spans
from recorder.capture.frame_spans import take_number
from recorder.capture.frames import GAP_DAMAGE
from recorder.capture.spool import Stretch, short_name

# until the usual client id is known: a length below -1, which no client id has
_NO_CLIENT_ID = b"\x80\x00"
# for the dialect without client ids: matches every frame
_ANY_FRAME = b""

# a connection has few bursts in flight; the responses to older ones are taken one by one
_MOST_RUNS = 64

# (start, stop), both stream offsets
Stretches = deque[Stretch]


class ConnectionState:
    """The state of one connection. Its *record* is what the log tells of it; entries may be missing from the log.

    `conversation` is None while the record is broken off; `broken` then tells where it broke off (`BrokenJson`).
    `opening`: the fields of the OPENED entry; empty while they are unknown. `sequence`: the number of the next frame.
    `next_entry`: the number of the connection's next entry in the log.
    """

    __slots__ = (
        "_answerable",
        "alike_requests",
        "broken",
        "connection",
        "connection_index",
        "conversation",
        "dropped",
        "first_ns",
        "kinds",
        "left_out",
        "left_out_responses",
        "lost_arriving",
        "masks",
        "next_entry",
        "notes",
        "omissions",
        "opening",
        "parts",
        "principal",
        "reached",
        "sequence",
        "unreadable",
        "unusual_client_ids",
        "usual_client_id_bytes",
        "usual_client_id_index",
    )

    def __init__(self, connection: int, conversation: Conversation | None, opening: dict[str, Any]) -> None:
        self.connection = connection
        self.conversation = conversation
        self.opening: dict[str, Any] = {
            name: short_name(value) if isinstance(value, str) else value for name, value in opening.items()
        }
        self.broken: dict[str, Any] | None = None
        # while the record is broken off: the furthest offset seen in each direction; None if none was seen
        self.reached: list[int] | None = None
        self.next_entry = 0
        self.sequence = 0
        # the subject of the client's certificate; after a login, the name that the broker has accepted
        self.principal: str | None = self.opening.get("principal")
        # (exchange number, client id) of each request in flight whose client id is not the usual one
        self.unusual_client_ids: deque[tuple[int, str | None]] = deque()
        # (first, stop): the numbers of requests that are alike (`alike_frames`), and may still be answered
        self.alike_requests: deque[tuple[int, int]] = deque(maxlen=_MOST_RUNS)
        # the client id of the first understood request that has one, with its length as in the head: b"\x00\x02me"
        self.usual_client_id_bytes = _NO_CLIENT_ID if self.dialect is Dialect.KAFKA else _ANY_FRAME
        # indices into the range's `SharedDictionaries`
        self.connection_index = 0
        self.usual_client_id_index = 0
        # `parts` to `left_out` have a value for each direction. `parts`: the bytes of a frame that arrives in pieces
        self.parts: list[bytearray | None] = [None, None]
        # that frame's kind, and the time of its first byte
        self.kinds = [FrameKind.REQUEST, FrameKind.RESPONSE]
        self.first_ns = [0, 0]
        # the stretches of incomplete frames that are masked, omitted, and dropped by a rule for records
        self.masks: tuple[Stretches, Stretches] = (deque(), deque())
        self.omissions: tuple[Stretches, Stretches] = (deque(), deque())
        self.dropped: tuple[Stretches, Stretches] = (deque(), deque())
        # the stream offsets of frames that have not come whole, and the notes of their rows
        self.notes: tuple[deque[tuple[int, str]], deque[tuple[int, str]]] = (deque(), deque())
        # True once frames can't be told apart
        self.unreadable = [False, False]
        # 1 if the record has resumed within a frame: that frame is lost, and is counted when its end has come
        self.lost_arriving = [0, 0]
        # the stream offsets of frames that become no row, by a setting
        self.left_out: tuple[set[int], set[int]] = (set(), set())
        # the numbers of exchanges whose responses become no row, because their requests became none
        self.left_out_responses: deque[int] = deque()
        # requests that the proxy answers itself, without an answer in the log so far
        self._answerable: deque[Exchange] = deque()

    @classmethod
    def of_unknown(cls, connection: int, since_ns: int, *, is_new: bool) -> ConnectionState:
        """A connection whose opening is unknown. `is_new`: no earlier part of it can have been recorded."""
        conn = cls(connection, None, {})
        conn.broken = {"reason": GAP_DAMAGE, "since_ns": since_ns, "next_exchange": 0, "next_whole": 0}
        conn.broken |= {"cut": None, "behind": 0 if is_new else None, "offsets": [0, 0] if is_new else None}
        return conn

    def with_opening(self, opening: dict[str, Any]) -> ConnectionState:
        """A new state of this connection, whose opening has become known. `opening`: the fields of the OPENED entry."""
        known = ConnectionState(self.connection, None, opening)
        known.broken, known.reached, known.next_entry = self.broken, self.reached, self.next_entry
        return known

    @property
    def limits(self) -> FrameLimits:
        """The longest frames that the proxy lets through; only for a connection whose opening is known."""
        return FrameLimits(*self.opening["limits"])

    @property
    def dialect(self) -> Dialect:
        """The dialect that the connection speaks."""
        return Dialect(self.opening.get("dialect", Dialect.KAFKA))

    def shared_columns(self) -> ConnectionColumns:
        """The column values that all frames of the connection share, as they are known now."""
        opening = self.opening
        return ConnectionColumns(
            self.connection,
            opening.get("node"),
            opening.get("listener"),
            opening.get("client"),
            short_name(self.principal),
            opening.get("cluster"),
            self.dialect.value,
        )

    @property
    def usual_client_id(self) -> str | None:
        """The client id of the first understood request that has one; None before such a request."""
        return None if self.usual_client_id_bytes in (_NO_CLIENT_ID, _ANY_FRAME) else _text(self.usual_client_id_bytes)

    def note_client_id(self, exchange: Exchange, frame: bytes) -> str | None:
        """The client id of a request whose client id is not the usual one; None if it is null or unreadable.

        Remembers the client id for the response. While the connection has no usual client id, that of an understood
        request becomes the usual one instead.
        """
        if request_header_version(exchange.api_key, exchange.api_version or 0) == 0:
            frame = frame[:CLIENT_ID_SIZE_AT]
        length = int.from_bytes(frame[CLIENT_ID_SIZE_AT : CLIENT_ID_SIZE_AT + 2], "big", signed=True)
        raw = frame[CLIENT_ID_SIZE_AT : CLIENT_ID_SIZE_AT + 2 + max(length, 0)]
        client = _text(raw) if -1 <= length <= len(raw) - 2 else None
        if self.usual_client_id_bytes == _NO_CLIENT_ID and client is not None and exchange.opaque is None:
            self.usual_client_id_bytes = raw
            return client
        if exchange.awaits:
            self.unusual_client_ids.append((exchange.number, client))
        return client

    def has_usual_client_id(self, number: int) -> bool:
        """True if the request of this exchange had the usual client id; otherwise `unusual_client_ids[0]` has it.

        Forgets the client ids of earlier exchanges, because exchanges end in order.
        """
        clients = self.unusual_client_ids
        while clients and clients[0][0] < number:
            clients.popleft()
        return not clients or clients[0][0] != number

    def request_began(self, exchange: Exchange) -> None:
        """Remembers a request if the proxy answers it itself."""
        if _is_answerable(exchange):
            self._answerable.append(exchange)

    def answered_by_proxy(self, correlation_id: int) -> Exchange:
        """The request with this correlation id, which the proxy has answered. The proxy answers requests in order.

        Raises:
            LookupError: no such request is known.
        """
        if self._answerable and self._answerable[0].correlation_id == correlation_id:
            return self._answerable.popleft()
        for exchange in self.conversation.in_flight if self.conversation is not None else ():
            # this program knows the version, but the older proxy that wrote the log did not, and answered itself
            if exchange.correlation_id == correlation_id and exchange.api_key == API_VERSIONS and not exchange.by_proxy:
                return exchange
        raise LookupError(f"the proxy can't have answered {correlation_id}")

    def may_have_special_frames(self, direction: int) -> bool:
        """True if a byte of an incomplete frame is masked or omitted, or if a coming frame may become no row."""
        gone = self.left_out[direction] or (direction and self.left_out_responses)
        return bool(self.masks[direction] or self.omissions[direction] or self.dropped[direction] or gone)

    def absent_since(self, direction: int, offset: int) -> list[Stretch]:
        """The stretches behind a stream offset whose bytes were omitted or dropped, in offsets from there."""
        found: list[Stretch] = []
        for stretches in (self.omissions[direction], self.dropped[direction]):
            for start, stop in reversed(stretches):
                if stop <= offset:
                    break
                found.append((max(start - offset, 0), stop - offset))
        return sorted(found) if found else found

    def leaves_out(self, direction: int, exchange: Exchange | None, begin: int) -> bool:
        """True if the frame that begins at stream offset `begin` becomes no row. Call it once for each frame."""
        gone = begin in self.left_out[direction]
        self.left_out[direction].discard(begin)
        if exchange is None:
            return gone
        if direction:
            return take_number(self.left_out_responses, exchange.number) or gone
        if gone and exchange.awaits:
            self.left_out_responses.append(exchange.number)
        return gone

    def take_note(self, direction: int, begin: int) -> str | None:
        """The note for the frame that begins at stream offset `begin`, once; None if there is none."""
        notes = self.notes[direction]
        while notes and notes[0][0] < begin:
            notes.popleft()
        return notes.popleft()[1] if notes and notes[0][0] == begin else None

    def spans(self, direction: int, start: int, stop: int) -> tuple[Spans, Spans, Spans]:
        """Removes and returns the masked, the omitted and the dropped spans of the frame between two stream offsets."""
        masked, omitted, dropped = (each[direction] for each in (self.masks, self.omissions, self.dropped))
        return _pop_spans(masked, start, stop), _pop_spans(omitted, start, stop), _pop_spans(dropped, start, stop)

    def break_off(self, reason: str, since_ns: int) -> None:
        """Breaks off the record, and drops the frames that are arriving. No effect while it is broken off.

        `reason`: the cause of the gap's event; `since_ns`: when the gap begins.
        """
        conversation = self.conversation
        if conversation is None:
            return
        self.broken = self._broken(conversation, reason, since_ns)
        self.reached = None
        self.sequence += sum(self.lost_arriving)
        self.lost_arriving = [0, 0]
        self.conversation = None
        self.parts = [None, None]
        self._answerable.clear()
        self.alike_requests.clear()
        for spans in (*self.masks, *self.omissions, *self.dropped, *self.left_out, *self.notes):
            spans.clear()

    def _broken(self, conversation: Conversation, reason: str, since_ns: int) -> dict[str, Any]:
        """Where the record breaks off if it does now (`BrokenJson`)."""
        open_request, next_exchange = conversation.requests_side.open_exchange, conversation.next_request_number
        whole = [_end_of_whole_frames(side) for side in (conversation.requests_side, conversation.responses_side)]
        return {
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

    def reach(self, direction: int, offset: int) -> None:
        """Notes a stream offset that was seen while the record is broken off: the furthest one is kept."""
        if self.broken is None or self.broken["offsets"] is None:
            return
        self.reached = self.reached or [*self.broken["offsets"]]
        self.reached[direction] = max(self.reached[direction], offset)

    def count_lost_frame(self, direction: int) -> None:
        """Counts the lost frame within which the record has resumed, if there is one. Call it when its end has come."""
        self.sequence += self.lost_arriving[direction]
        self.lost_arriving[direction] = 0

    def resume(
        self,
        conversation: Conversation,
        left_out_responses: Iterable[int] = (),
        arriving: tuple[bool, bool] = (False, False),
    ) -> None:
        """Resumes the record with a restored conversation. The client ids of lost requests are unknown.

        Args:
            left_out_responses: the numbers of the exchanges whose responses are left out.
            arriving: per direction, True if `conversation.sequence` counts a frame whose end is still to come.
        """
        whole = 0 if self.broken is None else self.broken["next_whole"]
        self.unusual_client_ids.extend(
            (exchange.number, None) for exchange in conversation.in_flight if exchange.number >= whole
        )
        self.conversation = conversation
        self._answerable = deque(filter(_is_answerable, conversation.in_flight))
        self.left_out_responses = deque(sorted(left_out_responses))
        self.lost_arriving = [int(is_arriving) for is_arriving in arriving]
        self.sequence = conversation.sequence - sum(self.lost_arriving)
        self.broken = self.reached = None
        self.unreadable = [False, False]

    def state(self, blob: bytearray) -> dict[str, Any]:
        """The state as JSON values (`SavedConnectionState`); the bytes of incomplete frames are appended to `blob`."""
        parts: list[Any] = []
        for part in self.parts:
            parts.append(None if part is None else (len(blob), len(part)))
            blob += part or b""
        return {
            "connection": self.connection,
            "opening": self.opening or None,
            "conversation": None if self.conversation is None else self.conversation.state(),
            "broken": self.broken,
            "sequence": self.sequence,
            "principal": self.principal,
            "unusual_client_ids": list(self.unusual_client_ids),
            "usual_client_id_bytes": base64.b64encode(self.usual_client_id_bytes).decode(),
            "parts": parts,
            "kinds": [kind.value for kind in self.kinds],
            "first_ns": self.first_ns,
            "masks": [list(stretches) for stretches in self.masks],
            "omissions": [list(stretches) for stretches in self.omissions],
            "dropped": [list(stretches) for stretches in self.dropped],
            "notes": [list(notes) for notes in self.notes],
            "unreadable": self.unreadable,
            "left_out": [sorted(begins) for begins in self.left_out],
            "left_out_responses": list(self.left_out_responses),
            "next_entry": self.next_entry,
            "reached": self.reached,
            "lost_arriving": self.lost_arriving,
        }

    def state_in_clear(self, reason: str, since_ns: int) -> dict[str, Any]:
        """As `state`, without a byte of traffic: that of a connection whose record breaks off after the last frame.

        `reached` has the bytes of incomplete frames, so that they count as lost.
        """
        conversation = self.conversation
        state = self.state(bytearray())
        if conversation is not None:
            sides = conversation.requests_side, conversation.responses_side
            state |= {
                "conversation": None,
                "broken": self._broken(conversation, reason, since_ns),
                "sequence": self.sequence + sum(self.lost_arriving),
                "reached": [side.offset + len(side.held) for side in sides],
                "lost_arriving": [0, 0],
            }
        nothing: dict[str, Any] = {name: [[], []] for name in ("masks", "omissions", "dropped", "left_out", "notes")}
        return state | nothing | {"left_out_responses": [], "unusual_client_ids": [], "parts": [None, None]}

    @classmethod
    def from_state(
        cls, routes: Mapping[Dialect, Routes], state: dict[str, Any], blob: bytes | memoryview
    ) -> ConnectionState:
        """The connection that a result of `state` describes. `blob`: the bytes that `state` appended.

        Raises ValueError for a conversation on a connection whose opening is unknown.
        """
        conn = cls(state["connection"], None, state["opening"] or {})
        if state["conversation"] is not None:
            if not conn.opening:
                raise ValueError("a conversation without an opening")
            conn.conversation = Conversation.from_state(routes[conn.dialect], state["conversation"], conn.limits)
            conn._answerable.extend(filter(_is_answerable, conn.conversation.in_flight))
        conn.broken = state["broken"]
        conn.sequence, conn.principal = state["sequence"], state["principal"]
        conn.unusual_client_ids.extend((number, client) for number, client in state["unusual_client_ids"])
        conn.usual_client_id_bytes = base64.b64decode(state["usual_client_id_bytes"])
        conn.parts = [None if at is None else bytearray(blob[at[0] : at[0] + at[1]]) for at in state["parts"]]
        conn.kinds = [FrameKind(kind) for kind in state["kinds"]]
        conn.first_ns, conn.unreadable = [*state["first_ns"]], [*state["unreadable"]]
        conn.left_out = (set(state["left_out"][0]), set(state["left_out"][1]))
        conn.left_out_responses.extend(state["left_out_responses"])
        conn.next_entry = state["next_entry"]
        conn.reached = state["reached"] and [*state["reached"]]
        conn.lost_arriving = [*state["lost_arriving"]]
        for name in ("masks", "omissions", "dropped", "notes"):
            for pairs, saved in zip(getattr(conn, name), state[name], strict=True):
                pairs.extend(tuple(pair) for pair in saved)
        return conn


def _end_of_whole_frames(side: Any) -> int:
    """The stream offset at which the last whole frame of a `Side` ends."""
    return int(side.open_begin if side.bytes_left else side.offset)


def _is_answerable(exchange: Exchange) -> bool:
    """True if the proxy answers this request itself and has not answered it yet."""
    is_newer = exchange.api_key == API_VERSIONS and exchange.opaque is OpaqueReason.UNKNOWN_VERSION
    return is_newer and not exchange.by_proxy


def _text(raw: bytes) -> str | None:
    return None if raw[:2] == b"\xff\xff" else raw[2:].decode("utf-8", "replace")


def _pop_spans(stretches: Stretches, start: int, stop: int) -> Spans:
    """Removes the stretches before stream offset `stop`; returns them as spans from `start`, merged if they touch."""
    spans: Spans = []
    while stretches and stretches[0][0] < stop:
        first, last = stretches[0]
        begin, end = max(first, start) - start, min(last, stop) - start
        if spans and sum(spans[-1]) == begin < end:
            spans[-1] = (spans[-1][0], end - spans[-1][0])
        elif begin < end:
            spans.append((begin, end - begin))
        if last > stop:
            # the next frame begins within this stretch
            break
        stretches.popleft()
    return spans

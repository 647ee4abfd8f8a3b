"""The client's direction: one pass over the heads of the requests in each chunk.

A busy proxy spends its time in the loop of `_frames`. A frame whose route is not plain, or whose length is not allowed,
leaves the loop for `_take_special`. A head that a chunk's end has cut is held back until it is whole: a request must be
known before it is passed on, because its response may arrive at once.
"""

from __future__ import annotations

from proxy.conversation.acks import ACKS_SIZE, LONGEST_PRODUCE_HEAD, acks_at
from proxy.conversation.exchange import (
    NOT_ARRIVED,
    Cause,
    Direction,
    Exchange,
    FrameKind,
    OpaqueReason,
)
from proxy.conversation.routes import LOGIN_APIS, Route
from proxy.conversation.shared_state import SharedState
from proxy.conversation.side import Side
from proxy.conversation.step import Edit, Step
from proxy.wire import apis
from proxy.wire.errors import Truncated, WireError
from proxy.wire.framing import REQUEST_HEAD, SHORTEST_REQUEST
from proxy.wire.keys import PRODUCE, SASL_HANDSHAKE
from proxy.wire.sasl import RAW_GSSAPI_TAG, handshake_mechanism

# bytes that tell whether a head is plausible: length, API key, version, correlation id, and the length of the client id
PLAUSIBLE_HEAD = 14
# a longer SaslHandshake is not waited for: a real one holds only a mechanism's name
LONGEST_HANDSHAKE = 4096
# bytes of a Produce request's head that are remembered: client ids are a few dozen
LONGEST_REPEATED = 512
# bytes of a frame up to the end of its correlation id
_ID_END = REQUEST_HEAD.size
# no API and version
_NONE = -1


class RequestSide(Side):
    """The client's direction: every request becomes an exchange; a token, or a frame too short for a head, does not."""

    direction = Direction.REQUEST

    __slots__ = ("_produce", "next_number")

    def __init__(self, shared: SharedState) -> None:
        super().__init__(shared, shared.limits.request)
        # the number that the connection's next request gets
        self.next_number = 0
        # API and version of the last Produce request that awaits a response, and the bytes between its correlation id
        # and the end of its acks: a producer repeats them, and a frame that has them is plain
        self._produce = _NONE, b""

    def _resume_frame(self, step: Step, at_ns: int) -> int:
        exchange = self.open_exchange
        at = self._take_piece(step)
        if exchange is not None and exchange.route.answered_by_proxy:
            # the broker gets no byte of a request that the proxy answers
            step.edits.append(Edit(0, at, b""))
        if not self.bytes_left:
            self.open_exchange = None
            if exchange is not None:
                self._complete(step, exchange, at_ns)
            else:
                self._end_without_exchange(step, at)
        return at

    def _is_searched(self, exchange: Exchange) -> bool:
        return exchange.route.search_request

    def _complete(self, step: Step, exchange: Exchange, at_ns: int) -> None:
        if exchange.request_last_ns == NOT_ARRIVED:
            exchange.request_last_ns = at_ns
        if not exchange.awaits:
            step.one_way.append(exchange)
        elif exchange.route.answered_by_proxy:
            step.to_answer.append(exchange)

    def _frames(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        data, end = step.data, len(step.data)
        last = end - REQUEST_HEAD.size
        unpack, routes, remembered = REQUEST_HEAD.unpack_from, self.shared.routes, self.shared.routes.table
        append, limit, number = self.shared.in_flight.append, self._limit, self.next_number
        # finished exchanges, to be reused
        spare, new = self.shared.spare, Exchange.__new__
        produce, produce_head = self._produce
        exchange = None
        for _ in self._up_to_max_frames:
            if at > last:
                break
            size, api_and_version, correlation_id = unpack(data, at)
            try:
                route = remembered[api_and_version]
            except KeyError:
                route = routes.of(api_and_version)
            if not (route.plain_request and SHORTEST_REQUEST <= size <= limit) and not (
                api_and_version == produce
                and len(produce_head) + SHORTEST_REQUEST <= size <= limit
                and data.startswith(produce_head, at + _ID_END)
            ):
                break
            start, at = at, at + 4 + size
            exchange = spare.pop() if spare else new(Exchange)
            # as `Exchange.__init__`, whose call would take a quarter of this loop's time
            exchange.number, exchange.route, exchange.correlation_id = number, route, correlation_id
            exchange.request_size, exchange.request_first_ns, exchange.request_last_ns = size, first_ns, at_ns
            exchange.awaits, exchange.own_answer, exchange.opaque = True, None, None
            exchange.response_size = exchange.response_first_ns = 0
            exchange.response_last_ns = exchange.previous_last_ns = 0
            append(exchange)
            number += 1
            first_ns = at_ns
        if exchange is not None:
            taken, self.next_number = number - self.next_number, number
            self.shared.login.pending = False
            if at > end:
                exchange.request_last_ns = NOT_ARRIVED
                self._leave_open(step, start, at, FrameKind.REQUEST, exchange, marked=False)
            if at >= end:
                return at
            self.frames_allowed -= taken
            if self.frames_allowed <= 0:
                return at
        return self._take_special(step, at, first_ns, at_ns)

    def _take_special(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        """Reads a frame that left the loop. Returns the next frame's offset.

        Returns `at` if more bytes are needed, or if the frame ends the connection.
        """
        data, have = step.data, len(step.data) - at
        if have < 4:
            return at
        size = self._length(step, at)
        if size < 0:
            return at
        if self._begins_gssapi(step, at, size):
            self.shared.login.begin(self.direction, step.offset + at, None, step)
            self.shared.login.begin(Direction.RESPONSE, self.shared.next_offsets[Direction.RESPONSE], None, step)
            return self._token(step, at, first_ns, at_ns)
        if size < SHORTEST_REQUEST:
            # the frame is too short for a correlation id: no response is expected
            step.opaque_reasons.append(OpaqueReason.UNREADABLE)
            return self._take_without_exchange(step, at, size, FrameKind.BYTES)
        if have < 12:
            return at
        _, api_and_version, correlation_id = REQUEST_HEAD.unpack_from(data, at)
        route = self.shared.routes.of(api_and_version)
        exchange = Exchange(self.next_number, route, correlation_id, size, first_ns, at_ns)
        if route.refused:
            step.cause = Cause.UNSUPPORTED_VERSION
            return at
        try:
            if not self._understand(step, at, size, exchange):
                return at
        except WireError:
            exchange.opaque = OpaqueReason.UNREADABLE
        return self._take(step, at, size, exchange)

    def _begins_gssapi(self, step: Step, at: int, size: int) -> bool:
        """True for the first token of a 0.9.0 client's GSSAPI login, which has no handshake."""
        login = self.shared.login
        return (
            login.decides
            and step.offset + at == 0
            and size > 0
            and len(step.data) > at + 4
            and step.data[at + 4] == RAW_GSSAPI_TAG
        )

    def _understand(self, step: Step, at: int, size: int, exchange: Exchange) -> bool:
        """Reads the fields that decide how to treat this request. False: more bytes are needed. Raises WireError."""
        route, data = exchange.route, step.data
        if route.api_key == SASL_HANDSHAKE:
            # a secret may come next, also if the version of this SaslHandshake is unknown
            self.shared.login.pending = True
        if not route.known:
            return self._classify_opaque(step, at, size, exchange)
        if route.api_key == PRODUCE and not self._read_acks(data, at, size, exchange):
            return False
        if route.api_key not in LOGIN_APIS:
            self.shared.login.pending = False
        if route.api_key == SASL_HANDSHAKE:
            return self._read_handshake(step, at, size, route)
        return True

    def _classify_opaque(self, step: Step, at: int, size: int, exchange: Exchange) -> bool:
        """Notes why a request is opaque: unknown API, unknown version, no head. False: more bytes are needed."""
        if len(step.data) - at < min(PLAUSIBLE_HEAD, 4 + size):
            return False
        known_api = exchange.route.api is not None
        exchange.opaque = OpaqueReason.UNKNOWN_VERSION if known_api else OpaqueReason.UNKNOWN_API
        if not _is_plausible(step.data, at, size):
            exchange.opaque = OpaqueReason.UNREADABLE
        return True

    def _read_acks(self, data: bytes, at: int, size: int, exchange: Exchange) -> bool:
        """Notes whether a Produce request awaits a response. False: more bytes are needed."""
        route = exchange.route
        try:
            acks = acks_at(data, at, route.api_version or 0)
        except Truncated:
            if len(data) - at >= min(4 + size, LONGEST_PRODUCE_HEAD):
                raise
            return False
        head = data[at + _ID_END : acks + ACKS_SIZE]
        exchange.awaits = any(head[-ACKS_SIZE:])
        if exchange.awaits and len(head) <= LONGEST_REPEATED and not (route.mark_request or route.answered_by_proxy):
            self._produce = route.api_and_version, head
        return True

    def _read_handshake(self, step: Step, at: int, size: int, route: Route) -> bool:
        """Reads a SaslHandshake. After version 0, the next frame is a bare token. False: more bytes are needed."""
        stop = at + 4 + size
        is_whole = len(step.data) >= stop
        if route.api_version != 0:
            # the mechanism is for the metrics alone, so no byte waits for it
            if is_whole:
                self.shared.login.mechanism = handshake_mechanism(step.data[at + 4 : stop])
            return True
        if not is_whole and size <= LONGEST_HANDSHAKE:
            return False
        self.shared.login.begin(self.direction, step.offset + stop, handshake_mechanism(step.data[at + 4 : stop]), step)
        return True

    def _take(self, step: Step, at: int, size: int, exchange: Exchange) -> int:
        """Takes one request. Returns the next frame's offset.

        Queues the request if it awaits a response. Marks it for the recorder (`Step.marks`) if its route says so, or if
        it may hold a secret.
        """
        stop = at + 4 + size
        self._charge_search(step, exchange, at, stop)
        end = len(step.data)
        self.next_number += 1
        if exchange.opaque is not None:
            step.opaque_reasons.append(exchange.opaque)
            if self.shared.broker_ignores_opaque and exchange.may_go_unanswered:
                exchange.awaits = False
        if exchange.awaits:
            self.shared.in_flight.append(exchange)
        else:
            self.shared.one_way.append(exchange.correlation_id)
        marked = exchange.route.mark_request or (exchange.opaque is not None and self._must_mark_opaque(exchange))
        if marked:
            self._mark(step, FrameKind.REQUEST, exchange, at, stop)
        if exchange.route.answered_by_proxy:
            step.edits.append(Edit(at, min(stop, end), b""))
        if stop <= end:
            self._complete(step, exchange, exchange.request_last_ns)
        else:
            exchange.request_last_ns = NOT_ARRIVED
            self._leave_open(step, at, stop, FrameKind.REQUEST, exchange, marked)
        return stop

    def _token(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        """Reads a bare login token, or the request that ends an open-ended login. Returns the next frame's offset.

        Returns `at` if more bytes are needed, or if the length ends the connection.
        """
        size = self._length(step, at)
        if size < 0:
            return at
        login = self.shared.login
        # a frame shorter than a plausible head can only be a token, and must not wait for the next frame's bytes
        if login.decides and login.open_ended and size >= PLAUSIBLE_HEAD - 4:
            if len(step.data) - at < PLAUSIBLE_HEAD:
                return at
            if _is_known_request(step.data, at, size):
                login.end((step.offset + at, self.shared.next_offsets[Direction.RESPONSE]), step)
                return self._frames(step, at, first_ns, at_ns)
        return self._take_token(step, at, size)


def _is_plausible(data: bytes, at: int, size: int) -> bool:
    """True if the length of the client id fits into the frame."""
    if size < PLAUSIBLE_HEAD - 4:
        return False
    length = int.from_bytes(data[at + 12 : at + 14], "big", signed=True)
    return -1 <= length <= size - (PLAUSIBLE_HEAD - 4)


def _is_known_request(data: bytes, at: int, size: int) -> bool:
    key, version = (int.from_bytes(data[at + n : at + n + 2], "big", signed=True) for n in (4, 6))
    return apis.known(key, version) and _is_plausible(data, at, size)

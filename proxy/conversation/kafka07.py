"""The dialect of Kafka 0.7: heads of a few bytes, and pairing by order alone.

A response has no correlation id, so it belongs to the oldest request that awaits a response. Wrong pairs can't be
noticed. A request of an unknown type counts as awaiting a response: a broker of 0.7 ends the connection at such a
request, so no later request is paired with a wrong response. There are no logins, no secrets and no addresses: no frame
is marked, and all pass unchanged. Source: `proxy.wire.kafka07`.
"""

from __future__ import annotations

from proxy.conversation.exchange import Cause, Exchange, FrameKind, OpaqueReason
from proxy.conversation.requests import RequestSide
from proxy.conversation.responses import ResponseSide
from proxy.conversation.routes import Route, Routes
from proxy.conversation.step import Step
from proxy.wire.dialects import Dialect
from proxy.wire.kafka07 import SHORTEST_REQUEST, SHORTEST_RESPONSE, RequestHead, request_head

# set in each `api_and_version` of this dialect, above Kafka's 32 bits: metrics keep a row for each such number
_DIALECT_BIT = 1 << 33
# the cost of each frame of this dialect, in plain frames of Kafka (`Side.frames_allowed`)
FRAME_COST = 4


class Routes07(Routes):
    """One route for each type of request."""

    dialect = Dialect.KAFKA_07

    def _make(self, api_and_version: int) -> Route:
        # the type is an int16
        number = api_and_version & 0xFFFF
        number -= (number & 0x8000) << 1
        request_type = RequestHead(0, number).type
        return Route(
            api_key=number,
            api_version=None,
            api=request_type.api if request_type is not None else None,
            known=request_type is not None,
            mark_request=False,
            mark_response=False,
            search_request=False,
            search_response=False,
            answered_by_proxy=False,
            refused=False,
            plain_request=request_type is not None,
            plain_response=request_type is not None,
            api_and_version=api_and_version,
        )


class RequestSide07(RequestSide):
    """The client's direction."""

    __slots__ = ()
    special_cost = FRAME_COST

    def _frames(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        size = self._length(step, at, SHORTEST_REQUEST)
        head = request_head(step.data, at) if size >= 0 else None
        if head is None:
            return at
        route = self.shared.routes.of(_DIALECT_BIT | head.number & 0xFFFF)
        exchange = Exchange(self.next_number, route, None, size, first_ns, at_ns)
        # `awaits_response` is None if the type is unknown, which counts as awaiting a response
        exchange.awaits = head.awaits_response is not False
        if not route.known:
            exchange.opaque = OpaqueReason.UNKNOWN_API
        return self._take(step, at, size, exchange)


class ResponseSide07(ResponseSide):
    """The broker's direction."""

    __slots__ = ()
    special_cost = FRAME_COST

    def _frames(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        size = self._length(step, at, SHORTEST_RESPONSE)
        if size < 0:
            return at
        if not self.shared.in_flight:
            step.cause = Cause.UNEXPECTED_RESPONSE
            return at
        exchange = self.shared.in_flight.popleft()
        exchange.response_at = at
        exchange.response_size = size
        exchange.response_first_ns = first_ns
        exchange.previous_last_ns = self.previous_last_ns
        self.begun += 1
        stop = at + 4 + size
        if stop <= len(step.data):
            self._complete(step, exchange, step.offset + stop, at_ns)
        else:
            self._leave_open(step, at, stop, FrameKind.RESPONSE, exchange, marked=False)
        return stop

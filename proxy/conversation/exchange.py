"""One request and its response: API, sizes and times.

The time of a byte is that of its chunk, in monotonic nanoseconds. Only `timings` computes latency, queueing and
transfer; the metrics and the recorder call it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import NamedTuple

from proxy.conversation.routes import LOGIN_APIS, Route

# `request_last_ns` until the request's last byte arrives
NOT_ARRIVED = 0
# `request_last_ns` if the request's last byte arrived within a gap
TIME_UNKNOWN = -1


class Direction(IntEnum):
    """REQUEST: bytes from the client; RESPONSE: from the broker. The value is an index, also in the recorder's log."""

    REQUEST = 0
    RESPONSE = 1


class FrameKind(StrEnum):
    """The kind of a frame, as in the column `kind`.

    TOKEN: a bare login token. BYTES: a frame without a readable head, or bytes that are no frame.
    """

    REQUEST = "request"
    RESPONSE = "response"
    TOKEN = "token"
    BYTES = "bytes"


class Cause(StrEnum):
    """Why a connection ended; see docs/proxy/watch.md. The value is the metric's label."""

    CLIENT_CLOSED = "client_closed"
    PROBE = "probe"
    BROKER_CLOSED = "broker_closed"
    CLIENT_RESET = "client_reset"
    BROKER_RESET = "broker_reset"
    BAD_LENGTH = "bad_length"
    UNEXPECTED_RESPONSE = "unexpected_response"
    UNSUPPORTED_VERSION = "unsupported_version"
    NOT_REWRITABLE = "not_rewritable"
    TLS_HANDSHAKE = "tls_handshake"
    UNKNOWN_NAME = "unknown_name"
    UNKNOWN_NODE = "unknown_node"
    UPSTREAM_DOWN = "upstream_down"
    LEADS_BACK = "leads_back"
    CLIENT_LOST = "client_lost"
    BROKER_LOST = "broker_lost"
    IDLE = "idle"
    AGED = "aged"
    STALLED = "stalled"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    BAD_PROXY_HEADER = "bad_proxy_header"
    UNTRUSTED = "untrusted"
    DRAINED = "drained"
    DRAIN_DEADLINE = "drain_deadline"
    PROXY_FAULT = "proxy_fault"


class Unexpected(StrEnum):
    """What is wrong with a response that the oldest request in flight does not await; as the log says it."""

    OUT_OF_ORDER = "response is out of order"
    TWICE = "response comes twice"
    NOT_WANTED = "response to a request that awaits none"
    LATE = "response comes too late"
    UNASKED = "response to nothing that was asked"


class OpaqueReason(StrEnum):
    """Why a frame was forwarded without being understood. The value is the metric's label."""

    UNKNOWN_API = "unknown_api"
    UNKNOWN_VERSION = "unknown_version"
    UNREADABLE = "unreadable"


class Exchange:
    """A request on its connection, and its response.

    Sizes leave out the length field (4 bytes).

    Attributes:
        number: the number of the request on its connection, from 0.
        awaits: False if no response is expected, as for a Produce with acks=0.
        own_answer: the proxy's own response, its length field included; None while there is none.
        response_at: where the response begins, as an offset into the `data` of the newest step with bytes of it; below
            0 if it began in an earlier step. Meaningless until the response begins: unset, or left from an earlier use.
        previous_last_ns: the time of the last byte of the connection's previous response.
    """

    # not set in `__init__`, which would cost a hundredth of a small exchange
    response_at: int

    __slots__ = (
        "awaits",
        "correlation_id",
        "number",
        "opaque",
        "own_answer",
        "previous_last_ns",
        "request_first_ns",
        "request_last_ns",
        "request_size",
        "response_at",
        "response_first_ns",
        "response_last_ns",
        "response_size",
        "route",
    )

    def __init__(
        self,
        number: int,
        route: Route,
        correlation_id: int | None,
        request_size: int,
        request_first_ns: int,
        request_last_ns: int,
    ) -> None:
        self.number = number
        self.route = route
        self.correlation_id = correlation_id
        self.request_size = request_size
        self.request_first_ns = request_first_ns
        self.request_last_ns = request_last_ns
        self.response_first_ns = 0
        self.awaits = True
        self.own_answer: bytes | None = None
        self.opaque: OpaqueReason | None = None
        self.response_size = 0
        self.response_last_ns = 0
        self.previous_last_ns = 0

    @property
    def api_key(self) -> int:
        """The request's API key."""
        return self.route.api_key

    @property
    def api_version(self) -> int | None:
        """The request's API version; None in the dialect of 0.7, which has no versions and no correlation ids."""
        return self.route.api_version

    @property
    def api(self) -> str | None:
        """The API's name; None if the catalog lacks it."""
        return self.route.api

    @property
    def may_go_unanswered(self) -> bool:
        """True if the request is opaque and its API is not in LOGIN_APIS, which brokers always answer."""
        return self.opaque is not None and self.route.api_key not in LOGIN_APIS

    @property
    def is_unidentified(self) -> bool:
        """True if the catalog lacks the request's API or version, and its head is implausible.

        It may be no Kafka request.
        """
        return self.opaque is OpaqueReason.UNREADABLE and not self.route.known

    @property
    def by_proxy(self) -> bool:
        """True if the proxy answers the request itself, so that no broker sees it."""
        return self.own_answer is not None


class Timings(NamedTuple):
    """Durations in nanoseconds; None where they are unknown. See "Time" in docs/proxy/frames.md."""

    latency_ns: int | None
    queued_ns: int | None
    transfer_ns: int | None


NO_TIMINGS = Timings(None, None, None)
# a named tuple's own constructor is a Python function that takes twice the time
_timings: Callable[[type[Timings], tuple[int | None, int | None, int]], Timings] = tuple.__new__


def timings(exchange: Exchange) -> Timings:
    """The durations of a completed exchange; NO_TIMINGS if the proxy answered itself or no response began.

    latency: last byte of the request to first byte of the response; 0 if the response began before the request's end.
    queued: the part of the latency before the connection's previous response was complete.
    transfer: first to last byte of the response.
    """
    if exchange.own_answer is not None or not exchange.response_first_ns:
        return NO_TIMINGS
    first = exchange.response_first_ns
    transfer = exchange.response_last_ns - first
    request_last = exchange.request_last_ns
    if request_last == TIME_UNKNOWN:
        return _timings(Timings, (None, None, transfer))
    if request_last == NOT_ARRIVED or request_last >= first:
        return _timings(Timings, (0, 0, transfer))
    latency, queued = first - request_last, exchange.previous_last_ns - request_last
    if queued < 0:
        queued = 0
    elif queued > latency:
        queued = latency
    return _timings(Timings, (latency, queued, transfer))

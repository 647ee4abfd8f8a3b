"""Builds exchanges as the conversation reports them, for tests of metrics."""

from collections.abc import Sequence

from proxy.conversation.exchange import Exchange
from proxy.conversation.login import Login
from proxy.conversation.routes import Routes
from proxy.metrics.logins import CountedLogin
from proxy.metrics.nodes import NodeRow
from proxy.metrics.traffic import CountedConnection, Traffic
from proxy.wire.error_reader import NOTHING
from proxy.wire.framing import framed, pack_api_and_version
from proxy.wire.keys import HEARTBEAT

UNKNOWN_API = 20_000
UNKNOWN_VERSION = 1_000

ROUTES = Routes()
MICROSECOND = 1_000
ASKED_NS = 1_000_000


def exchange(api_key=HEARTBEAT, version=4, *, latency_ns=100 * MICROSECOND, transfer_ns=0, request=30, response=12):
    """A finished exchange, whose request was complete at `ASKED_NS`."""
    made = unanswered(api_key, version, request=request)
    made.response_first_ns = ASKED_NS + latency_ns
    made.response_last_ns = made.response_first_ns + transfer_ns
    made.response_size = response
    made.response_at = 0
    return made


def unanswered(api_key=HEARTBEAT, version=4, *, request=30):
    return Exchange(0, ROUTES.of(pack_api_and_version(api_key, version)), 7, request, ASKED_NS, ASKED_NS)


def laid_out(exchanges: Sequence[Exchange]) -> bytes:
    """Returns the exchanges' responses one after the other, all zeros."""
    data = bytearray()
    for one in exchanges:
        one.response_at = len(data)
        data += framed(bytes(one.response_size))
    return bytes(data)


def anywhere() -> CountedConnection:
    """Returns a connection to a node that no test asks about."""
    return CountedConnection(1, NodeRow(), CountedLogin(Login(decides=True)))


def finish(traffic: Traffic, *exchanges: Exchange, sent_ns: int = 0) -> None:
    """Counts exchanges of one step; zeros are responses without an error."""
    traffic.finished(exchanges, sent_ns, laid_out(exchanges), NOTHING, anywhere())


def failed(code: int) -> bytes:
    """Returns a Heartbeat's response, version 4, of the size in `exchange`."""
    return framed(bytes(9) + code.to_bytes(2, "big", signed=True) + b"\0")


def at_once(*exchanges: Exchange) -> list[Exchange]:
    """Returns the exchanges as one burst: all have the times of the first."""
    for one in exchanges:
        for name in ("request_last_ns", "response_first_ns", "response_last_ns", "previous_last_ns"):
            setattr(one, name, getattr(exchanges[0], name))
    return [*exchanges]

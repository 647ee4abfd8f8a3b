"""Exchanges as the conversation hands them over, for the tests of this room."""

from proxy.conversation.exchange import Exchange
from proxy.conversation.routes import Routes
from proxy.wire.framing import api_word

HEARTBEAT = 12
UNKNOWN_API = 20_000
UNKNOWN_VERSION = 1_000

ROUTES = Routes()
MICROSECOND = 1_000
ASKED_NS = 1_000_000


def exchange(api_key=HEARTBEAT, version=4, *, latency_ns=100 * MICROSECOND, transfer_ns=0, request=30, response=12):
    """A finished exchange: its request was complete at `ASKED_NS`."""
    made = unanswered(api_key, version, request=request)
    made.response_first_ns = ASKED_NS + latency_ns
    made.response_last_ns = made.response_first_ns + transfer_ns
    made.response_size = response
    return made


def unanswered(api_key=HEARTBEAT, version=4, *, request=30):
    return Exchange(0, ROUTES.of(api_word(api_key, version)), 7, request, ASKED_NS, ASKED_NS)

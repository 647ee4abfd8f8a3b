"""Logins as a broker answers them: requests and responses of Kafka's own wire format."""

import pytest

from proxy.conversation import Conversation
from proxy.conversation.exchange import Cause
from proxy.metrics.split_responses import SplitResponses
from proxy.metrics.traffic import Traffic
from proxy.net.cluster import routes
from proxy.wire import catalog
from proxy.wire.keys import HEARTBEAT, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.proxy.conversation.script import framed, request, response

REFUSED = 58


class Talk:
    """A connection whose client logs in."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.conversation = Conversation(routes())
        self.connection = self.traffic.connection(1, "bootstrap", self.conversation.login)
        self.split = SplitResponses(self.conversation.responses_side)
        self._correlation = 0

    def ask(self, key: int, version: int, body: bytes, answer: bytes) -> None:
        self._correlation += 1
        self.conversation.requests(request(key, version, self._correlation, body), 1)
        step = self.conversation.responses(response(self._correlation, answer), 2)
        self.traffic.finished(step.finished, 3, step.data, self.split.follow(step), self.connection)

    def handshake(self, mechanism: str, *, version: int = 1, error: int = 0) -> None:
        codec = catalog.codec("request", SASL_HANDSHAKE, version)
        assert codec is not None
        answer = error.to_bytes(2, "big") + bytes(4)
        self.ask(SASL_HANDSHAKE, version, codec.encode({"mechanism": mechanism}), answer)

    def authenticate(self, *, error: int = 0) -> None:
        answer = error.to_bytes(2, "big") + b"\xff\xff" + bytes(4)
        self.ask(SASL_AUTHENTICATE, 0, b"\0\0\0\1x", answer)

    def beat(self) -> None:
        self.ask(HEARTBEAT, 0, b"\0\1g\0\0\0\1\0\1m", b"\0\0")

    def end(self, cause: Cause) -> None:
        self.traffic.disconnected(self.connection, cause)


@pytest.mark.parametrize(
    ("sent", "label"),
    [("PLAIN", "PLAIN"), ("SCRAM-SHA-512", "SCRAM-SHA-512"), ('x"\n{}' * 50, "other")],
    ids=["plain", "scram", "hostile"],
)
def test_a_login_has_succeeded_once_another_request_is_answered(sent, label):
    talk = Talk()
    talk.handshake(sent)
    talk.authenticate()
    talk.authenticate()
    assert not talk.traffic.logins
    talk.beat()
    talk.beat()
    talk.end(Cause.CLIENT_CLOSED)
    assert talk.traffic.logins == {(label, "succeeded"): 1}


def test_each_renewed_login_of_a_connection_counts():
    talk = Talk()
    for _ in range(2):
        talk.handshake("PLAIN")
        talk.authenticate()
        talk.beat()
    assert talk.traffic.logins == {("PLAIN", "succeeded"): 2}


def test_an_error_code_refuses_a_login_once():
    talk = Talk()
    talk.handshake("PLAIN")
    talk.authenticate(error=REFUSED)
    talk.end(Cause.BROKER_CLOSED)
    assert talk.traffic.logins == {("PLAIN", "refused"): 1}


def test_a_mechanism_that_the_broker_lacks_is_refused():
    talk = Talk()
    talk.handshake("GSSAPI", error=33)
    talk.end(Cause.CLIENT_CLOSED)
    assert talk.traffic.logins == {("GSSAPI", "refused"): 1}


@pytest.mark.parametrize(("cause", "outcome"), [(Cause.BROKER_CLOSED, "refused"), (Cause.CLIENT_RESET, "unfinished")])
def test_a_login_that_ends_with_its_connection_is_refused_if_the_broker_ends_it(cause, outcome):
    talk = Talk()
    talk.handshake("PLAIN", version=0)
    # a bare token, which has no head
    talk.conversation.requests(framed(b"\0user\0password"), 1)
    talk.end(cause)
    assert talk.traffic.logins == {("PLAIN", outcome): 1}


def test_a_connection_without_a_login_counts_none():
    talk = Talk()
    talk.beat()
    talk.end(Cause.BROKER_CLOSED)
    assert not talk.traffic.logins

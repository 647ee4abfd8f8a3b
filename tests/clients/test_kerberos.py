"""Tests of logins with Kerberos (GSSAPI) through the proxy: the ticket is for the dialled host, which is the proxy's.

Brokers have only the key of the proxy's name, so a login for another host fails.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from proxy.wire.keys import SASL_AUTHENTICATE
from tests.brokers.jars import VERSION
from tests.brokers.kafka import KafkaCluster, class_archive
from tests.brokers.kdc import Kdc
from tests.clients.checks import OWN_QUESTIONS, captured_connections, decoded, decoded_request
from tests.clients.harness import ADVERTISED_HOST, Proxied, compact, proxied
from tests.clients.streams import Conversation
from tests.clients.workloads import round_trip

pytestmark = pytest.mark.real

SERVICE, CLIENT = f"kafka/{ADVERTISED_HOST}", "dora"
# The newest brokers that support the logins of old clients: those of 0.10 send SaslHandshake version 0 and then tokens
# without heads, those of 0.9 send only tokens.
OLDER, OLD_CLIENTS = "3.9.2", ("0.10.2.2", "0.9.0.1")
# how the client's tokens begin: its ticket (RFC 2743, 3.1), and its choice, wrapped (RFC 4121, 4.2.6.2)
TICKET, WRAPPED = b"\x60", b"\x05\x04"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(tmp_path_factory.mktemp("kerberos") / "kdc", [SERVICE, CLIENT]) as running:
        yield running


def kafka(kdc: Kdc, folder: Path, release: str = VERSION) -> KafkaCluster:
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,GSSAPI",
        "listener.name.login.gssapi.sasl.jaas.config": kdc.jaas(SERVICE),
        "sasl.kerberos.service.name": "kafka",
    }
    archive = [f"-XX:SharedArchiveFile={class_archive('broker')}"] if release == VERSION else []
    return KafkaCluster(1, folder=folder, settings=settings, jvm_options=[*archive, *kdc.jvm_options], release=release)


def works(kdc: Kdc, client: str, bootstrap: str, folder: Path) -> None:
    """The client of that release logs in, writes and reads."""
    config, login = folder / "client.properties", folder / "login.conf"
    config.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n")
    login.write_text(f"KafkaClient {{ {kdc.jaas(CLIENT)} }};")
    options = [*kdc.jvm_options, f"-Djava.security.auth.login.config={login}"]
    round_trip.kafka_clients(client, bootstrap, ["gzip"], config=config, jvm_options=options)


@pytest.mark.long
def test_a_ticket_for_the_proxy_logs_in(kdc: Kdc, tmp_path: Path) -> None:
    with kafka(kdc, tmp_path / "kafka") as cluster, proxied(cluster, tmp_path / "proxy", login=True) as proxy:
        works(kdc, VERSION, proxy.bootstrap, tmp_path)
    _, far = proxy.conversations()
    check_kept(proxy, [token for talk in far for token in _tokens(talk)])


@pytest.mark.long
def test_tokens_of_old_clients_that_have_no_heads_log_in(kdc: Kdc, tmp_path: Path) -> None:
    """Nothing on the wire tells where these logins end."""
    with kafka(kdc, tmp_path / "kafka", OLDER) as cluster, Proxied(cluster, tmp_path / "proxy", login=True) as proxy:
        for client in OLD_CLIENTS:
            works(kdc, client, proxy.bootstrap, tmp_path)
        assert proxy.stop() == 0
        compact(proxy.capture)
        near, far = map(_sent, proxy.conversations())
    assert near == far
    assert {frames[0][:2] for frames in near} == {b"\x00\x11", TICKET + b"\x82"}
    check_kept(proxy, [frame for frames in far for frame in frames if frame.startswith((TICKET, WRAPPED))])


def check_kept(proxy: Proxied, tokens: Sequence[bytes]) -> None:
    """The capture has no token, all other frames with their APIs, and no principal."""
    begins = {token[:1] for token in tokens}
    assert begins >= {TICKET, WRAPPED[:1]}
    rows = [row for rows in captured_connections(proxy.capture).values() for row in rows]
    kept = b"".join(row["frame"] for row in rows)
    assert not [token for token in tokens if token in kept]
    assert {row["note"] for row in rows} == {row["principal"] for row in rows} == {None}
    named = {row["api"] for row in rows if row["kind"] != "token"}
    assert named >= {"Metadata", "Produce", "Fetch", "JoinGroup", "OffsetCommit"}
    assert None not in named


def _tokens(talk: Conversation) -> Iterator[bytes]:
    """Yields the tokens within SaslAuthenticate, in both directions."""
    for request in talk.requests:
        if request.head[0] == SASL_AUTHENTICATE:
            yield decoded_request(request)["auth_bytes"]
    yield from filter(None, (decoded(one)["auth_bytes"] for one in talk.responses if one.api_key == SASL_AUTHENTICATE))


def _sent(conversations: Sequence[Conversation]) -> list[list[bytes]]:
    """Returns the clients' bytes on each connection with any. There may be no heads to read."""
    talks = ([request.frame for request in talk.requests] for talk in conversations)
    return sorted(frames for frames in talks if frames and OWN_QUESTIONS.encode() not in frames[0])

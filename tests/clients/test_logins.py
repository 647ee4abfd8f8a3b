"""Tests of logins through the proxy: no secret is recorded.

The proxy has no credentials of its own here: it learns its nodes from the first client's responses.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.wire.keys import SASL_AUTHENTICATE
from tests.brokers.kafka import USER, KafkaCluster
from tests.clients.checks import captured_connections, decoded, decoded_request
from tests.clients.harness import compact, proxied
from tests.clients.streams import Conversation
from tests.clients.workloads import confluent, logins
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real


def test_every_client_logs_in_and_no_secret_is_kept(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    topic = confluent.create_topic(kafka_three.bootstrap, "login")
    with proxied(kafka_three, tmp_path, login=True) as proxy:
        logins.makes_a_user(kafka_three, proxy.bootstrap)
        for mechanism in (logins.PLAIN, logins.SCRAM_256, logins.SCRAM_512):
            logins.confluent_logs_in(proxy.bootstrap, topic, mechanism)
            logins.aiokafka_logs_in(proxy.bootstrap, topic, mechanism)
            logins.kafka_python_logs_in(proxy.bootstrap, topic, mechanism)
            logins.java_logs_in(kafka_three, proxy.bootstrap, topic, mechanism, tmp_path)
        assert proxy.stop() == 0
        compact(proxy.capture)
        _, far = proxy.conversations()
    secrets = {secret for talk in far for secret in _secrets(talk) if secret} | set(logins.SECRETS)
    assert any(logins.SECRETS[0] in secret for secret in secrets)
    rows = [row for rows in captured_connections(proxy.capture).values() for row in rows]
    kept = b"".join(row["frame"] for row in rows)
    assert not [secret for secret in secrets if secret in kept]
    assert {row["principal"] for row in rows} == {None, USER, logins.SCRAM_USER}


def test_a_refused_login_names_no_principal(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path, login=True, disturbed=True) as proxy:
        logins.confluent_is_refused(proxy.bootstrap, logins.PLAIN)
        logins.makes_a_user(kafka_three, proxy.bootstrap)
        logins.confluent_is_refused(proxy.bootstrap, logins.SCRAM_256)
        assert proxy.stop() == 0
        compact(proxy.capture)
    connections = [*captured_connections(proxy.capture).values()]
    refused = [rows for rows in connections if b"no-such" in b"".join(row["frame"] for row in rows)]
    assert refused == []
    named = {rows[-1]["principal"] for rows in connections if rows[-1]["api"] == "SaslAuthenticate"}
    assert named == {None}
    assert USER in {row["principal"] for rows in connections for row in rows}


@pytest.fixture(scope="module")
def kafka_strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node that requires a new login every two seconds (KIP-368), and accepts unsigned tokens."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    bearer = f'{module} required unsecuredLoginStringClaim_sub="broker";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.login.oauthbearer.sasl.jaas.config": bearer,
        "connections.max.reauth.ms": 2000,
    }
    with KafkaCluster(1, folder=tmp_path_factory.mktemp("kafka") / "strict", settings=settings) as cluster:
        yield cluster


def test_tokens_of_oauth_pass_and_name_their_subject(kafka_strict: KafkaCluster, tmp_path: Path) -> None:
    topic = confluent.create_topic(kafka_strict.bootstrap, "oauth")
    with proxied(kafka_strict, tmp_path, login=True) as proxy:
        logins.confluent_logs_in(proxy.bootstrap, topic, logins.OAUTHBEARER)
        logins.aiokafka_logs_in(proxy.bootstrap, topic, logins.OAUTHBEARER)
        logins.kafka_python_logs_in(proxy.bootstrap, topic, logins.OAUTHBEARER)
        logins.java_logs_in(kafka_strict, proxy.bootstrap, topic, logins.OAUTHBEARER, tmp_path)
        assert proxy.stop() == 0
        compact(proxy.capture)
        _, far = proxy.conversations()
    tokens = {token for talk in far for token in _secrets(talk) if b"auth=Bearer" in token}
    rows = [row for rows in captured_connections(proxy.capture).values() for row in rows]
    kept = b"".join(row["frame"] for row in rows)
    assert tokens
    assert not [token for token in tokens if token.split()[-1].strip(b"\1") in kept]
    assert {row["principal"] for row in rows} == {None, logins.BEARER_USER}
    assert {row["principal"] for row in rows if row["api"] == "Produce"} == {logins.BEARER_USER}


@pytest.mark.long
@pytest.mark.parametrize("mechanism", mostly_long([logins.OAUTHBEARER, logins.PLAIN], usual=1))
@pytest.mark.parametrize("client", mostly_long(["confluent", "java"], usual=1))
def test_logging_in_again_passes_on_the_same_connection(
    kafka_strict: KafkaCluster, tmp_path: Path, client: str, mechanism: str
) -> None:
    topic = confluent.create_topic(kafka_strict.bootstrap, "again")
    with proxied(kafka_strict, tmp_path, login=True) as proxy:

        def is_enough() -> bool:
            near, _ = proxy.conversations()
            return any(_logins(talk) >= 3 for talk in near)

        if client == "confluent":
            logins.confluent_stays_logged_in(proxy.bootstrap, topic, mechanism, is_enough)
        else:
            logins.java_stays_logged_in(kafka_strict, proxy.bootstrap, topic, mechanism, tmp_path, is_enough)
        assert proxy.stop() == 0
        compact(proxy.capture)
    user = {logins.PLAIN: USER, logins.OAUTHBEARER: logins.BEARER_USER}[mechanism]
    connections = captured_connections(proxy.capture).values()
    again = [rows for rows in connections if [row["api"] for row in rows].count("SaslAuthenticate") >= 6]
    assert again
    for rows in again:
        kinds = {(row["kind"], row["note"]) for row in rows}
        assert kinds == {("request", None), ("response", None)}
        assert {row["principal"] for row in rows if row["api"] == "Produce"} <= {user}


def _logins(talk: Conversation) -> int:
    return sum(request.head[0] == SASL_AUTHENTICATE for request in talk.requests)


def _secrets(talk: Conversation) -> Iterator[bytes]:
    """Yields the secrets that passed the proxy: logins' tokens in both directions, a new user's password."""
    for request in talk.requests:
        body = decoded_request(request)
        yield body.get("auth_bytes", b"")
        yield from (made["salted_password"] for made in body.get("upsertions", []))
    for response in talk.responses:
        if response.api_key == SASL_AUTHENTICATE:
            yield decoded(response)["auth_bytes"]

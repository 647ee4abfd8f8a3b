"""Logins pass the proxy, and nothing that is secret in them is kept.

The proxy has no credentials of its own here: it learns its nodes from the first client's answers.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.wire import catalog
from tests.brokers.kafka import USER, KafkaCluster
from tests.clients.checks import captured_connections, decoded
from tests.clients.harness import compact, proxied
from tests.clients.streams import Conversation
from tests.clients.workloads import confluent, logins

pytestmark = pytest.mark.real

SASL_AUTHENTICATE = 36


def test_every_client_logs_in_and_no_secret_is_kept(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    topic = confluent.create_topic(kafka_three.bootstrap, "login")
    with proxied(kafka_three, tmp_path, login=True) as proxy:
        logins.makes_a_user(kafka_three, proxy.bootstrap)
        for mechanism in (logins.PLAIN, logins.SCRAM):
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


def _secrets(talk: Conversation) -> Iterator[bytes]:
    """What passed the proxy and is nobody's business: logins' tokens either way, a new user's password."""
    for request in talk.requests:
        _, body = catalog.decode_request(request.frame)
        yield body.get("auth_bytes", b"")
        yield from (made["salted_password"] for made in body.get("upsertions", []))
    for response in talk.responses:
        if response.api_key == SASL_AUTHENTICATE:
            yield decoded(response)["auth_bytes"]

"""Tests of TLS on either side of the proxy, on real Kafka, with each client; changing certificates; bulk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.brokers.kafka import TAPPED_HOST, USER, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.certificates import Authority
from tests.clients.checks import captured_connections
from tests.clients.harness import ADVERTISED_HOST, LISTEN_HOST, Proxied, compact
from tests.clients.workloads import confluent, fresh, logins
from tests.clients.workloads.secure import CLIENTS, SENT, Security
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

BULK = 50_000_000
# the protocols of clients and of brokers
SIDES = [("tls", "plain"), ("plain", "mtls"), ("tls", "mtls"), ("mtls", "mtls")]


@dataclass(frozen=True, slots=True)
class Signed:
    """The CAs: clients trust the proxy's, the proxy trusts the brokers', and each requires certificates of its own."""

    brokers_ca: Authority
    proxys_ca: Authority
    clients_ca: Authority
    client: Path
    upstream: Path
    proxy: Path


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    folder = tmp_path_factory.mktemp("certificates")
    brokers, proxys, clients = (Authority(folder, name) for name in ("brokers", "proxys", "clients"))
    return Signed(
        brokers,
        proxys,
        clients,
        clients.signs("client", "client.invalid", common_name="orders", organization_name="Shop").path,
        brokers.signs("upstream", "proxy.invalid", common_name="the proxy").path,
        proxys.signs("proxy", LISTEN_HOST, ADVERTISED_HOST).path,
    )


@pytest.fixture(scope="module")
def kafka_tls(signed: Signed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node whose tapped listener speaks TLS and requires a certificate."""
    broker = signed.brokers_ca.signs("broker", TAPPED_HOST.format(1)).path
    settings = {
        "listener.security.protocol.map": "DIRECT:PLAINTEXT,TAPPED:SSL,LOGIN:SASL_SSL,QUORUM:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": broker,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": signed.brokers_ca.path,
        "listener.name.tapped.ssl.client.auth": "required",
    }
    with KafkaCluster(1, folder=tmp_path_factory.mktemp("kafka") / "tls", settings=settings) as cluster:
        yield cluster


@pytest.fixture
def topic(kafka_one: KafkaCluster, kafka_tls: KafkaCluster) -> str:
    """A topic with the same name on both clusters."""
    name = fresh("tls")
    for cluster in (kafka_one, kafka_tls):
        confluent.create_named_topic(cluster.bootstrap, name)
    return name


def settings_file(folder: Path, signed: Signed, *, clients: str, brokers: str) -> Path:
    """`clients` and `brokers`: plain, tls, mtls."""
    lines = ["[clusters.main]", f"timeouts.tls = {PATIENCE}"]
    if clients != "plain":
        lines.append(f'tls.certificate = "{signed.proxy}"')
    if clients == "mtls":
        lines.append(f'tls.client_ca = "{signed.clients_ca.path}"')
    if brokers != "plain":
        lines.append(f'tls.upstream.ca = "{signed.brokers_ca.path}"')
        lines.append(f'tls.upstream.certificate = "{signed.upstream}"')
        lines.append(f"tls.upstream.anyone_may_use_it = {'false' if clients == 'mtls' else 'true'}")
    path = folder / "wiretap.toml"
    path.write_text("\n".join(lines))
    return path


def proxied(cluster: KafkaCluster, folder: Path, signed: Signed, clients: str, brokers: str, **more: Any) -> Proxied:
    file = settings_file(folder, signed, clients=clients, brokers=brokers)
    return Proxied(cluster, folder, options=["--config", str(file)], **more)


def security(signed: Signed, clients: str) -> Security:
    ca = None if clients == "plain" else signed.proxys_ca.path
    return Security(ca, signed.client if clients == "mtls" else None)


# each client with certificates on both sides, and one client with everything less
WAYS = [("tls", "plain"), ("plain", "mtls"), ("tls", "mtls"), ("mtls", "mtls")]
CASES = [(client, *way) for client in CLIENTS for way in WAYS]


@pytest.mark.parametrize(
    ("client", "clients", "brokers"),
    mostly_long(CASES, lambda case: case[1:] == WAYS[-1] or (case[0] == "confluent" and case[1:] != WAYS[-2])),
)
def test_each_client_works(
    kafka_one: KafkaCluster,
    kafka_tls: KafkaCluster,
    signed: Signed,
    topic: str,
    tmp_path: Path,
    client: str,
    clients: str,
    brokers: str,
) -> None:
    cluster = kafka_one if brokers == "plain" else kafka_tls
    with proxied(cluster, tmp_path, signed, clients, brokers) as proxy:
        found = CLIENTS[client](cluster, proxy.bootstrap, topic, security(signed, clients), tmp_path)
        assert proxy.stop() == 0
        assert found == SENT
        assert "Traceback" not in proxy.log
        assert "does not name its nodes" not in proxy.log
        compact(proxy.capture)
        rows = [row for rows in captured_connections(proxy.capture).values() for row in rows]
    assert {"Metadata", "Produce", "Fetch"} <= {row["api"] for row in rows}
    (principal,) = {row["principal"] for row in rows}
    if clients == "mtls":
        assert principal.startswith("CN=orders,OU=Testing cert ")
        assert principal.endswith(",O=Shop")
    else:
        assert principal is None


def test_logins_pass_from_plaintext_to_tls_and_name_the_principal(
    kafka_tls: KafkaCluster, signed: Signed, topic: str, tmp_path: Path
) -> None:
    with proxied(kafka_tls, tmp_path, signed, "plain", "mtls", login=True) as proxy:
        logins.confluent_logs_in(proxy.bootstrap, topic, logins.PLAIN)
        logins.kafka_python_logs_in(proxy.bootstrap, topic, logins.PLAIN)
        assert proxy.stop() == 0
        compact(proxy.capture)
        rows = [row for rows in captured_connections(proxy.capture).values() for row in rows]
    assert {row["principal"] for row in rows if row["api"] == "Produce"} == {USER}
    assert not [row for row in rows if logins.SECRETS[0] in row["frame"]]


def test_certificates_change_while_clients_are_connected(
    kafka_tls: KafkaCluster, signed: Signed, topic: str, tmp_path: Path
) -> None:
    with proxied(kafka_tls, tmp_path, signed, "tls", "mtls", record=False) as proxy:
        settings = {"bootstrap.servers": proxy.bootstrap} | security(signed, "tls").librdkafka
        lost: list[KafkaError] = []
        old = Producer(settings | {"error_cb": lost.append})
        old.produce(topic, b"before")
        assert old.flush(PATIENCE) == 0
        kept = signed.proxy.read_bytes()
        try:
            # another CA, which only the new client trusts
            other = Authority(tmp_path, "other")
            signed.proxy.write_bytes(other.signs("changed", LISTEN_HOST, ADVERTISED_HOST).path.read_bytes())
            new = Producer(settings | {"ssl.ca.location": str(other.path)})
            for producer in (new, old):
                producer.produce(topic, b"after")
                assert producer.flush(PATIENCE) == 0
            signed.proxy.write_text("half a certificate")
            newest = Producer(settings | {"ssl.ca.location": str(other.path)})
            newest.produce(topic, b"after")
            assert newest.flush(PATIENCE) == 0
        finally:
            signed.proxy.write_bytes(kept)
        assert lost == []
        assert proxy.log.count("certificates have changed") == 1
        assert proxy.log.count("those from before stay") == 1


@pytest.mark.long
def test_a_fetch_of_50_mb_arrives(kafka_tls: KafkaCluster, signed: Signed, tmp_path: Path) -> None:
    config: dict[str, Any] = {"max.message.bytes": str(BULK + 1000)}
    topic = confluent.create_topic(kafka_tls.bootstrap, "bulk", **config)
    value = bytes(range(256)) * (BULK // 256)
    with proxied(kafka_tls, tmp_path, signed, "tls", "mtls") as proxy:
        settings = {"bootstrap.servers": proxy.bootstrap} | security(signed, "tls").librdkafka
        large = {"message.max.bytes": BULK + 10_000}
        producer = Producer(settings | large)
        producer.produce(topic, value)
        assert producer.flush(2 * PATIENCE) == 0
        room = {"fetch.message.max.bytes": BULK + 10_000, "fetch.max.bytes": BULK + 10_000}
        reader = {"group.id": fresh("bulk"), "auto.offset.reset": "earliest", "receive.message.max.bytes": 2 * BULK}
        consumer = Consumer(settings | large | room | reader)
        consumer.subscribe([topic])
        message = consumer.poll(2 * PATIENCE)
        assert message is not None
        assert message.value() == value
        consumer.close()
        assert proxy.stop() == 0
        compact(proxy.capture)
        rows = [row for rows in captured_connections(proxy.capture).values() for row in rows]
    assert max(row["size"] for row in rows if row["api"] == "Fetch") > BULK


def test_a_clients_reason_not_to_trust_the_proxy_is_in_the_log(
    kafka_tls: KafkaCluster, signed: Signed, tmp_path: Path
) -> None:
    with proxied(kafka_tls, tmp_path, signed, "tls", "mtls", record=False) as proxy:
        said: list[KafkaError] = []
        settings = {"bootstrap.servers": proxy.bootstrap} | Security(signed.brokers_ca.path).librdkafka
        producer = Producer(settings | {"error_cb": said.append})
        wait_for(lambda: producer.poll(0.05) or said, "the client to give up")
        assert any("certificate verify failed" in error.str() for error in said)
        wait_for(lambda: "alert unknown ca" in proxy.log, "the proxy's log")
        assert "Traceback" not in proxy.log


def test_a_broker_tells_that_it_wants_a_certificate(kafka_tls: KafkaCluster, signed: Signed, tmp_path: Path) -> None:
    file = tmp_path / "wiretap.toml"
    file.write_text(f'clusters.main.tls.upstream.ca = "{signed.brokers_ca.path}"')
    with Proxied(kafka_tls, tmp_path, options=["--config", str(file)], record=False) as proxy:
        wait_for(lambda: "certificate required" in proxy.log or "bad certificate" in proxy.log, "the reason")


@pytest.mark.parametrize("brokers", ["plain", "mtls"])
def test_a_port_that_is_not_meant_is_named(
    kafka_one: KafkaCluster, kafka_tls: KafkaCluster, signed: Signed, tmp_path: Path, brokers: str
) -> None:
    """TLS to a plaintext broker, and plaintext to one with TLS."""
    cluster = kafka_one if brokers == "mtls" else kafka_tls
    with proxied(cluster, tmp_path, signed, "plain", brokers, record=False) as proxy:
        expected = {"plain": "is this a TLS port?", "mtls": "is it a plaintext port?"}
        closed = "closed the connection instead of answering"
        wait_for(lambda: expected[brokers] in proxy.log or (brokers == "plain" and closed in proxy.log), "the reason")

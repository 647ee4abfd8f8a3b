"""Tests of one TLS port for a whole cluster: a client names the node in its handshake.

No resolver knows these names, so each client learns their addresses in its own way.
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.brokers.ports import Reserved
from tests.brokers.waiting import PATIENCE, wait_for
from tests.certificates import Authority
from tests.clients.checks import is_own_question
from tests.clients.harness import PROGRAM, READY_SECONDS, STOP_SECONDS
from tests.clients.streams import Conversation
from tests.clients.tap import Tap
from tests.clients.workloads import confluent, values

pytestmark = pytest.mark.real

HOST, DOMAIN = "127.88.21.1", "kafka.test"
NODES = (1, 2, 3)


def test_python_clients_find_every_node_behind_one_port(
    kafka_three: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *others, **more: resolve(HOST if is_named(host) else host, *others, **more),
    )
    topic = confluent.create_topic(kafka_three.bootstrap, "one-port", partitions=len(NODES))
    sent = values("one port", 30)
    with one_port(kafka_three, tmp_path) as (bootstrap, ca):
        how: dict[str, Any] = {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_cafile": str(ca)}
        producer = KafkaProducer(**how)
        for number, value in enumerate(sent):
            producer.send(topic, value, partition=number % len(NODES)).get(PATIENCE)
        producer.close()
        consumer = KafkaConsumer(**how, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE * 1000)
        consumer.assign([TopicPartition(topic, partition) for partition in range(len(NODES))])
        assert sorted(next(consumer).value for _ in sent) == sorted(sent)
        consumer.close()


@pytest.mark.long
def test_java_clients_find_every_node_behind_one_port(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    names = [DOMAIN, *(f"broker-{node}.{DOMAIN}" for node in NODES)]
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"{HOST} {name}\n" for name in names))
    topic = confluent.create_topic(kafka_three.bootstrap, "one-port", partitions=len(NODES))
    sent = values("one port", 30)
    with one_port(kafka_three, tmp_path) as (bootstrap, ca):
        config = tmp_path / "client.properties"
        config.write_text(
            f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={ca}\nlinger.ms=0\nbatch.size=0\n"
        )

        def run(tool: str, *arguments: str, given: bytes = b"") -> bytes:
            command = kafka_three.untrained(tool, f"-Djdk.net.hosts.file={hosts}")
            where = ["--bootstrap-server", bootstrap, "--topic", topic, "--command-config", str(config)]
            done = subprocess.run([*command, *where, *arguments], input=given, capture_output=True)
            assert done.returncode == 0, done.stderr.decode()
            return done.stdout

        patient = ["--request-timeout-ms", str(PATIENCE * 1000)]
        run("kafka-console-producer", *patient, given=b"".join(value + b"\n" for value in sent))
        until = ["--max-messages", str(len(sent)), "--timeout-ms", str(PATIENCE * 1000)]
        seen = run("kafka-console-consumer", "--from-beginning", *until)
        assert sorted(seen.splitlines()) == sorted(sent)


def is_named(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host)
    return name == DOMAIN or name.endswith("." + DOMAIN)


@contextmanager
def one_port(cluster: KafkaCluster, folder: Path) -> Iterator[tuple[str, Path]]:
    """A proxy before the cluster: the bootstrap address, and the CA that clients trust. All nodes can be reached."""
    ca, listener = Authority(folder), Reserved(HOST)
    certificate = ca.signs("proxy", DOMAIN, f"*.{DOMAIN}").path
    brokers = [str(node.tapped) for node in cluster.nodes.values()]
    (folder / "proxy.toml").write_text(f"""
[clusters.main]
upstream = ["{brokers[0]}"]
listen = "{listener}"
mapping = "sni"
advertise = "broker-{{node_id}}.{DOMAIN}"
bootstrap_name = "{DOMAIN}"
state = "{folder}/state.json"
tls.certificate = "{certificate}"
""")
    proxy = children.spawn([*PROGRAM, "proxy", "--config", str(folder / "proxy.toml")], output=folder / "proxy.log")
    try:
        with Tap(cluster.tap_routes, folder / "brokers") as tap:
            wait_for(lambda: "listening on" in _log(folder), "the proxy to listen", seconds=READY_SECONDS)
            yield f"{DOMAIN}:{listener.port}", ca.path
            code = children.stop(proxy, seconds=STOP_SECONDS)
    finally:
        children.stop(proxy, seconds=STOP_SECONDS)
        listener.release()
    # a client that names no node reaches the first one
    assert {one.dialled for one in map(Conversation, tap.connections()) if not is_own_question(one)} == {*brokers}
    assert code == 0, _log(folder)[-3000:]
    assert "Traceback" not in _log(folder), _log(folder)[-5000:]


def _log(folder: Path) -> str:
    return (folder / "proxy.log").read_text(errors="replace")

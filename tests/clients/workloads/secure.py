"""Each client produces and reads back: with or without TLS, a certificate, a login."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE
from tests.clients.workloads import ASKS_SOON, fresh
from tests.clients.workloads.confluent import value_of

SENT = [f"over whatever it is {number}".encode() for number in range(5)]


@dataclass(frozen=True, slots=True)
class Security:
    """How a client speaks. `ca`: who has signed the broker's certificate; None: plaintext."""

    ca: Path | None = None
    certificate: Path | None = None

    @property
    def protocol(self) -> str:
        return "PLAINTEXT" if self.ca is None else "SSL"

    @property
    def context(self) -> ssl.SSLContext | None:
        if self.ca is None:
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate)
        return context

    @property
    def librdkafka(self) -> dict[str, str]:
        settings = {"security.protocol": self.protocol}
        settings |= {} if self.ca is None else {"ssl.ca.location": str(self.ca)}
        if self.certificate is not None:
            settings |= {"ssl.certificate.location": str(self.certificate), "ssl.key.location": str(self.certificate)}
        return settings

    @property
    def java(self) -> str:
        settings = {"security.protocol": self.protocol}
        for store, path in (("truststore", self.ca), ("keystore", self.certificate)):
            settings |= {} if path is None else {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
        return "".join(f"{name}={value}\n" for name, value in settings.items())


def confluent(cluster: KafkaCluster, bootstrap: str, topic: str, security: Security, folder: Path) -> list[bytes]:
    settings = {"bootstrap.servers": bootstrap} | security.librdkafka
    producer = Producer(settings)
    for value in SENT:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE) == 0
    consumer = Consumer(settings | {"group.id": fresh("secure"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < len(SENT):
        message = consumer.poll(PATIENCE)
        assert message is not None
        found.append(value_of(message))
    consumer.close()
    return found


def aiokafka(cluster: KafkaCluster, bootstrap: str, topic: str, security: Security, folder: Path) -> list[bytes]:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": security.protocol,
        "ssl_context": security.context,
    }

    async def work() -> list[bytes]:
        async with AIOKafkaProducer(**settings) as producer:
            for value in SENT:
                await producer.send_and_wait(topic, value)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            return [(await consumer.getone()).value for _ in SENT]

    return asyncio.run(asyncio.wait_for(work(), PATIENCE))


def kafka_python(cluster: KafkaCluster, bootstrap: str, topic: str, security: Security, folder: Path) -> list[bytes]:
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": security.protocol,
        "ssl_context": security.context,
    }
    producer = KafkaProducer(**settings)
    for value in SENT:
        producer.send(topic, value).get(PATIENCE)
    producer.close()
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": PATIENCE * 1000}
    consumer = KafkaConsumer(topic, **reading, **ASKS_SOON, **settings)
    found = [next(consumer).value for _ in SENT]
    consumer.close()
    return found


def java(cluster: KafkaCluster, bootstrap: str, topic: str, security: Security, folder: Path) -> list[bytes]:
    config = folder / "client.properties"
    config.write_text(security.java)
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--command-config", str(config)]
    patient = ["--request-timeout-ms", str(PATIENCE * 1000)]
    cluster.console("kafka-console-producer", *where, *patient, stdin=b"\n".join([*SENT, b""]))
    until = ["--from-beginning", "--max-messages", str(len(SENT)), "--timeout-ms", str(PATIENCE * 1000)]
    return cluster.console("kafka-console-consumer", *where, *until).stdout.encode().splitlines()


CLIENTS: dict[str, Callable[[KafkaCluster, str, str, Security, Path], list[bytes]]] = {
    "confluent": confluent,
    "aiokafka": aiokafka,
    "kafka_python": kafka_python,
    "java": java,
}

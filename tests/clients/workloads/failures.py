"""Clients that brokers refuse: they ask for something that does not exist, or have wrong credentials."""

import asyncio
import io
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka.admin import AdminClient

from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import FETCH, METADATA, PRODUCE, SASL_HANDSHAKE
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads import fresh
from tests.clients.workloads.confluent import consumer, create_topic, produce


def asks_for_a_topic_that_is_not_there(bootstrap: str) -> None:
    """The request is written by hand: clients let brokers create the topic, or don't request an unknown one."""
    missing = fresh("missing")
    asks(bootstrap, METADATA, 12, {"topics": [{"name": missing}], "allow_auto_topic_creation": False})
    data = [{"name": missing, "partition_data": [{"index": 0}]}]
    asks(bootstrap, PRODUCE, 9, {"acks": 1, "topic_data": data})
    asks(bootstrap, FETCH, 12, {"topics": [{"topic": missing, "partitions": [{"partition": 0}]}]})


def asks(bootstrap: str, key: int, version: int, values: dict[str, Any]) -> None:
    """Sends one request that is written by hand, and waits for its response."""
    with _connected(bootstrap) as client:
        _say(client, catalog.encode_request(key, version, 1, "by hand", values))


def asks_in_version(bootstrap: str, key: int, version: int) -> None:
    """Sends a head alone, for a version that nobody knows; waits for the response, or the connection's end."""
    with _connected(bootstrap) as client, suppress(OSError):
        _say(client, struct.pack(">hhih", key, version, 1, -1))


@contextmanager
def _connected(bootstrap: str) -> Iterator[io.BufferedRWPair]:
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as client, client.makefile("rwb") as stream:
        yield stream


def _say(client: io.BufferedRWPair, frame: bytes) -> bytes | None:
    """Returns the response; None if the connection ends instead."""
    client.write(framed(frame))
    client.flush()
    size = client.read(4)
    return client.read(int.from_bytes(size, "big")) if size else None


def loses_its_topic(bootstrap: str, is_enough: Callable[[], object]) -> None:
    """A consumer whose topic is deleted while it waits for records. It reports nothing, and requests again."""
    admin, topic = AdminClient({"bootstrap.servers": bootstrap}), create_topic(bootstrap, "lost")
    produce(bootstrap, topic, [b"record"])
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    wait_for(lambda: reader.poll(1), "the consumer to read")
    admin.delete_topics([topic])[topic].result(PATIENCE)
    wait_for(lambda: reader.poll(0.1) or is_enough(), "the consumer to be refused")
    reader.close()


def fails_to_log_in(bootstrap: str, user: str, times: int) -> None:
    """Each client tries once."""
    login = {"sasl_plain_username": user, "sasl_plain_password": "wrong", "sasl_mechanism": "PLAIN"}

    async def log_in() -> None:
        with pytest.raises(KafkaError):
            await AIOKafkaProducer(bootstrap_servers=bootstrap, security_protocol="SASL_PLAINTEXT", **login).start()

    for _ in range(times):
        asyncio.run(log_in())


def sends_a_bare_token(bootstrap: str, user: str, password: str) -> bytes | None:
    """A PLAIN login as before KIP-152. Returns the server's token; None if the connection ends instead."""
    with _connected(bootstrap) as client:
        _say(client, catalog.encode_request(SASL_HANDSHAKE, 0, 1, "by hand", {"mechanism": "PLAIN"}))
        return _say(client, f"\0{user}\0{password}".encode())

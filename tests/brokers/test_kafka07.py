"""Tests of the broker of 0.7 with byte strings: it answers as documented, without the codec."""

import socket
import struct
import zlib
from collections.abc import Iterator

import pytest

from tests.brokers.kafka07 import ANSWERS, Kafka07Broker
from tests.proxy.wire.kafka07.clients import built

LATEST, EARLIEST = -1, -2
CHANGED = 1_321_825_000_000


class Client:
    def __init__(self, broker: Kafka07Broker) -> None:
        self._socket = socket.create_connection(broker.address)
        self.stream = self._socket.makefile("rb")

    def send(self, body: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(body)) + body)

    def receive(self) -> bytes:
        """The next frame without its length; empty if the broker has closed the connection."""
        head = self.stream.read(4)
        return self.stream.read(struct.unpack(">i", head)[0]) if head else b""

    def ask(self, body: bytes) -> bytes:
        self.send(body)
        return self.receive()

    def close(self) -> None:
        self.stream.close()
        self._socket.close()


def request(number: int, partition: int, body: bytes, topic: bytes = b"clicks") -> bytes:
    return struct.pack(">hh", number, len(topic)) + topic + struct.pack(">i", partition) + body


def produce(*payloads: bytes, partition: int = 0) -> bytes:
    messages = b"".join(
        struct.pack(">ibbI", 6 + len(one), 1, 0, zlib.crc32(one)) + one for one in payloads
    )  # length, magic, compression, checksum
    return request(0, partition, struct.pack(">i", len(messages)) + messages)


def fetch(offset: int, size: int, partition: int = 0) -> bytes:
    return request(1, partition, struct.pack(">qi", offset, size))


def offsets(before: int, count: int) -> bytes:
    return request(4, 0, struct.pack(">qi", before, count))


def numbers(*values: int) -> bytes:
    return struct.pack(f">hi{len(values)}q", 0, len(values), *values)


@pytest.fixture
def broker() -> Iterator[Kafka07Broker]:
    with Kafka07Broker(partitions=2, segment_bytes=30, now=CHANGED) as broker:
        yield broker


@pytest.fixture
def client(broker: Kafka07Broker) -> Iterator[Client]:
    client = Client(broker)
    yield client
    client.close()


def test_a_produce_is_not_answered_and_a_fetch_cut_where_its_bytes_end(client: Client) -> None:
    client.send(produce(b"one", b"two"))
    log = produce(b"one", b"two")[-26:]
    assert client.ask(fetch(0, 100)) == b"\0\0" + log
    assert client.ask(fetch(0, 20)) == b"\0\0" + log[:20]
    assert client.ask(fetch(13, 100)) == b"\0\0" + log[13:]
    assert client.ask(fetch(26, 100)) == b"\0\0"


def test_a_fetch_never_crosses_a_segment(client: Client) -> None:
    client.send(produce(b"one", b"two", b"three"))
    client.send(produce(b"four"))
    assert len(client.ask(fetch(0, 1000))) == 2 + 41
    assert len(client.ask(fetch(41, 1000))) == 2 + 14
    assert client.ask(offsets(LATEST, 10)) == numbers(55, 41, 0)


def test_errors_are_shown_where_a_response_has_them(client: Client) -> None:
    client.send(produce(b"one"))
    assert client.ask(fetch(14, 100)) == b"\0\1"
    assert client.ask(fetch(-1, 100)) == b"\0\1"
    assert client.ask(fetch(0, 100, partition=2)) == b"\0\3"


def test_an_unwritten_topic_is_empty(client: Client) -> None:
    assert client.ask(fetch(0, 100)) == b"\0\0"


def test_offsets_are_those_of_segments_before_a_time(client: Client) -> None:
    assert client.ask(offsets(LATEST, 10)) == numbers(0)
    client.send(produce(b"one"))
    assert client.ask(offsets(LATEST, 1)) == numbers(13)
    assert client.ask(offsets(EARLIEST, 10)) == numbers(0)
    assert client.ask(offsets(CHANGED, 10)) == numbers(13, 0)
    assert client.ask(offsets(CHANGED - 1, 10)) == numbers()


@pytest.mark.parametrize(
    "bad",
    [
        produce(b"one", partition=2),
        produce(b"one")[:-1] + b"?",
        request(0, 0, struct.pack(">i", 4) + b"\0\0\0"),
        b"\0\5",
        b"\0",
    ],
    ids=["partition", "damaged", "short", "type", "no type"],
)
def test_a_bad_request_closes_the_connection(client: Client, bad: bytes) -> None:
    assert client.ask(bad) == b""


def test_the_broker_answers_as_kafka_0_7_2_did() -> None:
    """The requests run in order, so later ones see earlier writes. Each connection lasts until it is closed."""
    with Kafka07Broker(partitions=4, segment_bytes=200) as broker:
        client = Client(broker)
        for row in ANSWERS["answers"]:
            request, answer = bytes.fromhex(row["request"]), bytes.fromhex(row["answer"])
            client.send(request[4:])
            assert client.stream.read(len(answer)) == answer, row["say"]
            if row["closed"]:
                assert client.stream.read(1) == b"", row["say"]
                client.close()
                client = Client(broker)
        client.close()


def test_the_broker_understands_requests_of_brod(client: Client, broker: Kafka07Broker) -> None:
    client.send(built("brod", "'clicks', ['first'")[4:])
    response = client.ask(built("brod", "fetch('clicks', 0,")[4:])
    assert response == b"\0\0" + built("brod", "'clicks', ['first'")[-38:]
    assert client.ask(built("brod", "offsets('clicks', -1, 10")[4:]) == numbers(38, 0)
    assert [frame[:2] for frame in broker.received] == [b"\0\0", b"\0\1", b"\0\4"]

"""Tests of the codec against an independent broker over a socket: pipelines, cut ends, segments, errors."""

import socket
from collections.abc import Iterator

import pytest

from proxy.wire.framing import framed
from proxy.wire.kafka07 import (
    ANY_PARTITION,
    EARLIEST,
    LATEST,
    ErrorCode,
    Fetch,
    FetchResponse,
    MultiFetch,
    MultiFetchResponse,
    MultiProduce,
    Offsets,
    OffsetsResponse,
    Produce,
    Request,
    Response,
    decode_response,
    encode_request,
    messages,
    request_head,
    response_head,
)
from proxy.wire.records.kinds import Compression
from tests.brokers.kafka07 import Kafka07Broker

# tells how long a message is
LENGTH = 4
PAYLOADS = [b"message %d" % n for n in range(40)]


def exchange(broker: Kafka07Broker, *requests: Request) -> list[Response]:
    """Sends all requests, then reads the responses."""
    data = b"".join(framed(encode_request(request)) for request in requests)
    asked = [request for request in requests if request.type.awaits_response]
    with socket.create_connection(broker.address) as client:
        client.sendall(data)
        # `asked` comes first, so that zip ends without reading another frame
        return [decode_response(frame, request) for request, frame in zip(asked, frames(client), strict=False)]


def frames(client: socket.socket) -> Iterator[bytes]:
    """Yields the broker's frames as they arrive, a few bytes at a time."""
    held = b""
    while chunk := client.recv(50):
        held += chunk
        while (head := response_head(held)) and len(held) >= 4 + head.length:
            yield held[4 : 4 + head.length]
            held = held[4 + head.length :]


@pytest.fixture
def broker() -> Iterator[Kafka07Broker]:
    with Kafka07Broker(partitions=2, segment_bytes=200) as broker:
        yield broker


def read_log(broker: Kafka07Broker, topic: str, max_size: int) -> list[bytes]:
    """A consumer's loop: it fetches from the end of the whole messages, until nothing comes."""
    told: list[bytes] = []
    offset = 0
    while True:
        (response,) = exchange(broker, Fetch(topic, 0, offset, max_size))
        assert isinstance(response, FetchResponse)
        if not response.messages:
            return told
        tail = messages.tail(response.messages)
        told += [one.payload for one in messages.read(response.messages, offset)]
        offset += tail.whole
        if not tail.whole:
            max_size = max(max_size, tail.needs or LENGTH)


def test_a_log_is_read_whole_over_cut_ends_and_segments(broker: Kafka07Broker) -> None:
    produces = [Produce("clicks", 0, messages.message_set(PAYLOADS[n : n + 5], magic=n % 2)) for n in range(0, 40, 5)]
    (offsets,) = exchange(broker, *produces, Offsets("clicks", 0, LATEST, 100))
    assert isinstance(offsets, OffsetsResponse)
    assert offsets.offsets is not None
    assert len(offsets.offsets) > 3
    for max_size in (1, 30, 47, 100, 10_000):
        assert read_log(broker, "clicks", max_size) == PAYLOADS


def test_compressed_messages_are_read_from_the_log(broker: Kafka07Broker) -> None:
    sets = [messages.message_set(PAYLOADS[n : n + 10]) for n in range(0, 40, 10)]
    wrapped = [
        messages.compressed(sets[0], Compression.GZIP),
        sets[1],
        messages.compressed(sets[2], Compression.SNAPPY),
        sets[3],
    ]
    exchange(broker, *(Produce("clicks", 0, one) for one in wrapped), Offsets("clicks", 0, LATEST, 1))
    for max_size in (1, 150, 10_000):
        assert read_log(broker, "clicks", max_size) == PAYLOADS


def test_responses_of_a_pipeline_come_in_the_order_of_the_requests_that_have_one(broker: Kafka07Broker) -> None:
    first, second = messages.message_set([b"first"]), messages.message_set([b"second"])
    responses = exchange(
        broker,
        Produce("a", 0, first),
        Fetch("a", 0, 0, 100),
        MultiProduce((Produce("a", 1, second), Produce("b", ANY_PARTITION, first))),
        Offsets("a", 1, LATEST, 5),
        MultiFetch((Fetch("a", 1, 0, 100), Fetch("b", 0, 0, 10), Fetch("a", 9, 0, 100), Fetch("a", 0, 99, 100))),
        Offsets("a", 0, EARLIEST, 5),
    )
    assert responses == [
        FetchResponse(0, first),
        OffsetsResponse(0, (len(second), 0)),
        MultiFetchResponse(
            0,
            (
                FetchResponse(0, second),
                FetchResponse(0, first[:10]),
                FetchResponse(ErrorCode.WRONG_PARTITION),
                FetchResponse(ErrorCode.OFFSET_OUT_OF_RANGE),
            ),
        ),
        OffsetsResponse(0, (0,)),
    ]


def test_the_broker_got_frames_with_right_heads(broker: Kafka07Broker) -> None:
    requests: list[Request] = [Produce("a", 0, b""), Fetch("a", 0, 0, 1), MultiFetch(()), Offsets("a", 0, LATEST, 1)]
    exchange(broker, *requests)
    heads = [request_head(framed(frame)) for frame in broker.received]
    assert [head and head.type for head in heads] == [request.type for request in requests]

"""Tests of frames of clients of 0.7, Kafka's own and two others: both sides read each other's frames alike.

None of them can be installed for these tests: no registry has Kafka 0.7, brod is Python 2, and a dependency of prozess
no longer compiles. So their frames are stored. Kafka's own include multi requests; samsa, which has them too, runs in
`tests/clients/test_samsa.py`. Responses of a broker of 0.7.2 are stored as well.
"""

import pytest

from proxy.wire.errors import Malformed
from proxy.wire.framing import framed
from proxy.wire.kafka07 import (
    ANY_PARTITION,
    Fetch,
    FetchResponse,
    MultiFetch,
    MultiProduce,
    Offsets,
    OffsetsResponse,
    Produce,
    Request,
    UnknownRequest,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    error_name,
    messages,
    request_head,
    response_head,
)
from proxy.wire.records.kinds import Compression
from tests.brokers.kafka07 import ANSWERS
from tests.proxy.wire.kafka07.clients import FRAMES, built, read
from tests.tables import each_row

BROD, PROZESS, KAFKA = "brod", "prozess", "kafka"
PRODUCED = [
    # client, call, topic, partition, magic, payloads
    (BROD, "'clicks', ['first'", "clicks", 1, 0, [b"first", b"second", b""]),
    (BROD, "sn\\u2603wman", "grüße", 0, 0, ["sn\N{SNOWMAN}wman".encode()]),
    (PROZESS, "'clicks', 1, [new Message", "clicks", 1, 1, [b"first", b"second", b""]),
    (PROZESS, "'other', 0, [new Message", "other", 0, 1, ["héllo".encode()]),
    (KAFKA, "send('clicks', 1", "clicks", 1, 1, [b"first", b"second", b""]),
    (KAFKA, "send('clicks', ['any'", "clicks", ANY_PARTITION, 1, [b"any"]),
    # compressed, so other libraries decide about the bytes
    (PROZESS, "'zipped', 0, [new Message", "zipped", 0, 1, [b"first", b"second"]),
    (KAFKA, "send('zipped'", "zipped", 0, 1, [b"first", b"second"]),
    (KAFKA, "send('snapped'", "snapped", 0, 1, [b"first", b"second"]),
]
PLAIN = PRODUCED[:6]
ASKED = [
    (BROD, "fetch('clicks', 0,", Fetch("clicks", 1, 0, 1 << 20)),
    (BROD, "fetch('clicks', 2**40", Fetch("clicks", 3, 2**40 + 7, 300_000)),
    (BROD, "offsets('clicks', -1, 10", Offsets("clicks", 1, -1, 10)),
    (BROD, "EARLIEST", Offsets("clicks", 0, -2, 1)),
    (BROD, "1321825000000", Offsets("clicks", 1, 1_321_825_000_000, 3)),
    (PROZESS, "FetchRequest(", Fetch("clicks", 3, 2**40 + 7, 300_000)),
    (PROZESS, "OffsetsRequest('clicks', 1, -1", Offsets("clicks", 1, -1, 10)),
    (PROZESS, "OffsetsRequest('clicks', 0, -2", Offsets("clicks", 0, -2, 1)),
    (KAFKA, ".fetch(", Fetch("clicks", 1, 0, 300_000)),
    (KAFKA, ".multifetch(", MultiFetch((Fetch("clicks", 1, 14, 300_000), Fetch("zipped", 0, 0, 1000)))),
    (KAFKA, "getOffsetsBefore('clicks', 1", Offsets("clicks", 1, -1, 10)),
    (KAFKA, "getOffsetsBefore('clicks', 0", Offsets("clicks", 0, -2, 1)),
]


def produced(client: str, call: str) -> Produce:
    request = decode_request(built(client, call)[4:])
    assert isinstance(request, Produce)
    return request


@each_row(("client", "call", "topic", "partition", "magic", "payloads"), PRODUCED)
def test_produce_requests_of_clients_are_read(
    client: str, call: str, topic: str, partition: int, magic: int, payloads: list[bytes]
) -> None:
    request = produced(client, call)
    assert (request.topic, request.partition) == (topic, partition)
    assert [(one.magic, one.payload) for one in messages.read(request.messages)] == [
        (magic, payload) for payload in payloads
    ]


@each_row(("client", "call", "topic", "partition", "magic", "payloads"), PLAIN)
def test_we_produce_the_clients_bytes(
    client: str, call: str, topic: str, partition: int, magic: int, payloads: list[bytes]
) -> None:
    request = Produce(topic, partition, messages.message_set(payloads, magic=magic))
    assert encode_request(request) == built(client, call)[4:]


@each_row(("client", "call", "request_"), ASKED)
def test_requests_of_clients_are_read_and_written_alike(client: str, call: str, request_: Request) -> None:
    frame = built(client, call)[4:]
    assert decode_request(frame) == request_
    assert encode_request(request_) == frame


def test_a_multiproduce_of_kafkas_own_producer_is_read_and_written_alike() -> None:
    frame = built(KAFKA, "multiSend")[4:]
    request = decode_request(frame)
    assert isinstance(request, MultiProduce)
    assert [(one.topic, one.partition) for one in request.produces] == [("clicks", 1), ("zipped", 0)]
    payloads = [[message.payload for message in messages.read(one.messages)] for one in request.produces]
    assert payloads == [[b"m1", b"m2"], [b"m3"]]
    assert encode_request(request) == frame


def test_a_codec_that_prozess_only_claims_is_malformed() -> None:
    request = produced(PROZESS, "'snappy', 0")
    (wrapper,) = messages.shallow(request.messages)
    assert (wrapper.codec, wrapper.payload, wrapper.intact) == (Compression.SNAPPY, b"snappy, it says", True)
    with pytest.raises(Malformed, match="snappy"):
        list(messages.read(request.messages))


def test_the_magic_0_of_prozess_is_damaged_by_a_byte_too_many() -> None:
    """It writes the compression byte with magic 0 too, and a broker reads it as the checksum's first byte."""
    request = produced(PROZESS, "'old', 0")
    (one,) = messages.shallow(request.messages)
    assert (one.magic, one.intact) == (0, False)
    with pytest.raises(Malformed, match="checksum"):
        list(messages.read(request.messages))


def test_every_frame_of_the_clients_says_its_length_and_type() -> None:
    for row in FRAMES["built"]:
        frame = bytes.fromhex(row["frame"])
        head = request_head(frame)
        assert head is not None
        assert head.length == len(frame) - 4
        request = decode_request(frame[4:])
        assert not isinstance(request, UnknownRequest)
        assert head.type is request.type


def test_brod_and_we_read_the_same_messages_and_errors() -> None:
    rows = read(BROD, "fetch(")
    assert len(rows) == 5
    for frame, result in rows:
        response = decode_response(frame[4:], Fetch("clicks", 0, 100, 1 << 20))
        assert isinstance(response, FetchResponse)
        if isinstance(result, str):
            assert error_name(response.error_code) == {
                "OffsetOutOfRange": "OFFSET_OUT_OF_RANGE",
                "WrongPartitionCode": "WRONG_PARTITION",
            }.get(result)
        else:
            told = messages.read(response.messages, 100)
            assert [[one.offset, one.payload.decode()] for one in told] == result


def test_prozess_and_we_read_the_same_messages() -> None:
    rows = read(PROZESS, ".messages.map")
    assert len(rows) == 3
    for frame, result in rows:
        response = decode_response(frame[4:], Fetch("clicks", 0, 0, 1 << 20))
        assert isinstance(response, FetchResponse)
        told = messages.shallow(response.messages)
        assert [[one.payload.decode(), one.magic, one.attributes, one.intact] for one in told] == result


def test_prozess_and_we_read_the_same_errors() -> None:
    rows = read(PROZESS, ".error")
    assert len(rows) == 2
    for frame, result in rows:
        assert decode_response(frame[4:], Fetch("clicks", 0, 0, 1)).error_code == result


def test_the_clients_and_we_read_the_same_offsets() -> None:
    rows = read(BROD, "offsets(") + read(PROZESS, ".offsets")
    assert len(rows) == 3
    for frame, result in rows:
        response = decode_response(frame[4:], Offsets("clicks", 0, -1, 10))
        assert response == OffsetsResponse(0, tuple(map(int, result)))


def test_we_still_write_what_the_clients_read() -> None:
    for row in FRAMES["read"]:
        request: Request = Offsets("t", 0, -1, 1) if "ffsets" in row["call"] else Fetch("t", 0, 0, 1)
        frame = bytes.fromhex(row["frame"])[4:]
        assert encode_response(decode_response(frame, request)) == frame


def test_kafkas_own_consumer_and_we_read_the_same_messages_at_the_same_offsets() -> None:
    """Some are wrappers, also nested ones. The offset that a consumer of 0.7 gets is that of the next message."""
    for row in ANSWERS["told"]:
        told = messages.read(bytes.fromhex(row["messages"]), row["offset"])
        assert [[one.next_offset, one.payload.decode()] for one in told] == row["told"]


def test_a_brokers_answers_are_read_by_their_requests_and_written_alike() -> None:
    for row in ANSWERS["answers"]:
        answer = bytes.fromhex(row["answer"])
        if len(answer) < 6 or row["closed"] or row["say"] == "trailing bytes":
            continue
        response = decode_response(answer[4:], decode_request(bytes.fromhex(row["request"])[4:]))
        assert framed(encode_response(response)) == answer, row["say"]


def test_a_response_that_promises_less_than_its_error_code_has_a_bad_length() -> None:
    """A broker of 0.7 sends such a response to a fetch with a negative size."""
    lengths = []
    for row in ANSWERS["answers"]:
        if row["closed"] and row["answer"]:
            with pytest.raises(Malformed, match="a length of") as caught:
                response_head(bytes.fromhex(row["answer"]))
            lengths.append(caught.value.reason)
    assert lengths == ["a length of 1 byte", "a length of 0 bytes", "a length of -7 bytes"]

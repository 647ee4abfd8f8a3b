"""The inputs to start from.

    corpus/request/03-Metadata-v12          real frames, without their length: what a client sent
    corpus/response/03-Metadata-v12         what a broker answered
    found/<check>.<what it broke>           inputs of a check that once broke something: kept for ever

A frame is made into the inputs of every check that it can serve; `_made` adds what no broker of today sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from proxy import wire
from proxy.wire import embedded, kafka07, records
from proxy.wire.apis import MessageKind
from proxy.wire.keys import API_VERSIONS, FETCH, PRODUCE

# where record batches stand
RECORDS = {
    ("request", PRODUCE): "topic_data.partition_data.records",
    ("response", FETCH): "responses.partitions.records",
}
# zstd last: the old formats don't have it
CODECS = (
    records.Compression.NONE,
    records.Compression.GZIP,
    records.Compression.SNAPPY,
    records.Compression.LZ4,
    records.Compression.ZSTD,
)
# RFC 4616, RFC 5802, RFC 7628: their own examples, or as long
TOKENS = (
    b"\0tim\0tanstaaftanstaaf",
    b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"n,a=user@example.com,\1host=server.example.com\1port=143\1auth=Bearer a.eyJzdWIiOiJtZSJ9.c\1\1",
    b'{"status":"invalid_token","scope":"example_scope"}',
)
# OTLP: one gauge of the name "m" with one number
METRICS = bytes.fromhex("0a1d121b12190a016d2a140a12190100000000000000310700000000000000")
FOLDER = Path(__file__).parent
_NAME = re.compile(r"(?P<key>\d+)-\w+-v(?P<version>\d+)(-\d+)?")


class Input(NamedTuple):
    """What a check is given."""

    check: str
    name: str
    data: bytes


def inputs() -> list[Input]:
    """All of them."""
    return [*_of_frames(), *_made(), *found()]


def found() -> list[Input]:
    """What once broke something."""
    files = sorted((FOLDER / "found").glob("*.*"))
    return [Input(file.name.partition(".")[0], file.name, file.read_bytes()) for file in files]


def frames(kind: MessageKind) -> Iterator[tuple[str, int, int, bytes]]:
    """(file name, api key, version, frame) of each frame of that kind."""
    for file in sorted((FOLDER / "corpus" / kind).iterdir()):
        match = _NAME.fullmatch(file.name)
        if match is None:
            raise ValueError(f"{file}: a frame is named KEY-NAME-vVERSION")
        yield file.name, int(match["key"]), int(match["version"]), file.read_bytes()


def _of_frames() -> Iterator[Input]:
    for name, key, version, frame in frames("request"):
        start = wire.request_head(frame).body
        yield Input("request", name, frame)
        yield Input("heads", name, frame)
        yield Input("body", f"request-{name}", bytes([0, key, version, 0]) + frame[start:])
        yield from _records("request", name, key, version, frame, start)
    for name, key, version, frame in frames("response"):
        start = wire.response_head(frame, key, version).body
        yield Input("response", name, bytes([key, version]) + frame)
        yield Input("tools", name, bytes([key, version]) + frame)
        yield Input("body", f"response-{name}", bytes([1, key, version, 0]) + frame[start:])
        yield from _records("response", name, key, version, frame, start)


def _records(kind: MessageKind, name: str, key: int, version: int, frame: bytes, start: int) -> Iterator[Input]:
    """The record batches in a frame."""
    codec, path = wire.codec(kind, key, version), RECORDS.get((kind, key))
    if codec is not None and path is not None:
        for number, (found, _, _) in enumerate(codec.project((path,))(frame, start)[path]):
            if found:
                yield Input("batches", f"{name}-{number}", found)


def _made() -> Iterator[Input]:
    """What no broker of today sends: old formats, Kafka 0.7; and each codec and embedded message once."""
    few = [records.Record(number, 1000 + number, b"key", b"value" * 9) for number in range(3)]
    for codec in CODECS:
        yield Input("batches", f"2-{codec.value}", records.write_batch(few, codec=codec))
    for magic, codec in product((0, 1), CODECS[:-1]):
        yield Input("batches", f"{magic}-{codec.value}", records.write_message_set(few, magic=magic, codec=codec))
    for number, name in enumerate(embedded.names()):
        for version in embedded.versions(name):
            found = embedded.codec(name, version)
            assert found is not None
            yield Input("inside", f"{name}-v{version}", bytes([number, version]) + found.encode({}))
    yield from (Input("login", str(number), token) for number, token in enumerate(TOKENS))
    refused = wire.encode_response(API_VERSIONS, 0, 7, {"error_code": 35, "api_keys": []})
    yield Input("response", "refused", bytes([API_VERSIONS, 4]) + refused)
    for number, codec in enumerate(CODECS):
        yield Input("pushed", codec.value, bytes([number]) + records.compress(codec, METRICS))
    yield from (Input("old", name, data) for name, data in _old().items())


def _old() -> dict[str, bytes]:
    messages = kafka07.messages.message_set([b"one", b"two"])
    packed = kafka07.messages.compressed(messages, records.Compression.GZIP)
    produce, fetch = kafka07.Produce("t", 0, packed), kafka07.Fetch("t", 0, 7, 1000)
    requests = (produce, fetch, kafka07.MultiFetch((fetch, fetch)), kafka07.MultiProduce((produce,)))
    asked = {request.type.name.lower(): kafka07.encode_request(request) for request in requests}
    asked |= {"offsets": kafka07.encode_request(kafka07.Offsets("t", 0, kafka07.LATEST, 3))}
    answer = kafka07.FetchResponse(0, messages + packed[:9])
    both, offsets = kafka07.MultiFetchResponse(0, (answer, answer)), kafka07.OffsetsResponse(0, (9, 0))
    answers: tuple[kafka07.Response, ...] = (answer, both, offsets)
    told = {name: b"\0" + frame for name, frame in asked.items()}
    told |= {f"answer-{at}": bytes([at]) + kafka07.encode_response(one) for at, one in enumerate(answers)}
    return told | {"messages": b"\0" + messages + packed, "broker": b"\0creator-1:host:9092"}

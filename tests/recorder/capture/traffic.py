"""Generates traffic to record, and the rows that its capture must hold.

A `Talk` is one connection: the bytes of requests and responses. `chunks` cuts its two streams at random, in a
possible order of arrival. `expected` derives the rows frame by frame, without any of the tested code.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from proxy.conversation.conversation import DEFAULT_LIMITS, Conversation
from proxy.conversation.exchange import Cause, Direction
from proxy.conversation.routes import Routes
from proxy.net.cluster import routes
from proxy.observer import OpenedConnection
from proxy.wire import catalog
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits
from proxy.wire.keys import HEARTBEAT, METADATA, PRODUCE, SASL_AUTHENTICATE

VENDOR = 10_001
KINDS = (METADATA, HEARTBEAT, PRODUCE, SASL_AUTHENTICATE, VENDOR)
SECRET = b"hunter2-correct-horse"
# a letter for each byte
LETTERS = b"abcdefgh" * 32


class Chunk(NamedTuple):
    direction: Direction
    data: bytes
    at_ns: int


@dataclass
class Call:
    """A request and its response, with their lengths. `answer`: None if there is none. `secret`: in both."""

    api_key: int
    version: int | None
    correlation_id: int | None
    client_id: str | None
    request: bytes
    answer: bytes | None
    secret: bytes = b""


@dataclass
class Talk:
    connection: int
    calls: list[Call]
    listener: str = "127.0.0.1:19092"
    client: str = "127.0.0.1:5555"
    node: int | None = 1
    dialect: Dialect = Dialect.KAFKA
    chunks: list[Chunk] = field(default_factory=list)

    def streams(self) -> tuple[bytes, bytes]:
        return b"".join(call.request for call in self.calls), b"".join(call.answer or b"" for call in self.calls)


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def call(rng: random.Random, api_key: int, correlation_id: int, client_id: str | None, size: int = 40) -> Call:
    """A call whose bodies hold about `size` bytes."""
    text = rng.randbytes(size).translate(LETTERS).decode()
    secret = b""
    if api_key == METADATA:
        version = rng.choice([1, 5, 9, 12])
        request = catalog.encode_request(METADATA, version, correlation_id, client_id, {"topics": [{"name": text}]})
        answer: bytes | None = catalog.encode_response(METADATA, version, correlation_id, {"cluster_id": text})
    elif api_key == HEARTBEAT:
        version = rng.choice([0, 3, 4])
        values = {"group_id": text, "generation_id": 1, "member_id": "m"}
        request = catalog.encode_request(HEARTBEAT, version, correlation_id, client_id, values)
        answer = catalog.encode_response(HEARTBEAT, version, correlation_id, {"error_code": 0})
    elif api_key == PRODUCE:
        version, acks = rng.choice([3, 8, 9]), rng.choice([0, 1, -1])
        values = {"acks": acks, "timeout_ms": 1, "topic_data": [_topic(text)]}
        request = catalog.encode_request(PRODUCE, version, correlation_id, client_id, values)
        answer = catalog.encode_response(PRODUCE, version, correlation_id, {"responses": []}) if acks else None
    elif api_key == SASL_AUTHENTICATE:
        version, secret = rng.choice([0, 1, 2]), SECRET + text.encode()
        request = catalog.encode_request(api_key, version, correlation_id, client_id, {"auth_bytes": secret})
        answer = catalog.encode_response(api_key, version, correlation_id, {"error_code": 0, "auth_bytes": secret})
    else:
        version = 0
        head = catalog.encode_request(HEARTBEAT, 0, correlation_id, client_id, {})
        identity = client_id.encode() if client_id is not None else b""
        client = head[8 : 10 + len(identity)]
        head = api_key.to_bytes(2, "big") + b"\0\0" + correlation_id.to_bytes(4, "big", signed=True) + client
        request, answer = head + text.encode(), correlation_id.to_bytes(4, "big", signed=True) + text.encode()
    return Call(
        api_key,
        version,
        correlation_id,
        client_id,
        framed(request),
        framed(answer) if answer is not None else None,
        secret,
    )


def _topic(text: str) -> dict[str, Any]:
    return {"name": "t", "partition_data": [{"index": 0, "records": text.encode()}]}


def talk(rng: random.Random, connection: int, calls: int, apis: Iterable[int] = (METADATA, HEARTBEAT, PRODUCE)) -> Talk:
    """The first request has a known api, so opaque bytes after it can't be a login, and aren't masked."""
    apis = list(apis)
    ids = [rng.choice(["one", "two", None, "", "ünï"]) for _ in range(3)]
    made = [
        call(
            rng,
            rng.choice(apis) if number else HEARTBEAT,
            rng.randrange(-(1 << 31), 1 << 31),
            rng.choice(ids),
            rng.choice([1, 30, 300, 3000]),
        )
        for number in range(calls)
    ]
    return Talk(connection, made)


def old_talk(rng: random.Random, connection: int, calls: int) -> Talk:
    """A talk of Kafka 0.7: requests of any types, two of which have no response, and arbitrary bytes after them."""
    made = []
    for _ in range(calls):
        number = rng.randrange(5)
        request, answer = (rng.randbytes(rng.choice([0, 1, 30, 300, 3000])) for _ in range(2))
        answered = framed(b"\0\0" + answer) if number not in (0, 3) else None
        made.append(Call(number, None, None, None, framed(bytes([0, number]) + request), answered))
    return Talk(connection, made, node=None, dialect=Dialect.KAFKA_07)


def cut(rng: random.Random, talk: Talk, largest: int, start_ns: int = 1_000_000_000) -> Talk:
    """Cuts the streams into chunks of 1 to `largest` bytes. A response begins to arrive when its request is whole."""
    requests, answers = talk.streams()
    # where the streams are after each call, and before the first one
    asked = [*accumulate((len(one.request) for one in talk.calls), initial=0)]
    answered = [*accumulate((len(one.answer or b"") for one in talk.calls), initial=0)]
    at, at_ns = [0, 0], start_ns
    while at[0] < len(requests) or at[1] < len(answers):
        may_answer = answered[bisect_right(asked, at[0]) - 1] - at[1]
        direction = Direction(rng.random() < 0.5)
        room = may_answer if direction else len(requests) - at[0]
        if not room:
            continue
        size = min(rng.randint(1, largest), room)
        data = (answers if direction else requests)[at[direction] : at[direction] + size]
        at_ns += rng.randint(1, 1_000_000)
        talk.chunks.append(Chunk(direction, data, at_ns))
        at[direction] += size
    return talk


def some_talks(rng: random.Random, count: int, calls: int, largest: int) -> list[Talk]:
    return [cut(rng, talk(rng, number, calls, KINDS), largest) for number in range(count)]


def recording_routes(dialect: Dialect = Dialect.KAFKA) -> Routes:
    """The proxy's own routes: a twin of them could mark other frames."""
    return routes(dialect)


class Player:
    """Plays talks to an observer as the proxy would: the conversation first, then the observer."""

    def __init__(self, observer: Any) -> None:
        self.observer = observer
        self.talks: dict[int, Conversation] = {}
        self.now = 0

    def open(
        self,
        talk: Talk,
        at_ns: int = 1,
        cluster: str = "main",
        principal: str | None = None,
        limits: FrameLimits = DEFAULT_LIMITS,
    ) -> Conversation:
        conversation = self.talks[talk.connection] = Conversation(recording_routes(talk.dialect), limits)
        peers = (talk.listener, talk.client, talk.node, "10.0.0.1:9092")
        facts = OpenedConnection(talk.connection, at_ns, *peers, principal is not None, cluster, principal)
        self.observer.opened(facts, conversation)
        return conversation

    def play(self, connection: int, chunk: Chunk) -> None:
        conversation = self.talks[connection]
        feed = conversation.responses if chunk.direction else conversation.requests
        step = feed(chunk.data, chunk.at_ns)
        self.observer.arrived(connection, chunk.direction, chunk.data, chunk.at_ns, step)
        self.now = chunk.at_ns

    def close(self, connection: int, cause: Cause = Cause.CLIENT_CLOSED) -> None:
        self.observer.closed(connection, cause, self.now + 1)

    def all_of(self, talks: Iterable[Talk], rng: random.Random | None = None) -> None:
        """Opens, plays and closes the talks, one after the other or mixed."""
        talks = list(talks)
        for one in talks:
            self.open(one)
        left = [(one.connection, list(reversed(one.chunks))) for one in talks]
        while left:
            connection, chunks = rng.choice(left) if rng else left[0]
            if chunks:
                self.play(connection, chunks.pop())
            else:
                self.close(connection)
                left.remove((connection, chunks))


def expected(talk: Talk) -> list[dict[str, Any]]:
    """Returns the expected rows of a talk, in order, frame by frame."""
    frames = []
    for direction in Direction:
        begin = 0
        for number, one in enumerate(talk.calls):
            data = one.answer if direction else one.request
            if data is not None:
                frames.append((direction, begin, begin + len(data), number, one, data))
                begin += len(data)
    arrivals = {direction: _arrivals(talk, direction) for direction in Direction}
    rows = [_row(talk, arrivals[frame[0]], *frame) for frame in frames]
    rows.sort(key=lambda row: (row.pop("order"), row["exchange"]))
    for sequence, row in enumerate(rows):
        row["sequence"] = sequence
    return rows


def _row(
    talk: Talk, arrivals: Arrivals, direction: Direction, begin: int, end: int, number: int, one: Call, data: bytes
) -> dict[str, Any]:
    order, last_ns = arrivals.of(end - 1)
    _, first_ns = arrivals.of(begin)
    body = data[4:]
    masked = [(at, len(one.secret)) for at in [body.find(one.secret)] if one.secret and at >= 0]
    for at, length in masked:
        body = body[:at] + bytes(length) + body[at + length :]
    return {
        "order": order,
        "connection": talk.connection,
        "exchange": number,
        "dialect": talk.dialect.value,
        "kind": "response" if direction else "request",
        "made_by": "broker" if direction else "client",
        "mono_ns": last_ns,
        "first_mono_ns": first_ns,
        "api_key": one.api_key,
        "api_version": one.version,
        "correlation_id": one.correlation_id,
        "client_id": one.client_id,
        "frame": body,
        "masked": masked or None,
        "size": len(data) - 4,
        "request_size": len(one.request) - 4 if direction else None,
    }


@dataclass
class Arrivals:
    """The chunks of one direction: where each ends in the stream, its index among all chunks, and its time."""

    ends: list[int]
    chunks: list[tuple[int, int]]

    def of(self, offset: int) -> tuple[int, int]:
        """Returns index and time of the chunk with this byte."""
        return self.chunks[bisect_right(self.ends, offset)]


def _arrivals(talk: Talk, direction: Direction) -> Arrivals:
    own = [(index, chunk) for index, chunk in enumerate(talk.chunks) if chunk.direction == direction]
    ends = accumulate(len(chunk.data) for _, chunk in own)
    return Arrivals([*ends], [(index, chunk.at_ns) for index, chunk in own])


def as_json(state: object) -> object:
    """Returns a state as it comes back from a file."""
    return json.loads(json.dumps(state))

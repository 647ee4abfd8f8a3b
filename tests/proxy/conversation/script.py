"""Builds conversations for tests: frames made by hand with `struct`, and schedules that cut them anywhere.

Nothing here uses the tested code or `proxy.wire`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, repeat

from hypothesis import strategies as st

from proxy.wire.keys import HEARTBEAT

VENDOR = 12_345


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def request(
    key: int, version: int, correlation_id: int, body: bytes = b"", client_id: bytes | None = b"tests"
) -> bytes:
    """Returns a request with its length and head v1, with which every head v2 begins."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return framed(struct.pack(">hhi", key, version, correlation_id) + name + body)


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">i", correlation_id) + body)


def produce(version: int, correlation_id: int, acks: int, client_id: bytes = b"tests", tail: bytes = b"") -> bytes:
    """Returns a Produce request up to its acks, followed by any bytes."""
    tags = b"\0" if version >= 9 else b""
    transactional = b"" if version < 3 else (b"\0" if version >= 9 else b"\xff\xff")
    return request(0, version, correlation_id, tags + transactional + struct.pack(">h", acks) + tail, client_id)


@dataclass(frozen=True)
class Asked:
    """One exchange of a script: the request, and the response (None if there is none)."""

    request: bytes
    response: bytes | None
    key: int
    version: int
    correlation_id: int


@dataclass
class Script:
    exchanges: list[Asked] = field(default_factory=list)

    @property
    def requests(self) -> bytes:
        return b"".join(asked.request for asked in self.exchanges)

    @property
    def responses(self) -> bytes:
        return b"".join(asked.response for asked in self.exchanges if asked.response is not None)

    def answerable(self, arrived: int) -> int:
        """Returns how many bytes of responses a broker may have sent when `arrived` bytes of requests are complete."""
        asked_end = answered = 0
        for asked in self.exchanges:
            asked_end += len(asked.request)
            if asked_end > arrived:
                break
            answered += len(asked.response or b"")
        return answered


@st.composite
def exchanges(draw: st.DrawFn) -> Asked:
    correlation_id = draw(st.integers(-(2**31), 2**31 - 1))
    body = draw(st.binary(max_size=60))
    answer = response(correlation_id, draw(st.binary(max_size=60)))
    kind = draw(st.sampled_from(["plain", "plain", "produce", "acks 0", "vendor"]))
    if kind in ("produce", "acks 0"):
        version = draw(st.integers(0, 13))
        acks = 0 if kind == "acks 0" else draw(st.sampled_from([1, -1]))
        client_id = draw(st.binary(max_size=30))
        asked = produce(version, correlation_id, acks, client_id, body)
        return Asked(asked, None if acks == 0 else answer, 0, version, correlation_id)
    key, version = (VENDOR, 7) if kind == "vendor" else (HEARTBEAT, 3)
    return Asked(request(key, version, correlation_id, body), answer, key, version, correlation_id)


scripts = st.lists(exchanges(), max_size=8).map(Script)


@dataclass(frozen=True)
class Chunk:
    """Bytes that arrive from the client or from the broker, at their own time."""

    from_client: bool
    data: bytes
    at_ns: int


@st.composite
def schedules(draw: st.DrawFn, script: Script) -> list[Chunk]:
    """Cuts the script's bytes anywhere, in an order that a broker can keep: no response before its request."""
    sizes = draw(st.lists(st.integers(1, 120), min_size=1, max_size=12))
    return list(_cut(script, cycle(sizes), draw(st.randoms(use_true_random=False)).random))


def _cut(script: Script, sizes: Iterator[int], chance: Callable[[], float]) -> Iterator[Chunk]:
    asked, answered, at_ns = 0, 0, 1_000
    requests, responses = script.requests, script.responses
    while asked < len(requests) or answered < len(responses):
        size, may_answer = next(sizes), script.answerable(asked) - answered
        at_ns += 10
        if may_answer and (asked == len(requests) or chance() < 0.5):
            size = min(size, may_answer)
            yield Chunk(False, responses[answered : answered + size], at_ns)
            answered += size
        else:
            data = requests[asked : asked + size]
            yield Chunk(True, data, at_ns)
            asked += len(data)


def byte_by_byte(script: Script) -> list[Chunk]:
    return list(_cut(script, repeat(1), lambda: 0.0))


def whole(script: Script) -> list[Chunk]:
    chunks = []
    at_ns = 1_000
    for asked in script.exchanges:
        for from_client, data in ((True, asked.request), (False, asked.response)):
            if data is not None:
                at_ns += 10
                chunks.append(Chunk(from_client, data, at_ns))
    return chunks

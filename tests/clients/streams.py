"""Reads a tap's files as frames: lengths, heads, and pairs of request and response.

Like the tap, it is independent of the project: a few lines of `struct`, no catalog.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tests.clients.tap import Recorded


@dataclass(frozen=True, slots=True)
class Request:
    """The bytes after the length, and the values in every head."""

    frame: bytes

    @property
    def head(self) -> tuple[int, int, int]:
        """Api key, version, correlation id."""
        return struct.unpack_from(">hhi", self.frame)

    @property
    def client_id(self) -> str:
        (size,) = struct.unpack_from(">h", self.frame, 8)
        return self.frame[10 : 10 + max(size, 0)].decode()


@dataclass(frozen=True, slots=True)
class Response:
    """The bytes after the length, and the api and version of its request."""

    frame: bytes
    api_key: int
    api_version: int


class Conversation:
    """A connection's whole frames, and the beginnings of those that its end cut off (b"": none)."""

    def __init__(self, recorded: Recorded) -> None:
        self.number, self.dialled = recorded.number, recorded.dialled
        self.requests = [Request(frame) for frame in frames(recorded.requests)]
        self._answers = list(frames(recorded.responses))
        self.cut_request = _behind([one.frame for one in self.requests], recorded.requests)
        self.cut_response = _behind(self._answers, recorded.responses)

    @cached_property
    def responses(self) -> list[Response]:
        """Pairs each response with the oldest request that has its correlation id."""
        asked: dict[int, list[tuple[int, int]]] = {}
        for request in self.requests:
            key, version, correlation_id = request.head
            asked.setdefault(correlation_id, []).append((key, version))
        return [
            Response(frame, *asked[int.from_bytes(frame[:4], "big", signed=True)].pop(0)) for frame in self._answers
        ]

    def __str__(self) -> str:
        clients = {request.client_id for request in self.requests}
        sizes = f"{len(self.requests)} requests, {len(self._answers)} responses"
        return f"connection {self.number} to {self.dialled} by {sorted(clients)}: {sizes}"


def _behind(whole: Sequence[bytes], stream: bytes) -> bytes:
    return stream[sum(4 + len(frame) for frame in whole) + 4 :]


def frames(stream: bytes) -> Iterator[bytes]:
    """The whole frames of one direction, each without its length."""
    at = 0
    while len(stream) - at >= 4:
        (size,) = struct.unpack_from(">i", stream, at)
        assert size >= 0, f"length {size} at {at} of {len(stream)} bytes"
        if at + 4 + size > len(stream):
            return
        yield stream[at + 4 : at + 4 + size]
        at += 4 + size

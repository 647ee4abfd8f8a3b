"""Asks one broker about its cluster, with a socket and `struct` alone.

It writes Metadata version 1 by hand, because clients may ask any node, and the project's own codec is under test.
"""

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.wire.keys import METADATA

VERSION = 1


@dataclass(frozen=True, slots=True)
class Metadata:
    """Keys of the mappings: node id; (topic, partition). A leader of -1 is none."""

    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    leaders: dict[tuple[str, int], int] = field(default_factory=dict)
    replicas: dict[tuple[str, int], list[int]] = field(default_factory=dict)


def ask_metadata(host: str, port: int, topics: Sequence[str] = ()) -> Metadata:
    """The broker's own view; everything is empty if it does not answer."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection, connection.makefile("rb") as answers:
            connection.sendall(_request(topics))
            (size,) = struct.unpack(">i", answers.read(4))
            return _read(_Reader(answers.read(size)))
    except (OSError, struct.error):
        return Metadata()


def _request(topics: Sequence[str]) -> bytes:
    names = b"".join(_string(topic) for topic in topics)
    frame = struct.pack(">hhi", METADATA, VERSION, 1) + _string("test") + struct.pack(">i", len(topics)) + names
    return struct.pack(">i", len(frame)) + frame


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class _Reader:
    def __init__(self, frame: bytes) -> None:
        self._frame, self._at = frame, 4  # after the correlation id

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._frame, self._at)
        self._at += struct.calcsize(layout)
        return values

    def number(self) -> int:
        return self.take(">i")[0]

    def string(self) -> str:
        (size,) = self.take(">h")
        start, self._at = self._at, self._at + max(size, 0)
        return self._frame[start : self._at].decode()

    def numbers(self) -> list[int]:
        return list(self.take(f">{self.number()}i"))


def _read(answer: _Reader) -> Metadata:
    found = Metadata()
    for _ in range(answer.number()):
        node, host, port, _rack = answer.number(), answer.string(), answer.number(), answer.string()
        found.brokers[node] = (host, port)
    answer.number()  # the controller
    for _ in range(answer.number()):
        answer.take(">h")  # error
        topic, _internal = answer.string(), answer.take(">b")
        for _ in range(answer.number()):
            answer.take(">h")  # error
            where = topic, answer.number()
            found.leaders[where] = answer.number()
            found.replicas[where] = answer.numbers()
            answer.numbers()  # in sync
    return found

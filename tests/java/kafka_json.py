"""Kafka's own Java message classes as an oracle: body bytes to JSON and back, over a pipe to one JVM.

`KafkaJson.java` documents the pipe. One JVM serves the whole test session. It takes about two seconds to start and
answers a small message in well under a millisecond, so sweeps over thousands of messages are cheap. A test module, or
the `conftest.py` of its folder, imports the fixture `kafka_json`; such tests have the marker `real`. `kafka_json_of`
serves another release of Kafka.
"""

import atexit
import json
import struct
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from tests.brokers import jars
from tests.java.jvm import Jvm, KafkaError

__all__ = ["Api", "BothWays", "Decoded", "KafkaError", "KafkaJson", "kafka_json", "kafka_json_of"]

SOURCE = Path(__file__).with_name("KafkaJson.java")
Kind = Literal["request", "response"]


class Decoded(NamedTuple):
    """A body as Kafka read it: fields (Kafka's names, camelCase), the number of bytes read, unknown tagged fields."""

    body: dict[str, Any]
    read: int
    tags: dict[int, bytes]


class Api(NamedTuple):
    """An api as Kafka knows it; `headers` are (request, response) header versions, from the lowest version up."""

    key: int
    name: str
    lowest: int
    highest: int
    headers: tuple[tuple[int, int], ...]


class BothWays(NamedTuple):
    """Values as Kafka writes them, a body as Kafka writes it after reading it, and the read values (`Decoded.body`)."""

    encoded: bytes
    rewritten: bytes
    body: dict[str, Any]


class KafkaJson:
    """The running oracle of that release. Bodies are bytes without header and length."""

    def __init__(self, release: str) -> None:
        self._jvm = Jvm(release, SOURCE)
        self.close = self._jvm.close

    def apis(self) -> tuple[Api, ...]:
        """Every api of this Kafka version, controller-only and unstable versions too."""
        listing = json.loads(self._ask("L", 0, 0, b""))
        return tuple(Api(**api | {"headers": tuple(map(tuple, api["headers"]))}) for api in listing)

    def decode(self, kind: Kind, api_key: int, version: int, body: bytes) -> Decoded:
        """Read a body. KafkaError when Kafka can't."""
        answer = json.loads(self._ask("Q" if kind == "request" else "R", api_key, version, body))
        tags = {int(tag): b64decode(data) for tag, data in answer["tags"].items()}
        return Decoded(answer["body"], answer["read"], tags)

    def encode(self, kind: Kind, api_key: int, version: int, values: dict[str, Any]) -> bytes:
        """Write a body; values as `Decoded.body` has them, bytes as base64 text. KafkaError when Kafka can't."""
        return self._ask("q" if kind == "request" else "r", api_key, version, json.dumps(values).encode())

    def both_ways(self, kind: Kind, api_key: int, version: int, values: dict[str, Any], body: bytes) -> BothWays:
        """Write the values (as for `encode`), read the body and write it again. KafkaError when Kafka can't."""
        question = _with_size(json.dumps(values).encode()) + body
        return _both_ways(self._ask("X" if kind == "request" else "x", api_key, version, question))

    def data_both_ways(self, java_class: str, version: int, values: dict[str, Any], body: bytes) -> BothWays:
        """Does the same for a data message, by the full name of its class."""
        question = _with_size(java_class.encode()) + _with_size(json.dumps(values).encode()) + body
        return _both_ways(self._ask("D", 0, version, question))

    def errors(self) -> dict[int, tuple[str, bool]]:
        """Every error code of this Kafka version: its name, and whether it is retriable."""
        return {one["code"]: (one["name"], one["retriable"]) for one in self._errors()}

    def error_messages(self) -> dict[int, str]:
        """Returns this Kafka version's text of each error code."""
        return {one["code"]: one["message"] for one in self._errors()}

    def _errors(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._ask("E", 0, 0, b""))
        return found

    def _ask(self, operation: str, api_key: int, version: int, payload: bytes) -> bytes:
        return self._jvm.ask(struct.pack(">cHH", operation.encode(), api_key, version) + payload)


@pytest.fixture(scope="session")
def kafka_json() -> KafkaJson:
    return kafka_json_of(jars.VERSION)


@cache
def kafka_json_of(release: str) -> KafkaJson:
    """One JVM for each release and all test modules; `tests/brokers/kafka-clients.sha256` has the releases."""
    oracle = KafkaJson(release)
    atexit.register(oracle.close)
    return oracle


def _both_ways(answer: bytes) -> BothWays:
    encoded, rest = _sized(answer)
    rewritten, read = _sized(rest)
    return BothWays(encoded, rewritten, json.loads(read))


def _with_size(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _sized(data: bytes) -> tuple[bytes, bytes]:
    end = 4 + int.from_bytes(data[:4])
    return data[4:end], data[end:]

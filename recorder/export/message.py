"""A Kafka message, independent of any library."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Mode(StrEnum):
    """A content mode of the binding. Binary mode needs headers, which messages before Kafka 0.11 lack."""

    BINARY = "binary"
    STRUCTURED = "structured"


class Message(NamedTuple):
    """A message to publish. `headers`: in their order; empty for brokers before Kafka 0.11."""

    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()

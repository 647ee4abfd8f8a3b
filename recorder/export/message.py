"""A Kafka message, as any library has it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Mode(StrEnum):
    """A content mode of the binding. Messages of before Kafka 0.11 have no headers, and so no binary mode."""

    BINARY = "binary"
    STRUCTURED = "structured"


class Message(NamedTuple):
    """What is published: headers in their order; no headers for brokers of before 0.11."""

    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()

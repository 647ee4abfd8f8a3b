"""Topics, the clients that write and read them, and the CloudEvents in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from recorder.analysis.summary.bounds import Section, Table, Top


@dataclass(frozen=True, slots=True)
class TopicTotals:
    """Bytes and records written to a topic and read from it. `writers` and `readers` count clients.

    Written are those that brokers accepted. Records that were refused, sent again, or left without an answer (acks=0)
    are told apart.
    """

    topic: str
    written_bytes: int = 0
    read_bytes: int = 0
    written_records: int | None = None
    read_records: int | None = None
    partitions: int | None = None
    writers: int = 0
    readers: int = 0
    refused_records: int | None = None
    retried_records: int | None = None
    unanswered_records: int | None = None
    unanswered_bytes: int | None = None

    @property
    def kept_bytes(self) -> int:
        """The bytes that are written as far as is known: accepted, or sent without a wait for an answer."""
        return self.written_bytes + (self.unanswered_bytes or 0)


class Side(StrEnum):
    """How a client uses a topic. Reports show the value."""

    WRITES = "writes"
    READS = "reads"


@dataclass(frozen=True, slots=True)
class TopicUse:
    """A client's use of a topic. `bytes`, `records`: those that it read, or that brokers accepted from it."""

    topic: str
    side: Side
    client_id: str | None = None
    software: str | None = None
    principal: str | None = None
    group: str | None = None
    bytes: int = 0
    records: int | None = None
    first_at_ns: int | None = None
    last_at_ns: int | None = None
    refused_records: int | None = None
    retried_records: int | None = None
    unanswered_records: int | None = None


@dataclass(frozen=True, slots=True)
class EventsOfTopic:
    """The CloudEvents of a topic and mode that break the same `clause` of the Kafka binding, or none (None).

    An event that breaks several clauses counts for each. `reason`: how one of the events breaks the clause.
    """

    topic: str
    mode: str
    clause: str | None = None
    reason: str | None = None
    written: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class Topics(Section):
    """Topics and the clients that write and read them. Bytes are those of record batches on the wire."""

    totals: Top[TopicTotals] = field(default_factory=Top)
    use: Table[TopicUse] = field(default_factory=Table)
    cloudevents: Table[EventsOfTopic] = field(default_factory=Table)

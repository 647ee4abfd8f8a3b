"""One side of a comparison: a capture as small tables, without a time axis.

Captures differ in length, so every count that grows with it is divided by `seconds`: the time in which at least one
session recorded. A pause between two sessions is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from recorder.analysis.summary.bounds import Bounded, Table, Top
from recorder.analysis.summary.sections.delivery import DeliveryOfTopic
from recorder.analysis.summary.sections.findings import Findings
from recorder.analysis.summary.sections.groups import Group
from recorder.analysis.summary.sections.partitions import LoadOfNode
from recorder.missing import Missing


@dataclass(frozen=True, slots=True)
class ApiFacts:
    """An API's exchanges. `wait`: as in `LatencyOfApi`. Percentiles are those of answers from brokers."""

    api: str
    wait: str | None = None
    requests: int = 0
    responses: int = 0
    unanswered: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """How many of an API's answers hold an error code. `is_flow`: the code is part of the protocol's normal course."""

    api: str
    error: str
    answers: int
    is_flow: bool = False


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """An API's requests in one version."""

    api: str
    version: int
    requests: int


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """A client id's requests by one software. A number at the id's end is a star: `producer-17` is `producer-*`."""

    client_id: str | None
    software: str | None
    requests: int


@dataclass(frozen=True, slots=True)
class ManyClients(Bounded[ClientFacts]):
    """The busiest clients, as many as fit in the driver's memory."""

    most: ClassVar[int] = 10_000


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """How a topic is written. `idempotent`: batches with a producer id and a sequence. `records`: of the batches whose
    header tells them (`counted`). `codecs`: batches by codec. `acks`: partitions of Produce requests by the acks that
    are asked for.
    """

    topic: str
    batches: int = 0
    idempotent: int = 0
    counted: int = 0
    records: int = 0
    codecs: dict[str, int] = field(default_factory=dict)
    acks: dict[str, int] = field(default_factory=dict)

    @property
    def records_a_batch(self) -> float | None:
        """The mean; None if no header tells it."""
        return self.records / self.counted if self.counted else None


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """One capture. `read`: by API, how many answers have known errors. `deliveries`, `groups` and `nodes` are those of
    a report.
    """

    capture: str = ""
    first_at_ns: int | None = None
    recorded_ns: int = 0
    frames: int = 0
    bytes: int = 0
    missing: Missing = field(default_factory=Missing)
    apis: tuple[ApiFacts, ...] = ()
    read: dict[str, int] = field(default_factory=dict)
    errors: tuple[ErrorFacts, ...] = ()
    versions: tuple[VersionFacts, ...] = ()
    clients: ManyClients = field(default_factory=ManyClients)
    topics: Table[TopicFacts] = field(default_factory=Table)
    deliveries: Table[DeliveryOfTopic] = field(default_factory=Table)
    groups: Top[Group] = field(default_factory=Top)
    nodes: Table[LoadOfNode] = field(default_factory=Table)
    findings: Findings = field(default_factory=Findings)

    @property
    def seconds(self) -> float:
        """The recorded time, by which counts are divided."""
        return self.recorded_ns / 1e9

    @property
    def exchanges(self) -> int:
        """The number of recorded requests."""
        return sum(one.requests for one in self.apis)


def together_ns(spans: Iterable[tuple[int, int]]) -> int:
    """Returns the length of the union of these spans, given as (first, last)."""
    total, end = 0, None
    for first, last in sorted(spans):
        begin = first if end is None else max(first, end)
        total += max(0, last - begin)
        end = last if end is None else max(end, last)
    return total

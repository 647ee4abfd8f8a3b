"""Sections of exchanges: how much of the traffic is there, how fast it was, what went wrong, who carries the bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Marks, Section, Series, Table, Top
from recorder.missing import Missing


@dataclass(frozen=True, slots=True)
class ReadOfApi:
    """Of how many responses of an API the body was read. `unread`: the others, by reason."""

    api: str
    responses: int
    read: int
    unread: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Coverage(Section):
    """What the capture holds, and what it lacks. `sessions`: their names; `exchanges_over_time`: requests a bin;
    `lost_over_time`: frames in gaps, by bin.
    """

    capture: str = ""
    sessions: Table[str] = field(default_factory=Table)
    clusters: tuple[str, ...] = ()
    first_at_ns: int | None = None
    last_at_ns: int | None = None
    frames: int = 0
    exchanges: int = 0
    bytes: int = 0
    missing: Missing = field(default_factory=Missing)
    exchanges_over_time: Series = field(default_factory=Series)
    lost_over_time: Series = field(default_factory=Series)
    read: Table[ReadOfApi] = field(default_factory=Table)


@dataclass(frozen=True, slots=True)
class LatencyOfApi:
    """How long an API's answers took. `wait`: None for work, "wait" for long polls, "includes_wait" where nobody can
    tell. `usual_ms`: p50 a bin; `slow_ms`: p99 a bin.
    """

    api: str
    wait: str | None
    responses: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    most_ms: float | None = None
    usual_ms: Series = field(default_factory=Series)
    slow_ms: Series = field(default_factory=Series)


@dataclass(frozen=True, slots=True)
class LatencyOfNode:
    """How long a node's answers to an API took, waits left out."""

    api: str
    node: int | None
    responses: int
    p50_ms: float | None = None
    p99_ms: float | None = None
    most_ms: float | None = None


@dataclass(frozen=True, slots=True)
class HeatCell:
    """Answers of a bin whose latency lies from `from_ms` up to `to_ms`."""

    bin: int
    from_ms: float
    to_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class Latency(Section):
    """How long answers took. `heat`: of all work together, waits left out."""

    apis: Top[LatencyOfApi] = field(default_factory=Top)
    nodes: Table[LatencyOfNode] = field(default_factory=Table)
    heat: Marks[HeatCell] = field(default_factory=Marks)


@dataclass(frozen=True, slots=True)
class DeliveryOfTopic:
    """From the Produce request to the first Fetch response with the batch; `age_p50_ms` from the records' timestamp."""

    topic: str
    batches: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    most_ms: float | None = None
    age_p50_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Delivery(Section):
    """How long records took from a producer to a first consumer."""

    topics: Table[DeliveryOfTopic] = field(default_factory=Table)
    usual_ms: Series = field(default_factory=Series)
    slow_ms: Series = field(default_factory=Series)


@dataclass(frozen=True, slots=True)
class ErrorOfApi:
    """An error code in an API's responses. `is_flow`: part of the protocol's normal course."""

    api: str
    error: str
    code: int
    count: int
    share: float | None = None
    is_flow: bool = False
    is_retriable: bool | None = None
    first_at_ns: int | None = None
    last_at_ns: int | None = None
    subject: str | None = None
    example: str | None = None


@dataclass(frozen=True, slots=True)
class Errors(Section):
    """What brokers refused. `over_time`: errors that are not flow, by name; `example`s are ids for `inspect show`."""

    errors: Table[ErrorOfApi] = field(default_factory=Table)
    over_time: Top[Series] = field(default_factory=Top)


@dataclass(frozen=True, slots=True)
class TrafficOfApi:
    """Exchanges and bytes of an API."""

    api: str
    requests: int
    responses: int
    unanswered: int = 0
    errors: int | None = None
    request_bytes: int = 0
    response_bytes: int = 0

    @property
    def bytes(self) -> int:
        """In both directions."""
        return self.request_bytes + self.response_bytes


@dataclass(frozen=True, slots=True)
class Traffic(Section):
    """Which APIs carry the traffic. `bytes_over_time`: both directions, by API."""

    apis: Top[TrafficOfApi] = field(default_factory=Top)
    bytes_over_time: Top[Series] = field(default_factory=Top)

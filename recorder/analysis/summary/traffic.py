"""The report's sections on exchanges: coverage, latency, delivery, errors, and traffic by API."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Marks, Section, Series, Table, Top
from recorder.missing import Missing

# A person notices a wait of this length.
LONG_MS = 100


@dataclass(frozen=True, slots=True)
class ReadOfApi:
    """The number of an API's responses whose body was read. `unread`: the numbers of the others, by reason."""

    api: str
    responses: int
    read: int
    unread: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Coverage(Section):
    """What the capture holds, and what it lacks. `sessions`: their names. `exchanges_over_time`: requests by bin.
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
    """The latency of an API. `wait`: None for work, "wait" for long polls that waited, "includes_wait" for long polls
    of which it is unknown. `usual_ms`: p50 by bin; `slow_ms`: p99 by bin.
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
    """The latency of an API at one node, without waits."""

    api: str
    node: int | None
    responses: int
    p50_ms: float | None = None
    p99_ms: float | None = None
    most_ms: float | None = None


@dataclass(frozen=True, slots=True)
class HeatCell:
    """The number of a bin's responses with a latency from `from_ms` up to, but not including, `to_ms`."""

    bin: int
    from_ms: float
    to_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class Latency(Section):
    """Latency by API and by node. `heat`: that of all APIs together, without waits. `long`: how many of the responses
    in `heat` took LONG_MS or longer; None: unknown.
    """

    apis: Top[LatencyOfApi] = field(default_factory=Top)
    nodes: Table[LatencyOfNode] = field(default_factory=Table)
    heat: Marks[HeatCell] = field(default_factory=Marks)
    long: int | None = None


@dataclass(frozen=True, slots=True)
class DeliveryOfTopic:
    """The time from a batch's Produce request to its first Fetch response. `age_p50_ms`: from the record timestamp."""

    topic: str
    batches: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    most_ms: float | None = None
    age_p50_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Delivery(Section):
    """The time from producers to first consumers, by topic and over time."""

    topics: Table[DeliveryOfTopic] = field(default_factory=Table)
    usual_ms: Series = field(default_factory=Series)
    slow_ms: Series = field(default_factory=Series)


@dataclass(frozen=True, slots=True)
class ErrorOfApi:
    """An error code in an API's responses. `is_flow`: the code is part of the protocol's normal course."""

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
    """Errors in responses. `over_time`: those outside the normal course, by name. Examples: ids for `inspect show`."""

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
        """The bytes in both directions."""
        return self.request_bytes + self.response_bytes


@dataclass(frozen=True, slots=True)
class Traffic(Section):
    """Traffic by API. `bytes_over_time`: the bytes of both directions."""

    apis: Top[TrafficOfApi] = field(default_factory=Top)
    bytes_over_time: Top[Series] = field(default_factory=Top)

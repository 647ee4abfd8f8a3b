"""One capture as it is compared with another: small tables, without a time axis.

Times of the two captures differ, so everything that depends on their length is divided by `seconds`: the time in which
at least one session recorded. A pause between two sessions is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from recorder.analysis.summary.bounds import Bounded
from recorder.analysis.summary.finding import Findings
from recorder.missing import Missing


@dataclass(frozen=True, slots=True)
class ApiFacts:
    """An API's exchanges. `wait`: as of `LatencyOfApi`. Percentiles are of the answers that brokers gave."""

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
    """An error code in an API's answers: how many answers hold it. `is_flow`: part of the protocol's normal course."""

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
    """The busiest clients: as many as a driver holds at once."""

    most: ClassVar[int] = 10_000


@dataclass(frozen=True, slots=True)
class Facts:
    """A capture. `read`: by API, the answers whose errors are known."""

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
    findings: Findings = field(default_factory=Findings)

    @property
    def seconds(self) -> float:
        """The time by which counts are divided."""
        return self.recorded_ns / 1e9

    @property
    def exchanges(self) -> int:
        """Requests that were recorded."""
        return sum(one.requests for one in self.apis)


def together_ns(spans: Iterable[tuple[int, int]]) -> int:
    """The time that is within at least one of these spans of (first, last)."""
    total, end = 0, None
    for first, last in sorted(spans):
        begin = first if end is None else max(first, end)
        total += max(0, last - begin)
        end = last if end is None else max(end, last)
    return total

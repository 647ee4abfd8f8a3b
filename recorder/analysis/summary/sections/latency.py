"""Latency by API, by node and over time."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Marks, Section, Series, Table, Top

# A person notices a wait of this length.
LONG_MS = 100


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

"""The time of record batches from producers to their first consumers."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Series, Table


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

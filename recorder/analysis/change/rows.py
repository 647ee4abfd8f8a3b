"""Rows of a comparison. A side is None if the capture on that side lacks the subject."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.change.facts import ApiFacts, TopicFacts
from recorder.analysis.change.judged import Cases, Change
from recorder.analysis.summary.sections.delivery import DeliveryOfTopic
from recorder.analysis.summary.sections.findings import Finding
from recorder.analysis.summary.sections.groups import Group
from recorder.analysis.summary.sections.partitions import LoadOfNode


@dataclass(frozen=True, slots=True)
class LatencyChange:
    """How long an API's answers took. `percentiles`: the change of each percentile, by name."""

    api: str
    wait: str | None
    before: ApiFacts | None
    after: ApiFacts | None
    change: Change
    percentiles: dict[str, Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests and bytes in both directions, and their rates; None for a capture of a single moment."""

    requests: int
    bytes: int
    requests_a_second: float | None
    bytes_a_second: float | None


@dataclass(frozen=True, slots=True)
class TrafficChange:
    """An API's requests, by their number a second, and its bytes."""

    api: str
    before: Load | None
    after: Load | None
    change: Change
    bytes_change: Change


@dataclass(frozen=True, slots=True)
class ErrorChange:
    """Answers with an error among the readable answers, or unanswered requests among all requests."""

    api: str
    error: str
    is_flow: bool
    before: Cases
    after: Cases
    change: Change


@dataclass(frozen=True, slots=True)
class VersionChange:
    """The versions of an API's requests, each with its share."""

    api: str
    before: dict[int, float]
    after: dict[int, float]
    change: Change


@dataclass(frozen=True, slots=True)
class ClientChange:
    """A client id: its software by requests, on both sides."""

    client_id: str | None
    before: tuple[str, ...]
    after: tuple[str, ...]
    requests_before: int
    requests_after: int
    change: Change


@dataclass(frozen=True, slots=True)
class TopicChange:
    """How a topic is written. `of`: the change of acks, idempotence, codec and records a batch, by name."""

    topic: str
    before: TopicFacts | None
    after: TopicFacts | None
    change: Change
    of: dict[str, Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeliveryChange:
    """How long a topic's batches took to their first consumer. `percentiles`: the change of each, by name."""

    topic: str
    before: DeliveryOfTopic | None
    after: DeliveryOfTopic | None
    change: Change
    percentiles: dict[str, Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A group's members, rebalances and lag. `of`: the change of each, by name."""

    group: str
    before: Group | None
    after: Group | None
    change: Change
    of: dict[str, Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node's load: the partitions that it leads, and its share of all record batches' bytes."""

    node: int
    before: LoadOfNode | None
    after: LoadOfNode | None
    share_before: float | None
    share_after: float | None
    change: Change


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A finding of one rule about one subject. `why`: why it is unknown whether it appeared or disappeared."""

    rule: str
    subject: str
    before: Finding | None
    after: Finding | None
    change: Change
    why: str = ""

    @property
    def shown(self) -> Finding:
        """The later finding, or the earlier one if it disappeared."""
        found = self.after or self.before
        assert found is not None
        return found

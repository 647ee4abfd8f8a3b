"""Changes of leaders, replicas and nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from recorder.analysis.summary.bounds import Section, Series, Table, Top


class What(StrEnum):
    """The kinds of facts that change in a cluster. Reports show the value."""

    LEADER = "leader"
    IN_SYNC = "in sync"
    REPLICAS = "replicas"
    NODE = "address"


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A changed fact about a node, a partition, or several partitions. `what`: a value of `What`."""

    at_ns: int
    subject: str
    what: str
    before: str | None = None
    after: str | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A leader that a client was told, when others were told another one in the same epoch. `at_ns`: the first time."""

    at_ns: int
    subject: str
    asker: str
    leader: str
    others: str
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Metadata(Section):
    """Changes in the cluster during the capture, in order of time. `over_time`: changes by kind and bin; each changed
    partition counts. `contradictions`: leaders that differ by client.
    """

    changes: Table[MetadataChange] = field(default_factory=Table)
    contradictions: Table[Contradiction] = field(default_factory=Table)
    over_time: Top[Series] = field(default_factory=Top)

"""Sections of what the cluster keeps: topics and who uses them, consumer groups and their lag, partitions, metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from recorder.analysis.summary.bounds import Marks, Section, Series, Table, Top


@dataclass(frozen=True, slots=True)
class TopicTotals:
    """What was written to a topic and read of it. `writers` and `readers` count clients."""

    topic: str
    written_bytes: int = 0
    read_bytes: int = 0
    written_records: int | None = None
    read_records: int | None = None
    partitions: int | None = None
    writers: int = 0
    readers: int = 0


class Side(StrEnum):
    """Who uses a topic. The value stands in reports."""

    WRITES = "writes"
    READS = "reads"


@dataclass(frozen=True, slots=True)
class TopicUse:
    """A client's use of a topic."""

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


@dataclass(frozen=True, slots=True)
class EventsOfTopic:
    """CloudEvents in a topic: those of a mode that break the same clause of the Kafka binding, or none.

    An event that breaks several clauses counts with each. `reason`: how one of them breaks it.
    """

    topic: str
    mode: str
    clause: str | None = None
    reason: str | None = None
    written: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class Topics(Section):
    """Who writes and who reads each topic. Bytes are record batches' as they were on the wire."""

    totals: Top[TopicTotals] = field(default_factory=Top)
    use: Table[TopicUse] = field(default_factory=Table)
    cloudevents: Table[EventsOfTopic] = field(default_factory=Table)


# A consumer that commits every 5 s, as most do by default, is never so far behind if it keeps up.
BEHIND_MS = 10_000


@dataclass(frozen=True, slots=True)
class Group:
    """A group's lane. `protocol`: classic, consumer, share, streams, or None of a group that has offsets alone.

    `members`: at the end; `lag`: records behind the end, at a bin's end, over all partitions; `last_lag_ms`: that of
    the partition that is the furthest behind; `stalled_from_ns`: since when nothing was committed though there was lag.
    """

    group: str
    protocol: str | None = None
    members: int | None = None
    most_members: int | None = None
    topics: tuple[str, ...] = ()
    rebalances: int = 0
    commits: int | None = None
    last_lag: int | None = None
    most_lag: int | None = None
    last_lag_ms: float | None = None
    stalled_from_ns: int | None = None
    lag: Series = field(default_factory=Series)

    @property
    def is_behind(self) -> bool:
        """True if it is further behind than a group that commits by time."""
        return bool(self.last_lag) and (self.last_lag_ms is None or self.last_lag_ms >= BEHIND_MS)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance of a group. `to_ns` is None if its end was not seen; `reason`: what its members said."""

    group: str
    from_ns: int
    to_ns: int | None
    cause: str
    members: int | None = None
    generation: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Groups(Section):
    """Groups as lanes over time. `rebalances` are those of all groups, in order of time."""

    groups: Top[Group] = field(default_factory=Top)
    rebalances: Table[Rebalance] = field(default_factory=Table)


# the leader of a partition that has none
NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition's share of its topic. `skew`: its bytes over an even share; `replicas`, `in_sync`: brokers."""

    topic: str
    partition: int
    leader: int | None = None
    written_bytes: int = 0
    read_bytes: int = 0
    skew: float | None = None
    replicas: int | None = None
    in_sync: int | None = None

    @property
    def bytes(self) -> int:
        """Written and read."""
        return self.written_bytes + self.read_bytes

    @property
    def is_short_of_replicas(self) -> bool:
        """True if fewer replicas are in sync than there are, or no broker leads it."""
        short = self.replicas is not None and self.in_sync is not None and self.in_sync < self.replicas
        return short or self.leader == NO_LEADER


@dataclass(frozen=True, slots=True)
class LoadOfNode:
    """What a node leads and carries."""

    node: int
    partitions: int = 0
    written_bytes: int = 0
    read_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Partitions(Section):
    """The map of partitions, topic by topic in the order of their bytes; and what each node carries."""

    partitions: Marks[Partition] = field(default_factory=Marks)
    nodes: Table[LoadOfNode] = field(default_factory=Table)


class What(StrEnum):
    """What of the cluster changed. The value stands in reports."""

    LEADER = "leader"
    IN_SYNC = "in sync"
    REPLICAS = "replicas"
    NODE = "address"


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A fact of the cluster that changed, of one partition or of several alike. `what`: a value of `What`."""

    at_ns: int
    subject: str
    what: str
    before: str | None = None
    after: str | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Metadata(Section):
    """What changed in the cluster while the capture ran, in order of time. `over_time`: changes of each kind, a bin;
    each partition counts.
    """

    changes: Table[MetadataChange] = field(default_factory=Table)
    over_time: Top[Series] = field(default_factory=Top)

"""The report's sections on the cluster: topics and their clients, consumer groups and lag, partitions, metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from recorder.analysis.summary.bounds import Marks, Section, Series, Table, Top


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


# Most consumers commit every 5 s by default. One that keeps up is never this far behind.
BEHIND_MS = 10_000


@dataclass(frozen=True, slots=True)
class Group:
    """A group's lane in the plot.

    `protocol`: classic, consumer, share or streams; None for a group that only commits offsets.
    `members`: the number of members at the end.
    `lag`: records between committed offsets and log ends, over all partitions, at the end of each bin.
    `last_lag_ms`: the age of the oldest lag of a partition, at the end.
    `stalled_from_ns`: when a partition with lag stopped advancing; None if none did.
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
        """True if the lag is older than that of a consumer that commits at intervals and keeps up."""
        return bool(self.last_lag) and (self.last_lag_ms is None or self.last_lag_ms >= BEHIND_MS)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance of a group. `to_ns`: None if the end was not recorded. `reason`: the reasons that members gave."""

    group: str
    from_ns: int
    to_ns: int | None
    cause: str
    members: int | None = None
    generation: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Groups(Section):
    """Consumer groups over time. `rebalances`: those of all groups, in order of time."""

    groups: Top[Group] = field(default_factory=Top)
    rebalances: Table[Rebalance] = field(default_factory=Table)


# The value of `leader` for a partition without a leader.
NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. `skew`: its bytes divided by an even share of its topic's. `replicas`, `in_sync`: their numbers."""

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
        """The bytes that were written and read."""
        return self.written_bytes + self.read_bytes

    @property
    def is_short_of_replicas(self) -> bool:
        """True if some replicas are not in sync, or the partition has no leader."""
        short = self.replicas is not None and self.in_sync is not None and self.in_sync < self.replicas
        return short or self.leader == NO_LEADER


@dataclass(frozen=True, slots=True)
class LoadOfNode:
    """The number of partitions that a node leads, and their bytes."""

    node: int
    partitions: int = 0
    written_bytes: int = 0
    read_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Partitions(Section):
    """Partitions, by topic in the order of their bytes; and the load of each node."""

    partitions: Marks[Partition] = field(default_factory=Marks)
    nodes: Table[LoadOfNode] = field(default_factory=Table)


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

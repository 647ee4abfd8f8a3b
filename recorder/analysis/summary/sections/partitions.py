"""Partitions, their load and their replicas, and the load of each node."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Marks, Section, Table

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

"""Consumer groups, their lag and their rebalances."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Series, Table, Top

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

"""Connections, and why they ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Series, Table


@dataclass(frozen=True, slots=True)
class ConnectionsOfClient:
    """A client's connections. `life_ms`: the median duration of those that ended."""

    client: str
    opened: int
    open: int | None = None
    life_ms: float | None = None
    bytes: int = 0
    causes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CloseCause:
    """The number of connections that ended for a cause."""

    cause: str
    connections: int


@dataclass(frozen=True, slots=True)
class Connections(Section):
    """Connections by client and by the cause of their end. `opened`: the connections opened in each bin.

    `probes`: the connections that clients ended without a byte, as balancers and monitors do.
    """

    total: int = 0
    probes: int = 0
    opened: Series = field(default_factory=Series)
    clients: Table[ConnectionsOfClient] = field(default_factory=Table)
    causes: Table[CloseCause] = field(default_factory=Table)

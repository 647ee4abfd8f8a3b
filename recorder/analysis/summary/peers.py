"""Sections of who was there: clients and their versions, connections, events; and how the report was made."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Series, Table, Top
from recorder.analysis.summary.finding import Unit


@dataclass(frozen=True, slots=True)
class Client:
    """A client as it calls itself. `fate`: what a broker of release 4 does to it: "cut", "held_back", "unsure", or None
    for nothing; `oldest`: the versions that decide it, in words.
    """

    client_id: str | None = None
    software: str | None = None
    version: str | None = None
    principal: str | None = None
    host: str | None = None
    connections: int = 0
    requests: int = 0
    bytes: int = 0
    first_at_ns: int | None = None
    last_at_ns: int | None = None
    fate: str | None = None
    oldest: str | None = None


@dataclass(frozen=True, slots=True)
class SoftwareTotals:
    """A client library in one version. `cut`: how many of its clients a broker of release 4 would refuse."""

    software: str
    version: str | None
    clients: int
    requests: int
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Clients(Section):
    """Who connects, with what software."""

    clients: Table[Client] = field(default_factory=Table)
    software: Top[SoftwareTotals] = field(default_factory=Top)


@dataclass(frozen=True, slots=True)
class ConnectionsOfClient:
    """A client's connections. `life_ms`: the median life of those that ended."""

    client: str
    opened: int
    open: int | None = None
    life_ms: float | None = None
    bytes: int = 0
    causes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CloseCause:
    """Why connections ended."""

    cause: str
    connections: int


@dataclass(frozen=True, slots=True)
class Connections(Section):
    """Connections over time, by client, and why they ended. `opened`: in a bin."""

    total: int = 0
    opened: Series = field(default_factory=Series)
    clients: Table[ConnectionsOfClient] = field(default_factory=Table)
    causes: Table[CloseCause] = field(default_factory=Table)


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the capture's events that people want to see: a session's begin, a gap, a node, a failed login."""

    at_ns: int
    kind: str
    sentence: str
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class Events(Section):
    """What else happened, in order of time."""

    events: Table[Event] = field(default_factory=Table)


@dataclass(frozen=True, slots=True)
class Threshold:
    """From where on a rule fires. `is_own`: by --thresholds, not by default."""

    rule: str
    value: float
    unit: Unit = Unit.COUNT
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Method(Section):
    """How the report was made. `options`: in words, one each; `notes`: sentences on what was left out or estimated."""

    program: str = ""
    made_at_ns: int | None = None
    took_ns: int | None = None
    window_ns: int | None = None
    options: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    thresholds: Table[Threshold] = field(default_factory=Table)

"""The report's sections on clients, connections and events, and on how the report was made."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Series, Table, Top
from recorder.analysis.summary.finding import Unit


@dataclass(frozen=True, slots=True)
class Client:
    """A client by its id, software, principal and host.

    `fate`: how a broker of release 4 treats it: "cut", "held_back", "unsure", or None if nothing changes.
    `oldest`: the API versions that decide the fate, in words.
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
    """A version of a client library. `cut`: the number of its clients that a broker of release 4 would refuse."""

    software: str
    version: str | None
    clients: int
    requests: int
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Clients(Section):
    """Clients, and the libraries that they use."""

    clients: Table[Client] = field(default_factory=Table)
    software: Top[SoftwareTotals] = field(default_factory=Top)


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


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the capture that a reader wants to see: a session's begin or end, a gap, a node, a set clock."""

    at_ns: int
    kind: str
    sentence: str
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class Events(Section):
    """Events in order of time."""

    events: Table[Event] = field(default_factory=Table)


@dataclass(frozen=True, slots=True)
class Threshold:
    """The value from which a rule fires. `is_own`: the user chose it (--thresholds). `must_last`: one window is not
    enough.
    """

    rule: str
    value: float
    unit: Unit = Unit.COUNT
    is_own: bool = False
    must_last: bool = False


@dataclass(frozen=True, slots=True)
class Method(Section):
    """How the report was made. `options`: one phrase each; `notes`: sentences about omissions and estimates."""

    program: str = ""
    made_at_ns: int | None = None
    took_ns: int | None = None
    window_ns: int | None = None
    options: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    thresholds: Table[Threshold] = field(default_factory=Table)

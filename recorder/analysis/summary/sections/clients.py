"""Clients, and the libraries that they use."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Table, Top


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

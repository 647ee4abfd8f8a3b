"""Events of the capture."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Table


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

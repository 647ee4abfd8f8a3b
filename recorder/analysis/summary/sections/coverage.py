"""What the capture holds, and what it lacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Series, Table
from recorder.missing import Missing


@dataclass(frozen=True, slots=True)
class ReadOfApi:
    """The number of an API's responses whose body was read. `unread`: the numbers of the others, by reason."""

    api: str
    responses: int
    read: int
    unread: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Coverage(Section):
    """What the capture holds, and what it lacks. `sessions`: their names. `exchanges_over_time`: requests by bin.
    `lost_over_time`: frames in gaps, by bin.
    """

    capture: str = ""
    sessions: Table[str] = field(default_factory=Table)
    clusters: tuple[str, ...] = ()
    first_at_ns: int | None = None
    last_at_ns: int | None = None
    frames: int = 0
    exchanges: int = 0
    bytes: int = 0
    missing: Missing = field(default_factory=Missing)
    exchanges_over_time: Series = field(default_factory=Series)
    lost_over_time: Series = field(default_factory=Series)
    read: Table[ReadOfApi] = field(default_factory=Table)

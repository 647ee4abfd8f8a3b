"""A finding: what is wrong, since when, how badly, what to do about it, and the exchanges that show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from recorder.analysis.summary.bounds import Section, Table

# Pieces of evidence in a finding: the worst ones, as many as a person opens.
MAX_EVIDENCE = 5
# Findings of one rule. Further ones need the same remedy.
MAX_SUBJECTS = 20
# Clients, or nodes, of a finding. More of them are not told: no other finding is about just these.
MAX_CONCERNED = 50
# A rule that must last is true in LASTING of NEAR consecutive windows.
LASTING, NEAR = 3, 5
# Fewer cases, or cases out of fewer chances, may be an accident.
MIN_CASES, MIN_OF = 5, 100
# The rule about gaps. Gaps make all other measures lower bounds, so reports show its findings first.
GAPS = "gaps"


class Severity(StrEnum):
    """How bad a finding is, the worst first. Reports show the value."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return tuple(Severity).index(self)


class Unit(StrEnum):
    """The unit of a measure and its threshold. JSON has the value."""

    COUNT = "count"
    MS = "ms"
    BYTES = "bytes"
    SHARE = "share"
    PER_SECOND = "per_second"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A connection, one of its exchanges, or one of its frames, for `kafka-wiretap inspect show`.

    `sequence`: the frame; ignored if there is an `exchange`. `measure`: that of this case, in the finding's unit.
    """

    session: str
    connection: int
    exchange: int | None = None
    sequence: int | None = None
    at_ns: int | None = None
    measure: float | None = None

    @property
    def id(self) -> str:
        """The id of connection 4 (SESSION/4), of its exchange 8 (SESSION/4/e8), or of its frame 17 (SESSION/4/17)."""
        base = f"{self.session}/{self.connection}" if self.session else str(self.connection)
        if self.exchange is not None:
            return f"{base}/e{self.exchange}"
        return base if self.sequence is None else f"{base}/{self.sequence}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that a rule found with a subject, over a time. `share`: the bad cases among all; None: not counted.

    `worst_from_ns`, `worst_to_ns`: the part of that time which `measure` and the sentence are about; None: all of it.
    `clients`: families of clients (a star stands for a number at the end of a client id); `nodes`: node ids. Either is
    empty if it is unknown, or if there are too many. `consequences`: findings that this one causes.
    """

    rule: str
    severity: Severity
    subject: str
    sentence: str
    advice: str
    from_ns: int | None = None
    to_ns: int | None = None
    measure: float | None = None
    threshold: float | None = None
    unit: Unit = Unit.COUNT
    share: float | None = None
    evidence: tuple[Evidence, ...] = ()
    worst_from_ns: int | None = None
    worst_to_ns: int | None = None
    clients: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    consequences: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", tuple(self.evidence[:MAX_EVIDENCE]))


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A rule that this capture can't answer, and why."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Findings(Section):
    """All findings, the worst first. `quiet`: rules that were judged and found nothing; `unjudged`: all others."""

    found: Table[Finding] = field(default_factory=Table)
    quiet: tuple[str, ...] = ()
    unjudged: Table[Unjudged] = field(default_factory=Table)

    @property
    def every(self) -> list[Finding]:
        """All findings, each followed by its consequences."""
        return [one for cause in self.found for one in (cause, *cause.consequences)]

    @property
    def in_order(self) -> list[Finding]:
        """The findings by rank: gaps first, then by severity, then by share. Equal ones keep their order."""
        return sorted(self.found, key=lambda one: (one.rule != GAPS, one.severity.rank, -(one.share or 0)))

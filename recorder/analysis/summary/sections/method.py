"""How the report was made."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Table
from recorder.analysis.summary.sections.findings import Unit


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

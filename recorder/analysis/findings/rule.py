"""A rule: a function from the capture's tables to rows (`rows.py`), a threshold, a sentence, and advice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pyspark.sql import DataFrame

from recorder.analysis.findings.tables import Tables
from recorder.analysis.summary.sections.findings import Severity, Unit


class Need(StrEnum):
    """Something that a rule can't be judged without."""

    TIME = "time"  # enough windows to tell what lasts from what passes
    LONG = "long"  # ten windows, in which a lag stays or keeps growing
    BODIES = "bodies"  # answers whose error codes could be read
    PRODUCED = "produced"  # whole Produce requests
    RECORDS = "records"  # records that no rule of the recording has left out


class Otherwise(NamedTuple):
    """Another sentence and advice of a rule, for rows in which this one of their WORDS is not empty."""

    word: str
    says: str
    advice: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. `says`: a format with {subject}, {measure}, {cases}, {of}, and the WORDS of the rule's rows. {when}: the
    window that these are of, if the finding lasts longer; if `says` lacks {when}, it stands at the end.

    The rule fires if a row's MEASURE reaches `threshold`; with Need.TIME that must last. If the rule `adds_up`, the
    threshold is for the sum of a subject's rows. `reads`: keys of the APIs whose bodies the rule needs; none: of any
    API. docs/findings.md shows the docstring of `find`.
    """

    name: str
    question: str
    find: Callable[[Tables], DataFrame]
    severity: Severity
    threshold: float
    unit: Unit
    says: str
    advice: str
    needs: tuple[Need, ...] = (Need.TIME,)
    reads: tuple[int, ...] = ()
    otherwise: Otherwise | None = None

    @property
    def must_last(self) -> bool:
        """True if one window is not enough."""
        return Need.TIME in self.needs

    @property
    def adds_up(self) -> bool:
        """True if the measure is a count over the whole capture; else it is that of a window, or of several."""
        return self.unit is Unit.COUNT and not {Need.TIME, Need.LONG} & {*self.needs}

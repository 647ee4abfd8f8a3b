"""A rule: a function from the capture's tables to rows (`rows.py`), a threshold, a sentence and an advice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import DataFrame

from recorder.analysis.findings.tables import Tables
from recorder.analysis.summary.finding import Severity, Unit


class Need(StrEnum):
    """What a rule can't be judged without."""

    TIME = "time"  # enough windows, so that what passes is told from what lasts
    LONG = "long"  # ten windows, in which something stands still or keeps growing
    BODIES = "bodies"  # answers whose error codes could be read
    PRODUCED = "produced"  # whole Produce requests


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. `says` and `advice` are formats: {subject}, {measure}, {cases}, {of}, and the words of its rows.

    It fires where a row's MEASURE reaches `threshold`; with Need.TIME that must last. `reads`: keys of the APIs without
    whose bodies it can't be judged.
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

    @property
    def must_last(self) -> bool:
        """True if a single window is not enough."""
        return Need.TIME in self.needs

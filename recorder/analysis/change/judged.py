"""What counts as a change: the limits, and when there are too few cases to judge.

A difference counts if it exceeds the tolerance. A share must also differ by more than chance explains: by three
standard deviations of two samples with a common share. A percentile is compared if both sides have enough answers
beyond it. All limits are symmetric: swapping the captures swaps better and worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

# Two runs of the same load on one machine differ by less.
TOLERANCE = 0.2
# Answers beyond a percentile. With fewer of them, a single slow answer would move it.
BEYOND = 10
# The percentiles to compare, and the number of answers that each needs.
ENOUGH = {"p50_ms": round(BEYOND / 0.50), "p95_ms": round(BEYOND / 0.05), "p99_ms": round(BEYOND / 0.01)}
# Threads wake up this late even if nothing is slow.
LEAST_MS = 0.1
# Chance makes a larger difference once in four hundred comparisons.
_DEVIATIONS = 3


class Change(StrEnum):
    """What became of something. Reports show the value."""

    WORSE = "worse"
    NEW = "new"
    MIXED = "better and worse"
    BETTER = "better"
    GONE = "gone"
    CHANGED = "changed"
    MORE = "more"
    LESS = "less"
    UNKNOWN = "too few to tell"
    UNCHANGED = "unchanged"

    @property
    def rank(self) -> int:
        """The order in which a reader needs the changes: 0 is first."""
        return tuple(Change).index(self)


class Cases(NamedTuple):
    """Cases among chances, such as answers with an error, or requests without an answer."""

    cases: int = 0
    of: int = 0

    @property
    def share(self) -> float:
        """Cases divided by chances, at most 1; 0 without chances. Foreign rows may have more cases than chances."""
        return min(1.0, self.cases / self.of) if self.of else 0.0


def differs(before: float, after: float, tolerance: float, least: float = 0.0) -> bool:
    """True if the values differ by more than the tolerance and by more than `least`."""
    low, high = sorted((before, after))
    return high > low * (1 + tolerance) and high - low > least


def less_is_better(before: float, after: float, tolerance: float, least: float = 0.0) -> Change:
    """Judges a latency, or a finding's measure."""
    if not differs(before, after, tolerance, least):
        return Change.UNCHANGED
    return Change.WORSE if after > before else Change.BETTER


def neutral(before: float, after: float, tolerance: float, least: float = 0.0) -> Change:
    """Judges a value that is neither good nor bad, such as a request rate, or a wait that a client asked for."""
    if not differs(before, after, tolerance, least):
        return Change.UNCHANGED
    return Change.MORE if after > before else Change.LESS


def of_shares(before: Cases, after: Cases, tolerance: float) -> Change:
    """Judges shares of bad cases. Returns UNKNOWN if there are too few chances to tell."""
    if not before.of or not after.of:
        return Change.UNKNOWN
    if not is_beyond_chance(before, after):
        return Change.UNCHANGED if before.cases and after.cases else Change.UNKNOWN
    if not before.cases or not after.cases:
        return Change.GONE if before.cases else Change.NEW
    return less_is_better(before.share, after.share, tolerance)


def is_beyond_chance(before: Cases, after: Cases) -> bool:
    """True if two samples of a common share would hardly differ that much."""
    both = Cases(before.cases + after.cases, before.of + after.of).share
    deviation = math.sqrt(both * (1 - both) * (1 / before.of + 1 / after.of))
    return abs(before.share - after.share) > _DEVIATIONS * deviation


def together(changes: Iterable[Change]) -> Change:
    """Combines the changes of several measures of one thing."""
    found = set(changes)
    if {Change.WORSE, Change.BETTER} <= found:
        return Change.MIXED
    if {Change.MORE, Change.LESS} <= found:
        return Change.CHANGED
    if found == {Change.UNKNOWN}:
        return Change.UNKNOWN
    return min(found - {Change.UNKNOWN}, key=lambda one: one.rank, default=Change.UNCHANGED)

"""What counts as a change: limits, and when there is too little to tell.

A difference counts where it is larger than the tolerance. A share counts where, besides, chance would hardly make the
difference: three standard deviations of two samples of one share. A percentile counts where both sides have enough
answers beyond it. All of it is symmetric: the other way round, what was better is worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

# Two runs of the same load on one machine differ by less.
TOLERANCE = 0.2
# Answers beyond a percentile: with fewer, a single slow one moves it.
BEYOND = 10
# Percentiles that are compared, with the answers from which on they are.
ENOUGH = {"p50_ms": round(BEYOND / 0.50), "p95_ms": round(BEYOND / 0.05), "p99_ms": round(BEYOND / 0.01)}
# Threads wake up that late without anyone being slow.
LEAST_MS = 0.1
# Chance makes such a difference once in four hundred comparisons.
_DEVIATIONS = 3


class Change(StrEnum):
    """What became of something. The value stands in reports."""

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
        """The order in which a reader looks at them: 0 for the first."""
        return tuple(Change).index(self)


class Cases(NamedTuple):
    """Cases of a number of chances: answers with an error, requests without an answer."""

    cases: int = 0
    of: int = 0

    @property
    def share(self) -> float:
        """Cases of all; 0 of none. In rows that others made up there may be more cases than all."""
        return min(1.0, self.cases / self.of) if self.of else 0.0


def differs(before: float, after: float, tolerance: float, least: float = 0.0) -> bool:
    """True if one is larger than the other by more than the tolerance, and by more than `least`."""
    low, high = sorted((before, after))
    return high > low * (1 + tolerance) and high - low > least


def less_is_better(before: float, after: float, tolerance: float, least: float = 0.0) -> Change:
    """Of a latency, or a finding's measure."""
    if not differs(before, after, tolerance, least):
        return Change.UNCHANGED
    return Change.WORSE if after > before else Change.BETTER


def neutral(before: float, after: float, tolerance: float, least: float = 0.0) -> Change:
    """Of what is neither good nor bad: requests a second, time that clients asked to wait."""
    if not differs(before, after, tolerance, least):
        return Change.UNCHANGED
    return Change.MORE if after > before else Change.LESS


def of_shares(before: Cases, after: Cases, tolerance: float) -> Change:
    """Of bad cases: their share of all."""
    if not before.of or not after.of:
        return Change.UNKNOWN
    if not is_beyond_chance(before, after):
        return Change.UNCHANGED if before.cases and after.cases else Change.UNKNOWN
    if not before.cases or not after.cases:
        return Change.GONE if before.cases else Change.NEW
    return less_is_better(before.share, after.share, tolerance)


def is_beyond_chance(before: Cases, after: Cases) -> bool:
    """True if two samples of one share would hardly differ that much."""
    both = Cases(before.cases + after.cases, before.of + after.of).share
    deviation = math.sqrt(both * (1 - both) * (1 / before.of + 1 / after.of))
    return abs(before.share - after.share) > _DEVIATIONS * deviation


def together(changes: Iterable[Change]) -> Change:
    """What several changes of one thing come to."""
    found = set(changes)
    if {Change.WORSE, Change.BETTER} <= found:
        return Change.MIXED
    if {Change.MORE, Change.LESS} <= found:
        return Change.CHANGED
    if found == {Change.UNKNOWN}:
        return Change.UNKNOWN
    return min(found - {Change.UNKNOWN}, key=lambda one: one.rank, default=Change.UNCHANGED)

"""How much a report holds, whatever the capture's size: time bins, rows of a table, marks of a plot.

A table keeps its first rows and the number of all rows, so no section exceeds its bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

# Bins of a wide page are 8 pixels each: narrower ones are no longer told apart.
MAX_BINS = 120
# Bars or lanes of one plot that a screen shows at once.
MAX_TOP = 20
# Rows that a person may look through.
MAX_ROWS = 200
# Marks of one plot: as many still load at once on a phone.
MAX_MARKS = 3000
# Lengths of a bin that a reader can count in: 1 s to 1 d; below, 100 ms of a very short capture.
_SECOND = 10**9
_STEPS_NS = tuple(
    round(seconds * _SECOND)
    for seconds in (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
)

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Bounded(Generic[Row]):
    """The first rows of a table, in its order. `total`: the number of all rows, those left out included."""

    most: ClassVar[int]
    rows: tuple[Row, ...] = ()
    total: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", max(self.total, len(self.rows)))
        object.__setattr__(self, "rows", tuple(self.rows[: self.most]))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Table(Bounded[Row]):
    """Rows that a person looks through."""

    most: ClassVar[int] = MAX_ROWS


@dataclass(frozen=True, slots=True)
class Marks(Bounded[Row]):
    """Rows that are marks in one plot."""

    most: ClassVar[int] = MAX_MARKS


@dataclass(frozen=True, slots=True)
class Top(Bounded[Row]):
    """The largest rows. `other`: one row that sums up those left out, if a sum is meaningful."""

    most: ClassVar[int] = MAX_TOP
    other: Row | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The capture's span in bins of equal length: one for all plots of a report."""

    first_at_ns: int = 0
    bin_ns: int = _SECOND
    bins: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.bins <= MAX_BINS or self.bin_ns < 1:
            raise ValueError(f"{self.bins} bins of {self.bin_ns} ns: a report has 1 to {MAX_BINS}, of 1 ns or more")

    @classmethod
    def over(cls, first_at_ns: int, last_at_ns: int) -> Timeline:
        """Returns the timeline between two moments with the shortest step that needs no more than MAX_BINS bins."""
        for step in _STEPS_NS:
            if (found := cls._in_steps(first_at_ns, last_at_ns, step)) is not None:
                return found
        days = -(-(last_at_ns - first_at_ns) // (MAX_BINS - 1) // _STEPS_NS[-1]) + 1
        found = cls._in_steps(first_at_ns, last_at_ns, days * _STEPS_NS[-1])
        assert found is not None
        return found

    @classmethod
    def _in_steps(cls, first_at_ns: int, last_at_ns: int, step_ns: int) -> Timeline | None:
        first = first_at_ns // step_ns
        bins = max(last_at_ns, first_at_ns) // step_ns - first + 1
        return cls(first * step_ns, step_ns, bins) if bins <= MAX_BINS else None

    @property
    def last_at_ns(self) -> int:
        """The end of the last bin."""
        return self.first_at_ns + self.bins * self.bin_ns

    def begin_ns(self, index: int) -> int:
        """Returns when a bin begins."""
        return self.first_at_ns + index * self.bin_ns

    def bin_of(self, at_ns: int) -> int:
        """Returns the bin of a moment; a moment outside the timeline belongs to the nearest bin."""
        return min(max((at_ns - self.first_at_ns) // self.bin_ns, 0), self.bins - 1)


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each bin of the timeline; None for a bin without a value."""

    name: str = ""
    values: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values[:MAX_BINS]))

    @property
    def known(self) -> list[float]:
        """The values that are not None, in order."""
        return [value for value in self.values if value is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The base of all sections. `not_judged`: why the section could not be made; None if it was, even if empty."""

    not_judged: str | None = None

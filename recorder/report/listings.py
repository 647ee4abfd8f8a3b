"""Tables of a report as values: columns declared once, for HTML, which sorts by raw values, and for Markdown.

A column takes its value from a row and puts it into words; None is a dash. Long foreign names are cut.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from proxy.terminal import printable
from recorder.analysis.summary.bounds import Bounded, Timeline
from recorder.terminal import count, duration, moment, percent, size

UNKNOWN = "\N{EN DASH}"
# Topics have up to 249 letters, principals any number. A cell shows the beginning, which mostly distinguishes them.
LONGEST_NAME = 90
_DAY_NS = 86_400 * 10**9
Words = Callable[[Any], str]


def short(text: str, longest: int = LONGEST_NAME) -> str:
    """A foreign text, not escaped, cut so that it takes at most `longest` letters once escaped, and an ellipsis."""
    kept = text[:longest]
    fits = bisect_right(range(len(kept) + 1), longest, key=lambda length: len(printable(kept[:length]))) - 1
    return text if fits == len(text) else f"{kept[:fits]}\N{HORIZONTAL ELLIPSIS}"


def milliseconds(value: float) -> str:
    """Milliseconds as up to three digits and a unit."""
    return duration(round(value * 1e6))


def share(value: float) -> str:
    """A fraction of 1 in percent."""
    return percent(value * 100)


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.1f} \N{MULTIPLICATION SIGN}"


def clock(timeline: Timeline) -> Words:
    """Moments of a capture in UTC; with their day if the capture covers several days."""
    first, last = timeline.first_at_ns // _DAY_NS, (timeline.last_at_ns - 1) // _DAY_NS
    return moment if first != last else _of_day


def _of_day(at_ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return moment(at_ns)


class Cell(NamedTuple):
    """A cell of a table. `sort`: a number's raw value, for sorting; "" for text. `tone`: good, warn, bad, or ""."""

    text: str
    sort: str = ""
    tone: str = ""

    @property
    def is_unknown(self) -> bool:
        """True if the value is unknown."""
        return self.text == UNKNOWN


@dataclass(frozen=True, slots=True)
class ListingColumn:
    """A column. `value`: takes the value from a row. `words`: puts a known value into words. `tone`: a row's tone.

    `is_number`: aligned to the right. `is_name`: has room for a name. `is_fixed`: never broken. `is_spare`: left out on
    a phone. `note`: explains the column below the table.
    """

    title: str
    value: Callable[[Any], Any]
    words: Words = short
    is_number: bool = False
    is_spare: bool = False
    is_name: bool = False
    is_fixed: bool = False
    tone: Callable[[Any], str] | None = None
    note: str = ""

    def cell(self, row: Any) -> Cell:
        """The cell of a row."""
        value = self.value(row)
        if value is None or value == "" or (isinstance(value, float) and not math.isfinite(value)):
            return Cell(UNKNOWN)
        return Cell(
            self.words(value),
            repr(value) if isinstance(value, int | float) else "",
            self.tone(row) if self.tone else "",
        )


def name(title: str, value: Callable[[Any], Any], **more: Any) -> ListingColumn:
    """A column of text."""
    return ListingColumn(title, value, lambda text: short(str(text)), **more)


def number(title: str, value: Callable[[Any], Any], words: Words = count, **more: Any) -> ListingColumn:
    """A column of numbers; `words` adds the unit."""
    return ListingColumn(title, value, words, is_number=True, **more)


def moment_of(title: str, value: Callable[[Any], Any], when: Words, **more: Any) -> ListingColumn:
    """A column of times; `when` puts them into words."""
    return ListingColumn(title, value, when, is_fixed=True, **more)


def id_of(title: str, value: Callable[[Any], Any], **more: Any) -> ListingColumn:
    """A column of numbers that are ids: nodes, partitions."""
    return ListingColumn(title, value, str, is_fixed=True, **more)


def bytes_of(title: str, value: Callable[[Any], Any], **more: Any) -> ListingColumn:
    """A column of sizes."""
    return number(title, value, size, **more)


def time_of(title: str, value: Callable[[Any], Any], **more: Any) -> ListingColumn:
    """A column of milliseconds."""
    return number(title, value, milliseconds, **more)


@dataclass(frozen=True, slots=True)
class Listing:
    """A table. `total`: the number of rows, also of those left out. `note`: text below it. `is_small`: fits a chat."""

    title: str
    columns: Sequence[ListingColumn]
    rows: Sequence[Any]
    total: int
    note: str = ""
    is_small: bool = False

    @property
    def cells(self) -> Iterator[list[Cell]]:
        """The cells of each row."""
        for row in self.rows:
            yield [column.cell(row) for column in self.columns]

    @property
    def notes(self) -> list[tuple[str, bool]]:
        """The texts below the table, each with whether a phone leaves it out."""
        found = [(self.note, False), *((column.note, column.is_spare) for column in self.columns)]
        return [one for one in found if one[0]]

    @property
    def left_out(self) -> str:
        """A remark on rows that are left out, "the first 20 of 50"; "" if there are none."""
        return f"the first {count(len(self.rows))} of {count(self.total)}" if self.total > len(self.rows) else ""


def listing(title: str, columns: Iterable[ListingColumn], rows: Bounded[Any], **more: Any) -> Listing:
    """A table of the rows; columns without a known value are left out."""
    known = [column for column in columns if any(column.cell(row).text != UNKNOWN for row in rows)]
    return Listing(title, known, rows.rows, rows.total, **more)

"""The columns of a list by the terminal's width, and its lines.

A terminal gets the columns that fit, and no line wider than itself: a long line continues below, indented, and nothing
is cut. A pipe or a file gets every column, and unfolded lines. If there is no room for dates, each new day gets a line
of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from proxy.command_line import folded
from proxy.terminal import each_printable

REST = "rest"
TIME = "time"
_BETWEEN = "  "
# "2026-11-21 13:05:00.123456" is shortened to "13:05:00.123"
_DAY, _CLOCK = slice(0, 10), slice(11, 23)
_CLOCK_WIDTH = 12
_NUMBERS = frozenset({"node", "ver", "size", "sent", "received", "ms"})


class Cells(NamedTuple):
    """The contents of a line: the text of each column, and the rest behind the columns."""

    columns: Mapping[str, str]
    rest: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The form of a list. `columns`: names with least widths. `width`: the terminal's; None for a pipe or a file."""

    columns: tuple[tuple[str, int], ...]
    titles: Mapping[str, str]
    width: int | None

    def lines(self, found: Iterable[Cells]) -> Iterator[str]:
        """The lines of the list below the header."""
        day = None
        names = [name for name, _ in self.columns]
        is_short = (TIME, _CLOCK_WIDTH) in self.columns or TIME not in names
        for cells, rest in found:
            moment = cells[TIME]
            if is_short and moment[_DAY] != day:
                day = moment[_DAY]
                yield day
            shown = {**cells, TIME: moment[_CLOCK] if is_short else moment}
            if TIME not in names:
                rest = f"{shown[TIME]} {rest}"
            yield from self._folded([shown[name] for name in names], rest)

    @property
    def header(self) -> str:
        """The line above the list, cut to the terminal's width."""
        return self._folded([self.titles[name] for name, _ in self.columns], self.titles[REST])[0].rstrip(",")

    def _aligned(self, cells: list[str], rest: str) -> str:
        """A line of aligned, printable cells; a cell that is too wide pushes the others."""
        *shown, last = each_printable([*cells, rest])
        parts = [
            cell.rjust(width) if name in _NUMBERS else cell.ljust(width)
            for cell, (name, width) in zip(shown, self.columns, strict=True)
        ]
        return _BETWEEN.join([*parts, last]).rstrip()

    def _folded(self, cells: list[str], rest: str) -> list[str]:
        return folded(self._aligned(cells, rest), self.width)


# (least terminal width, the columns with their widths)
Layouts = tuple[tuple[int, str], ...]


def layout(layouts: Layouts, titles: Mapping[str, str], width: int | None) -> Layout:
    """The widest of `layouts` that fits; the widest of all if `width` is None."""
    fitting = next(columns for least, columns in layouts if width is None or width >= least)
    parts = (part.split(":") for part in fitting.split())
    return Layout(tuple((name, int(wide)) for name, wide in parts), titles, width)

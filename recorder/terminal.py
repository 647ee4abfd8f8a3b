"""The output of the recorder's commands: numbers for people, tables that fit, and a console that works in a pipe."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, TypeVar

from rich.console import Console, Group, RenderableType
from rich.spinner import Spinner
from rich.status import Status
from rich.table import Table
from rich.text import Text

from proxy.command_line import folded, width
from proxy.terminal import echo, printable
from proxy.threads import NoThread, start_thread

# The width of a pipe or a file: more than any table takes, so that each row stays a line, with all columns, for grep.
PIPE_WIDTH = 100_000
# Where names are broken into lines: behind blanks; else inside of words, as in GetTelemetry, a-b, a_b, a.b; but not
# behind an escaped line feed, whose next letters would begin a line after all
_BLANKS = re.compile(r"(?<=\s)(?=\S)")
_HUMPS = re.compile(r"(?<=[a-z])(?<!\\[nrt])(?=[A-Z])|(?<=[-_./:,@=])(?=\w)")
_UNITS = ("B", "kB", "MB", "GB", "TB")
_SECOND = 10**9
_LONGER = (("h", 3600 * _SECOND), ("min", 60 * _SECOND), ("s", _SECOND))
_SHORTER = (("ms", 10**6), ("µs", 10**3), ("ns", 1))


# how often a command that is at work for long says in a pipe how far it is
EVERY_SECONDS = 10.0
# functions that say how far the work behind the status line is
_measures: list[Callable[[], str]] = []
Item = TypeVar("Item")


@contextmanager
def measured(how_far: Callable[[], str]) -> Iterator[None]:
    """Within the block, status lines in a pipe end with `how_far()`, which a thread of its own calls."""
    _measures.append(how_far)
    try:
        yield
    finally:
        _measures.remove(how_far)


@contextmanager
def counting(items: Iterable[Item], of: str) -> Iterator[Iterator[Item]]:
    """Yields the items. Status lines in a pipe say how many have been taken. `of`: the singular of their noun."""
    number = 0

    def each() -> Iterator[Item]:
        nonlocal number
        for item in items:
            number += 1
            yield item

    with measured(lambda: count(number, of)):
        yield each()


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError, with which the command ends as other tools do when their reader is gone."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Shows what is being done: on a terminal with a spinner and the seconds that have passed.

        In a pipe or a file it is a line every EVERY_SECONDS, with what `measured` adds.
        """
        return _Timed(status, console=self, **options)


class _Timed(Status):
    def __init__(self, status: RenderableType, **options: Any) -> None:
        super().__init__(status, **options)
        self._spinner = _TimedSpinner("dots", text=status, style=self.spinner_style, speed=self.speed)
        self._live.update(self._spinner)
        self._over = Event()

    def start(self) -> None:
        """Shows the status, or begins to print it."""
        if self.console.is_terminal:
            super().start()
            return
        # a machine that refuses the thread gets no lines
        with suppress(NoThread):
            start_thread(self._print_regularly, "status lines")

    def stop(self) -> None:
        """Ends what `start` began."""
        self._over.set()
        super().stop()

    def _print_regularly(self) -> None:
        begun = time.monotonic()
        # what follows from the lack of a reader, other lines of the command find out
        with suppress(OSError, ValueError):
            while not self._over.wait(EVERY_SECONDS):
                doing = self.status.plain if isinstance(self.status, Text) else str(self.status)
                far = [measure() for measure in _measures]
                if not self._over.is_set():
                    line = " ".join([f"{time.monotonic() - begun:.0f} s:", doing, *filter(None, far)])
                    echo(line, err=True)


class _TimedSpinner(Spinner):
    # when it was first drawn; `start_time` begins anew with each update
    since: float | None = None

    def render(self, time: float) -> RenderableType:
        shown = super().render(time)
        self.since = time if self.since is None else self.since
        return Text.assemble(shown, (f" {time - self.since:.0f} s", "dim")) if isinstance(shown, Text) else shown


def console(*, stderr: bool = False) -> Console:
    """A console on standard output or error. Colours, bold and dim only on a terminal that may have them."""
    plain: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    wide = None if stderr else width() or PIPE_WIDTH
    return _Console(stderr=stderr, highlight=False, width=wide, **plain)


class Column(NamedTuple):
    """A column of a table. Numbers are aligned to the right and never broken; names may be folded, between words first.

    `rank`: if there is no room for all columns, those of the highest rank are left out first, those of rank 0 never.
    `least`: a column of names is folded to fewer letters only if no other column can be left out.
    `remark`: stands behind the title where a note names the column as left out.
    """

    title: str
    is_number: bool = False
    style: str = ""
    rank: int = 0
    least: int = 10
    remark: str = ""


def say(line: str, *, err: bool = False) -> None:
    """Prints a line of a command's output; on a terminal a long line is broken between words."""
    for part in folded(line, width(err=err)):
        echo(part, err=err)


# a str is made printable, and never read as markup
Cell = str | Text


def fitted(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> Group:
    """A table of at most `width` letters; columns left out are named below it. `title`: printable, never markup.

    Where there is no room, columns without a value in any row go first. They are not named: nothing is missing.
    The title and the note below may be wider than a narrow table.
    """
    shown = list(range(len(columns)))
    cells = [[_cell(value, column.style) for value, column in zip(row, columns, strict=True)] for row in rows]
    longest = {at: max([len(columns[at].title), *(row[at].cell_len for row in cells)]) for at in shown}
    blank = [at for at in shown if columns[at].rank and cells and not any(row[at].cell_len for row in cells)]
    for at in sorted(blank, key=lambda at: -columns[at].rank):
        if _total(longest) > width:
            shown.remove(at)
            del longest[at]
    named = [*shown]
    while _total(_capped(columns, longest, 0)) > width and (rank := max(columns[at].rank for at in shown)):
        shown.remove(max(at for at in shown if columns[at].rank == rank))
        longest = {at: longest[at] for at in shown}
    left_out = [f"{columns[at].title}{columns[at].remark}" for at in named if at not in shown]
    table = Table(header_style="dim", box=None, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    widths = _widths(columns, longest, width)
    for at in shown:
        if columns[at].is_number:
            table.add_column(columns[at].title, justify="right", no_wrap=True)
        else:
            table.add_column(_broken(Text(columns[at].title), widths[at]), overflow="fold")
    for row in cells:
        table.add_row(*(_broken(row[at], widths[at]) for at in shown))
    below = [Text(f"no room here for: {', '.join(left_out)}", "dim italic")] if left_out else []
    return Group(Text(title, "bold"), table, *below)


def cell(value: object, style: str = "") -> Text:
    """A table's cell: printable, and never read as markup."""
    return Text(printable(value), style=style)


def _cell(value: Cell, style: str) -> Text:
    return value if isinstance(value, Text) else cell(value, style)


def _widths(columns: Sequence[Column], longest: Mapping[int, int], width: int) -> Mapping[int, int]:
    """The widths of columns that fit into `width` if any can: the widest names are folded first."""
    caps = range(max(longest.values(), default=1), 0, -1)
    without_least = [column._replace(least=1) for column in columns]
    every = (_capped(some, longest, cap) for some in (columns, without_least) for cap in caps)
    return next((widths for widths in every if _total(widths) <= width), _capped(without_least, longest, 1))


def _capped(columns: Sequence[Column], longest: Mapping[int, int], cap: int) -> Mapping[int, int]:
    """The widths of columns whose names take at most `cap` letters, or `least`. `longest`: the widths without a cap."""
    return {
        at: wide if columns[at].is_number else min(wide, max(cap, columns[at].least)) for at, wide in longest.items()
    }


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + len(widths) - 1


def _broken(name: Text, width: int) -> Text:
    """The name in lines of at most `width`, broken at blanks, else at `_HUMPS`, else anywhere."""
    # Rich breaks names of wide letters itself
    if name.cell_len <= width or name.cell_len > len(name):
        return name
    blanks, humps = ([found.start() for found in edges.finditer(name.plain)] for edges in (_BLANKS, _HUMPS))
    ends, start = [], 0
    while len(name) - start > width:
        # a blank at a line's end needs no room
        start = _last(blanks, start, start + width + 1) or _last(humps, start, start + width) or start + width
        ends.append(start)
    lines = name.divide(ends)
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def _last(edges: Sequence[int], start: int, end: int) -> int | None:
    """The last edge behind `start` and up to `end`."""
    at = bisect_right(edges, end)
    return edges[at - 1] if at and edges[at - 1] > start else None


def size(number: float | None) -> str:
    """A number of bytes with a decimal unit and up to three digits."""
    if number is None:
        return ""
    unit = 0
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 or number >= 99.95 else f"{number:.1f} {_UNITS[unit]}"


def count(number: int, of: str = "") -> str:
    """An integer with separated thousands; `of`: the singular of the counted noun."""
    shown = f"{number:,}".replace(",", " ")
    return f"{shown} {of}{'' if number == 1 else 's'}" if of else shown


def milliseconds(value: float | None) -> str:
    """Milliseconds with up to three significant digits."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def duration(nanoseconds: int | None) -> str:
    """Up to three digits and a unit; from a minute on the two largest units: "1 h 5 min"."""
    if nanoseconds is None:
        return ""
    if nanoseconds >= 60 * _SECOND:
        return _long(nanoseconds)
    for unit, long in (_LONGER[-1], *_SHORTER):
        if nanoseconds >= long:
            return f"{_digits(nanoseconds / long)} {unit}"
    return "0"


def _long(nanoseconds: int) -> str:
    parts, left = [], round(nanoseconds, -9)
    for unit, long in _LONGER:
        number, left = divmod(left, long)
        parts += [f"{number:,} {unit}".replace(",", " ")] if number else []
    return " ".join(parts[:2])


def _digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 9.995 else f"{value:.2f}".rstrip("0").rstrip(".")


def moment(at_ns: int) -> str:
    """Nanoseconds since 1970 as UTC, to the second; as a number of ns if no date can show it."""
    try:
        return f"{datetime.fromtimestamp(at_ns // _SECOND, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{at_ns} ns"


def percent(share: float) -> str:
    """A percentage with up to two decimals; a share above 0 is never shown as 0."""
    return "less than 0.01 %" if 0 < share < 0.01 else f"{share:.2f}".rstrip("0").rstrip(".") + " %"


def typed() -> str:
    """The word that runs this installation in the user's shell: its name if the PATH leads to it, else its path."""
    name = "kafka-wiretap"
    beside = Path(sys.executable).parent / name
    if not beside.exists() or _is_found(name, beside):
        return name
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


def _is_found(name: str, program: Path) -> bool:
    """True if the name runs this program in the user's shell. Below `make` the PATH is not the shell's: False."""
    found = None if "MAKELEVEL" in os.environ else shutil.which(name)
    return found is not None and Path(found).samefile(program)

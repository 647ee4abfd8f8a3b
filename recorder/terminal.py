"""How the recorder's commands show things: numbers for people, and a console that behaves in a pipe."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.command_line import width
from proxy.terminal import printable

# The width of tables that go to a pipe or a file, where no terminal says how wide it is.
PIPE_WIDTH = 140
_UNITS = ("B", "kB", "MB", "GB", "TB")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever reads it has gone: the command ends as others do that write to a pipe."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console(*, stderr: bool = False) -> Console:
    """A console on standard output or error. Colours, bold and dim only on a terminal that may have them."""
    plain: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    wide = None if stderr else width() or PIPE_WIDTH
    return _Console(stderr=stderr, highlight=False, width=wide, **plain)


class Column(NamedTuple):
    """A column of a table. Numbers stand to the right and are never broken, names fold.

    `rank`: where there is no room for all, the columns of the highest rank are left out first; those of rank 0 never.
    `least`: no column of names is folded to fewer letters while there are others to leave out.
    """

    title: str
    is_number: bool = False
    style: str = ""
    rank: int = 0
    least: int = 10


# a text is made printable, and none is markup
Cell = str | Text


def fitted(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> Table:
    """A table of at most `width` columns of letters; what it leaves out is named below it."""
    shown = list(range(len(columns)))
    cells = [[_cell(value, column.style) for value, column in zip(row, columns, strict=True)] for row in rows]
    while _needed(columns, cells, shown) > width and (rank := max(columns[at].rank for at in shown)):
        shown.remove(max(at for at in shown if columns[at].rank == rank))
    gone = [column.title for at, column in enumerate(columns) if at not in shown]
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    made.padding = (0, 1, 0, 0)
    for at in shown:
        _add_column(made, columns[at])
    for row in cells:
        made.add_row(*(row[at] for at in shown))
    if gone:
        made.caption, made.caption_justify = f"no room here for: {', '.join(gone)}", "left"
    return made


def _add_column(made: Table, column: Column) -> None:
    if column.is_number:
        made.add_column(column.title, justify="right", no_wrap=True)
    else:
        made.add_column(column.title, overflow="fold")


def cell(value: object, style: str = "") -> Text:
    """What stands in a table: printable, and no markup, whatever it says."""
    return Text(printable(value), style=style)


def _cell(value: Cell, style: str) -> Text:
    return value if isinstance(value, Text) else cell(value, style)


def _needed(columns: Sequence[Column], rows: Sequence[Sequence[Text]], shown: Sequence[int]) -> int:
    """The least width: numbers unbroken, names folded, but not letter by letter."""
    widths = []
    for at in shown:
        longest = max([len(columns[at].title), *(len(row[at]) for row in rows)])
        widths.append(longest if columns[at].is_number else min(longest, columns[at].least))
    return sum(widths) + len(widths) - 1


def size(number: float | None) -> str:
    """A number of bytes with a decimal unit; three digits are enough to compare two of them."""
    if number is None:
        return ""
    unit = 0
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 or number >= 99.95 else f"{number:.1f} {_UNITS[unit]}"


def count(number: int, of: str = "") -> str:
    """An integer with its thousands apart; `of`: what is counted, a single one."""
    shown = f"{number:,}".replace(",", " ")
    return f"{shown} {of}{'' if number == 1 else 's'}" if of else shown


def milliseconds(value: float | None) -> str:
    """Milliseconds with as many digits as matter."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def pip_install(extra: str) -> str:
    """How to install more into the environment that runs this: a system's own pip may refuse, or mean another one."""
    return f"in the project's folder, {shlex.quote(sys.executable)} -m pip install '.[{extra}]'"

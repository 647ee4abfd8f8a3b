"""How the recorder's commands show things: numbers for people, and a console that behaves in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

# The width of tables that go to a pipe or a file, where no terminal says how wide it is.
PIPE_WIDTH = 140
_UNITS = ("B", "kB", "MB", "GB", "TB")


def width() -> int | None:
    """How wide lines may be: as the terminal is, or as COLUMNS says; None for a pipe or a file."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError, AttributeError):
        return None


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever reads it has gone: the command ends as others do that write to a pipe."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """A console on standard output or error. Colours, bold and dim only on a terminal that may have them."""
    plain: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    wide = None if stderr else width() or PIPE_WIDTH
    return _Console(stderr=stderr, highlight=False, width=wide, **plain)


def table(title: str, names: Iterable[str], numbers: Iterable[str]) -> Table:
    """An empty table that fits a terminal of 80 columns.

    Columns of `names` may fold onto a second line, and do so first; `numbers` stand to the right and are never broken.
    """
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    made.padding = (0, 1, 0, 0)
    for name in names:
        made.add_column(name, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    return made


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

"""How the recorder's commands show things: numbers for people, and a console that behaves in a pipe."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

# The width of tables that go to a pipe or a file, where no terminal says how wide it is.
PIPE_WIDTH = 140
_UNITS = ("B", "kB", "MB", "GB", "TB")


def console(*, stderr: bool = False) -> Console:
    """A console on standard output or error: colours and the terminal's width only where there is a terminal."""
    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=PIPE_WIDTH)


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

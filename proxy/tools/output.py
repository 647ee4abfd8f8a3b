"""Prints foreign bytes as far as the command's budget has text left, and ends a command whose output is incomplete."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from proxy.terminal import echo
from proxy.tools import json_text
from proxy.units import MIB, read_size, written_size
from proxy.wire.budget import Budget

Command = TypeVar("Command", bound=Callable[..., Any])

# The records of a Fetch response of 50 MiB, compressed to a fifth, unfold to this size.
DEFAULT_SIZE = 256 * MIB
# Exit code of a command whose output is incomplete because its budget was used up.
INCOMPLETE = 3
# Characters that are written at a time.
_AT_ONCE = 1 << 16


class Incomplete(click.ClickException):
    """The command's output takes more than its budget, so it is incomplete."""

    exit_code = INCOMPLETE

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; --budget raises that")


def budget_option(help_text: str, default: int = DEFAULT_SIZE) -> Callable[[Command], Command]:
    """The option `--budget SIZE`, whose value `budget` is in bytes."""
    return size_option("--budget", help_text, default)


def size_option(flag: str, help_text: str, default: int) -> Callable[[Command], Command]:
    """An option that takes a size: its value is in bytes."""
    shown = written_size(default)
    return click.option(flag, default=shown, show_default=True, metavar="SIZE", callback=_size, help=help_text)


def _size(_context: click.Context, option: click.Parameter, value: str) -> int:
    size = read_size(value)
    if not size:
        raise click.BadParameter(f"{value!r} is no size; right would be {option.opts[0]} 1GiB")
    return size


def print_json(tree: Any, budget: Budget, *, most: int | None = None, indent: int | None = None) -> None:
    """Prints a tree as JSON, in one line or indented. `most`: as for `json_text.pieces`."""
    waiting, size = [], 0
    for piece in json_text.pieces(tree, budget.text, most=most, indent=indent):
        waiting.append(piece)
        size += len(piece)
        if size >= _AT_ONCE:
            click.echo("".join(waiting), nl=False)
            waiting, size = [], 0
    click.echo("".join(waiting))


def print_lines(lines: Iterable[str], budget: Budget) -> None:
    """Prints each line as soon as it is made, until the budget's text is used up."""
    for line in lines:
        if not budget.text.try_take(len(line) + 1):
            break
        echo(line)


def end(budget: Budget) -> None:
    """If an allowance was exceeded, prints a note and ends the command with INCOMPLETE."""
    if budget.used_up:
        size = written_size(budget.size)
        echo(
            f"note: not all is shown: {' and '.join(budget.used_up)} would make more than {size}; --budget raises that",
            err=True,
        )
        raise click.exceptions.Exit(INCOMPLETE)

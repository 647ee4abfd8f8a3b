"""Prints foreign bytes as far as the command's budget has text left, and ends a command whose output is incomplete."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from proxy.option_types import SIZE
from proxy.terminal import echo
from proxy.tools import json_text
from proxy.units import MIB, written_size
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
    return click.option("--budget", type=SIZE, default=written_size(default), show_default=True, help=help_text)


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

"""`kafka-wiretap inspect groups`, `transactions`, `metadata`: tables of a capture that people ask for at once.

They need the extra `analysis`: the engine that answers is chosen as for `analyze`. The other commands of `inspect` need
nothing but the plain installation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from proxy.command_line import folders, text
from proxy.option_types import ROWS
from recorder.analyze import LIMIT, Chosen, end_answer, placed, show_table
from recorder.spark_options import Where, asking, choosing, completing

if TYPE_CHECKING:
    from recorder.analysis.looks import Look

# the tables of one group
_OF_GROUP = ("rebalances", "steps", "lag")


def _looking(command: Callable[..., None]) -> Callable[..., None]:
    """Adds what all these commands take: the capture, the form of the answer, and which engine answers."""
    shown = (
        click.argument("folder", shell_complete=folders),
        click.option("--json", "form", flag_value="json", help="All rows, one JSON object a line."),
        click.option("--csv", "form", flag_value="csv", help="All rows as CSV, with a header."),
        click.option("--limit", type=ROWS, default=LIMIT, show_default=True, help="Rows of each table on a terminal."),
    )
    command = asking(command)
    for option in reversed(shown):
        command = option(command)
    return command


@click.command(short_help="Consumer groups: members, rebalances and why, lag.")
@_looking
@click.argument("name", required=False, type=text)
@click.option(
    "--show",
    default=",".join(_OF_GROUP),
    show_default=True,
    callback=choosing(_OF_GROUP),
    metavar="NAMES",
    shell_complete=completing(*_OF_GROUP),
    help="Of a group: these tables, with commas between.",
)
def groups(folder: str, name: str | None, show: tuple[str, ...], where: Where, form: str | None, limit: int) -> None:
    """The groups of the capture in FOLDER: how far each is behind at the end, and its last rebalance. With a NAME: why
    that group rebalanced, the steps of its members, and its lag by partition.

    \b
    All groups:             kafka-wiretap inspect groups capture
    Why billing rebalanced: kafka-wiretap inspect groups capture billing --show rebalances
    How far it is behind:   kafka-wiretap inspect groups capture billing --show lag
    """
    if form == "csv" and name is not None and len(show) > 1:
        raise click.UsageError("these are several tables; right would be --show with one of them, or --json")

    def chosen() -> list[Look]:
        from recorder.analysis import looks

        if name is None:
            return [looks.groups()]
        of_group = looks.group(name)
        return [of_group[each] for each in show]

    _show(folder, chosen, where, Chosen(None, form, False, limit, all_rows="--json"))


@click.command(short_help="Transactions: their outcome, records and groups.")
@_looking
def transactions(folder: str, where: Where, form: str | None, limit: int) -> None:
    """The transactions of the capture in FOLDER, by the time when they began: how each ended, and what tells so."""

    def chosen() -> list[Look]:
        from recorder.analysis import looks

        return [looks.of_transactions()]

    _show(folder, chosen, where, Chosen(None, form, False, limit, all_rows="--json"))


@click.command(short_help="Leaders, replicas and nodes that changed.")
@_looking
def metadata(folder: str, where: Where, form: str | None, limit: int) -> None:
    """What changed while the capture in FOLDER was recorded: leaders, replicas in sync, addresses of nodes."""

    def chosen() -> list[Look]:
        from recorder.analysis import looks

        return [looks.moves()]

    _show(folder, chosen, where, Chosen(None, form, False, limit, all_rows="--json"))


def _show(folder: str, looks: Callable[[], Sequence[Look]], where: Where, chosen: Chosen) -> None:
    """Prints tables. `looks`: makes them; it needs pyspark, which is imported while the engine starts."""
    where.check()
    place, _ = placed(folder, where, chosen)
    from recorder.analysis.running import session_for

    with session_for([place]) as ask:
        for look in looks():
            show_table(place, look.rows, look.title, chosen, "", ask, look.what, look.meant)
    end_answer(place, chosen)


COMMANDS: dict[str, Any] = {"groups": groups, "transactions": transactions, "metadata": metadata}

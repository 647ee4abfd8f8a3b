"""The commands of `kafka-wiretap inspect`: summary (the default), frames, exchanges, show."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from proxy.command_line import width
from proxy.option_types import COUNT
from proxy.similar import LIKELY, nearest
from proxy.terminal import echo
from proxy.tools.commands import RECORDS_HELP
from proxy.tools.output import Incomplete, budget_option, end, print_json, print_lines
from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.errors import OverBudget
from proxy.wire.normal_errors import is_normal
from recorder.capture import frames as c
from recorder.filters import nothing_passes
from recorder.inspect.options import CAPTURE, READING_HELP, Shown, filters, shown_id
from recorder.ready import NoCapture, ready
from recorder.terminal import console, count, say

if TYPE_CHECKING:
    from recorder.inspect.exchanges import Pair
    from recorder.inspect.wanted import Wanted

# The most bytes that `show` shows by default: of a value, and of a frame in a hex dump.
SHOWN_BYTES, SHOWN_DUMP = 32, 4096
# the errors that `exchanges` asks for
FAULTS, ALL = "faults", "all"
OPTIONS = {FAULTS: "--errors", ALL: "--all-errors"}


@dataclass(slots=True)
class LeftOut:
    """Exchanges that are not listed although their response may hold an error.

    `unread`: those whose errors are unknown, by reason. `normal`: those whose errors are normal steps of the protocol.
    """

    unread: Counter[str] = field(default_factory=Counter)
    normal: int = 0


class WithDefault(click.Group):
    """A group with a default command: a first argument that names no command, mostly a folder, goes to `summary`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not self._is_misspelt(args[0]):
            args = ["summary", *args]
        return super().resolve_command(ctx, args)

    def _is_misspelt(self, word: str) -> bool:
        return nearest(word, self.commands, likeness=LIKELY) is not None and not Path(word).exists()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OverBudget as error:
            raise Incomplete(str(error)) from error
        except (c.UnknownFormatError, c.DamagedFileError) as error:
            raise click.ClickException(str(error)) from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of commands, and folders; a shell completes folders only if no name fits."""
        return [CompletionItem(incomplete, type="dir"), *super().shell_complete(ctx, incomplete)]


def _made_ready(folder: Path) -> Path:
    """Makes a capture ready to be read, prints the notes on it, and returns its folder."""
    for note in ready(folder):
        _note(note)
    return folder


def _note(text: str) -> None:
    say(f"note: {text}", err=True)


def _wanted(folder: Path, budget: int, **given: Any) -> Wanted:
    """The filters of a command line."""
    from recorder.capture.reader import last_ns
    from recorder.inspect.wanted import Wanted

    times = {f"{name}_ns": given.pop(name) for name in ("since", "until")}
    resolved = {name: time and time.resolved(lambda: last_ns(folder, most=budget)) for name, time in times.items()}
    return Wanted(**given, **resolved)


@click.group(
    cls=WithDefault,
    subcommand_metavar="[COMMAND] FOLDER [ARGS]...",
    short_help="List, filter and decode the frames of a capture, without Spark.",
)
def inspect() -> None:
    """Look into a capture: what is in it, frame by frame, exchange by exchange. Needs no Java.

    A filter that is given several times passes whatever matches one of its values. Different filters must all match.

    \b
    kafka-wiretap inspect capture
    kafka-wiretap inspect exchanges capture --api Fetch --errors
    kafka-wiretap inspect frames capture --client my-app --since -5m --json | jq .size
    kafka-wiretap inspect show capture 4/e8
    """


@inspect.command(short_help="Show sessions, APIs and gaps. This is the default.")
@CAPTURE
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
@budget_option(READING_HELP, DEFAULT_BUDGET)
def summary(folder: Path, as_json: bool, budget: int) -> None:
    """Show what is in the capture: sessions, connections, frames and bytes by API, gaps."""
    from recorder.inspect import summary as module

    found = module.summarize(folder, ready(folder), most=budget)
    if as_json:
        echo(json.dumps(module.as_json(found)))
        return
    screen = console()
    for table in module.as_tables(found, screen.width):
        screen.print(table)
        screen.print()


@inspect.command(short_help="List frames, one a line.")
@CAPTURE
@filters(kinds=True)
def frames(folder: Path, limit: int | None, as_json: bool, budget: int, **given: Any) -> None:
    """List frames in the order of their arrival. `show` takes the id. `->` marks frames from the client."""
    from recorder.inspect import lines
    from recorder.inspect.layouts import layout
    from recorder.inspect.rows import of_responses, rows

    wanted = _wanted(_made_ready(folder), budget, **given)
    found = islice(rows(folder, wanted, bodies=of_responses, most=budget), limit)
    none = partial(_none, "frame", folder, wanted, limit, budget)
    if as_json:
        _list((lines.frame_json(row, budget) for row in found), none)
    else:
        chosen = layout(lines.FRAME_LAYOUTS, lines.FRAME_TITLES, width())
        cells = (lines.frame_cells(row, budget) for row in found)
        _list(chosen.lines(cells), none, chosen.header)


@inspect.command(short_help="List requests with their responses, one exchange a line.")
@CAPTURE
@filters(kinds=False)
@click.option("--errors", flag_value=FAULTS, help="Only exchanges whose response holds an error that is not normal.")
@click.option("--all-errors", "errors", flag_value=ALL, help="Only exchanges whose response holds any error.")
def exchanges(folder: Path, limit: int | None, as_json: bool, errors: str | None, budget: int, **given: Any) -> None:
    """List requests with their responses in the order in which they ended. Requests without an answer come last.

    Each error is named, with how often it occurs in the response. "(normal)": a normal step of the protocol, such as
    UNSUPPORTED_VERSION in an answer to ApiVersions. "long poll": the broker may have waited on purpose.
    """
    from recorder.inspect import lines
    from recorder.inspect.exchanges import pairs
    from recorder.inspect.layouts import layout
    from recorder.inspect.rows import of_exchanges, rows

    wanted = _wanted(_made_ready(folder), budget, **given)
    left_out = LeftOut()
    every = pairs(rows(folder, wanted, bodies=of_exchanges, most=budget), most=budget)
    found = islice(_with_errors(every, left_out, only_faults=errors == FAULTS) if errors else every, limit)
    none = partial(_none, "exchange", folder, wanted, limit, budget, OPTIONS[errors] if errors else None)
    if as_json:
        _list((json.dumps(lines.exchange_json(pair)) for pair in found), none)
    else:
        chosen = layout(lines.EXCHANGE_LAYOUTS, lines.EXCHANGE_TITLES, width())
        _list(chosen.lines(map(lines.exchange_cells, found)), none, chosen.header)
    _note_left_out(left_out)


def _note_left_out(left_out: LeftOut) -> None:
    if left_out.normal:
        _note(f"left out: {count(left_out.normal, 'exchange')} with normal errors only; --all-errors lists them, too")
    if unread := left_out.unread:
        reasons = ", ".join(f"{why}: {often}" for why, often in unread.most_common())
        whether = "it holds" if unread.total() == 1 else "they hold"
        _note(f"of {count(unread.total(), 'response')} nobody can tell whether {whether} errors ({reasons})")


def _with_errors(found: Iterable[Pair], left_out: LeftOut, *, only_faults: bool) -> Iterator[Pair]:
    """The exchanges whose response holds an error. `only_faults`: an error that is no normal step of the protocol."""
    for pair in found:
        if pair.reading and pair.reading.unread:
            left_out.unread[pair.reading.unread.value] += 1
        elif pair.reading and pair.reading.codes:
            if only_faults and all(is_normal(pair.head[c.API_KEY], code) for code in pair.reading.codes):
                left_out.normal += 1
            else:
                yield pair


@inspect.command(short_help="Decode frames and exchanges, or describe a connection.")
@CAPTURE
@click.argument("ids", type=shown_id, metavar="ID...", nargs=-1, required=True)
@click.option("--format", "kind", type=click.Choice(["text", "json", "hex"]), default="text", show_default=True)
@click.option("--bytes", "most", type=COUNT, help="Show at most this many bytes of a value.")
@click.option("--records", type=COUNT, default=10, show_default=True, help=RECORDS_HELP)
@budget_option("The most memory for all that is shown: decompressed, decoded and printed.")
def show(folder: Path, ids: tuple[Shown, ...], kind: str, most: int | None, records: int, budget: int) -> None:
    """Show connections (4), exchanges (4/e8: exchange 8 of connection 4) and frames (4/17: frame 17 of connection 4).
    If the capture has several sessions, put SESSION/ in front.

    Frames are decoded, with their record batches and messages inside messages (members' blobs of groups, offsets,
    transactions). Values that the capture did not keep are shown as masked. Long bytes are cut, and marked as cut.

    If --budget is used up, the command shows what it has, and exits with 3.
    """
    from recorder.inspect.show import Form, shown

    limit = most if most is not None else SHOWN_DUMP if kind == "hex" else SHOWN_BYTES
    if kind == "hex" and any(one.exchange is None and one.sequence is None for one in ids):
        raise click.UsageError("--format hex shows frames and exchanges, no connections")
    _made_ready(folder)
    form = Form(kind, limit, records, Budget(budget), named=len(ids) > 1)
    for one in ids:
        try:
            found = shown(folder, one, form)
        except LookupError as error:
            raise NoCapture(str(error.args[0])) from error
        if isinstance(found, dict):
            print_json(found, form.budget, most=limit)
        else:
            print_lines(found, form.budget)
        if form.budget.text.is_used_up:
            break
    end(form.budget)


def _none(what: str, folder: Path, wanted: Wanted, limit: int | None, budget: int, flag: str | None = None) -> str:
    """The note if nothing is listed. `what`: the singular of what is listed. `flag`: a further filter."""
    from recorder.inspect.summary import held

    if limit == 0:
        return f"no {what} to show"
    return nothing_passes(what, " ".join(filter(None, (wanted.options, flag))), held(folder, most=budget))


def _list(lines: Iterable[str], none: Callable[[], str], header: str | None = None) -> None:
    """Prints the lines. `none`: returns the note on standard error if there are none."""
    if header is not None:
        click.echo(header)
    printed = False
    for line in lines:
        echo(line)
        printed = True
    if not printed:
        _note(none())

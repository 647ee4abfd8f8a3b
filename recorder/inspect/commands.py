"""The commands of `kafka-wiretap inspect`: summary (which needs no name), frames, exchanges, show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proxy.tools import names
from proxy.tools.commands import RECORDS_HELP
from proxy.wire.kafka07 import RequestType
from recorder.capture import frames as c
from recorder.inspect.wanted import Api, Wanted
from recorder.ready import NoCapture, ready
from recorder.terminal import console

if TYPE_CHECKING:
    from recorder.inspect.body import Body

Command = TypeVar("Command", bound=Callable[..., Any])
# Bytes of a value that `show` shows, and of a frame in its hex dump.
SHOWN_BYTES, SHOWN_DUMP = 32, 4096
# those of Kafka 0.7 have names of their own: 0.7/fetch
APIS_OF_07 = {asked.api: int(asked) for asked in RequestType}


class WithDefault(click.Group):
    """A group that takes a first argument which is none of its commands as `summary`'s."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["summary", *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (c.UnknownFormatError, c.DamagedFileError) as error:
            raise click.ClickException(str(error)) from error


def capture_folder(value: str | Path) -> Path:
    """A capture, made ready to be read."""
    folder = Path(value)
    for note in ready(folder):
        click.echo(f"note: {note}", err=True)
    return folder


def api(value: str | Api) -> Api:
    """An api by its name, whatever the case, or its key, which says nothing of the dialect."""
    if isinstance(value, tuple):
        return value
    if value.lower() in APIS_OF_07:
        return APIS_OF_07[value.lower()], c.KAFKA_07
    try:
        return names.api_key(value), None if value.isdigit() else c.KAFKA
    except names.UnknownName as error:
        raise click.BadParameter(str(error)) from error


def moment_ns(value: str | int) -> int:
    """A time as ISO 8601, UTC unless it says otherwise; ns since 1970."""
    if isinstance(value, int):
        return value
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no time; right would be 2026-11-21T13:05:00 (UTC)") from None
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.fromtimestamp(0, UTC)
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000


def frame_id(value: str | Wanted) -> Wanted:
    """SESSION/CONNECTION/SEQUENCE, the session as short as is clear, or left out."""
    if isinstance(value, Wanted):
        return value
    *session, connection, sequence = ["", *value.split("/")] if "/" in value else ["", "", ""]
    if not (connection.isdigit() and sequence.isdigit()) or len(session) > 2:
        raise click.BadParameter(f"{value!r} is no frame's id; right would be 4/17 or 20261121T130500Z/4/17")
    named = tuple(part for part in session if part)
    return Wanted(sessions=named, connections=(int(connection),), sequences=(int(sequence),))


def _filters(kinds: bool) -> Callable[[Command], Command]:
    """The options that make a Wanted."""
    options = [
        click.option("--session", "sessions", multiple=True, help="Only this session (or how its name begins)."),
        click.option("--connection", "connections", type=int, multiple=True, help="Only this connection."),
        click.option("--api", "apis", type=api, metavar="API", multiple=True, help="Only this API: a name or a key."),
        click.option("--client", "clients", multiple=True, help="Only this client: its client id, or HOST[:PORT]."),
        click.option(
            "--since",
            "since_ns",
            type=moment_ns,
            metavar="TIME",
            help="From this time on, such as 2026-11-21T13:05 (UTC).",
        ),
        click.option("--until", "until_ns", type=moment_ns, metavar="TIME", help="Up to this time."),
        click.option("--limit", type=click.IntRange(min=0), help="Show the first N."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line."),
    ]
    if kinds:
        choice = click.Choice([c.REQUEST, c.RESPONSE, c.TOKEN, c.UNFRAMED])
        options.insert(2, click.option("--kind", "kinds", type=choice, multiple=True, help="Only this kind."))

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@click.group(
    cls=WithDefault,
    subcommand_metavar="[COMMAND] FOLDER [ARGS]...",
    short_help="List, filter and decode the frames of a capture, without Spark.",
)
def inspect() -> None:
    """Look into a capture: what is in it, frame by frame, exchange by exchange. Needs no Java.

    Filters that can be repeated let pass what any of them names; different filters must all agree.

    \b
    kafka-wiretap inspect capture
    kafka-wiretap inspect exchanges capture --api Fetch --errors
    kafka-wiretap inspect frames capture --client my-app --since 2026-11-21T13:05 --json | jq .size
    kafka-wiretap inspect show capture 4/17 --format json
    """


@inspect.command(short_help="Sessions, APIs, gaps; the default.")
@click.argument("folder", type=capture_folder, metavar="FOLDER")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def summary(folder: Path, as_json: bool) -> None:
    """What is in the capture: sessions, connections, frames and bytes by API, gaps."""
    from recorder.inspect import summary as module

    found = module.summarize(folder)
    if as_json:
        click.echo(json.dumps(module.as_json(found)))
        return
    screen = console()
    for table in module.as_tables(found):
        screen.print(table)
        screen.print()


@inspect.command(short_help="One line a frame.")
@click.argument("folder", type=capture_folder, metavar="FOLDER")
@_filters(kinds=True)
def frames(folder: Path, limit: int | None, as_json: bool, **filters: Any) -> None:
    """Frames in the order of their arrival. The id is what `show` takes; `->` came from the client."""
    from recorder.inspect import lines
    from recorder.inspect.rows import rows

    found = islice(rows(folder, Wanted(**filters)), limit)
    told = map(lines.frame_json if as_json else lines.frame_line, found)
    _list(told, as_json or lines.header(lines.FRAME_TITLES), "no frame to show")


@inspect.command(short_help="One line a request and its response.")
@click.argument("folder", type=capture_folder, metavar="FOLDER")
@_filters(kinds=False)
@click.option("--errors", "only_errors", is_flag=True, help="Only those whose response holds an error code, named.")
def exchanges(folder: Path, limit: int | None, as_json: bool, only_errors: bool, **filters: Any) -> None:
    """Requests with their responses, in the order in which they ended; those without an answer last."""
    from recorder.inspect import lines
    from recorder.inspect.exchanges import pairs
    from recorder.inspect.rows import HEADS, rows

    columns = (*HEADS, c.FRAME) if only_errors else HEADS
    found = ((pair, pair.errors() if only_errors else None) for pair in pairs(rows(folder, Wanted(**filters), columns)))
    chosen = islice(((pair, errors) for pair, errors in found if errors or not only_errors), limit)
    told = (
        lines.exchange_json(pair, errors) if as_json else lines.exchange_line(pair, errors or [])
        for pair, errors in chosen
    )
    _list(told, as_json or lines.header(lines.EXCHANGE_TITLES), "no exchange to show")


@inspect.command(short_help="Decode frames.")
@click.argument("folder", type=capture_folder, metavar="FOLDER")
@click.argument("ids", type=frame_id, metavar="ID...", nargs=-1, required=True)
@click.option("--format", "kind", type=click.Choice(["text", "json", "hex"]), default="text", show_default=True)
@click.option("--bytes", "most", type=click.IntRange(min=0), help="How much of each value of bytes to show.")
@click.option("--records", type=click.IntRange(min=0), default=10, show_default=True, help=RECORDS_HELP)
def show(folder: Path, ids: tuple[Wanted, ...], kind: str, most: int | None, records: int) -> None:
    """Decode the frames with these IDS: CONNECTION/SEQUENCE, behind SESSION/ where there are several.

    Values that the capture did not keep are named as masked; long bytes are cut, and say so. Record batches and
    messages inside messages (what members of a group tell each other, offsets, transactions) are opened.
    """
    from recorder.inspect import show as module
    from recorder.inspect.lines import frame_id as frame_id_of

    limit = most if most is not None else SHOWN_DUMP if kind == "hex" else SHOWN_BYTES
    for wanted in ids:
        row = _one(folder, wanted)
        if kind == "json":
            click.echo(json.dumps(module.as_json(row, _body(folder, row, records), limit)))
        elif kind == "hex":
            if len(ids) > 1:
                click.echo(frame_id_of(row))
            _print(module.hex_dump(row[c.FRAME] or b"", row[c.MASKED] or [], limit))
        else:
            _print(module.as_text(row, _body(folder, row, records), limit))


def _one(folder: Path, wanted: Wanted) -> dict[str, Any]:
    from recorder.inspect.rows import HEADS, rows

    found = list(rows(folder, wanted, (*HEADS, c.FRAME)))
    name = "/".join([*wanted.sessions, str(wanted.connections[0]), str(wanted.sequences[0])])
    if not found:
        raise NoCapture(f"no frame {name} in {folder}")
    if len(found) > 1:
        sessions = ", ".join(row[c.SESSION] for row in found)
        raise NoCapture(f"{name} is in several sessions: put one before it ({sessions})")
    return found[0]


def _body(folder: Path, row: dict[str, Any], records: int) -> Body:
    """The frame decoded, with what its request says where that takes it."""
    from recorder.inspect.body import body, needs_request
    from recorder.inspect.rows import request_of

    return body(row, records, request_of(folder, row) if needs_request(row) else None)


def _list(lines: Iterable[str], header: str | bool, none: str) -> None:
    """`none`: what is said beside the output where there is not a single line."""
    if isinstance(header, str):
        click.echo(header)
    if not _print(lines):
        click.echo(f"note: {none}", err=True)


def _print(lines: Iterable[str]) -> bool:
    """Whether there were any."""
    printed = False
    for line in lines:
        click.echo(line)
        printed = True
    return printed

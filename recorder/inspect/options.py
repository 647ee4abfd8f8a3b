"""The options of `kafka-wiretap inspect`: filters, ids, times, a folder; and their completion in a shell.

Nothing here opens a capture, because completion must not compact. A command looks up its arguments when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from proxy.command_line import beginning_with, text
from proxy.option_types import COUNT, FOLDER, LARGEST_NUMBER, NUMBER
from proxy.tools import names
from proxy.tools.arguments import api_key
from proxy.tools.output import budget_option
from proxy.wire.budget import DEFAULT_BUDGET
from proxy.wire.kafka07 import RequestType
from recorder.capture import frames as c
from recorder.capture.session import is_name
from recorder.filters import SINCE, UNTIL

Command = TypeVar("Command", bound=Callable[..., Any])
# api key and dialect; None means any dialect
Api = tuple[int, str | None]
READING_HELP = "The most memory for what is read and counted, and for one frame's error codes."
CAPTURE = click.argument("folder", type=FOLDER, metavar="FOLDER")
# The forms of an id, the longest first. A part of digits alone can be a session's name only in an id of three parts.
_IDS = (
    re.compile(r"(?P<session>[^/]+)/(?P<connection>[0-9]+)/(?P<exchange>e?)(?P<number>[0-9]+)"),
    re.compile(r"(?P<session>)(?P<connection>[0-9]+)/(?P<exchange>e?)(?P<number>[0-9]+)"),
    re.compile(r"(?:(?P<session>[^/]*[^/0-9][^/]*)/)?(?P<connection>[0-9]+)(?P<exchange>)(?P<number>)"),
)
# the name of an API that has only a key
_UNNAMED = re.compile(r"api ([0-9]+)", re.IGNORECASE)


def api(value: str) -> Api:
    """An api by its name (any case, former names too) or by its key. A key is that of any dialect.

    "api 2000" is the name that lists have for a key without a name.
    """
    asked = names.api_of_07(value)
    if asked is not None:
        return int(asked), c.KAFKA_07
    if value.lower() in (c.TOKEN, c.UNFRAMED):
        right = f"right would be inspect frames --kind {value.lower()}"
        raise click.BadParameter(f"{value!r} is a kind of frames that are of no API; {right}")
    if unnamed := _UNNAMED.fullmatch(value):
        value = unnamed[1]
    return api_key(value), None if value.isdigit() else c.KAFKA


def _complete_api(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    return beginning_with(begun, [*names.api_names(), *(asked.api for asked in RequestType)])


def _complete_session(context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """The sessions of the folder argument, by the names of its files.

    Completions become part of a command line, so files whose names don't begin with a session's name are ignored.
    """
    # click does not parse the arguments while an option has no value yet; they are in `args` as they were typed
    given = [context.params["folder"]] if context.params.get("folder") else context.args
    files = Path(given[0]).glob(f"{c.FRAMES_FOLDER}/*/*/[!._]*.parquet") if given else []
    return beginning_with(begun, sorted(filter(is_name, {file.stem.rsplit("-", 2)[0] for file in files})))


class Shown(NamedTuple):
    """An id given to `show`: of a connection, or of one exchange or frame of it.

    `session`: the session's name or a prefix of it; None if the id has no session.
    """

    session: str | None
    connection: int
    exchange: int | None = None
    sequence: int | None = None

    def __str__(self) -> str:
        parts = [*([self.session] if self.session else []), str(self.connection)]
        parts += [] if self.exchange is None else [f"e{self.exchange}"]
        return "/".join([*parts, *([] if self.sequence is None else [str(self.sequence)])])


def shown_id(value: str) -> Shown:
    """Parses [SESSION/]CONNECTION[/eEXCHANGE or /FRAME]; the session may be any unambiguous prefix."""
    found = next(filter(None, (form.fullmatch(value) for form in _IDS)), None)
    numbers = [int(found[name]) for name in ("connection", "number") if found[name]] if found else []
    if found is None or max(numbers) > LARGEST_NUMBER:
        right = "4 (a connection), 4/e8 (an exchange), 4/17 (a frame) or 20261121T130500Z/4/17"
        raise click.BadParameter(f"{value!r} is no id; right would be {right}")
    session = text(found["session"]) if found["session"] else None
    if len(numbers) == 1:
        return Shown(session, numbers[0])
    return Shown(session, numbers[0], **{"exchange" if found["exchange"] else "sequence": numbers[1]})


def filters(*, kinds: bool) -> Callable[[Command], Command]:
    """The options that make a Wanted."""
    options = [
        click.option(
            "--session",
            "sessions",
            type=text,
            multiple=True,
            shell_complete=_complete_session,
            help="Only this session (or how its name begins).",
        ),
        click.option("--connection", "connections", type=NUMBER, multiple=True, help="Only this connection."),
        click.option(
            "--api",
            "apis",
            type=api,
            metavar="API",
            multiple=True,
            shell_complete=_complete_api,
            help="Only this API: a name or a key.",
        ),
        click.option(
            "--client", "clients", type=text, multiple=True, help="Only this client: its client id, or HOST[:PORT]."
        ),
        SINCE,
        UNTIL,
        click.option("--limit", type=COUNT, help="Show the first N."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line."),
        budget_option(READING_HELP, DEFAULT_BUDGET),
    ]
    if kinds:
        choice = click.Choice([c.REQUEST, c.RESPONSE, c.TOKEN, c.UNFRAMED])
        options.insert(2, click.option("--kind", "kinds", type=choice, multiple=True, help="Only this kind."))

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add

"""The options of `kafka-wiretap inspect`: filters, ids, times, a folder; and their completion in a shell.

Nothing here opens a capture, because completion must not compact. A command looks up its arguments when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from proxy.command_line import beginning_with, text
from proxy.option_types import COUNT, NUMBER, ReadBy
from proxy.similar import LIKELY, nearest
from proxy.tools import names
from proxy.tools.arguments import named
from proxy.tools.output import budget_option
from proxy.wire.budget import DEFAULT_BUDGET
from proxy.wire.kafka07 import RequestType
from recorder.capture import frames as c
from recorder.capture.session import is_name
from recorder.filters import SINCE, UNTIL
from recorder.ids import Id, id_in
from recorder.query.fields import ALL, FAULTS, FIELDS, Level
from recorder.query.values import Api
from recorder.query.values import api as read_api
from recorder.ready import CaptureType

Command = TypeVar("Command", bound=Callable[..., Any])
READING_HELP = "The most memory for what is read and counted, and for one frame's error codes."


CAPTURE = click.argument("folder", type=CaptureType(), metavar="FOLDER")


def api(value: str) -> Api:
    """An api by its name (any case, former names too) or by its key. A key is that of any dialect.

    "api 2000" is the name that lists have for a key without a name.
    """
    if value.lower() in (c.TOKEN, c.UNFRAMED):
        right = f"right would be inspect frames --kind {value.lower()}"
        raise click.BadParameter(f"{value!r} is a kind of frames that are of no API; {right}")
    return named(read_api, value)


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


def shown_id(value: str) -> Id:
    """An id given to `show`; the session may be any unambiguous prefix."""
    found = id_in(text(value))
    if found is None:
        right = "4 (a connection), 4/e8 (an exchange), 4/17 (a frame) or 20261121T130500Z/4/17"
        raise click.BadParameter(f"{value!r} is no id; right would be {right}")
    return found


def _columns(value: str) -> tuple[str, ...]:
    """Names of columns, separated by commas. Errors: ValueError."""
    found = tuple(name.strip() for name in value.split(",") if name.strip())
    for name in found:
        if name not in COLUMNS:
            near = nearest(name, COLUMNS, likeness=LIKELY)
            raise ValueError(f"has no column {name}" + (f" (did you mean {near}?)" if near else ""))
    if not found:
        raise ValueError("names no column")
    return found


def _sorting(value: str) -> str:
    """The field of `--sort`; `-` before it: the largest first. Errors: ValueError."""
    name = value.removeprefix("-")
    if name not in FIELDS or FIELDS[name].level is not Level.HEAD or name == "client":
        raise ValueError("is nothing to sort by")
    return value


def _complete_columns(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    before, comma, word = begun.rpartition(",")
    return [CompletionItem(f"{before}{comma}{name}") for name in COLUMNS if name.startswith(word)]


def _complete_sorting(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    sign = "-" if begun.startswith("-") else ""
    return beginning_with(begun, [f"{sign}{name}" for name, field in FIELDS.items() if field.level is Level.HEAD])


def complete_where(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """What may come next in a filter."""
    from recorder.query.language import completions

    return [CompletionItem(each) for each in completions(begun)]


def _names(flag: str, help_text: str) -> Callable[[Command], Command]:
    return click.option(f"--{flag}", type=text, multiple=True, help=help_text)


def _regex(value: str) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is no regular expression ({error})") from None


PATTERN = ReadBy("REGEX", _regex, "'EUR|USD'")
# what lists show of frames and exchanges, besides the fields of filters
COLUMNS = ("id", *FIELDS)


FOLLOW = click.option(
    *("-f", "--follow"),
    is_flag=True,
    help="Show what is recorded from now on, as it comes, until Ctrl-C; with --last N, the last N before it.",
)


def filters(*, kinds: bool = False, lists: bool = True, follows: bool = False) -> Callable[[Command], Command]:
    """The filters of a list, as an argument and as flags, and its form.

    `kinds`: with the kinds of frames. `lists`: with orders and columns. `follows`: with --follow.
    """
    orders = [
        click.option("--slowest", type=COUNT, help="Show the N of the greatest latency."),
        click.option("--largest", type=COUNT, help="Show the N of the greatest size."),
        click.option(
            "--sort",
            type=ReadBy("FIELD", _sorting, "latency, or -latency for the greatest first"),
            shell_complete=_complete_sorting,
            help="In the order of this field; -FIELD: the greatest first.",
        ),
        click.option(
            *("-o", "--columns"),
            type=ReadBy("COLUMNS", _columns, "at,client_id,topic"),
            shell_complete=_complete_columns,
            help="These columns in place of the usual ones: fields of filters, and id. Separated by commas.",
        ),
    ]
    options = [
        click.argument("filter_text", type=text, metavar="[FILTER]", required=False, shell_complete=complete_where),
        click.option(
            "--where",
            type=text,
            metavar="FILTER",
            multiple=True,
            shell_complete=complete_where,
            help="Only what passes this filter, such as 'api == Produce and size > 64KiB'. The flags are short for it.",
        ),
        click.option(
            "--session",
            type=text,
            multiple=True,
            shell_complete=_complete_session,
            help="Only this session (or how its name begins).",
        ),
        click.option("--connection", type=NUMBER, multiple=True, help="Only this connection."),
        click.option(
            "--api",
            type=api,
            metavar="API",
            multiple=True,
            shell_complete=_complete_api,
            help="Only this API: a name or a key.",
        ),
        click.option("--client", type=text, multiple=True, help="Only this client: its client id, or HOST[:PORT]."),
        _names("topic", "Only what names this topic; like the next ones a name or a pattern (ord*)."),
        _names("group", "Only what names this group."),
        _names("key", "Only what carries a record with this key."),
        _names("principal", "Only of this principal."),
        _names("software", "Only of this client library."),
        click.option("--node", type=NUMBER, multiple=True, help="Only of the broker with this id."),
        SINCE,
        UNTIL,
        click.option("--errors", flag_value=FAULTS, help="Only what holds an error that is not normal."),
        click.option("--all-errors", "errors", flag_value=ALL, help="Only what holds any error."),
        click.option("--limit", type=COUNT, help="Show the first N."),
        click.option("--last", type=COUNT, help="Show the last N."),
        *([FOLLOW] if follows else []),
        *(orders if lists else []),
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line."),
        click.option("--csv", "as_csv", is_flag=True, help="As CSV, with a header."),
        budget_option(READING_HELP, DEFAULT_BUDGET),
    ]
    if kinds:
        choice = click.Choice([c.REQUEST, c.RESPONSE, c.TOKEN, c.UNFRAMED])
        options.insert(4, click.option("--kind", type=choice, multiple=True, help="Only this kind."))

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add

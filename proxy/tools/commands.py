"""The commands of `kafka-wiretap wire`: list, show, decode, errors. Thin: options in, one call, words out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy.command_line import folded, width
from proxy.option_types import COUNT
from proxy.terminal import echo, is_terminal
from proxy.tools import arguments, completions
from proxy.tools.output import budget_option, end, print_json
from proxy.wire import apis, catalog, embedded
from proxy.wire.apis import KINDS, MessageKind
from proxy.wire.dialects import Dialect
from proxy.wire.embedded.logs import LOGS
from proxy.wire.errors import WireError
from proxy.wire.kafka07 import RequestType

if TYPE_CHECKING:
    from proxy.tools.bare import Bare


# the longest response that a proxy lets pass by default
MAX_READ = 1 << 30
RECORDS_HELP = "Show at most this many records of each field of record batches."


@click.group(short_help="Kafka's protocol: list its messages, show one, decode a frame, name an error.")
def wire() -> None:
    """Show Kafka's protocol as this proxy knows it: every API and version from 0.8 on, messages inside messages, the
    dialect of Kafka 0.7, error codes. Old names, and those of Kafka's protocol guide, lead to today's.

    \b
    kafka-wiretap wire list
    kafka-wiretap wire show metadata 12
    kafka-wiretap wire show Fetch --response --source decode
    kafka-wiretap wire show ConsumerProtocolAssignment
    kafka-wiretap wire decode --hex 00120003000000010004746573740003676f04312e3000
    kafka-wiretap wire decode --file frame.bin --response Metadata 12
    kafka-wiretap wire decode --file 00000000000000000000.log --batches
    kafka-wiretap wire decode --as ConsumerProtocolSubscription --hex 00000000000100046c6f6773ffffffff
    kafka-wiretap wire decode --dialect kafka-0.7 --hex 000100046c6f67730000000000000000000000000000012c
    kafka-wiretap wire errors NotLeaderForPartition 79
    """


@wire.command("list", short_help="Every API, and every message inside messages, with its versions.")
@click.option("--json", "form", flag_value="json", help="As one JSON object.")
@click.option("--markdown", "form", flag_value="markdown", help="As the page docs/apis.md.")
def list_(form: str | None) -> None:
    """Every message that can be decoded, with its versions.

    APIs come first: key, versions, the first flexible version, which side holds secrets. Then come the requests of
    Kafka 0.7, and messages inside messages.
    """
    from proxy.tools import listing, page

    if form == "json":
        click.echo(json.dumps(listing.as_json(), indent=2))
    elif form == "markdown":
        _print(page.lines())
    else:
        _print_folded(listing.as_lines(listing.TITLES, listing.listed()))
        click.echo()
        _print_folded(listing.as_lines(listing.TITLES_07, listing.rows_07()))
        click.echo()
        _print_folded(listing.as_lines(listing.EMBEDDED_TITLES, listing.embedded_rows()))


# an error's code may be -1, which is no option
@wire.command(
    short_help="Kafka's error codes: their names, and what they mean.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("codes", type=arguments.error, metavar="[ERROR]...", nargs=-1, shell_complete=completions.error)
@click.option("--json", "as_json", is_flag=True, help="As one JSON list.")
def errors(codes: tuple[int, ...], as_json: bool) -> None:
    """List every error code, or each ERROR: a code, or a name in any spelling, today's or an old one.

    Retriable means that a client may simply try again. Kafka's own text is what its Java clients log.
    """
    from proxy.tools import listing

    if as_json:
        click.echo(json.dumps(listing.errors_json(codes), indent=2))
    else:
        _print_folded(listing.as_lines(listing.ERROR_TITLES, listing.error_rows(codes)))


@wire.command(short_help="The fields of a message, or the code written for it.")
@click.argument("named", type=arguments.api_or_embedded, metavar="NAME", shell_complete=completions.name)
@click.argument("version", type=arguments.version, required=False, shell_complete=completions.version)
@click.option("--request", "requests", is_flag=True, help="Only the request.")
@click.option("--response", "responses", is_flag=True, help="Only the response.")
@click.option(
    "--source",
    "function",
    type=click.Choice(["decode", "encode", "project", "walk"]),
    help="Print the Python function that this codec wrote for it.",
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    shell_complete=completions.path,
    help="With project or walk: a field, such as brokers.host. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a message.")
def show(
    named: tuple[int | str | RequestType, MessageKind | None],
    version: int | Dialect | None,
    requests: bool,
    responses: bool,
    function: str | None,
    paths: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the request and the response of the API called NAME (in any case, or its key), or a single message such as
    MetadataResponse.

    VERSION is the newest by default. Each field has a line: its type ("?": may be null), default, tag, first version,
    and what is known about its value. Kafka 0.7's APIs are called 0.7/fetch and so on, and have no versions.
    """
    from proxy.tools import schema

    _check_show(function, paths, as_json)
    name, kind = named
    if isinstance(name, RequestType):
        _show_07(name, version, _kinds(requests, responses), function, as_json)
        return
    if isinstance(version, Dialect):
        raise click.UsageError(arguments.WANTED_07)
    if isinstance(name, str):
        found = [_embedded(name, version)]
    else:
        asked = _kinds(requests, responses) or (kind and (kind,)) or KINDS
        found = [_codec(one, name, version) for one in asked]
    for number, codec in enumerate(found):
        if number:
            click.echo()
        if function:
            click.echo(_source(codec, function, paths), nl=False)
        elif as_json:
            click.echo(json.dumps(schema.as_json(codec.message, codec.version), indent=2))
        else:
            _print_folded(schema.as_text(codec.message, codec.version))


def _show_07(
    asked: RequestType,
    version: int | Dialect | None,
    kinds: tuple[MessageKind, ...],
    function: str | None,
    as_json: bool,
) -> None:
    from proxy.tools import layout07

    if function:
        raise click.UsageError("no code was written for Kafka 0.7: its few messages are read by hand")
    if isinstance(version, int):
        raise click.UsageError(arguments.WANTED_07)
    for number, kind in enumerate(kinds or layout07.kinds(asked)):
        if number:
            click.echo()
        if as_json:
            click.echo(json.dumps(layout07.as_json(asked, kind), indent=2))
        else:
            _print_folded(layout07.as_text(asked, kind))


def _check_show(function: str | None, paths: tuple[str, ...], as_json: bool) -> None:
    if paths and function not in ("project", "walk"):
        raise click.UsageError("--path goes with --source project or --source walk")
    if function and as_json:
        raise click.UsageError("--source or --json, not both")


def _kinds(requests: bool, responses: bool) -> tuple[MessageKind, ...]:
    """The chosen kinds; () if neither option is set."""
    return tuple(kind for kind, is_asked in zip(KINDS, (requests, responses), strict=True) if is_asked)


def _codec(kind: MessageKind, key: int, version: int | None) -> catalog.Codec:
    known = apis.versions(key)
    if not known:
        raise click.UsageError(f"api {key} is unknown: `kafka-wiretap wire list` lists all")
    version = known[-1] if version is None else version
    found = catalog.codec(kind, key, version) if version in known else None
    if found is None:
        name, first, last = apis.api_name(key), known[0], known[-1]
        raise click.UsageError(f"{name} version {version} is unknown; known are {first} to {last}")
    return found


def _embedded(name: str, version: int | None) -> catalog.Codec:
    known = embedded.versions(name)
    found = embedded.codec(name, known[-1] if version is None else version)
    if found is None:
        raise click.UsageError(f"{name} version {version} is unknown; known are {known[0]} to {known[-1]}")
    return found


def _source(codec: catalog.Codec, function: str, paths: tuple[str, ...]) -> str:
    from proxy.tools import schema

    try:
        return schema.source(codec, function, paths)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@wire.command(short_help="Decode a frame, or what stands in one.")
@click.option(
    "--hex",
    "given",
    type=arguments.octets,
    metavar="HEX",
    help="The frame as hex; spaces, colons and 0x may stand in it.",
)
@click.option(
    "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file with the frame, raw or as hex."
)
@click.option(
    "--response",
    "response_to",
    type=(arguments.api, arguments.version),
    metavar="API VERSION",
    help="The frame answers such a request (0.7/fetch 0.7 in the dialect of 0.7).",
    shell_complete=completions.name,
)
@click.option(
    "--dialect",
    type=click.Choice([one.value for one in Dialect]),
    default=Dialect.KAFKA.value,
    show_default=True,
    help="The dialect of the frame; a frame does not tell it.",
)
@click.option(
    "--as",
    "name",
    type=arguments.inside,
    metavar="NAME",
    shell_complete=completions.message_inside,
    help="Decode this message inside messages, not a frame.",
)
@click.option("--batches", is_flag=True, help="Decode record batches, such as a segment of a log, not a frame.")
@click.option("--topic", type=click.Choice(list(LOGS)), help="Decode batches, or the value of a record, of this topic.")
@click.option("--key", type=arguments.octets, metavar="HEX", help="The key of that record.")
@click.option("--records", type=COUNT, default=10, show_default=True, help=RECORDS_HELP)
@click.option("--show-secrets", is_flag=True, help="Show passwords, tokens and settings' values too.")
@budget_option("The most memory for all the bytes: decompressed, decoded and printed.")
def decode(
    given: bytes | None,
    file: Path | None,
    response_to: tuple[int | RequestType, int | Dialect] | None,
    dialect: str,
    name: str | None,
    batches: bool,
    topic: str | None,
    key: bytes | None,
    records: int,
    show_secrets: bool,
    budget: int,
) -> None:
    """Decode a frame as JSON, with or without its 4-byte length. Several frames in a row become one object each.

    Without --hex and --file the frame is read from standard input, raw or as hex. A request tells its own API and
    version. A response does not, so it needs --response. Bytes become {length, base64}, with `text` if they are text.
    Record batches and messages inside messages are opened. Each `error_code` of an error gets its `error_name`. An
    unknown API or version is shown as such, with its bytes. Exit code 1: the bytes can't be that message; the error has
    the API, the version, the offset, and which frame of several. 3: --budget is used up, and the command shows what it
    has.

    For bytes that are no frame use --batches, --as NAME, or --topic for the value of a record (an empty value is none).
    In the dialect of 0.7, --batches are the messages of a log, and `at` is their position in it.
    """
    from proxy.tools import bare, frames
    from proxy.tools.tree import Shown
    from proxy.wire.budget import Budget

    if given is not None and file is not None:
        raise click.UsageError("--hex or --file, not both")
    answered, spoken = _answered(response_to, Dialect(dialect))
    what = bare.Bare(name, batches, topic, key, spoken)
    shown = Shown(not show_secrets, records, Budget(budget))
    _check_bare(what, response_to is not None)
    try:
        data = frames.octets_of(_read(file)) if given is None else given
        found = bare.trees(data, what, shown) if what else frames.trees(data, frames.Asked(answered, shown, spoken))
        for one in found:
            print_json(one, shown.budget, indent=2)
            if shown.budget.text.is_used_up:
                break
    except (WireError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    end(shown.budget)


def _answered(
    response_to: tuple[int | RequestType, int | Dialect] | None, dialect: Dialect
) -> tuple[tuple[int, int] | RequestType | None, Dialect]:
    """The request that a response answers, and the dialect; an API of 0.7 implies its dialect."""
    if response_to is None:
        return None, dialect
    api, version = response_to
    if isinstance(api, RequestType) and isinstance(version, Dialect):
        return api, version
    if isinstance(api, RequestType) or isinstance(version, Dialect) or dialect is Dialect.KAFKA_07:
        raise click.UsageError(arguments.WANTED_07)
    return (api, version), dialect


def _check_bare(what: Bare, response: bool) -> None:
    if response + bool(what.message) + bool(what.batches or what.topic) > 1:
        raise click.UsageError("--response, --as, or --batches and --topic: one of them")
    if what.dialect is Dialect.KAFKA_07 and (what.message or what.topic):
        raise click.UsageError("Kafka 0.7 has neither messages inside messages nor topics of its own")
    if what.key is not None and (what.batches or not what.topic):
        raise click.UsageError("--key goes with --topic, for one record")


def _read(file: Path | None) -> bytes:
    """All of the file or of standard input, which may be a device that never ends. Errors: ClickException."""
    # a process may be started without one
    if file is None and sys.stdin is None:
        raise click.UsageError("there is no standard input; right would be --file FILE")
    if file is None and is_terminal(sys.stdin):
        click.echo("reading a frame, raw or as hex; Ctrl-D ends it", err=True)
    with nullcontext(sys.stdin.buffer) if file is None else file.open("rb") as source:
        data = source.read(MAX_READ + 1)
    if len(data) > MAX_READ:
        raise click.ClickException(f"more than {MAX_READ >> 20} MiB: nothing longer is read")
    return data


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        echo(line)


def _print_folded(lines: Iterable[str]) -> None:
    """Prints lines folded to the terminal's width."""
    wide = width()
    _print(part for line in lines for part in folded(line, wide))


COMMANDS: dict[str, click.Command] = {"wire": wire}

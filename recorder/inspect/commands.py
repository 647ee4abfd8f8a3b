"""The commands of `kafka-wiretap inspect`: summary (the default), lists, counts, show."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from proxy.command_line import text, width
from proxy.limited_files import UnusableFile
from proxy.option_types import COUNT, FILE
from proxy.similar import LIKELY, nearest
from proxy.terminal import echo, printable
from proxy.tools.commands import RECORDS_HELP
from proxy.tools.output import Incomplete, budget_option, end, print_json, print_lines
from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.errors import OverBudget
from recorder.capture import frames as c
from recorder.capture.remote import Place, reason_of
from recorder.extras import check
from recorder.filters import nothing_passes
from recorder.ids import Id
from recorder.inspect.options import CAPTURE, PATTERN, READING_HELP, filters, shown_id
from recorder.query.fields import ALL, FAULTS, FIELDS, OF_ELEMENTS
from recorder.query.syntax import EVERYTHING
from recorder.ready import NoCapture, check_encodes, check_is_capture, ready_at
from recorder.terminal import console, count, say

if TYPE_CHECKING:
    from recorder.inspect.picking import Picking
    from recorder.inspect.record_lines import Decode
    from recorder.query.language import FilterError
    from recorder.query.shorthand import Filter
    from recorder.reading.capture import Capture, Judged, Passed
    from recorder.reading.following import Followed, Follower
    from recorder.reading.passing import Unsure
    from recorder.reading.records import Text
    from recorder.reading.schemas import Schemas

# The most bytes that `show` shows by default: of a value, and of a frame in a hex dump.
SHOWN_BYTES, SHOWN_DUMP = 32, 4096
ERROR_FIELD = "error"
Item = TypeVar("Item")


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
        except OSError as error:
            if error.errno is not None:
                raise
            # a store has no numbers for its errors
            raise click.ClickException(f"the store can't be read: {printable(reason_of(error))}") from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of commands, and folders; a shell completes folders only if no name fits."""
        return [CompletionItem(incomplete, type="dir"), *super().shell_complete(ctx, incomplete)]


class WrongFilter(click.UsageError):
    """A filter that can't be read. Below the sentence, a caret points at the place."""

    def __init__(self, error: FilterError) -> None:
        super().__init__(error.sentence)
        self.pointed = error.pointed

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the sentence, and the place."""
        super().show(file)
        click.echo(self.pointed, file=file, err=True)


def _made_ready(folder: Place) -> Place:
    """Makes a capture ready to be read, prints the notes on it, and returns its folder."""
    for note in ready_at(folder):
        _note(note)
    return folder


def _note(text: str) -> None:
    say(f"note: {text}", err=True)


def _opened(folder: Place, budget: int, *, follow: bool = False) -> Capture:
    """The capture, ready to be read; prints the notes on it. A capture that is followed is left as it is."""
    from recorder.inspect.losses import chosen_parts_of
    from recorder.reading.capture import Capture, GrowingCapture

    if not follow:
        _made_ready(folder)
        for sentence in chosen_parts_of(folder):
            _note(printable(sentence))
        return Capture(folder, [], budget)
    if not isinstance(folder, Path):
        raise NoCapture(f"{printable(folder)} is a URL; right with --follow would be a folder of this machine")
    check_encodes(folder)
    check_is_capture(folder)
    return GrowingCapture(folder, [], budget)


def _source(capture: Capture, limits: Picking, *, follow: bool) -> Capture | Follower:
    """What a list asks: the capture, or what comes into it."""
    if not follow:
        return capture
    from recorder.reading.following import Follower

    return Follower(capture, with_all=limits.from_end, say=_note)


def _picked(
    passed: Passed[Item] | Followed[Item], limits: Picking, value: Callable[[Item, str], Any], budget: int
) -> Iterator[Item]:
    """The items that a list shows. `value`: of a field, for the list's order."""
    from recorder.inspect.following import followed
    from recorder.reading.capture import Passed

    if isinstance(passed, Passed):
        return limits.picked(passed, value, most=budget)
    return followed(passed, limits, lambda item: (item,))


@contextmanager
def _telling_unsure(what: str, wanted: Filter, passed: Judged) -> Iterator[None]:
    """Says behind a list how many of those that it lacks may meet the filter, also if Ctrl-C has ended it.

    `what`: the singular of what is listed.
    """
    try:
        yield
    except KeyboardInterrupt:
        _note_unsure(what, wanted, passed.unsure)
        raise
    _note_unsure(what, wanted, passed.unsure)


def filter_given(capture: Capture, given: dict[str, Any]) -> Filter:
    """The filter of a command line. Takes its flags out of `given`. Errors: WrongFilter."""
    first, where = given.pop("filter_text"), given.pop("where")
    flags = {name: given.pop(name) for name in [*given] if name in FIELDS}
    others = {name: given.pop(name) for name in ("since", "until", "errors")}
    return filter_of_options(capture, [*([] if first is None else [first]), *where], flags, **others)


def filter_of_options(
    capture: Capture,
    texts: Sequence[str],
    flags: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    *,
    since: Any,
    until: Any,
    errors: str | None = None,
) -> Filter:
    """The filter of a command's options, over this capture. Errors: WrongFilter.

    `texts`: in the filter language. `since`, `until`: as of `recorder.filters.SINCE`. Others: as of `filter_of`.
    """
    from recorder.query.language import FilterError
    from recorder.query.shorthand import filter_of

    times = {
        "since_ns": since and since.resolved(capture.last_ns),
        "until_ns": until and until.resolved(capture.last_ns),
    }
    try:
        return capture.filter(filter_of(flags, where=texts, errors=errors, **times))
    except FilterError as error:
        raise WrongFilter(error) from None


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
def summary(folder: Place, as_json: bool, budget: int) -> None:
    """Show what is in the capture: sessions, connections, frames and bytes by API, gaps."""
    from recorder.inspect import summary as module

    found = module.summarize(folder, ready_at(folder), most=budget)
    if as_json:
        echo(json.dumps(module.as_json(found)))
        return
    screen = console()
    for table in module.as_tables(found, screen.width):
        screen.print(table)
        screen.print()


@inspect.command(short_help="List frames, one a line.")
@CAPTURE
@filters(kinds=True, follows=True)
def frames(
    folder: Place,
    columns: tuple[str, ...] | None,
    as_json: bool,
    as_csv: bool,
    budget: int,
    follow: bool,
    **given: Any,
) -> None:
    """List frames in the order of their arrival. `show` takes the id. `->` marks frames from the client.

    A filter such as 'api == Fetch and topic ~ "ord*"' chooses among them. The flags are short for parts of it.
    """
    from recorder.inspect import lines
    from recorder.inspect.chosen_columns import FRAME_COLUMNS
    from recorder.inspect.layouts import layout
    from recorder.inspect.picking import picking
    from recorder.reading.heads import of_frame
    from recorder.reading.rows import none, of_responses

    capture = _opened(folder, budget, follow=follow)
    wanted = filter_given(capture, given)
    limits = picking(**given, follow=follow)
    usual = columns is None and not as_csv
    asked = columns or FRAME_COLUMNS
    passed = _source(capture, limits, follow=follow).rows(
        wanted, bodies=of_responses if usual else none, columns=() if usual else _fields(asked)
    )
    found = _picked(passed, limits, lambda row, name: of_frame(row).get(name), budget)
    nothing = partial(_none, "frame", capture, wanted, limits.limit)
    with _telling_unsure("frame", wanted, passed):
        if not usual:
            every = ({"id": lines.frame_id(row)} | passed.values(row, _fields(asked)) for row in found)
            _list_columns(every, asked, nothing, as_json=as_json, as_csv=as_csv)
        elif as_json:
            _list((lines.frame_json(row, budget) for row in found), nothing)
        else:
            chosen = layout(lines.FRAME_LAYOUTS, lines.FRAME_TITLES, width())
            _list(chosen.lines(lines.frame_cells(row, budget) for row in found), nothing, chosen.header)


@inspect.command(short_help="List requests with their responses, one exchange a line.")
@CAPTURE
@filters(follows=True)
def exchanges(
    folder: Place,
    columns: tuple[str, ...] | None,
    as_json: bool,
    as_csv: bool,
    budget: int,
    follow: bool,
    **given: Any,
) -> None:
    """List requests with their responses in the order in which they ended. Requests without an answer come last.

    Each error is named, with how often it occurs in the response. "(normal)": a normal step of the protocol, such as
    UNSUPPORTED_VERSION in an answer to ApiVersions. "long poll": the broker may have waited on purpose.

    A filter such as 'api == Produce and topic ~ "ord*" and size > 64KiB and error' chooses among them: one and the same
    partition, batch or member must meet all its conditions. The flags are short for parts of it.
    """
    from recorder.inspect import lines
    from recorder.inspect.chosen_columns import EXCHANGE_COLUMNS
    from recorder.inspect.layouts import layout
    from recorder.inspect.picking import picking
    from recorder.reading.exchanges import exchange_id
    from recorder.reading.heads import of_exchange

    capture = _opened(folder, budget, follow=follow)
    with_normal = None
    if given["errors"] == FAULTS:
        with_normal = filter_given(capture, {**given, "errors": ALL}).node
    wanted = filter_given(capture, given)
    limits = picking(**given, follow=follow)
    usual = columns is None and not as_csv
    asked = columns or EXCHANGE_COLUMNS
    passed = _source(capture, limits, follow=follow).exchanges(
        wanted, columns=() if usual else _fields(asked), with_normal=with_normal
    )
    found = _picked(passed, limits, lambda pair, name: of_exchange(pair).get(name), budget)
    nothing = partial(_none, "exchange", capture, wanted, limits.limit)
    with _telling_unsure("exchange", wanted, passed):
        if not usual:
            every = ({"id": exchange_id(pair.head)} | passed.values(pair, _fields(asked)) for pair in found)
            _list_columns(every, asked, nothing, as_json=as_json, as_csv=as_csv)
        elif as_json:
            _list((json.dumps(lines.exchange_json(pair)) for pair in found), nothing)
        else:
            chosen = layout(lines.EXCHANGE_LAYOUTS, lines.EXCHANGE_TITLES, width())
            _list(chosen.lines(map(lines.exchange_cells, found)), nothing, chosen.header)


@inspect.command(short_help="List records of logs: who produced each and when, who fetched it.")
@CAPTURE
@filters(lists=False, follows=True)
@click.option("--grep", type=PATTERN, help="Only records whose key, value or headers match this regular expression.")
@click.option(
    "--schema-registry",
    "registry",
    type=text,
    metavar="URL|FOLDER",
    help="Decode what names a schema of this registry, or of this folder's files ID.avsc, ID.json, ID.proto.",
)
@click.option(
    "--hash-key",
    type=FILE,
    metavar="FILE",
    help="The key of a capture whose records are hashed: --key then names a key as it was before.",
)
def records(
    folder: Place,
    as_json: bool,
    as_csv: bool,
    budget: int,
    follow: bool,
    grep: re.Pattern[str] | None,
    registry: str | None,
    hash_key: Path | None,
    **given: Any,
) -> None:
    """List the records of logs in the order of topic, partition and offset: who produced each, and who fetched it.

    A filter passes a record if it passes where the record was produced, or where it was fetched. The group of a fetch
    is known if a member with that client id and host held the partition then. Records are kept until all of the
    capture was read, so ask for a topic, or for a key. With --follow, a record is shown when it is produced and again
    when it is fetched.

    \b
    kafka-wiretap inspect records capture --topic orders --key 4711
    kafka-wiretap inspect records capture 'topic == orders and timestamp > 13:48' --grep 'EUR|USD'
    """
    from recorder.inspect import chosen_columns, record_lines
    from recorder.inspect.picking import picking
    from recorder.reading.elements import shown

    capture = _opened(folder, budget, follow=follow)
    if hash_key is not None:
        given["key"] = _hashed(given["key"], folder, hash_key)
    wanted = filter_given(capture, given)
    limits = picking(**given, follow=follow)
    decode: Decode = record_lines.as_it_is
    as_text: Text = shown
    if registry is not None:
        schemas = _schemas(registry)
        decode, as_text = schemas.value, schemas.text
    if not follow:
        _make_facts(capture, wanted)
    passed = _source(capture, limits, follow=follow).records(wanted, grep=grep, text=as_text)
    found = _picked(passed, limits, lambda record, name: None, budget)

    nothing = partial(_none, "record", capture, wanted, limits.limit, names_hashes=hash_key is not None)
    with _telling_unsure("exchange", wanted, passed):
        if as_json:
            _list((record_lines.record_json(record, decode) for record in found), nothing)
        elif as_csv:
            lines = (record_lines.record_csv(record, decode) for record in found)
            _list(lines, nothing, chosen_columns.csv_line(record_lines.COLUMNS))
        else:
            every = (record_lines.record_lines(record, width(), decode, is_whole=not follow) for record in found)
            _list((line for lines in every for line in lines), nothing)


def _hashed(names: Sequence[str], folder: Place, path: Path) -> tuple[str, ...]:
    """Keys of records as a capture has them whose records are hashed. Errors: UsageError."""
    from recorder.hashed_capture import hasher_of
    from recorder.reading.elements import hash_shown

    try:
        hasher = hasher_of(folder, path)
    except UnusableFile as error:
        right = "right would be the key that capture.hash_key named, in a file that only its owner can read"
        raise click.UsageError(f"--hash-key {printable(path)} {error}; {right}") from None
    return tuple(hash_shown(hasher.hashed(os.fsencode(name))) or "" for name in names)


def _schemas(place: str) -> Schemas:
    """The schemas of `--schema-registry`. Errors: UsageError, MissingPackages."""
    check("schemas")
    from recorder.reading.schemas import schemas_at

    try:
        return schemas_at(place)
    except ValueError as error:
        right = "right would be http://HOST:8081 or a folder with files such as 7.avsc"
        raise click.UsageError(f"--schema-registry {error}; {right}") from None


def _grouping(name: str, grouping: str, short_help: str, text: str, *, follows: bool = False) -> None:
    """Adds a command that counts exchanges. `grouping`: the name of its Grouping. `follows`: with --follow."""

    @inspect.command(name, short_help=short_help, help=text)
    @CAPTURE
    @filters(lists=False, follows=follows)
    def command(folder: Place, as_json: bool, as_csv: bool, budget: int, follow: bool = False, **given: Any) -> None:
        from recorder.inspect import chosen_columns, groups
        from recorder.inspect.following import followed
        from recorder.inspect.layouts import layout
        from recorder.inspect.picking import picking
        from recorder.query.syntax import together
        from recorder.reading.capture import Passed

        asked: groups.Grouping = getattr(groups, grouping)
        capture = _opened(folder, budget, follow=follow)
        wanted = filter_given(capture, given)
        limits = picking(**given, follow=follow)
        only = EVERYTHING if ERROR_FIELD in wanted.names and ERROR_FIELD in asked.by else asked.only
        if not follow:
            _make_facts(capture, wanted)
        passed = _source(capture, limits, follow=follow).exchanges(
            replace(wanted, node=together(wanted.node, only)), columns=asked.fields, brief=True
        )
        count_up = partial(groups.grouped, asked, head=passed.head, elements=passed.elements, most=budget)
        found: Iterator[dict[str, Any]]
        if isinstance(passed, Passed):
            found = limits.picked(count_up(passed), lambda line, name: None, most=budget)
        else:
            found = followed(passed, limits, lambda pair: count_up([pair]))
        nothing = partial(_none, asked.what, capture, wanted, limits.limit)
        names = (*asked.by, *asked.counted)
        with _telling_unsure("exchange", wanted, passed):
            if as_json:
                _list((json.dumps(groups.plain(asked, line)) for line in found), nothing)
            elif as_csv:
                rows = (chosen_columns.csv_line(groups.plain_cells(asked, line)) for line in found)
                _list(rows, nothing, chosen_columns.csv_line(names))
            elif follow:
                chosen = layout(groups.ERROR_LAYOUTS, groups.ERROR_TITLES, width())
                _list(chosen.lines(map(groups.cells, found)), nothing, chosen.header)
            elif shown := [*found]:
                screen = console()
                screen.print(groups.as_table(asked, shown, screen.width))
            else:
                _note(nothing())


_grouping(
    "topics",
    "TOPICS",
    "Count who produces to topics and who fetches from them.",
    """Count exchanges, records and bytes by topic, API and client: who produces to a topic, and how much.

    \b
    kafka-wiretap inspect topics capture --topic orders --api Produce
    """,
)
_grouping(
    "clients",
    "CLIENTS",
    "Count what clients do, and name those that are too old for Kafka 4.0.",
    """Count connections, exchanges, errors and bytes by client, with its library.

    "too old": APIs in versions that Kafka 4.0 does not take any more. A client may use them only because its broker
    offers no newer ones.
    """,
)
_grouping(
    "errors",
    "ERRORS",
    "Count errors by API, client, topic and partition.",
    """Count errors by name, API, client, topic, partition and group. With --follow: each exchange's as it ends.

    Normal steps of the protocol are left out, unless the filter names errors: --all-errors.

    \b
    kafka-wiretap inspect errors capture --client my-app
    """,
    follows=True,
)


@inspect.command(short_help="Show latency percentiles by API, and by client, node or topic.")
@CAPTURE
@filters(lists=False)
@click.option("--by", type=click.Choice(["client", "node", "topic"]), help="A line for each of these, too.")
def latency(folder: Place, as_json: bool, as_csv: bool, budget: int, by: str | None, **given: Any) -> None:
    """Show how long answers took, by API: count, p50, p95, p99 and the longest.

    Long polls that may have waited on purpose have lines of their own, marked "wait" ("includes_wait" if their answer
    does not tell). Their latency says nothing of the broker's speed. Exchanges without an answer have none.

    \b
    kafka-wiretap inspect latency capture --api Produce --by client
    """
    from recorder.inspect import chosen_columns
    from recorder.inspect import latency as module
    from recorder.inspect.picking import picking

    capture = _opened(folder, budget)
    wanted = filter_given(capture, given)
    limits = picking(**given)
    _make_facts(capture, wanted)
    passed = capture.exchanges(wanted, brief=True, columns=("topic",) if by == "topic" else ())
    lines = module.latency(passed, by, passed.head, passed.elements, most=budget)
    found = limits.picked(lines, lambda line, name: None, most=budget)
    nothing = partial(_none, "answered exchange", capture, wanted, limits.limit)
    with _telling_unsure("exchange", wanted, passed):
        if as_json:
            _list(map(json.dumps, found), nothing)
        elif as_csv:
            names = module.columns(by)
            rows = (chosen_columns.csv_line([line[name] for name in names]) for line in found)
            _list(rows, nothing, chosen_columns.csv_line(names))
        elif shown := [*found]:
            screen = console()
            screen.print(module.as_table(shown, by, screen.width))
        else:
            _note(nothing())


def _make_facts(capture: Capture, wanted: Filter) -> None:
    """Makes the facts that are missing, for a question about the capture's whole time; says so."""
    from recorder.query.columns import between

    if between(wanted.node) == (None, None) and (made := capture.make_facts()):
        _note(made)


def _fields(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in columns if name in FIELDS)


def _list_columns(
    found: Iterator[dict[str, Any]], columns: Sequence[str], nothing: Callable[[], str], *, as_json: bool, as_csv: bool
) -> None:
    """Prints the columns that a user has asked for."""
    from recorder.inspect import chosen_columns

    every = ({name: values[name] for name in columns} for values in found)
    if as_json:
        _list(map(chosen_columns.as_json, every), nothing)
    elif as_csv:
        _list(map(chosen_columns.as_csv, every), nothing, chosen_columns.csv_line(columns))
    else:
        lines = chosen_columns.table_lines(columns, every, width())
        _list(lines, nothing, chosen_columns.header(columns, width()))


def _note_unsure(what: str, wanted: Filter, unsure: Unsure) -> None:
    """Says how many of those that are not listed may meet the filter. `what`: the singular of what is listed."""
    if unsure.normal:
        _note(f"left out: {count(unsure.normal, what)} with normal errors only; --all-errors lists them, too")
    if unsure.records_not_kept:
        _note(f"not kept: {count(unsure.records_not_kept, 'record')} that might pass, by capture.records")
    if unread := unsure.unread:
        reasons = ", ".join(f"{why}: {often}" for why, often in unread.most_common())
        one, several = ("it passes", "they pass")
        if wanted.names & OF_ELEMENTS == {"error"}:
            what, one, several = "response", "it holds errors", "they hold errors"
        whether = one if unread.total() == 1 else several
        _note(f"of {count(unread.total(), what)} nobody can tell whether {whether} ({reasons})")


@inspect.command(short_help="Decode frames and exchanges, or describe a connection.")
@CAPTURE
@click.argument("ids", type=shown_id, metavar="ID...", nargs=-1, required=True)
@click.option("--json", "kind", flag_value="json", help="One JSON object for each id.")
@click.option("--hex", "kind", flag_value="hex", help="The bytes of frames.")
@click.option("--bytes", "most", type=COUNT, help="Show at most this many bytes of a value.")
@click.option("--records", type=COUNT, default=10, show_default=True, help=RECORDS_HELP)
@budget_option("The most memory for all that is shown: decompressed, decoded and printed.")
def show(folder: Place, ids: tuple[Id, ...], kind: str | None, most: int | None, records: int, budget: int) -> None:
    """Show connections (4), exchanges (4/e8: exchange 8 of connection 4) and frames (4/17: frame 17 of connection 4).
    If the capture has several sessions, put SESSION/ in front.

    Frames are decoded, with their record batches and messages inside messages (members' blobs of groups, offsets,
    transactions). Values that the capture did not keep are shown as masked. Long bytes are cut, and marked as cut.

    If --budget is used up, the command shows what it has, and exits with 3.
    """
    from recorder.inspect.show import Form, shown

    limit = most if most is not None else SHOWN_DUMP if kind == "hex" else SHOWN_BYTES
    if kind == "hex" and any(one.exchange is None and one.sequence is None for one in ids):
        raise click.UsageError("--hex shows frames and exchanges, no connections")
    _made_ready(folder)
    form = Form(kind or "text", limit, records, Budget(budget), named=len(ids) > 1)
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


def _none(what: str, capture: Capture, wanted: Filter, limit: int | None, *, names_hashes: bool = False) -> str:
    """The note if nothing is listed. `what`: the singular of what is listed. `names_hashes`: the filter's keys are."""
    from recorder.hashed_capture import is_hashed
    from recorder.inspect.nearest import meant
    from recorder.inspect.summary import held

    if limit == 0:
        return f"no {what} to show"
    passes = nothing_passes(what, " ".join(wanted.words), held(capture.folder, most=capture.budget))
    if "key" in wanted.names and not names_hashes and is_hashed(capture.folder):
        passes += "; its records are hashed: inspect records --hash-key FILE finds a key as it was"
    return passes + meant(capture, wanted.node)


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

"""`kafka-wiretap replay`: its options, and the job that they make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from proxy.command_line import text
from proxy.option_types import BROKERS, COUNT, FILE, FOLDER, NUMBER, POSITION, SIZE, TIME, ReadBy, percent
from proxy.schema.patterns import NOT
from proxy.schema.toml import pieces
from proxy.terminal import echo, printable
from proxy.tools.output import budget_option
from proxy.wire.apis import api_keys
from proxy.wire.budget import Budget
from proxy.wire.errors import OverBudget
from recorder.capture.remote import Place
from recorder.capture.session import WhenFull
from recorder.filters import MOMENT
from recorder.ready import CaptureType
from recorder.replay.login.logins import has_login
from recorder.replay.names import is_prefix
from recorder.replay.options import OF_TARGET, WAITS, Deletes, Options, is_api
from recorder.replay.refused import Refused
from recorder.replay.settings import BadReplaySettings, FileSettings, is_node, read_settings
from recorder.terminal import console

if TYPE_CHECKING:
    from recorder.replay.choice import Choice

MAX = "max"


class Reports(NamedTuple):
    """Writes reports, for a room above this one. `check`: raises before a replay if a report can't be written."""

    check: Callable[[Path], None] = lambda path: None
    write: Callable[[Any, Path], None] = lambda result, path: None


class ReplayGroup(click.Group):
    """`replay FOLDER …` plays; `replay show REPORT N` shows what a replay found."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            args = ["play", *args]
        return super().resolve_command(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """What stands behind `replay`: that of `play`, whose name nobody needs to type."""
        return self.commands["play"].collect_usage_pieces(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of `play`, then the commands."""
        click.Command.format_options(self.commands["play"], ctx, formatter)
        self.format_commands(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *self.get_help_option_names(ctx)}:
            args = ["play", *args]
        return super().parse_args(ctx, args)


def _speed(value: str) -> float | None:
    if value == MAX:
        return None
    speed = float(value)
    if not 0 < speed < float("inf"):
        raise ValueError
    return speed


_SPEED = ReadBy("SPEED", _speed, f"1, 0.5, 10 or {MAX}", "is no speed")


def _prefix(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if not is_prefix(value):
        raise click.BadParameter(
            f"{value!r} can't stand before a topic's name: right would be replay-, of a-z, A-Z, 0-9, '.', '_' and '-', "
            "but neither '_' alone nor '__' first"
        )
    return value


def _reports(_context: click.Context, _option: click.Parameter, values: Sequence[Path]) -> tuple[Path, ...]:
    if len({*values}) < len(values):
        raise click.BadParameter(f"{str(values[-1])!r} stands twice; right would be a file for each format")
    return tuple(values)


def _nodes(_context: click.Context, _option: click.Parameter, values: Sequence[str]) -> dict[int, int]:
    pairs = [value.partition("=") for value in values]
    if not all(is_node(recorded) and is_node(target) for recorded, _, target in pairs):
        raise click.BadParameter("right would be --node 1=4: the recorded node's id and the target's")
    return {int(recorded): int(target) for recorded, _, target in pairs}


def _settings(_context: click.Context, _option: click.Parameter, value: Path | None) -> FileSettings:
    try:
        return FileSettings() if value is None else read_settings(value)
    except BadReplaySettings as error:
        raise Refused(str(error)) from error


def _apis(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...]:
    try:
        found = tuple(str(part).strip() for part in pieces(value)) if value else ()
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}") from None
    for pattern in found:
        if not any(is_api((pattern.removeprefix(NOT),), key) for key in api_keys()):
            raise click.BadParameter(f"{pattern!r} is no API; right would be Produce,Fetch or *Offset*")
    return found


@click.group(cls=ReplayGroup, short_help="Play a capture against another cluster and compare the answers.")
def replay() -> None:
    """Play a capture against another cluster, in its time, and compare the answers.

    \b
    kafka-wiretap replay FOLDER --to HOST:PORT[,...]      plays
    kafka-wiretap replay show REPORT.json N               shows the N-th mismatch of a report
    """


@replay.command()
@click.argument("folder", type=CaptureType(), metavar="FOLDER")
@click.option(
    "--to",
    "bootstrap",
    required=True,
    type=BROKERS,
    help="Brokers of the target.",
)
@click.option(
    "--speed",
    default="1",
    show_default=True,
    type=_SPEED,
    metavar="N|max",
    help="How much faster than recorded; max: as fast as the order of the recording allows.",
)
@click.option("--only", callback=_apis, type=text, metavar="API[,...]", help="Play these APIs only; * and ? work.")
@click.option(
    "--where",
    type=text,
    metavar="FILTER",
    multiple=True,
    help="Play exchanges that pass this filter, as inspect exchanges lists them: 'topic ~ \"ord*\" and not error'.",
)
@click.option("--since", type=MOMENT, help="Play requests that arrived from this time on.")
@click.option("--until", type=MOMENT, help="Play requests that arrived up to this time.")
@click.option(
    "--client",
    "clients",
    multiple=True,
    type=text,
    help="Play this client id, or address (with its port or without). Repeatable.",
)
@click.option(
    "--connection",
    "connections",
    multiple=True,
    type=NUMBER,
    help="Play the connection of this number, as inspect shows it (of each session). Repeatable.",
)
@click.option(
    "--session", "sessions", multiple=True, type=text, help="Play this session (or how its name begins). Repeatable."
)
@click.option("--cluster", type=text, help="Play this cluster of a capture of several clusters.")
@click.option("--read-only", is_flag=True, help="Play only requests that read, list or describe.")
@click.option("--produce-only", is_flag=True, help="Play only requests that produce.")
@click.option("--admin", is_flag=True, help="Also play changes of topics, settings, quotas and ACLs.")
@click.option(
    "--deletes",
    type=click.Choice([each.value for each in Deletes]),
    default=Deletes.NOTHING.value,
    show_default=True,
    help="Deletions to play. own: what this replay made; all: anything. With --prefix, either is what it names.",
)
@click.option("--telemetry", is_flag=True, help="Also play the metrics that clients push.")
@click.option(
    "--prefix",
    default="",
    callback=_prefix,
    type=text,
    help="Put this before the names of topics, groups, transactions and static members.",
)
@click.option("--create-topics", is_flag=True, help="Make the topics that the target lacks.")
@click.option(
    "--timestamps",
    type=click.Choice(["keep", "shift"]),
    default="keep",
    show_default=True,
    help="shift: move the times of records to the time of the replay.",
)
@click.option(
    "--node",
    "nodes",
    multiple=True,
    callback=_nodes,
    type=text,
    metavar="I=J",
    help="Recorded node I is the target's node J. Repeatable.",
)
@click.option(
    "--settings",
    callback=_settings,
    type=FILE,
    metavar="FILE",
    help="TOML with [login], [tls] and [nodes] (docs/replay.md).",
)
@click.option(
    "--wait",
    default="60s",
    show_default=True,
    type=TIME,
    help="How long a request waits for anything before it is withheld.",
)
@click.option(
    "--drain",
    default="10s",
    show_default=True,
    type=TIME,
    help="How long the ends of logs are polled for records that were read in the recording.",
)
@click.option(
    "--memory",
    default="256MiB",
    show_default=True,
    type=SIZE,
    help="The most memory for requests that wait.",
)
@click.option("--max-late", type=TIME, help="End when a request leaves later than this.")
@click.option("--stop-after", type=COUNT, metavar="N", help="End after more than N mismatches.")
@click.option(
    "--max-mismatches",
    type=COUNT,
    default=0,
    show_default=True,
    metavar="N",
    help="Exit with 1 above N mismatches.",
)
@click.option(
    "--partial",
    default=1.0,
    show_default=True,
    type=percent(100),
    metavar="PERCENT",
    help="How much may be withheld. If a plan withholds more, it is refused (2); if a replay does, it exits with 1.",
)
@click.option(
    "--target-is-another",
    is_flag=True,
    help="Say that the target is not the recorded cluster, where no cluster id tells. --yes does not say so.",
)
@click.option(
    "--same-address",
    is_flag=True,
    help="Allow a target at an address of the recording, if its cluster's id is another.",
)
@click.option("--onto-recorded", is_flag=True, help="Allow the recorded cluster itself as the target.")
@click.option("--fence", is_flag=True, help="Allow to disturb groups that have members, and producers in use.")
@click.option("--dry-run", is_flag=True, help="Only show what would be sent and withheld.")
@click.option("--yes", is_flag=True, help="Don't ask before anything is written.")
@click.option(
    "--report",
    "reports",
    multiple=True,
    callback=_reports,
    type=FILE,
    metavar="FILE",
    help="Write a report: .json or .html. Repeatable.",
)
@click.option(
    "--record",
    type=FOLDER,
    metavar="FOLDER",
    help="Keep what is sent and received as a capture of its own, with the recorded exchange of each request.",
)
@click.option(
    "--record-when-full",
    type=click.Choice([each.value for each in WhenFull]),
    default=WhenFull.DROP.value,
    show_default=True,
    help="If the disk is too slow: leave a gap, or slow the replay down.",
)
def play(folder: Place, **given: Any) -> None:
    """Play the capture in FOLDER against the brokers of --to, in recorded time, and compare their answers.

    Topic ids, producers, groups, sessions and offsets are the target's own, learned from its answers. A request that
    lacks a value is withheld with its reason. Exit code 0: as recorded; 1: mismatched, withheld or interrupted; 2:
    refused.

    \b
    To look first:       kafka-wiretap replay capture --to test:9092 --dry-run
    As fast as it goes:  kafka-wiretap replay capture --to test:9092 --speed max --yes --report replay.html
    Beside other work:   kafka-wiretap replay capture --to test:9092 --prefix replay- --create-topics
    """
    from recorder.ready import ready_at
    from recorder.replay.player.run import Job, run

    file: FileSettings = given["settings"]
    options = _options(given, file)
    reports: Reports = click.get_current_context().find_object(Reports) or Reports()
    for path in given["reports"]:
        try:
            reports.check(path)
        except ValueError as error:
            raise Refused(str(error)) from error
    _check_record(folder, given["record"], given["dry_run"])
    try:
        notes = ready_at(folder)
    except click.ClickException as error:
        raise Refused(error.message) from error
    for note in notes:
        echo(f"note: {note}", err=True)
    job = Job(
        folder=folder,
        bootstrap=tuple((broker.host, broker.port) for broker in given["bootstrap"]),
        options=options,
        choice=_choice(folder, options, given),
        sessions=given["sessions"],
        cluster=given["cluster"],
        file=file,
        dry_run=given["dry_run"],
        yes=given["yes"],
        reports=given["reports"],
        write=reports.write,
        partial=given["partial"],
        max_mismatches=given["max_mismatches"],
        record=given["record"],
        record_when_full=WhenFull(given["record_when_full"]),
    )
    sys.exit(run(job))


def _check_record(folder: Place, record: Path | None, dry_run: bool) -> None:
    if record is not None and dry_run:
        raise Refused("--dry-run plays nothing that --record could keep: right would be one of them")
    if record is not None and isinstance(folder, Path) and record.resolve() == folder.resolve():
        raise Refused(f"--record {printable(record)} is the capture that is played: right would be another folder")


def _options(given: dict[str, Any], file: FileSettings) -> Options:
    if given["read_only"] and given["produce_only"]:
        raise Refused("--read-only and --produce-only leave nothing together: right would be one of them")
    names = ("speed", "only", "read_only", "produce_only", "admin", "telemetry", "prefix", "create_topics")
    source = click.get_current_context().get_parameter_source
    more = ("wait", "drain", "memory", "max_late", "stop_after", *OF_TARGET, "fence")
    return Options(
        **{name: given[name] for name in (*names, *more)},
        as_asked=frozenset(name for name in WAITS if source(name) is not ParameterSource.DEFAULT),
        deletes=Deletes(given["deletes"]),
        shift_timestamps=given["timestamps"] == "shift",
        nodes=file.nodes | given["nodes"],
        has_login=has_login(file.logins),
    )


def _choice(folder: Place, options: Options, given: dict[str, Any]) -> Choice:
    """The choice of the options; prints the note on it. Errors: Refused."""
    from recorder.capture.frames import DamagedFileError, UnknownFormatError
    from recorder.capture.reader import last_ns
    from recorder.query.language import FilterError
    from recorder.query.shorthand import Filter, filter_of
    from recorder.query.syntax import resolved
    from recorder.replay.choice import choose

    times = {f"{name}_ns": given[name] and given[name].resolved(lambda: last_ns(folder)) for name in ("since", "until")}
    flags = {"connection": sorted(given["connections"]), "client": given["clients"]}
    try:
        typed = filter_of(flags, where=given["where"], **times)
        wanted = Filter(resolved(typed.node, lambda: last_ns(folder)), typed.words)
        return choose(folder, options, wanted, lambda note: echo(note, err=True))
    except FilterError as error:
        raise WrongFilter(error.sentence, error.pointed) from None
    except OverBudget as error:
        raise Refused(f"--where can't be answered: {error}") from None
    except (DamagedFileError, UnknownFormatError) as error:
        raise Refused(str(error)) from None


class WrongFilter(Refused):
    """A filter that can't be read. Below the sentence, a caret points at the place."""

    def __init__(self, sentence: str, pointed: str) -> None:
        super().__init__(f"--where: {sentence}")
        self._pointed = pointed

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the sentence, and the place."""
        super().show(file)
        click.echo(self._pointed, file=file, err=True)


@replay.command()
@click.argument("report", type=FILE, metavar="REPORT")
@click.argument("number", type=POSITION, metavar="N")
@budget_option("The most memory for the frames: decompressed, decoded and printed.")
def show(report: Path, number: int, budget: int) -> None:
    """Show the N-th mismatch of REPORT (JSON or HTML): the request, and both answers side by side."""
    from recorder.replay.results.report import NoReport, read
    from recorder.replay.results.show import whole_mismatch

    screen, left = console(), Budget(budget)
    try:
        for part in whole_mismatch(read(report), number, screen.width, left):
            screen.print(part)
    except (NoReport, LookupError) as error:
        raise Refused(str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Refused(f"{printable(report)} can't be read: {error.strerror or error}") from error

"""Options and checks that the commands share that ask a capture: which engine runs, where Spark runs, where the capture
is.

Modules that need Spark are imported only when they are used: the other commands work without pyspark.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from proxy.command_line import beginning_with, text
from proxy.option_types import of_kind
from proxy.schema.errors import InvalidValue
from proxy.schema.flags import ENGINE_VARIABLE
from proxy.schema.kinds import SECONDS, at_least
from proxy.similar import right_would_be
from proxy.terminal import echo, printable
from proxy.wire.errors import OverBudget
from recorder import extras
from recorder.analysis import master as masters
from recorder.capture.frames import FRAMES_FOLDER, DamagedFileError, UnknownFormatError
from recorder.capture.remote import SCHEME, is_url, place_at, reason_of
from recorder.ready import URL_NOTE, NoCapture, ready
from recorder.terminal import cell, console, say

if TYPE_CHECKING:
    from recorder.analysis.place import Place

# The shortest and the longest length of time that Spark is asked for: a millisecond, and thirty years.
_SHORTEST, _LONGEST = 0.001, 1e9
# The formats of tables that Spark writes.
FORMATS = ("parquet", "csv", "json")
_FOR_PROGRAMS = ("json", "csv")
# The masters that Spark takes; Spark itself would complain only after its start.
_MASTER = re.compile(r"local(\[(0*[1-9]\d*|\*)(,\d+)?\]|-cluster\[\d+,\d+,\d+\])?$|(spark|k8s)://|yarn$")


def _of_spark(seconds: float) -> str:
    """Returns a length of time in Spark's notation, in whole milliseconds. Errors: InvalidValue."""
    if seconds > _LONGEST:
        raise InvalidValue("is too long")
    return f"{round(seconds * 1000)} milliseconds"


# Lengths of time, for Spark; the watermark of a stream may be nothing.
WINDOW = of_kind(at_least(_SHORTEST), "10m, or 90s", metavar="DURATION", made=_of_spark)
WATERMARK = of_kind(SECONDS, "10m, 90s or 0s", metavar="DURATION", made=_of_spark)


def completing(*names: str) -> Callable[..., list[CompletionItem]]:
    """Returns a shell completion that offers these values."""
    return lambda _context, _param, begun: beginning_with(begun, names)


def _setting(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise click.BadParameter(f"{name!r} is no setting; right would be --conf spark.executor.memory=2g")
    return {name: value for name, _, value in pairs}


def _master(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if not _MASTER.match(value) or not _has_address(value):
        raise click.BadParameter(f"{value!r} is no master; right would be local[*], local[2] or spark://HOST:PORT")
    return value


def _has_address(value: str) -> bool:
    """True for a master without an address (local, yarn), and for one whose addresses all have a host and a port."""
    try:
        masters.addresses(value)
    except masters.NoMaster:
        return False
    return True


def choosing(of: Sequence[str]) -> Callable[..., tuple[str, ...]]:
    """Returns the callback of an option that takes some of these names, separated by commas."""

    def chosen(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        for name in names:
            if name not in of:
                raise click.BadParameter(f"{name!r} is nothing to ask by; {right_would_be(name, of)}")
        return names

    return chosen


class Engine(StrEnum):
    """What runs a question: the embedded engine, beside this process and without Java, or Spark."""

    AUTO = "auto"
    EMBEDDED = "embedded"
    SPARK = "spark"


class Where(NamedTuple):
    """Where a question runs, as its options say."""

    engine: Engine
    master: str
    conf: dict[str, str]

    @property
    def is_spark(self) -> bool:
        """True if only Spark does: by its name, by options of its own, or because `spark-submit` runs this process."""
        own = self.master != _HERE or bool(self.conf) or _SUBMITTED in os.environ
        return self.engine is Engine.SPARK or (self.engine is Engine.AUTO and own)

    def check(self) -> None:
        """Errors: MissingPackages; ClickException if Spark is asked for, and there is no Java; UsageError for Spark's
        options on the embedded engine, and for a master that can't be reached.
        """
        extras.check("analysis")
        if self.engine is Engine.EMBEDDED and (self.master != _HERE or self.conf):
            raise click.UsageError("--master and --conf are Spark's: right would be --engine spark")
        if self.is_spark:
            check_spark()

    def is_embedded(self, places: Sequence[Place]) -> bool:
        """True if the embedded engine answers about these captures.

        Errors: UsageError for a capture that only Spark reaches; ClickException where Java is missing.
        """
        are_reached = all(place.files is not None for place in places)
        are_small = are_reached and sum(place.size for place in places) <= min(SMALL, _memory() // MEMORY_FACTOR)
        # a capture in a bucket is copied for the embedded engine
        is_copied = any(is_url(place.folder) for place in places)
        if self.engine is Engine.EMBEDDED:
            _check_embedded(are_reached, are_small or not is_copied)
            return True
        if self.is_spark:
            return False
        from recorder.analysis.embedded_server import can_leave_network
        from recorder.analysis.java import missing

        # nobody else may reach an engine that was not asked for by its name
        may_be = are_reached and (are_small or not is_copied) and can_leave_network()
        if may_be and are_small:
            return True
        lack = missing()
        if lack and may_be:
            say(f"the embedded engine answers: {lack}", err=True)
            return True
        if lack:
            raise click.ClickException(f"{lack}; or --engine embedded" if are_reached and not is_copied else lack)
        return False


def _check_embedded(are_reached: bool, are_taken: bool) -> None:
    """Checks that the embedded engine, asked for by its name, can have the captures. Errors: UsageError."""
    if not are_reached:
        raise click.UsageError("behind this URL only Spark finds a capture: right would be --engine spark")
    if not are_taken:
        raise click.UsageError("the capture is too large to be copied here: right would be --engine spark")


def _memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# the master that is meant unless another one is given
_HERE = "local[*]"
# set by `spark-submit`
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
# Bytes of Parquet of frames up to which the embedded engine answers sooner than Spark, with hardly more memory
# (docs/performance.md).
SMALL = 1_000_000_000
# A report's memory on the embedded engine is about five times these bytes; it may take half of the machine's.
MEMORY_FACTOR = 10

_ENGINE = click.option(
    "--engine",
    type=click.Choice([engine.value for engine in Engine]),
    default=Engine.AUTO.value,
    show_default=True,
    envvar=ENGINE_VARIABLE,
    show_envvar=True,
    help="What answers: the embedded engine, which needs no Java, or Spark. auto: embedded for a capture of up to "
    f"{SMALL // 10**6} MB (and a tenth of this machine's memory) on this machine or in an s3:// bucket, unless Spark's "
    "options are given.",
)
_SPARK = (
    click.option(
        "--master",
        default=_HERE,
        show_default=True,
        callback=_master,
        type=text,
        shell_complete=completing("local[*]", "local[2]", "local-cluster[2,1,1024]", "spark://"),
        help="Where Spark runs: local[N], local[*], local-cluster[N,CORES,MIB], or a cluster: spark://HOST:PORT.",
    ),
    click.option(
        "--conf",
        multiple=True,
        callback=_setting,
        type=text,
        metavar="NAME=VALUE",
        help="A Spark setting. Repeatable. Lists of processes show it, so put no secrets here.",
    ),
)


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say where and how Spark runs."""
    for option in reversed(_SPARK):
        command = option(command)
    return command


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say which engine answers, and how Spark runs. The command gets them as `where`."""

    @wraps(command)
    def run(*arguments: Any, engine: str, master: str, conf: dict[str, str], **options: Any) -> None:
        command(*arguments, where=Where(Engine(engine), master, conf), **options)

    return _ENGINE(spark_options(run))


def check_spark() -> None:
    """Checks that Spark can run here. Errors: MissingPackages; ClickException if this machine lacks Java."""
    extras.check("analysis")
    from recorder.analysis.java import missing

    lack = missing()
    if lack:
        raise click.ClickException(lack)


def place_of(folder: str, where: Where, *, facts: bool = True) -> tuple[Place, list[str]]:
    """Returns the capture's place, with its frames compacted, and notes on what is missing.

    `facts`: whether the question's tables stand on facts; missing ones are made.
    Errors: UsageError for an unreachable master, before anything is written; NoCapture; as of `Where.is_embedded`.
    """
    ((found, notes),) = places_of([folder], where, facts=facts)
    return found, notes


def places_of(folders: Sequence[str], where: Where, *, facts: bool = True) -> list[tuple[Place, list[str]]]:
    """As `place_of`, of several captures that one engine is asked about."""
    check_reached(where.master)
    from recorder.analysis.place import Place

    found = []
    for folder in map(for_executors, folders):
        notes = ready(Path(folder)) if not is_url(folder) else [URL_NOTE]
        found.append((Place(folder, where.master, where.conf, _files(folder)), notes))
    places = [place for place, _ in found]
    is_embedded = where.is_embedded(places)
    if is_embedded:
        _begin_engine()
    for place in places:
        place.is_embedded = is_embedded
        if facts and place.files is not None:
            place.facts = _facts_of(place)
        if is_embedded and is_url(place.folder):
            _copy_here(place)
    return found


def _copy_here(place: Place) -> None:
    """Copies a capture's files from a bucket, for as long as the process lives: the embedded engine has no network.

    Errors: NoCapture.
    """
    from recorder.capture.remote import copied
    from recorder.facts_at_hand import temporary_folder

    with console(stderr=True).status("copying the capture ..."):
        try:
            paths = copied(place.files or {}, place.folder, temporary_folder())
        except OSError as error:
            raise NoCapture(f"{printable(place.folder)} can't be copied here: {printable(reason_of(error))}") from error
    place.files = {table: [paths[file] for file in names] for table, names in (place.files or {}).items()}
    place.facts = {paths[file]: facts for file, facts in place.facts.items()}


def _begin_engine() -> None:
    """Starts the embedded engine for the command's session; ends it with the command if it opens none."""
    from recorder.analysis import embedded_process

    embedded_process.begin()
    click.get_current_context().call_on_close(embedded_process.forget)


def _facts_of(place: Place) -> dict[str, Mapping[str, str]]:
    """Returns the facts of the capture's files; makes the missing ones of a folder, and says so on a terminal."""
    from recorder.analysis.job import is_local
    from recorder.facts_at_hand import facts_at_hand

    # the executors of a cluster reach what is in the capture, and no cache of this machine
    is_here = place.is_embedded or is_local(place.master)
    make = place.is_embedded or not is_url(place.folder)
    found = facts_at_hand(place_at(place.folder), with_cache=is_here, make=make)
    # scripts may merge both outputs
    if found.made and console(stderr=True).is_terminal:
        console(stderr=True).print(cell(found.made, style="dim"))
    return dict(found.files)


def check_reached(asked: str) -> None:
    """Errors: UsageError if a standalone cluster's master can't be reached."""
    try:
        masters.check(asked)
    except masters.NoMaster as error:
        why = f"no Spark master answers at {printable(error)}"
        raise click.UsageError(f"{why}; right would be the address that its web page shows, or local[*]") from error


def _files(folder: str) -> dict[str, list[str]] | None:
    """Returns the capture's files by table; None if only Spark can list them. Errors: NoCapture."""
    if is_url(folder) and not folder.startswith(SCHEME):
        return None
    from recorder.analysis.scan import files_in

    try:
        found = files_in(folder)
    except (OSError, UnknownFormatError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else error
        raise NoCapture(f"{printable(folder)} can't be read: {printable(str(reason))}") from error
    if not found[FRAMES_FOLDER]:
        raise NoCapture(f"{printable(folder)} holds no frames: right would be s3://BUCKET/FOLDER with a frames folder")
    return found


def for_executors(place: str) -> str:
    """Returns an absolute path, because executors may run in another folder. A URL stays as it is.

    Errors: UsageError for a name that is not UTF-8, which Java can't open.
    """
    try:
        place.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{place!r}: Spark takes no name that is not UTF-8") from None
    return place if is_url(place) else str(Path(place).absolute())


def ns_of(moment: Any, place: Place) -> int | None:
    """Returns a `--since` or `--until` in ns since 1970; None if the option is not set.

    Errors: UsageError for a time relative to the last frame, if only Spark can list the files; ClickException if the
    last frame can't be read.
    """
    if moment is None:
        return None
    from recorder.capture.reader import last_ns

    if place.files is None and moment.ns is None:
        raise click.UsageError("behind a URL the last frame's time is not known; right would be 2026-11-21T13:48")
    try:
        found: int = moment.resolved(lambda: last_ns(place_at(place.folder)))
    except (DamagedFileError, UnknownFormatError, OverBudget, OSError) as error:
        raise click.ClickException(f"{printable(str(error))}; without it the last frame's time is not known") from error
    return found


def say_begun(*places: Place, printed: str | None = None) -> None:
    """Says on standard error which engine reads these captures.

    `printed`: the format of standard output. Nothing is said beside json and csv, as scripts may merge both outputs.
    """
    if printed in _FOR_PROGRAMS:
        return
    is_embedded = places[0].is_embedded
    if console(stderr=True).is_terminal:
        engine = "the embedded engine answers" if is_embedded else f"Spark answers, at {printable(places[0].master)}"
        console(stderr=True).print(cell(engine, style="dim"))
        return
    named = " and ".join(printable(place.folder) for place in places)
    engine = "the embedded engine" if is_embedded else "Spark; this takes from half a minute to some minutes"
    say(f"reading {named} with {engine}", err=True)


def end_with(broken: Mapping[str, str]) -> None:
    """Names the unreadable files, each with its reason. Exits with code 1 if there are any."""
    for file, why in broken.items():
        echo(f"Error: left out: {file} can't be read: {why}", err=True)
    if broken:
        sys.exit(1)

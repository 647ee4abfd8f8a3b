"""The recorder's commands, for `kafka-wiretap` to add to its own: compact, inspect, analyze, demo.

Each command reads its options, makes one call and prints. Optional packages (pyspark, the demo's clients) are imported
inside the command that needs them, so that the others work without.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from proxy.command_line import beginning_with, folders, text
from proxy.terminal import echo, printable
from recorder.capture.frames import FRAMES_FOLDER
from recorder.inspect.commands import inspect
from recorder.missing import missing_table
from recorder.ready import ready, troubles
from recorder.replay.commands import Reports, replay
from recorder.report import files
from recorder.terminal import console, count, size

FOLDER = click.Path(path_type=Path, file_okay=False)
# Bytes of Parquet that are read faster than a JVM warms up.
SMALL_CAPTURE = 200_000_000
# The note on a capture that only Spark can reach.
_URL_NOTE = "not looked for behind a URL: what a log holds that is not compacted yet"
# The durations that Spark's windows take; Spark itself would complain only after its start, in many lines.
_DURATION = re.compile(r"\s*0*[1-9][0-9]{0,8}\s+(second|minute|hour|day|week)s?\s*", re.IGNORECASE)
# The masters that Spark takes; Spark itself would complain only after its start.
_MASTER = re.compile(r"local(\[|-cluster\[|$)|(spark|k8s)://|yarn$")


@click.command(short_help="Make Parquet of what a proxy that has ended left in its log.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
def compact(folder: Path) -> None:
    """Make Parquet of everything in FOLDER that no running proxy is still writing.

    The proxy does this itself while it runs; this is for what a crash left behind. `inspect` and `analyze` do it too.
    Exit code 1 where a session can't be compacted, or has lost a part of its log: each is named, and keeps no other
    from being compacted.
    """
    from recorder.capture.compactor import compact as run

    try:
        done = run(folder)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    if done.sessions or done.frames:
        what = f"{count(done.frames, 'frame')}, {size(done.bytes)}"
        echo(f"compacted {count(len(done.sessions), 'session')}: {what}")
    elif not (done.live or done.busy or done.failed):
        echo("nothing to compact")
    for name in done.live:
        echo(f"session {name} is still being recorded: its closed segments are done")
    for name in done.busy:
        echo(f"session {name} is being compacted by another process")
    for trouble in troubles(done):
        echo(f"Error: {trouble}", err=True)
    if troubles(done):
        sys.exit(1)


def _completing(*names: str) -> Callable[..., list[CompletionItem]]:
    """A shell completion with these values."""
    return lambda _context, _param, begun: beginning_with(begun, names)


def _setting(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise click.BadParameter(f"{name!r} is no setting; right would be --conf spark.executor.memory=2g")
    return {name: value for name, _, value in pairs}


def _duration(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _DURATION.fullmatch(value):
        raise click.BadParameter(f'{value!r} is no duration; right would be --window "1 minute"')
    return value


def _master(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if not _MASTER.match(value):
        raise click.BadParameter(f"{value!r} is no master; right would be local[*], local[2] or spark://HOST:PORT")
    return value


@click.command(short_help="Answer questions about a capture on Spark: latency and errors by API.")
@click.argument("folder", shell_complete=folders)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    callback=_master,
    type=text,
    shell_complete=_completing("local[*]", "local[2]", "local-cluster[2,1,1024]", "spark://"),
    help="Where Spark runs: local[N], local[*], local-cluster[N,CORES,MIB], or a cluster: spark://HOST:PORT.",
)
@click.option(
    "--conf", multiple=True, callback=_setting, type=text, metavar="NAME=VALUE", help="A Spark setting. Repeatable."
)
@click.option(
    "--window",
    callback=_duration,
    metavar="DURATION",
    shell_complete=_completing("10 seconds", "1 minute", "5 minutes", "1 hour"),
    help='Answer for each stretch of time, such as "1 minute".',
)
@click.option("--out", metavar="DIR", shell_complete=folders, help="Write the tables here too, one folder each.")
@click.option("--format", "kind", type=click.Choice(["parquet", "csv"]), default="parquet", show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace tables that are in DIR already.")
def analyze(
    folder: str, master: str, conf: dict[str, str], window: str | None, out: str | None, kind: str, overwrite: bool
) -> None:
    """Requests, errors, bytes and latency percentiles of the capture in FOLDER, by API, worked out by Spark.

    What is missing comes first: gaps, what was left out, and which share of the responses could be read. Long polls
    that may have waited (a Fetch at a log's end, members that join a group) have rows of their own: "Fetch, waiting".

    FOLDER is a path, or a URL that every executor can read (hdfs:, s3a:, ...). What is not compacted yet is compacted
    first. Needs Java 17 or newer.

    Tested are masters on this machine (local, local-cluster). Workers on other machines need the folder under the same
    path or URL, and the Python version that runs here, with pyarrow; this package is sent to them.

    \b
    On this machine:           kafka-wiretap analyze capture
    Per minute, kept as CSV:   kafka-wiretap analyze capture --window "1 minute" --out tables --format csv
    On a cluster:              kafka-wiretap analyze hdfs:///capture --master spark://host:7077
    """
    from recorder.analysis.java import missing

    lack = missing()
    if lack:
        raise click.ClickException(lack)
    screen = console()
    folder, out = _for_executors(folder), _for_executors(out) if out else None
    notes = ready(Path(folder)) if "://" not in folder else [_URL_NOTE]
    files = _files(folder) if "://" not in folder else None
    if out and not overwrite:
        _check_free(out)
    with console(stderr=True).status("Spark is starting and reading the capture ..."):
        found = _analyzed(folder, master, conf, window, out, kind, overwrite, files)
    _show(screen, found, notes)
    if out:
        echo()
        echo(f"tables written to {printable(out)}")


def _files(folder: str) -> dict[str, list[str]]:
    """The capture's files by table; `ready` has refused strange ones."""
    from recorder.capture.partitions import KINDS
    from recorder.capture.reader import files

    return {kind: [str(file.path) for file in files(Path(folder), kind)] for kind in KINDS}


def _analyzed(
    folder: str,
    master: str,
    conf: dict[str, str],
    window: str | None,
    out: str | None,
    kind: str,
    overwrite: bool,
    files: dict[str, list[str]] | None,
) -> Any:
    import tempfile

    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from recorder.analysis import job
    from recorder.analysis.report import Output, report

    # SIGTERM works like Ctrl-C: no process and no file is left behind
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output = Output(out, kind, overwrite) if out else None
    with tempfile.NamedTemporaryFile(prefix="kafka-wiretap-spark-", suffix=".log", delete=False) as log:
        path = Path(log.name)
    try:
        with job.session(master, extra=conf, log=path, quick=_small(files)) as spark, _as_click_errors(path):
            found = report(spark, folder, files, window=window, output=output)
    except (PySparkException, Py4JError) as error:  # no session was opened, for example because the master is not there
        raise click.ClickException(f"Spark did not start: {_reason(error)} (its log: {path})") from error
    except KeyboardInterrupt:
        path.unlink()
        raise
    path.unlink()
    return found


def _small(files: dict[str, list[str]] | None) -> bool:
    """True for a capture of few bytes; one behind a URL may be of any size."""
    return files is not None and sum(Path(file).stat().st_size for file in files[FRAMES_FOLDER]) < SMALL_CAPTURE


@contextmanager
def _as_click_errors(log: Path) -> Iterator[None]:
    """Turns Spark's exceptions into one line; they can only be read while the session is open."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise click.ClickException(f"Spark failed: {_reason(error)} (its log: {log})") from error


def _reason(error: Exception) -> str:
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip() and line[0] not in " \t"]
    thrown = bool(lines) and "exception was thrown" in lines[0]  # in Python: the last line says which
    # in Java: behind the name of the method that was called
    called = len(lines) > 1 and lines[0].startswith("An error occurred while calling")
    return (lines or ["no reason given"])[-1 if thrown else int(called)]


def _for_executors(place: str) -> str:
    """An absolute path, because executors may run in another folder. Java's file names must be UTF-8."""
    try:
        place.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{place!r}: Spark takes no name that is not UTF-8") from None
    return place if "://" in place else str(Path(place).absolute())


def _check_free(out: str) -> None:
    try:
        is_taken = "://" not in out and any(Path(out).glob("*_by_*"))
    except OSError as error:
        raise click.UsageError(f"{out} can't be looked into: {error.strerror}") from error
    if is_taken:
        raise click.UsageError(f"{printable(out)} holds tables already: --overwrite replaces them")


def _show(screen: Any, found: Any, notes: list[str]) -> None:
    """Shows the losses first, then how many responses could be read: no count is right without them."""
    from recorder.analysis import screen as tables

    wide = screen.width
    screen.print(missing_table(replace(found.missing, notes=notes), wide))
    for line in tables.coverage(found.coverage_by_api, wide):
        screen.print(line)
    screen.print()
    screen.print(tables.latency_table(found.latency_by_api, wide))
    screen.print()
    if found.errors_by_api:
        screen.print(tables.errors_table(found.errors_by_api, wide))
    else:
        screen.print(tables.no_errors(found.coverage_by_api))


@click.command(short_help="Show it all: a small cluster, clients, the proxy, a capture, an analysis.")
@click.option("--folder", type=FOLDER, help="Where the capture goes. Default: a new folder capture-demo-<time> here.")
def demo(folder: Path | None) -> None:
    """The whole way on this machine, in less than a minute: clients, proxy, cluster, capture, Spark.

    Nothing to prepare: the cluster is librdkafka's mock of three brokers, everything listens on loopback, and
    everything but the capture is gone afterwards (Ctrl-C too). Exit code 1 where Java is missing for the analysis.
    """
    from recorder.demo.run import run

    sys.exit(run(folder))


replay.context_settings["obj"] = Reports(files.check, files.write)
COMMANDS: dict[str, click.Command] = {
    "analyze": analyze,
    "compact": compact,
    "demo": demo,
    "inspect": inspect,
    "replay": replay,
}

"""`kafka-wiretap stream`: writes latency and errors of a capture window by window, while the capture is recorded.

Options become a `Streamed`. Modules that need Spark are imported after the options have been checked.
"""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import click
from rich.status import Status

from proxy.command_line import IMPATIENT, ending_signals, folders, interrupt
from proxy.terminal import echo, printable
from proxy.units import TIMES
from recorder.capture.frames import FRAMES_FOLDER
from recorder.capture.remote import SCHEME, is_url
from recorder.capture.session import SPOOL_FOLDER
from recorder.ready import NoCapture, check_is_capture, ready
from recorder.spark_options import (
    FORMATS,
    WATERMARK,
    WINDOW,
    check_reached,
    check_spark,
    choosing,
    for_executors,
    spark_options,
)
from recorder.terminal import console, count, say

# Columns that a stream can group by: frames have them without their bodies.
BY = ("api", "version", "client_id", "principal", "node")
CHECKPOINT = "_checkpoint"
# Spark reads these characters in a stream's path as glob patterns.
_PATTERN = re.compile(r"[*?\[\]{}\\]")
# Seconds between two checks for the first segment.
_LOOK = 1


def _as_option(span: str) -> str:
    """Returns a duration of WINDOW in the option's notation, such as 90s or 10m."""
    length = int(span.split()[0])
    if not length:
        return "0s"
    unit = next(name for name in ("d", "h", "m", "s", "ms") if not length % round(TIMES[name] * 1000))
    return f"{length // round(TIMES[unit] * 1000)}{unit}"


@click.command(short_help="Latency and errors of a capture while it is recorded, window by window, as files.")
@click.argument("folder", shell_complete=folders)
@click.option("--output", "-o", required=True, metavar="DIR", shell_complete=folders, help="A folder for each table.")
@click.option(
    "--checkpoint",
    metavar="DIR",
    shell_complete=folders,
    help=f"Where the stream keeps its progress. Default: {CHECKPOINT} in the output.",
)
@click.option("--window", default="1m", show_default=True, type=WINDOW, help="The length of a window.")
@click.option(
    "--watermark",
    default="10m",
    show_default=True,
    type=WATERMARK,
    help="How long a window waits for late segments. While a proxy records: longer than its segment_age and lag.",
)
@click.option(
    "--by",
    default="api",
    show_default=True,
    callback=choosing(BY),
    metavar="NAMES",
    help=f"Group answers by these: {', '.join(BY)}.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="parquet",
    show_default=True,
    help="The format of the files.",
)
@click.option(
    "--trigger", default="10s", show_default=True, type=WINDOW, help="The time between two looks for segments."
)
@click.option("--once", is_flag=True, help="Read what is there, and end: for cron.")
@spark_options
def stream(
    folder: str,
    output: str,
    checkpoint: str | None,
    window: str,
    watermark: str,
    by: tuple[str, ...],
    form: str,
    trigger: str,
    once: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Write latency and errors of the capture in FOLDER by window, each window once, while a proxy records.

    DIR/latency_by_api and DIR/errors_by_api have the columns of `analyze --out`, without `unanswered` and `flow`. A
    window is written when exchanges have come that are newer than its end by the watermark. Exchanges that come later
    for it are counted and left out. Ctrl-C, a kill or a crash lose nothing: the same command goes on from the
    checkpoint, and ends with the same files. Read the files with Spark, which knows from DIR's logs which ones count.

    \b
    While it is recorded:  kafka-wiretap stream capture --output windows
    Every hour, by cron:   kafka-wiretap stream capture --output windows --once
    By client:             kafka-wiretap stream capture --output windows --by api,client_id --format json
    """
    place, output = for_executors(folder), for_executors(output)
    checkpoint = for_executors(checkpoint) if checkpoint else f"{output.rstrip('/')}/{CHECKPOINT}"
    for one in (place, output, checkpoint):
        _check_scheme(one)
    _check_folder(place)
    _check_apart(place, output, checkpoint)
    check_spark()
    check_reached(master)
    from recorder.analysis.group_and_filter import BY as COLUMNS
    from recorder.analysis.streaming import Streamed

    every = None if once else trigger
    asked = Streamed(place, output, checkpoint, tuple(COLUMNS[name] for name in by), window, watermark, form, every)
    try:
        with _claim_of(asked, by) as claim:
            claim()
            for line in _start_lines(asked, by):
                say(line, err=True)
            has_segments = _has_segments(place, once=once)
            claim(write=True)
            if not has_segments:
                _await_first_segment(place)
            is_stopped = _run(asked, by, master, conf)
    except KeyboardInterrupt:
        is_stopped = True
    if is_stopped:
        echo(f"stopped: the same command goes on from {printable(checkpoint)}", err=True)


def _check_scheme(place: str) -> None:
    if place.startswith(SCHEME):
        right = f"s3a://{printable(place.removeprefix(SCHEME))}"
        raise click.UsageError(
            f"a stream's buckets are read and written by Spark's own file system: right would be {right}"
        )


def _check_folder(place: str) -> None:
    if is_url(place):
        return
    if _PATTERN.search(place):
        raise click.UsageError(f"{printable(place)}: Spark takes brackets, braces, * and ? in a path for patterns")
    check_is_capture(Path(place))


def _check_apart(place: str, *written: str) -> None:
    """Errors: UsageError for output within the capture, which the stream would read as input."""
    for one in written:
        is_here = not (is_url(place) or is_url(one))
        if is_here and Path(one).resolve().is_relative_to(Path(place).resolve()):
            raise click.UsageError(f"{printable(one)} is within the capture: right would be a folder beside it")


@contextmanager
def _claim_of(asked: Any, by: tuple[str, ...]) -> Iterator[Callable[..., None]]:
    """Yields a function that claims checkpoint and output for this stream and process; the block's end unlocks them.

    A call without `write` checks, and locks the folders that exist. A call with `write=True` also creates them and
    writes the owner file. Folders behind URLs are neither checked nor locked. Errors name the options with which the
    existing stream would continue.
    """
    from recorder.analysis.checkpoint import StreamLocks, WrongCheckpoint, claim
    from recorder.analysis.streaming import FORM, QUESTIONS

    facts = {
        "FOLDER": asked.folder,
        "--output": asked.output,
        "--window": _as_option(asked.window),
        "--by": list(by),
        "--format": asked.form,
    }
    tables = {name: Path(asked.output) / name for name in QUESTIONS if not is_url(asked.output)}
    locks = StreamLocks(Path(place) for place in (asked.output, asked.checkpoint) if not is_url(place))

    def claimed(*, write: bool = False) -> None:
        try:
            if write:
                locks.take(make=True)
            if not is_url(asked.checkpoint):
                claim(Path(asked.checkpoint), facts, tables, form=FORM, write=write)
            # after the check, because `claim` must leave nothing in a folder that it refuses
            locks.take(make=False)
        except WrongCheckpoint as error:
            raise click.UsageError(printable(str(error))) from error
        except OSError as error:
            where = error.filename or asked.checkpoint
            raise click.UsageError(f"{printable(where)} can't be written: {error.strerror}") from error

    try:
        yield claimed
    finally:
        locks.release()


def _has_segments(place: str, *, once: bool) -> bool:
    """Compacts the spools of finished sessions. Returns False if a running proxy has not published a segment yet."""
    if is_url(place):
        return True
    try:
        ready(Path(place))
    except NoCapture as error:
        if once or (Path(place) / FRAMES_FOLDER).is_dir() or not (Path(place) / SPOOL_FOLDER).is_dir():
            raise
        echo(f"{error.message}: waiting for the first segment", err=True)
        return False
    return True


def _await_first_segment(place: str) -> None:
    while not (Path(place) / FRAMES_FOLDER).is_dir():
        time.sleep(_LOOK)


def _run(asked: Any, by: tuple[str, ...], master: str, conf: dict[str, str]) -> bool:
    """Runs the stream. Returns True if a signal has ended it."""
    from recorder.analysis.running import interrupted_by, opened
    from recorder.analysis.store import blamed
    from recorder.analysis.streaming import SETTINGS, run

    with (
        console(stderr=True).status("Spark is starting ...") as status,
        opened(master, {**SETTINGS, **conf}, quick=is_soon_over(asked)) as spark,
        _signals() as stop,
        interrupted_by(stop),
    ):
        _check_stores(spark, asked)
        status.update("Spark is reading the segments that are there ...")
        with blamed(spark, (asked.folder, asked.output, asked.checkpoint)):
            newest = tell_all(run(spark, asked, stop), status, is_once=asked.every is None)
    if asked.every is None and not stop.is_set():
        tell_held(newest, asked, by)
    return stop.is_set()


def is_soon_over(asked: Any) -> bool:
    """True for one look at a small capture: it ends before the JVM's second compiler has paid for itself."""
    from recorder.analysis.place import Place
    from recorder.analysis.running import SMALL_CAPTURE
    from recorder.analysis.scan import files_in

    if asked.every is not None or is_url(asked.folder):
        return False
    return Place(asked.folder, files=files_in(asked.folder)).size < SMALL_CAPTURE


def tell_all(batches: Iterable[Any], status: Status, *, is_once: bool) -> list[Any]:
    """Prints what each batch (a `Progress`) wrote and left out, as it arrives. Returns each table's newest.

    `status`: the terminal's status line until the first output line.
    `is_once`: at the end, also report tables without written rows, because silence would look like success.
    """
    late = 0
    last: dict[str, Any] = {}
    named: set[str] = set()
    for told in batches:
        late += told.late
        last[told.table] = told
        if told.written or told.late:
            status.stop()
            say(_line(told), err=True)
            named.add(told.table)
        elif not named:
            status.update(f"no window is over yet: {count(told.held, 'row')} wait for the watermark ...")
    status.stop()
    if is_once and not last:
        say("nothing new: no segment has come since the last look; the windows held back then still are", err=True)
    for told in last.values():
        if is_once and told.table not in named:
            say(_line(told), err=True)
    if late:
        say(f"left out because they came late: {_late(late)}; a longer --watermark waits for them", err=True)
    return [*last.values()]


def tell_held(newest: Iterable[Any], asked: Any, by: tuple[str, ...]) -> None:
    """Prints which windows the watermark holds back at the end of one look, and how to get them.

    They stay unwritten, because a later look may find more of their exchanges, and each window is written once.
    """
    held = [told for told in newest if told.held]
    if not held:
        return
    rows = " and ".join(f"{count(told.held, 'row')} of {told.table}" for told in held)
    after = min(told.watermark for told in held)
    say(f"held back by the watermark: {rows}, of windows that end after {_clock(after)}", err=True)
    say(f"A later look writes them when traffic has come that is {_newer(asked)}. If the recording is over:", err=True)
    grouped = "" if by == ("api",) else f" --by {','.join(by)}"
    options = f"--window {_as_option(asked.window)}{grouped} --out DIR"
    echo(f"  kafka-wiretap analyze {shlex.quote(asked.folder)} {options}", err=True)


def _check_stores(spark: Any, asked: Any) -> None:
    """Errors: UsageError for a store that does not answer, or a capture's URL without frames."""
    from recorder.analysis.store import check_answers, check_found

    if is_url(asked.folder):
        check_found(spark, asked.folder, FRAMES_FOLDER)
    for place in (asked.output, asked.checkpoint):
        if is_url(place):
            check_answers(spark, place)


@contextmanager
def _signals() -> Iterator[Event]:
    """Yields an event that the first Ctrl-C, or signal like it, sets. A second Ctrl-C raises KeyboardInterrupt.

    This replaces Spark's own handler, which calls into the JVM at any moment.
    """
    stop = Event()

    def asked(_number: int, _frame: Any) -> None:
        for one in before:
            signal.signal(one, interrupt if one in IMPATIENT else signal.SIG_IGN)
        stop.set()

    before = {one: signal.getsignal(one) for one in ending_signals()}
    for one in before:
        signal.signal(one, asked)
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _start_lines(asked: Any, by: tuple[str, ...]) -> Iterator[str]:
    """Yields the first lines of output. Spark may take half a minute to start, and the first window much longer."""
    from recorder.analysis.streaming import QUESTIONS

    yield f"starting a stream of {printable(asked.folder)} to {printable(asked.output)}"
    yield f"{', '.join(QUESTIONS)} by {', '.join(by)} in windows of {_as_option(asked.window)}"
    yield f"a window is written when traffic has come that is {_newer(asked)} than its end"


def _newer(asked: Any) -> str:
    """Returns by how much traffic must be newer than a window's end: "10m newer"."""
    later = int(asked.watermark.split()[0])
    return f"{_as_option(asked.watermark)} newer" if later else "newer"


def _line(told: Any) -> str:
    at = f"{datetime.now(UTC):%H:%M:%S}"
    late = f"; too late: {_late(told.late)}" if told.late else ""
    held = f"{count(told.held)} wait; watermark: {_clock(told.watermark)}"
    return f"{at}  {told.table}: {count(told.written, 'row')} written, {held}{late}"


def _clock(watermark: str) -> str:
    """Returns Spark's notation of a watermark as UTC, to the second."""
    return f"{watermark[:19].replace('T', ' ')} UTC"


def _late(rows: int) -> str:
    return f"exchanges of {count(rows, 'row')} of windows that are written"

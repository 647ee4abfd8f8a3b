"""Runs a question about a capture in a Spark session of its own, and translates Spark's errors.

Each error becomes one line. A question that Spark rejects is a usage error (exit code 2). An unreadable Parquet file is
left out, and the question is asked again: the caller names such files, and exits with 1.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import click
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from proxy.command_line import ending_signals, interrupt
from proxy.similar import right_would_be
from recorder.analysis import embedded, job
from recorder.analysis.bodies import Captured, FactFiles
from recorder.analysis.group_and_filter import NoMatch
from recorder.analysis.place import Files, Place
from recorder.analysis.scan import files_in
from recorder.analysis.sources import SOURCES, captured
from recorder.analysis.store import StoreGone, check_found
from recorder.capture.frames import FRAMES_FOLDER, REMOVED_MEANWHILE
from recorder.capture.remote import SCHEME, is_url, reason_of
from recorder.terminal import count, measured

# SMALL_CAPTURE: bytes of Parquet up to which the JVM's second compiler does not pay for itself (measured up to 0.8 GB).
# TINY_CAPTURE: bytes that a single task reads in less time than Spark needs to plan several.
SMALL_CAPTURE, TINY_CAPTURE = 1_000_000_000, 4_000_000
# The SQLSTATE at the end of Spark's messages.
_STATE = re.compile(r"\s*SQLSTATE: \w+.*")
# In Spark's log after it gave up a standalone cluster; the exception that it raises then is about something else.
_NO_MASTER = "All masters are unresponsive"
# Spark's message about a table that it does not know
_NO_TABLE = re.compile(r"The table or view (`.+`) cannot be found|Table or view not found: (\S+)")
# the embedded engine lists all signs that it knows
_EXPECTED = re.compile(r" expected '.*")
# the embedded engine's message about its memory
_NO_MEMORY = "Failed to allocate additional"
_NO_SPACE = os.strerror(errno.ENOSPC)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
# what gRPC says if nobody answers at the embedded engine's socket, or if nobody does any more
_UNAVAILABLE = "StatusCode.UNAVAILABLE"
Answer = TypeVar("Answer")


class EngineGone(click.ClickException):
    """The embedded engine's process has ended, and takes no further questions."""

    def __init__(self) -> None:
        super().__init__(
            "the embedded engine has ended: the machine may lack memory, or the question may be nested too deep; "
            "--engine spark may answer it"
        )


def ask(place: Place, question: Callable[[Captured], Answer]) -> Answer:
    """Returns the answer to a question. Errors: as of `opened`."""
    (answer,) = ask_each([(place, question)])
    return answer


def ask_each(questions: Sequence[tuple[Place, Callable[[Captured], Answer]]]) -> list[Answer]:
    """Returns the answers to questions about one capture each, in one session with the first place's settings.

    Errors: as of `opened`.
    """
    with session_for([place for place, _ in questions]) as answer:
        return [answer(place, question) for place, question in questions]


# answers a question about a capture
Ask = Callable[[Place, Callable[[Captured], Any]], Any]


@contextmanager
def session_for(places: Sequence[Place]) -> Iterator[Ask]:
    """Yields what answers questions about these captures, in one session with the first place's settings.

    Errors: as of `opened`.
    """
    # a single task computes each table of a tiny capture
    is_tiny, is_small = (all(place.size < size for place in places) for size in (TINY_CAPTURE, SMALL_CAPTURE))
    settings = {**(job.FEW_ROWS if is_tiny else {}), **places[0].conf}
    first = places[0]
    with opened_embedded() if first.is_embedded else opened(first.master, settings, quick=is_small) as spark:
        for place in places:
            if place.files is None and is_url(place.folder):
                check_found(spark, place.folder, FRAMES_FOLDER)
        yield lambda place, question: _answer(spark, place, question, is_tiny)


@contextmanager
def in_utc() -> Iterator[None]:
    """Within the block Python's local time is UTC: pyspark converts timestamps to local times without a zone."""
    own = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        if own is not None:
            os.environ["TZ"] = own
        time.tzset()


@contextmanager
def opened(master: str, settings: Mapping[str, str], *, quick: bool) -> Iterator[SparkSession]:
    """Yields a session. `settings`: Spark's settings, which win.

    Errors: ClickException in one line; UsageError for a question that Spark rejects.
    """
    _end_by_signals()
    with tempfile.NamedTemporaryFile(prefix="kafka-wiretap-spark-", suffix=".log", delete=False) as log:
        path = Path(log.name)
    try:
        with (
            in_utc(),
            job.session(master, extra=settings, log=path, quick=quick) as spark,
            as_click_errors(path),
            measured(partial(_how_far, spark)),
        ):
            yield spark
    except (PySparkException, Py4JError) as error:  # no session was opened, for example because the master is gone
        raise _not_started(master, _reason(error), path) from error
    except (KeyboardInterrupt, click.UsageError, StoreGone):
        path.unlink()
        raise
    path.unlink()


def _end_by_signals() -> None:
    """All signals that end the process work like Ctrl-C: no process and no file is left behind."""
    for number in ending_signals():
        signal.signal(number, interrupt)


@contextmanager
def opened_embedded() -> Iterator[SparkSession]:
    """Yields a session on the embedded engine. Errors: as of `opened`."""
    _end_by_signals()
    with in_utc(), as_click_errors(None, is_embedded=True), embedded.session() as spark:
        yield spark


def _how_far(spark: SparkSession) -> str:
    """The running stages and their tasks; nothing if Spark does not tell, as when it ends meanwhile."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
    except Exception:
        return ""
    if not stages:
        return "(Spark plans)"
    done, tasks = sum(one.numCompletedTasks for one in stages), sum(one.numTasks for one in stages)
    return f"(stage {max(one.stageId for one in stages)}: {done} of {count(tasks, 'task')})"


@contextmanager
def interrupted_by(stop: Event) -> Iterator[None]:
    """Turns Spark's errors into KeyboardInterrupt once `stop` is set.

    A service manager signals the JVM as well. If the JVM ends first, Spark's errors only mean that.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if stop.is_set():
            raise KeyboardInterrupt from error
        raise


def _not_started(master: str, reason: str, log: Path) -> click.ClickException:
    """Returns the error for a session that could not open. Spark's log tells whether a standalone master answered."""
    if _NO_MASTER in log.read_text(errors="replace"):
        right = f"right would be that of a master of Spark {pyspark.__version__}, as its web page shows it, or local[*]"
        return click.UsageError(f"no Spark master answers at {master}, though something listens; {right} (log: {log})")
    return click.ClickException(f"Spark did not start: {reason} (its log: {log})")


def _answer(spark: SparkSession, place: Place, question: Callable[[Captured], Answer], is_tiny: bool = False) -> Answer:
    while True:
        try:
            answer = question(captured(spark, place.folder, place.readable(), is_tiny=is_tiny, facts=place.facts))
            # the embedded engine takes a file that has gone for an empty one
            without_facts, gone = _without_facts("", place.facts), _gone(place)
            if not without_facts and not gone:
                return answer
            broken = None
        except FileNotFoundError:
            without_facts, gone, broken = _without_facts("", place.facts), _gone(place), None
            if not without_facts and not gone:
                raise
        except (PySparkException, Py4JError) as error:
            broken = _named(str(error), place.readable())
            without_facts, gone = _without_facts(str(error), place.facts), _gone(place)
            if broken is None and not without_facts and not gone:
                raise
            if broken is not None:
                _check_store(place)
                place.broken[broken] = _why(str(error), broken)
        for file in without_facts:
            del place.facts[file]
        place.broken |= dict.fromkeys(gone, REMOVED_MEANWHILE)
        if not place.is_embedded:
            spark.catalog.clearCache()


def _without_facts(text: str, facts: FactFiles) -> list[str]:
    """Returns the files of frames with facts that an error names, or that have gone: their frames are opened then."""
    return [file for file, tables in facts.items() if any(path in text or _has_gone(path) for path in tables.values())]


def _gone(place: Place) -> list[str]:
    """The files that retention, or somebody else, has removed since they were listed."""
    return [file for names in (place.readable() or {}).values() for file in names if _has_gone(file)]


def _has_gone(file: str) -> bool:
    return not file.startswith(SCHEME) and not os.path.exists(file)


def _check_store(place: Place) -> None:
    """After an unreadable file in a bucket, checks that the bucket can be listed. Errors: UsageError."""
    if place.folder.startswith(SCHEME):
        try:
            files_in(place.folder)
        except OSError as error:
            raise click.UsageError(f"{place.folder} can't be read any more: {reason_of(error)}") from error


def _named(text: str, files: Files | None) -> str | None:
    """Returns the capture's file that an error names as unreadable; None for any other error."""
    if "FAILED_READ_FILE" not in text and "can't be read" not in text and "CANNOT_READ_FILE_FOOTER" not in text:
        return None
    names = [name for table in (files or {}).values() for name in table]
    return next((name for name in names if name in text), None)


def _why(text: str, file: str) -> str:
    said = re.search(re.escape(file) + r" can't be read: ([^\n]*)", text)
    caused = re.findall(r"^Caused by: [\w.$]+: ([^\n]*)", text, re.MULTILINE)
    return said[1] if said else caused[-1] if caused else "Spark can't read it"


@contextmanager
def as_click_errors(log: Path | None, *, is_embedded: bool = False) -> Iterator[None]:
    """Turns Spark's exceptions into one line; their texts can only be read while the session is open.

    `log`: Spark's, if it will be kept.
    """
    try:
        yield
    except NoMatch as error:
        raise click.UsageError(str(error)) from error
    except (AnalysisException, ParseException) as error:
        # Sail takes that for a fault of the question
        if _NO_MEMORY in str(error):
            lack = "the embedded engine would need more memory than it may take; right would be --engine spark"
            raise click.ClickException(lack) from error
        raise click.UsageError(_question(error)) from error
    except (PySparkException, Py4JError) as error:
        if is_embedded and _UNAVAILABLE in str(error):
            raise EngineGone from error
        if _NO_SPACE in str(error):
            right = "right would be more room where the output goes, and temporary files (TMPDIR)"
            raise click.ClickException(f"a disk is full ({_NO_SPACE}); {right}") from error
        engine = "the embedded engine" if is_embedded else "Spark"
        more = "; --engine spark may know more" if is_embedded else f" (its log: {log})" if log else ""
        raise click.ClickException(f"{engine} failed: {_reason(error)}{more}") from error


def _question(error: Any) -> str:
    """Returns Spark's message about a wrong question, without Spark's error codes. Names similar tables."""
    first = str(error).strip().split("\n", 1)[0]
    if unknown := _NO_TABLE.search(first):
        name = (unknown[1] or unknown[2]).replace("`", "")
        return f"{name!r} is no table; {right_would_be(name, [*SOURCES])}"
    return _CONDITION.sub("", _STATE.sub("", _EXPECTED.sub("", first)))


def _reason(error: Exception) -> str:
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip() and line[0] not in " \t"]
    # an exception in Python: the last line names it
    thrown = bool(lines) and ("exception was thrown" in lines[0] or lines[0].startswith("Traceback"))
    # an exception in Java: it stands below the name of the called method
    called = len(lines) > 1 and lines[0].startswith("An error occurred while calling")
    return (lines or ["no reason given"])[-1 if thrown else int(called)]

"""A question asked of a capture in a Spark session of its own: how it starts, what its errors come to.

Spark's errors become one line each. A question that Spark does not understand is a usage error (exit code 2). A Parquet
file that can't be read is left out, and the question is asked again: the caller names these files, and exits with 1.
"""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from recorder.analysis import job
from recorder.analysis.asked import Nothing
from recorder.analysis.bodies import Captured
from recorder.analysis.sources import captured
from recorder.capture.frames import FRAMES_FOLDER

# Bytes of Parquet that are read faster than a JVM warms up.
SMALL_CAPTURE = 200_000_000
# Behind a message: what the message is called in the SQL standard
_STATE = re.compile(r"\s*SQLSTATE: \w+.*")
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
Files = Mapping[str, Sequence[str]]
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Place:
    """Where a capture is and Spark runs. `files`: the capture's, by table; None behind a URL.

    `broken`: files that could not be read, each with the reason, once a question has been asked.
    """

    folder: str
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    files: Files | None = None
    broken: dict[str, str] = field(default_factory=dict)

    def readable(self) -> Files | None:
        """The files that are not known to be broken."""
        if self.files is None:
            return None
        return {table: [one for one in names if one not in self.broken] for table, names in self.files.items()}


def ask(place: Place, question: Callable[[Captured], Answer]) -> Answer:
    """The answer to a question. Errors: ClickException, in one line, UsageError for a question that is wrong."""
    # SIGTERM works like Ctrl-C: no process and no file is left behind
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.NamedTemporaryFile(prefix="kafka-wiretap-spark-", suffix=".log", delete=False) as log:
        path = Path(log.name)
    try:
        with (
            job.session(place.master, extra=place.conf, log=path, quick=_is_small(place.files)) as spark,
            as_click_errors(path),
        ):
            found = _asked(spark, place, question)
    except (PySparkException, Py4JError) as error:  # no session was opened, for example because the master is not there
        raise click.ClickException(f"Spark did not start: {_reason(error)} (its log: {path})") from error
    except (KeyboardInterrupt, click.UsageError):
        path.unlink()
        raise
    path.unlink()
    return found


def _asked(spark: SparkSession, place: Place, question: Callable[[Captured], Answer]) -> Answer:
    while True:
        try:
            return question(captured(spark, place.folder, place.readable()))
        except (PySparkException, Py4JError) as error:
            broken = _named(str(error), place.readable())
            if broken is None:
                raise
            place.broken[broken] = _why(str(error), broken)
            spark.catalog.clearCache()


def _named(text: str, files: Files | None) -> str | None:
    """The file of the capture that an error names as the one that can't be read."""
    if "FAILED_READ_FILE" not in text and "can't be read" not in text and "CANNOT_READ_FILE_FOOTER" not in text:
        return None
    names = [name for table in (files or {}).values() for name in table]
    return next((name for name in names if name in text), None)


def _why(text: str, file: str) -> str:
    said = re.search(re.escape(file) + r" can't be read: ([^\n]*)", text)
    caused = re.findall(r"^Caused by: [\w.$]+: ([^\n]*)", text, re.MULTILINE)
    return said[1] if said else caused[-1] if caused else "Spark can't read it"


def _is_small(files: Files | None) -> bool:
    """True for a capture of few bytes; one behind a URL may be of any size."""
    return files is not None and sum(Path(file).stat().st_size for file in files[FRAMES_FOLDER]) < SMALL_CAPTURE


@contextmanager
def as_click_errors(log: Path) -> Iterator[None]:
    """Turns Spark's exceptions into one line; they can only be read while the session is open."""
    try:
        yield
    except Nothing as error:
        raise click.UsageError(str(error)) from error
    except (AnalysisException, ParseException) as error:
        raise click.UsageError(_question(error)) from error
    except (PySparkException, Py4JError) as error:
        raise click.ClickException(f"Spark failed: {_reason(error)} (its log: {log})") from error


def _question(error: Any) -> str:
    """What is wrong with a question, as Spark says it, without what Spark calls it."""
    first = str(error).strip().split("\n", 1)[0]
    return _CONDITION.sub("", _STATE.sub("", first))


def _reason(error: Exception) -> str:
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip() and line[0] not in " \t"]
    thrown = bool(lines) and "exception was thrown" in lines[0]  # in Python: the last line says which
    # in Java: behind the name of the method that was called
    called = len(lines) > 1 and lines[0].startswith("An error occurred while calling")
    return (lines or ["no reason given"])[-1 if thrown else int(called)]

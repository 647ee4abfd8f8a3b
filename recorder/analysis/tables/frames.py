"""The capture's `frames` and `events` as DataFrames: scans that read only the columns that a plan uses.

A plan without the column `frame` loads no bodies. The folders' `date=` and `hour=` become columns, and filters on them
prune whole files. The schema is given, not inferred: no footer is read twice, and a column that an older file lacks is
null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.bodies import by_workers
from recorder.analysis.scan import Wanted, frames_with_beginnings, plain_rows, within
from recorder.analysis.table_cache import kept
from recorder.capture.frames import EVENT_COLUMNS, EVENTS_FOLDER, FRAME_COLUMNS, FRAMES_FOLDER
from recorder.facts.answers import fixed
from recorder.facts.schema import SPANS, Column, Table

_SPARK_TYPES = {
    "string": "string",
    "int64": "bigint",
    "int32": "int",
    "int16": "smallint",
    "bool": "boolean",
    "binary": "binary",
    "timestamp": "timestamp",
    "spans": SPANS,
}
SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in FRAME_COLUMNS)
EVENTS_SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in EVENT_COLUMNS)
# the option of Spark's reader that checks the checksums of pages, as all our readers do
CHECKED = {"parquet.page.verify-checksum.enabled": "true"}

FRAMES = Table(
    "frames",
    "a frame as it arrived, and what its head says",
    tuple(Column(name, _SPARK_TYPES[kind], "see docs/capture.md") for name, kind in FRAME_COLUMNS),
)
EVENTS = Table(
    "events",
    "what happened to a session or a connection",
    tuple(Column(name, _SPARK_TYPES[kind], "see docs/capture.md") for name, kind in EVENT_COLUMNS),
)

# the Parquet files of both tables, by the name of the table's folder
Files = Mapping[str, Sequence[str]]


def frames(session: SparkSession, folder: str, files: Files | None = None) -> DataFrame:
    """All frames of the capture in `folder` (a path, or a URL that Spark can read).

    `files`: the only files to read; Spark by itself would follow links. Raises Spark's AnalysisException if there is no
    capture.
    """
    return _table(session, SCHEMA, folder, FRAMES_FOLDER, files)


def heads_and_events(session: SparkSession, files: Files, *, is_tiny: bool) -> tuple[DataFrame, DataFrame]:
    """Frames and events of a capture whose files only the workers read, once for all questions.

    Spark can't read S3 without Hadoop's file system for it, and the embedded engine checks no page's checksum. FRAME
    holds the beginnings of answers whose error code has a fixed offset, else null.
    """
    keys = sorted({key for key, _ in fixed()})
    names = [name for name, _ in EVENT_COLUMNS]
    reads = {
        FRAMES_FOLDER: (partial(frames_with_beginnings, keys=keys), SCHEMA),
        EVENTS_FOLDER: (partial(plain_rows, columns=names, wanted=Wanted()), EVENTS_SCHEMA),
    }
    found = (
        by_workers(session, within(files[kind], None, None), *reads[kind], is_tiny=is_tiny)
        for kind in (FRAMES_FOLDER, EVENTS_FOLDER)
    )
    heads_of_frames, happened = (kept(table) for table in found)
    return heads_of_frames, happened


def events(session: SparkSession, folder: str, files: Files | None = None) -> DataFrame:
    """All events of the capture in `folder`; none where it has none. `files`: as of `frames`."""
    try:
        return _table(session, EVENTS_SCHEMA, folder, EVENTS_FOLDER, files)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return session.createDataFrame([], EVENTS_SCHEMA)


def _table(session: SparkSession, schema: str, folder: str, name: str, files: Files | None) -> DataFrame:
    place = f"{folder.rstrip('/')}/{name}"
    reader = session.read.schema(schema).options(**CHECKED)
    if files is None:
        return reader.parquet(place)
    if not files[name]:
        return session.createDataFrame([], schema)
    # without this option Spark reads names as patterns
    return reader.option("basePath", place).option("__globPaths__", "false").parquet(*files[name])

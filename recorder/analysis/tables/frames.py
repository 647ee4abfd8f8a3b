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

from recorder.analysis.bodies import CHECKED, by_workers
from recorder.analysis.scan import Wanted, frames_with_beginnings, plain_rows, within
from recorder.analysis.table_cache import kept
from recorder.capture.frames import EVENT_COLUMNS, EVENTS_FOLDER, FRAME_COLUMNS, FRAMES_FOLDER
from recorder.facts.answers import fixed
from recorder.facts.schema import SPANS, TOLD, Column, Table

_SPARK_TYPES = {
    "string": "string",
    "int64": "bigint",
    "int32": "int",
    "int16": "smallint",
    "bool": "boolean",
    "binary": "binary",
    "timestamp": "timestamp",
    "spans": SPANS,
    "batches": TOLD,
}
SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in FRAME_COLUMNS)
EVENTS_SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in EVENT_COLUMNS)

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


def heads_by_workers(
    session: SparkSession, paths: Sequence[str], *, is_tiny: bool, with_beginnings: bool = True
) -> DataFrame:
    """Frames of files that only the workers read, once for all questions.

    Spark can't read S3 without Hadoop's file system for it, and the embedded engine checks no page's checksum. FRAME
    is null, except `with_beginnings`: then it holds those of answers whose error code has a fixed offset.
    """
    keys = sorted({key for key, _ in fixed()}) if with_beginnings else []
    read = partial(frames_with_beginnings, keys=keys)
    return kept(by_workers(session, within(paths, None, None), read, SCHEMA, is_tiny=is_tiny))


def events_by_workers(session: SparkSession, paths: Sequence[str], *, is_tiny: bool) -> DataFrame:
    """Events, read as `heads_by_workers` reads frames."""
    read = partial(plain_rows, columns=[name for name, _ in EVENT_COLUMNS], wanted=Wanted())
    return kept(by_workers(session, within(paths, None, None), read, EVENTS_SCHEMA, is_tiny=is_tiny))


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

"""The capture's `frames` as a DataFrame: a column scan, in which nothing is read that nobody asks for.

Bodies are the last thing to touch: a plan that never names `frame` never loads one. The folder's `date=` and `hour=`
become columns and prune whole files when filtered on. The schema is given, not inferred: no footer is read twice, and
a column that an older file lacks is null.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from recorder.capture.frames import EVENT_COLUMNS, EVENTS_FOLDER, FRAME_COLUMNS, FRAMES_FOLDER

_SPARK_TYPES = {
    "string": "string",
    "int64": "bigint",
    "int32": "int",
    "int16": "smallint",
    "bool": "boolean",
    "binary": "binary",
    "timestamp": "timestamp",
    "spans": "array<struct<start: int, length: int>>",
}
SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in FRAME_COLUMNS)
EVENTS_SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in EVENT_COLUMNS)


def frames(session: SparkSession, folder: str) -> DataFrame:
    """All frames of the capture in `folder` (a path, or a URL that Spark can read).

    Raises Spark's AnalysisException if there is no capture.
    """
    return session.read.schema(SCHEMA).parquet(f"{folder.rstrip('/')}/{FRAMES_FOLDER}")


def events(session: SparkSession, folder: str) -> DataFrame:
    """All events of the capture in `folder`; none where it has no folder of them."""
    try:
        return session.read.schema(EVENTS_SCHEMA).parquet(f"{folder.rstrip('/')}/{EVENTS_FOLDER}")
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return session.createDataFrame([], EVENTS_SCHEMA)

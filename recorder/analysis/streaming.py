"""A growing capture as a stream: each segment is read once, and each window is written once.

Spark's file source reads the published files of `frames`; the compactor renames a file when it is complete. Two queries
share nothing but the session: latency and errors. Each has its own folder in the output and in the checkpoint. After a
kill, Spark repeats the unfinished batch from the checkpoint, and the file sink's log lists the valid files.

A window is written when the watermark has passed its end. The recorder publishes a segment when it has reached its age,
so with a watermark below that age, on-time exchanges would be dropped as late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from threading import Event
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from recorder.analysis.batch_progress import FinishedBatches, Progress
from recorder.analysis.bodies import CHECKED, Captured, Road
from recorder.analysis.output import WRITING
from recorder.analysis.questions.windows import (
    ERRORS_NEED,
    LATENCY_NEEDS,
    errors_in_windows,
    in_time,
    latency_in_windows,
)
from recorder.analysis.table_cache import Deferred
from recorder.analysis.tables.exchanges import EXCHANGES, exchanges_of_one_row
from recorder.analysis.tables.frames import EVENTS_SCHEMA, SCHEMA
from recorder.capture import frames as c

# The number of the queries' form, which the checkpoint keeps. Unwritten windows in it have the shape of the query that
# made them. Raise the number with each change of what a query scans, groups by, aggregates or writes: the test of the
# form lists all of that.
FORM = 1
# Spark ignores files that are this much older than the newest one: a stream may pause for that long.
MAX_FILE_AGE = "30d"
# Seconds between two checks of the queries.
_LOOK = 1
SETTINGS: Mapping[str, str] = {
    # each group of a window is one row of state, so there are few
    "spark.sql.shuffle.partitions": "2",
    # Spark's default number of rows: the segments' row groups bound the bytes of their bodies
    "spark.sql.parquet.columnarReaderBatchSize": "4096",
    # lists of up to so many APIs are pushed down value by value, so row groups without wanted frames are skipped
    "spark.sql.parquet.pushdown.inFilterThreshold": "200",
    # files may be removed after the checkpoint named them
    "spark.sql.files.ignoreMissingFiles": "true",
}


class StreamQuestion(NamedTuple):
    """A question of a stream. `needs`: its columns of EXCHANGES besides those to group by."""

    answer: Callable[..., DataFrame]
    needs: tuple[str, ...]


QUESTIONS: Mapping[str, StreamQuestion] = {
    "latency_by_api": StreamQuestion(latency_in_windows, LATENCY_NEEDS),
    "errors_by_api": StreamQuestion(errors_in_windows, ERRORS_NEED),
}


class Streamed(NamedTuple):
    """A stream's options. `every`: the time between two checks for segments; None: process what is there, and end."""

    folder: str
    output: str
    checkpoint: str
    by: tuple[str, ...] = (c.API,)
    window: str = "1 minute"
    watermark: str = "10 minutes"
    form: str = "parquet"
    every: str | None = "10 seconds"


def exchanges_as_they_come(spark: SparkSession, folder: str, columns: Collection[str] = EXCHANGES.names) -> DataFrame:
    """Returns these columns of EXCHANGES as a stream over published segments, for exchanges that one row describes."""
    frames = spark.readStream.schema(SCHEMA).options(**CHECKED).option("maxFileAge", MAX_FILE_AGE)
    found = frames.parquet(f"{folder.rstrip('/')}/{c.FRAMES_FOLDER}")
    nothing = Deferred(lambda: spark.createDataFrame([], EVENTS_SCHEMA))
    return exchanges_of_one_row(Captured(spark, Deferred(lambda: found), nothing, road=Road.JVM), columns)


def run(spark: SparkSession, stream: Streamed, stop: Event | None = None) -> Iterator[Progress]:
    """Runs the stream until `stop`, or until all segments are read if `every` is None. Yields each batch's progress.

    It waits in Python, because a signal that interrupts a call into the JVM leaves the connection to it broken.
    Errors: Spark's StreamingQueryException.
    """
    stop = stop or Event()
    queries = [_started(spark, name, stream) for name in QUESTIONS]
    batches = [FinishedBatches(query) for query in queries]
    is_over = False
    while not is_over:
        # looks once more after the last batch, or after `stop`
        is_over = stop.wait(_LOOK) or not any(query.isActive for query in queries)
        for query, finished in zip(queries, batches, strict=True):
            yield from finished.since_last_call()
            if error := query.exception():
                raise error
    for query in queries:
        query.stop()


def windows_of(spark: SparkSession, name: str, stream: Streamed) -> DataFrame:
    """Returns the streaming DataFrame of a question's windows. `name`: of QUESTIONS."""
    question = QUESTIONS[name]
    exchanges = exchanges_as_they_come(spark, stream.folder, {*question.needs, *stream.by, c.API_KEY})
    return question.answer(in_time(exchanges, stream.watermark), window=stream.window, by=stream.by)


def _started(spark: SparkSession, name: str, stream: Streamed) -> StreamingQuery:
    trigger: dict[str, Any] = {"processingTime": stream.every} if stream.every else {"availableNow": True}
    writer = windows_of(spark, name, stream).writeStream.queryName(name).outputMode("append").trigger(**trigger)
    writer = writer.format(stream.form).option("checkpointLocation", f"{stream.checkpoint}/{name}").options(**WRITING)
    return writer.start(f"{stream.output}/{name}")

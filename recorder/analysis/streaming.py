"""A capture that grows, as a stream: each segment is read once, and each window is written once.

Spark's own file stream reads the published files of `frames`; the compactor gives a file its name when it is whole. Two
queries share nothing but the session: latency, and errors. Each has a folder of its own in the output and in the
checkpoint. What a kill leaves unfinished is done again from the checkpoint, and the file sink's log names the files
that count.

A window is written when the watermark has passed its end. Segments are published late, by their age, so a watermark
below that age would take on-time exchanges for late ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from threading import Event
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from recorder.analysis.bodies import Captured, Road
from recorder.analysis.output import WRITING
from recorder.analysis.questions.windows import (
    ERRORS_NEED,
    LATENCY_NEEDS,
    errors_in_windows,
    in_time,
    latency_in_windows,
)
from recorder.analysis.tables.exchanges import EXCHANGES, told_by_one_row
from recorder.analysis.tables.frames import EVENTS_SCHEMA, SCHEMA
from recorder.capture import frames as c

# Spark leaves out files that are this much older than the newest one: a stream may stand still that long
MAX_FILE_AGE = "30d"
# seconds between two looks at whether the queries go on
_LOOK = 1
SETTINGS: Mapping[str, str] = {
    # a group of each window is a row of state, so there are few
    "spark.sql.shuffle.partitions": "2",
    # as many rows at a time as Spark itself takes: a segment's row groups bound the bytes of their bodies
    "spark.sql.parquet.columnarReaderBatchSize": "4096",
    # row groups without a frame that Python is to open are passed over: lists of so many APIs are compared by value
    "spark.sql.parquet.pushdown.inFilterThreshold": "200",
    # files that were removed since the checkpoint named them
    "spark.sql.files.ignoreMissingFiles": "true",
}


class Question(NamedTuple):
    """What a stream answers, and the columns of EXCHANGES that it needs beside those that it groups by."""

    answer: Callable[..., DataFrame]
    needs: tuple[str, ...]


QUESTIONS: Mapping[str, Question] = {
    "latency_by_api": Question(latency_in_windows, LATENCY_NEEDS),
    "errors_by_api": Question(errors_in_windows, ERRORS_NEED),
}


class Streamed(NamedTuple):
    """What is streamed from where to where. `every`: between two looks for segments; None: all there are, and end."""

    folder: str
    output: str
    checkpoint: str
    by: tuple[str, ...] = (c.API,)
    window: str = "1 minute"
    watermark: str = "10 minutes"
    form: str = "parquet"
    every: str | None = "10 seconds"


class Progress(NamedTuple):
    """What a batch of a query came to. `late`: rows of windows that were written already, and lack them."""

    table: str
    written: int
    held: int
    late: int
    watermark: str


def exchanges_as_they_come(spark: SparkSession, folder: str, columns: Collection[str] = EXCHANGES.names) -> DataFrame:
    """The exchanges that one row tells, of segments as they are published: these columns of EXCHANGES."""
    frames = spark.readStream.schema(SCHEMA).option("maxFileAge", MAX_FILE_AGE)
    found = frames.parquet(f"{folder.rstrip('/')}/{c.FRAMES_FOLDER}")
    return told_by_one_row(Captured(found, spark.createDataFrame([], EVENTS_SCHEMA), road=Road.JVM), columns)


def run(spark: SparkSession, asked: Streamed, stop: Event | None = None) -> Iterator[Progress]:
    """Runs until all segments are read, where `every` is None, else until `stop`. Yields what each batch came to.

    Waits in Python: a signal that interrupts a call into the JVM leaves that in disorder.
    Errors: Spark's StreamingQueryException.
    """
    stop = stop or Event()
    queries = [_started(spark, name, asked) for name in QUESTIONS]
    seen: dict[str, int] = {}
    is_active = True
    while is_active and not stop.wait(_LOOK):
        is_active = any(query.isActive for query in queries)
        for query in queries:
            yield from _news(query, seen)
            if error := query.exception():
                raise error
    for query in queries:
        query.stop()


def _started(spark: SparkSession, name: str, asked: Streamed) -> StreamingQuery:
    question = QUESTIONS[name]
    exchanges = exchanges_as_they_come(spark, asked.folder, {*question.needs, *asked.by, c.API_KEY})
    found = question.answer(in_time(exchanges, asked.watermark), window=asked.window, by=asked.by)
    trigger: dict[str, Any] = {"processingTime": asked.every} if asked.every else {"availableNow": True}
    writer = found.writeStream.queryName(name).outputMode("append").trigger(**trigger).format(asked.form)
    writer = writer.option("checkpointLocation", f"{asked.checkpoint}/{name}").options(**WRITING)
    return writer.start(f"{asked.output}/{name}")


def _news(query: StreamingQuery, seen: dict[str, int]) -> Iterator[Progress]:
    """What has become of batches since the last look.

    All of Spark's latest batches come as JSON, which takes long: it is asked for them once there is a new one.
    """
    newest = query.lastProgress
    if newest is None or newest["batchId"] <= seen.get(query.name, -1):
        return
    for batch in query.recentProgress:
        # without that, it tells of a look that found nothing, under the next batch's number
        was_run = "addBatch" in batch["durationMs"]
        if not was_run or batch["batchId"] <= seen.get(query.name, -1):
            continue
        seen[query.name] = batch["batchId"]
        for state in batch["stateOperators"]:
            counts = (state["numRowsRemoved"], state["numRowsTotal"], state["numRowsDroppedByWatermark"])
            yield Progress(query.name, *counts, batch.get("eventTime", {}).get("watermark", ""))

"""What `kafka-wiretap analyze` asks of a capture, in one go: exchanges are made once, and every table of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as c
from recorder.analysis.errors import errors_by_api
from recorder.analysis.exchanges import exchanges
from recorder.analysis.frames import frames
from recorder.analysis.latency import latency_by_api

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The tables by their names, as rows."""

    latency_by_api: Rows
    errors_by_api: Rows


@dataclass(frozen=True, slots=True)
class Output:
    """Where tables are written to: a folder (or URL) with one folder a table, as "parquet" or "csv"."""

    folder: str
    format: str = "parquet"
    overwrite: bool = False


def answer(spark: SparkSession, folder: str, *, window: str | None = None, output: Output | None = None) -> Answer:
    """Ask everything of the capture in `folder`; write the tables too if there is an `output`.

    Raises Spark's AnalysisException for a folder without a capture, an output that exists, and a wrong `window`.
    """
    every = exchanges(frames(spark, folder)).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        latency, errors = latency_by_api(every, window=window), errors_by_api(every, window=window)
        return Answer(_kept(latency, "latency_by_api", output), _kept(errors, "errors_by_api", output))
    finally:
        every.unpersist()


def _ordered(table: DataFrame) -> DataFrame:
    """A table of one partition in a reader's order: by window, the busiest or the most frequent first."""
    busiest = c.REQUESTS if c.REQUESTS in table.columns else c.COUNT
    order = [F.col(name) for name in (c.WINDOW_START,) if name in table.columns]
    order += [F.desc(busiest), *(F.col(name) for name in (c.API, c.ERROR_CODE) if name in table.columns)]
    return table.sortWithinPartitions(*order)


def _kept(table: DataFrame, name: str, output: Output | None) -> Rows:
    """The rows of a small table, written to a single file on the way."""
    if output is not None:
        table = _ordered(table.coalesce(1)).persist()
        writer = table.write.mode("overwrite" if output.overwrite else "errorifexists").option("header", True)
        writer.format(output.format).save(f"{output.folder.rstrip('/')}/{name}")
    return [row.asDict() for row in table.collect()]

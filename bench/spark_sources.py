"""The ways into a capture, as ratios to one another, in one run, and what all processes of each have resident.

reading    the table `records` by `format("kafka-wiretap")` and by either road; plain Parquet, frames unopened
pushing    the messages of one API in a hundred exchanges: filtered by the source, by its option, and by Spark

Each way has a session of its own: a JVM keeps the memory that an earlier question took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.spark_memory import resident
from bench.timing import fastest

# seconds of the fastest round; the most bytes that all processes had resident in any round
Cost = tuple[float, int]


def _each(ways: Mapping[str, Callable[[Any], Any]], cores: int) -> dict[str, Cost]:
    """What each way costs; it is told its session."""
    return {name: _cost(way, cores) for name, way in ways.items()}


def _cost(way: Callable[[Any], Any], cores: int) -> Cost:
    from recorder.analysis import job
    from recorder.analysis.data_source import register

    with job.session(f"local[{cores}]") as spark, resident() as most:
        register(spark)
        spent = fastest(lambda: way(spark))
    return spent, max(most)


def _written_off(made: Callable[[Any], Any], spark: Any) -> None:
    made(spark).write.format("noop").mode("overwrite").save()


def reading(folder: Path, cores: int) -> dict[str, Cost]:
    """What each way costs."""
    from recorder.analysis.bodies import Road, rows
    from recorder.analysis.data_source import NAME
    from recorder.analysis.decode.record_rows import RECORDS
    from recorder.analysis.scan import files_in
    from recorder.analysis.sources import captured

    def by(spark: Any, road: Road) -> Any:
        return rows(replace(captured(spark, str(folder), files_in(str(folder))), road=road), RECORDS)

    ways: dict[str, Callable[[Any], Any]] = {
        "records, format": lambda spark: spark.read.format(NAME).option("table", RECORDS.name).load(str(folder)),
        "records, worker road": lambda spark: by(spark, Road.WORKER),
        "records, jvm road": lambda spark: by(spark, Road.JVM),
        "frames, format": lambda spark: spark.read.format(NAME).load(str(folder)),
        "frames, plain Parquet": lambda spark: spark.read.parquet(str(folder / "frames")),
    }
    return _each({name: partial(_written_off, way) for name, way in ways.items()}, cores)


def pushing(folder: Path, cores: int, api: str) -> dict[str, Cost]:
    """What the API's messages cost, by who filters."""
    from recorder.analysis.data_source import NAME

    def messages(spark: Any, **options: str) -> Any:
        return spark.read.format(NAME).options(table="messages", **options).load(str(folder))

    ways: dict[str, Callable[[Any], Any]] = {
        "filtered by Spark": lambda spark: messages(spark, pushdown="false").filter(f"api = '{api}'").count(),
        "filter pushed": lambda spark: messages(spark, pushdown="true").filter(f"api = '{api}'").count(),
        "option apis": lambda spark: messages(spark, apis=api).count(),
    }
    return _each(ways, cores)

"""The ways into a capture, as ratios to one another, in one run.

reading    the table `records` by `format("kafka-wiretap")` and by either road; plain Parquet, frames unopened
pushing    the messages of one API in a hundred exchanges: filtered by the source, by its option, and by Spark
streaming  a stream over a capture that is there, from its first segment to its last
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.timing import fastest, seconds


def _written_off(found: Any) -> None:
    found.write.format("noop").mode("overwrite").save()


def reading(folder: Path, cores: int) -> dict[str, float]:
    """Seconds of each way."""
    from recorder.analysis import job
    from recorder.analysis.bodies import Road, rows
    from recorder.analysis.data_source import NAME, register
    from recorder.analysis.decode.record_rows import RECORDS
    from recorder.analysis.scan import files_in
    from recorder.analysis.sources import captured

    with job.session(f"local[{cores}]") as spark:
        register(spark)

        def by(road: Road) -> Any:
            return rows(replace(captured(spark, str(folder), files_in(str(folder))), road=road), RECORDS)

        ways: dict[str, Callable[[], Any]] = {
            "records, format": lambda: spark.read.format(NAME).option("table", RECORDS.name).load(str(folder)),
            "records, worker road": lambda: by(Road.WORKER),
            "records, jvm road": lambda: by(Road.JVM),
            "frames, format": lambda: spark.read.format(NAME).load(str(folder)),
            "frames, plain Parquet": lambda: spark.read.parquet(str(folder / "frames")),
        }
        return {name: fastest(lambda made=way: _written_off(made())) for name, way in ways.items()}


def pushing(folder: Path, cores: int, api: str) -> dict[str, float]:
    """Seconds of the API's messages, by who filters."""
    from recorder.analysis import job
    from recorder.analysis.data_source import NAME, register

    with job.session(f"local[{cores}]") as spark:
        register(spark)

        def messages(**options: str) -> Any:
            return spark.read.format(NAME).options(table="messages", **options).load(str(folder))

        ways: dict[str, Callable[[], Any]] = {
            "filtered by Spark": lambda: messages(pushdown="false").filter(f"api = '{api}'"),
            "filter pushed": lambda: messages(pushdown="true").filter(f"api = '{api}'"),
            "option apis": lambda: messages(apis=api),
        }
        return {name: fastest(lambda made=way: made().count()) for name, way in ways.items()}


def streaming(folder: Path, cores: int) -> float:
    """Seconds of latency and errors by window, of all segments."""
    from recorder.analysis import job
    from recorder.analysis.streaming import SETTINGS, Streamed, run

    with job.session(f"local[{cores}]", extra=SETTINGS) as spark, tempfile.TemporaryDirectory() as place:
        asked = Streamed(str(folder), f"{place}/out", f"{place}/checkpoint", every=None)
        return seconds(lambda: list(run(spark, asked)))

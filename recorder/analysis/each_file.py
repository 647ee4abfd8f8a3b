"""Lets Python workers do something with each of many files, on either engine, and gathers what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

# what came of a file: its path, a number, and what was wrong (None: nothing)
Outcome = tuple[str, int, str | None]
Work = Callable[[str], Outcome]


def each_file(spark: SparkSession, paths: Sequence[str], work: Work) -> list[Outcome]:
    """Calls `work` with each path, a task for each. A task that fails is tried again where the engine does that."""
    numbers = spark.range(0, len(paths), 1, max(len(paths), 1))
    made = numbers.mapInArrow(partial(_worked, paths=paths, work=work), "path string, number bigint, reason string")
    return [(row["path"], row["number"], row["reason"]) for row in made.collect()]


def _worked(batches: Iterable[Any], paths: Sequence[str], work: Work) -> Iterator[Any]:
    """Runs in a Python worker."""
    import pyarrow as pa

    for batch in batches:
        done = [work(paths[number]) for number in batch.column(0).to_pylist()]
        columns = zip(*done, strict=True) if done else ([], [], [])
        types = pa.string(), pa.int64(), pa.string()
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, ["path", "number", "reason"])

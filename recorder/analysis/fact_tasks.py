"""Makes facts by Spark's tasks: one task for each stem of a capture, wherever it runs.

Executors must reach the capture as this process does: a folder by the same path, or the bucket. They need msgspec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

Stem = TypeVar("Stem")
Outcome = TypeVar("Outcome")


def made_by_tasks(
    spark: SparkSession, make: Callable[[Stem], Outcome], stems: Sequence[Stem]
) -> Iterator[tuple[Stem, Outcome]]:
    """Each stem, with what `make` returns of it where its task runs. Errors: pyspark's."""
    tasks = spark.sparkContext.parallelize(stems, len(stems))
    return zip(stems, tasks.map(make).collect(), strict=True)

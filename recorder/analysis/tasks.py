"""Lets Python workers do something with each of many things, on either engine, and gathers what came of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import SparkSession

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def by_tasks(spark: SparkSession, work: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
    """What `work` returns of each item, in their order: a task for each, wherever it runs.

    A task that fails is tried again where the engine does that. Errors: pyspark's.
    """
    numbers = spark.range(0, len(items), 1, max(len(items), 1))
    done = numbers.mapInArrow(partial(_worked, items=items, work=work), "number bigint, outcome binary")
    # the engine's workers made these bytes, in this program
    outcomes = {row["number"]: pickle.loads(row["outcome"]) for row in done.collect()}
    return [outcomes[number] for number in range(len(items))]


def _worked(batches: Iterable[Any], items: Sequence[Any], work: Callable[[Any], Any]) -> Iterator[Any]:
    """Runs in a Python worker."""
    import pyarrow as pa

    for batch in batches:
        numbers = batch.column(0)
        outcomes = [pickle.dumps(work(items[number])) for number in numbers.to_pylist()]
        yield pa.RecordBatch.from_arrays([numbers, pa.array(outcomes, pa.binary())], ["number", "outcome"])

"""Tables that several questions read: each is computed once, and kept in memory or on disk while it is referenced.

A report asks some sixty questions of a dozen tables. The function of a table does not know about other readers: it
names the table (`Captured.once`) and gets the one that was computed under this name before. Only captures with
a `TableCache` keep tables.

A kept table is a local checkpoint, which cuts its lineage. Otherwise Spark would plan and print the whole lineage again
for each question.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from recorder.analysis.embedded import is_embedded, stored, stored_meanwhile

# As compressed bytes. As objects, the rows of a capture of 1 GB fill the JVM's heap: it then collects garbage for a
# sixth of the time, and moves rows to disk and back for each question.
_AS_BYTES = StorageLevel.MEMORY_AND_DISK


class Deferred:
    """A table that is made when it is first read, and then kept. It is thread-safe.

    A capture's own tables are: questions about facts don't read them, and the embedded engine computes a table at once.
    """

    def __init__(self, make: Callable[[], DataFrame]) -> None:
        self._make = make
        self._made: DataFrame | None = None
        self._lock = Lock()

    @property
    def table(self) -> DataFrame:
        """The table."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


@contextmanager
def persisted(table: DataFrame) -> Iterator[DataFrame]:
    """Yields the table, which is computed once for all questions within the block."""
    if is_embedded():
        with stored_meanwhile(table) as made:
            yield made
        return
    made = table.persist()
    try:
        yield made
    finally:
        made.unpersist()


def kept(table: DataFrame) -> DataFrame:
    """Returns the table, which is computed once, as long as the session lasts."""
    return stored(table) if is_embedded() else table.persist(StorageLevel.MEMORY_AND_DISK)


def cut(table: DataFrame) -> DataFrame:
    """Returns the table, computed now, with a plan that only reads it."""
    return stored(table) if is_embedded() else table.localCheckpoint(storageLevel=_AS_BYTES)


class TableCache:
    """The tables of a report. It is thread-safe: a second thread waits while the first one computes a table."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._locks: dict[Hashable, Lock] = {}
        self._made: dict[Hashable, DataFrame] = {}

    def table(self, key: Hashable, make: Callable[[], DataFrame], *, is_tiny: bool = False) -> DataFrame:
        """Returns the table of this key, and computes it on the first call. `make` may ask for other tables.

        `is_tiny`: the table has so few rows that plans without it would save less than a job that looks for a row.
        """
        with self._lock:
            own = self._locks.setdefault(key, Lock())
        with own:
            if key not in self._made:
                made = cut(make())
                self._made[key] = made if is_tiny else _known_if_empty(made)
            return self._made[key]


def _known_if_empty(checkpoint: DataFrame) -> DataFrame:
    """Returns the checkpoint; if it has no rows, a table that Spark knows to be empty.

    Spark can't see that a checkpoint is empty. It drops what reads `limit(0)` from plans.
    """
    return checkpoint.limit(0) if checkpoint.isEmpty() else checkpoint

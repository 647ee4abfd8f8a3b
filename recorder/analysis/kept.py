"""Tables that several questions read: each is made once, and kept in memory or on disk until nobody holds it.

A report asks some sixty questions of a dozen tables. A table's function does not know who else asks: it names what it
makes (`Captured.once`), and gets what was made under that name before. Outside of a report nothing is kept.

A kept table is a checkpoint: Spark has forgotten how it was made. Else it would plan, and print, all of that again with
each question.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock

from pyspark import StorageLevel
from pyspark.sql import DataFrame

# In memory as Spark's own rows: what is serialized there costs each question as much as its answer.
_AS_ROWS = StorageLevel.MEMORY_AND_DISK_DESER


@contextmanager
def persisted(table: DataFrame) -> Iterator[DataFrame]:
    """The table, made once for all questions that are asked of it within the block."""
    made = table.persist()
    try:
        yield made
    finally:
        made.unpersist()


class Kept:
    """The tables of a report. Questions may come from several threads: the second one waits for the first one's."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._locks: dict[Hashable, Lock] = {}
        self._made: dict[Hashable, DataFrame] = {}

    def table(self, key: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """The table under this key, made now if it was not yet. `make` may ask for other tables."""
        with self._lock:
            own = self._locks.setdefault(key, Lock())
        with own:
            if key not in self._made:
                self._made[key] = make().localCheckpoint(storageLevel=_AS_ROWS)
            return self._made[key]

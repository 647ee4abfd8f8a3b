"""Tables that several questions read: each is made once, and kept in memory or on disk until nobody holds it.

A report asks some sixty questions of a dozen tables. A table's function does not know who else asks: it names what it
makes (`Captured.once`), and gets what was made under that name before. Outside of a report nothing is kept.

A kept table is a checkpoint: Spark has forgotten how it was made. Else it would plan, and print, all of that again with
each question.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it
from pyspark.sql.types import StringType, StructType

from recorder.analysis.job import is_known_empty

Value = TypeVar("Value")
# Parquet's setting, of all columns or (with # and its name) of one
_DICTIONARY = "parquet.enable.dictionary"
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
    """The tables of a report. Questions may come from several threads: the second one waits for the first one's.

    `folder`: one that Spark and its workers share, for files that live as long as the session; None: they share none.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder
        self._lock = Lock()
        self._locks: dict[Hashable, Lock] = {}
        self._made: dict[Hashable, Any] = {}

    def table(self, key: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """The table under this key, made now if it was not yet. `make` may ask for other tables."""
        return self.once(key, lambda: _as_rows(make()))

    def file(self, key: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """The same of a table that Spark writes into files of the folder, and reads there."""
        return self.once(key, lambda: _written(make(), tempfile.mkdtemp(dir=self.folder)))

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What `make` made under this key, whoever asked first."""
        with self._lock:
            own = self._locks.setdefault(key, Lock())
        with own:
            if key not in self._made:
                self._made[key] = make()
            return cast(Value, self._made[key])


def _as_rows(table: DataFrame) -> DataFrame:
    """The table in memory or on disk. One that is known to be empty stays so: its questions have little to plan."""
    if is_known_empty(table):
        return read_files(table.sparkSession, table.schema, [])
    return table.localCheckpoint(storageLevel=_AS_ROWS)


def read_files(spark: SparkSession, schema: str | StructType, files: Sequence[str]) -> DataFrame:
    """The table that these Parquet files hold. Of a table without a file Spark knows that it is empty."""
    if not files:
        return spark.createDataFrame([], schema).filter(F.lit(False))
    # without this option Spark reads names as patterns
    return spark.read.schema(schema).option("__globPaths__", "false").parquet(*files)


def _written(table: DataFrame, folder: str) -> DataFrame:
    """The table in files of a folder, which is there."""
    import pyarrow.parquet as pq

    table.write.mode("append").options(**_dictionaries(table.schema)).parquet(folder)
    files = [str(file) for file in Path(folder).glob("*.parquet")]
    return read_files(table.sparkSession, table.schema, [file for file in files if pq.read_metadata(file).num_rows])


def _dictionaries(schema: StructType) -> dict[str, str]:
    """Texts alone come again and again: for numbers and times a dictionary costs more than it saves."""
    texts = [field.name for field in schema if isinstance(field.dataType, StringType)]
    return {_DICTIONARY: "false"} | {f"{_DICTIONARY}#{name}": "true" for name in texts}

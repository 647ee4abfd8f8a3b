"""The ways by which the bytes of frames reach the decoders: two roads, one decoder.

    worker   Spark's Python workers read the Parquet themselves, with the capture's own reader: half the time. The files
             must have the same path on every executor.
    jvm      Spark reads the Parquet, and hands batches to Python (`mapInArrow`): wherever Spark reads.

Both read the same frames: whole ones up to `largest` bytes. All others are rows too, made of their heads by Spark
alone: `unread` says why. A larger frame has a row group of its own, so its bytes are not even loaded.

A task of the worker road is a byte range of a file, planned without opening the file; it reads the row groups that
begin in its range, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.error_paths import Unread
from recorder.analysis.decode.rows import SIDE, UNREAD, Asked, Decoder, decoded
from recorder.capture import frames as c

# The capture's row groups, and with them a reader's memory, are bounded by the same number of bytes.
LARGEST_BODY = 64 << 20
# bytes of Parquet in a task, about: a row group of small frames has a few MiB
TASK_BYTES = 16 << 20
# rows that a worker decodes at a time
BATCH_ROWS = 4096


class Road(StrEnum):
    """How bodies are read. AUTO: by the workers where they can reach the files."""

    AUTO = "auto"
    WORKER = "worker"
    JVM = "jvm"


@dataclass(frozen=True, slots=True)
class Captured:
    """A capture in Spark. `paths`: its files of frames, for the worker road; None: nobody but Spark reaches them.

    `since_ns`, `until_ns`: tables have the frames that arrived from the one moment to the other.
    """

    frames: DataFrame
    events: DataFrame
    paths: tuple[str, ...] | None = None
    road: Road = Road.AUTO
    largest: int = LARGEST_BODY
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def spark(self) -> SparkSession:
        """The session of its DataFrames."""
        return self.frames.sparkSession

    @property
    def by_workers(self) -> bool:
        """True if bodies are read by the worker road."""
        return self.road is not Road.JVM and self.paths is not None

    @property
    def chosen(self) -> DataFrame:
        """The frames that arrived within the time asked for."""
        found = self.frames
        if self.since_ns is not None:
            found = found.filter(F.col(c.AT_NS) >= self.since_ns)
        return found if self.until_ns is None else found.filter(F.col(c.AT_NS) <= self.until_ns)


def rows(captured: Captured, decoder: Decoder) -> DataFrame:
    """The table of bodies that the decoder makes, of all frames that it asks for."""
    wanted, largest = captured.chosen.filter(asked(decoder.asked)), captured.largest
    readable = is_readable(largest)
    unread = wanted.filter(~readable).select(*_heads(decoder), *_nulls(decoder), _reason(largest).alias(UNREAD))
    read = _by_workers(captured, decoder) if captured.by_workers else _by_spark(wanted.filter(readable), decoder)
    return read.unionByName(unread)


def asked(frames: Sequence[Asked]) -> Column:
    """The condition of frames that a decoder asks for."""
    return F.coalesce(reduce(or_, map(_asked_one, frames)), F.lit(False))


def _asked_one(one: Asked) -> Column:
    found = (F.col(c.KIND) == one.side) & (F.col(c.DIALECT) == one.dialect)
    found &= F.col(c.API_KEY).isNotNull() if one.api_keys is None else F.col(c.API_KEY).isin(*one.api_keys)
    return found if one.versions is None else found & F.col(c.API_VERSION).isin(*one.versions)


def is_readable(largest: int) -> Column:
    """True for frames that are whole, and not too large to be opened."""
    is_whole = F.col(c.STORED) == F.col(c.SIZE)
    return F.coalesce((F.col(c.SIZE) <= largest) & is_whole, F.lit(False))


def _reason(largest: int) -> Column:
    omitted = F.coalesce(F.col(c.STORED) != F.col(c.SIZE), F.lit(True))
    return F.when(omitted, Unread.OMITTED.value).otherwise(Unread.TOO_LARGE.value)


def _heads(decoder: Decoder) -> list[Column]:
    return [F.col(name).alias(SIDE) if name == c.KIND else F.col(name) for name in decoder.copied]


def _nulls(decoder: Decoder) -> list[Column]:
    return [F.lit(None).cast(column.kind).alias(column.name) for column in (*decoder.shared, *decoder.own)]


def _by_spark(readable: DataFrame, decoder: Decoder) -> DataFrame:
    return readable.select(*decoder.reads).mapInArrow(partial(decoded, decoder=decoder), decoder.table.ddl)


class Piece(NamedTuple):
    """A byte range of a file: the row groups that begin in it."""

    path: str
    start: int
    end: int


def _by_workers(captured: Captured, decoder: Decoder) -> DataFrame:
    spark = captured.spark
    least = spark.sparkContext.defaultParallelism if captured.paths else 1
    tasks = planned([(path, Path(path).stat().st_size) for path in captured.paths or ()], least)
    conditions = _Conditions(decoder.asked, captured.largest, captured.since_ns, captured.until_ns)
    work = partial(_worked, tasks=tasks, decoder=decoder, conditions=conditions)
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(work, decoder.table.ddl)


def planned(files: Iterable[tuple[str, int]], least: int) -> list[list[Piece]]:
    """Tasks of about TASK_BYTES, in the order of the files (path, size); `least`: so many, where that can be."""
    sizes = list(files)
    room = max(min(TASK_BYTES, -(-sum(size for _, size in sizes) // max(least, 1))), 1)
    tasks: list[list[Piece]] = []
    left = 0
    for path, size in sizes:
        for start in range(0, max(size, 1), room):
            piece = Piece(path, start, min(start + room, size))
            if left < piece.end - piece.start or not tasks:
                tasks.append([])
                left = room
            tasks[-1].append(piece)
            left -= piece.end - piece.start
    return tasks


class _Conditions(NamedTuple):
    """Which rows a worker decodes: as `asked` and `_is_readable` say it to Spark."""

    asked: tuple[Asked, ...]
    largest: int
    since_ns: int | None
    until_ns: int | None

    def expression(self) -> Any:
        """The conditions as pyarrow has them."""
        import pyarrow.compute as pc

        found = reduce(or_, map(_asked_of_arrow, self.asked))
        found &= (pc.field(c.STORED) == pc.field(c.SIZE)) & (pc.field(c.SIZE) <= self.largest)
        if self.since_ns is not None:
            found &= pc.field(c.AT_NS) >= self.since_ns
        return found if self.until_ns is None else found & (pc.field(c.AT_NS) <= self.until_ns)


def _asked_of_arrow(one: Asked) -> Any:
    import pyarrow.compute as pc

    found = (pc.field(c.KIND) == one.side) & (pc.field(c.DIALECT) == one.dialect)
    key = pc.field(c.API_KEY)
    found &= key.is_valid() if one.api_keys is None else key.isin(list(one.api_keys))
    return found if one.versions is None else found & pc.field(c.API_VERSION).isin(list(one.versions))


Work = Callable[[Iterable[Any]], Iterator[Any]]


def _worked(
    batches: Iterable[Any], tasks: list[list[Piece]], decoder: Decoder, conditions: _Conditions
) -> Iterator[Any]:
    """Runs in a Python worker: the rows of the tasks whose numbers come."""
    where = conditions.expression()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for piece in tasks[number]:
                yield from decoded(_batches(piece, where, decoder.reads), decoder)


def _batches(piece: Piece, where: Any, columns: Sequence[str]) -> Iterator[Any]:
    from recorder.capture.reader import file_at, groups_between, row_groups

    file = file_at(Path(piece.path))
    for number in groups_between(file, piece.start, piece.end):
        for table in row_groups(file, columns, where=where, only=number):
            yield from table.to_batches(BATCH_ROWS)

"""Brings the rows of decoders to tables: from a capture's facts, or by opening frames, on one of two roads.

Facts are Parquet beside the frames that both engines read by themselves; `from_facts` says how each decoder's rows
stand in them. Frames are opened for keys and values of records, and for files of frames without facts:

    worker   Spark's Python workers read the Parquet files with the capture's own reader, in half the time. The files
             must have the same path on every executor, or be in an S3 bucket (`s3://`).
    jvm      Spark reads the Parquet and passes batches to Python (`mapInArrow`). Works wherever Spark can read.

Both open the same frames: whole ones of up to `largest` bytes. Every other frame is a row too, with the columns of
its head; `unread` gives the reason. A larger frame has a row group of its own, so its bytes are not even loaded.

The worker road runs `scan` in a few tasks for each core, of 16 to 128 MiB of Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial, reduce
from operator import ge, le, or_
from typing import Any

from pyspark.errors import PySparkAttributeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.error_reader import Unread
from recorder.analysis.decode import packed
from recorder.analysis.embedded import is_embedded
from recorder.analysis.from_facts import fact_rows, stands_on_facts
from recorder.analysis.scan import (
    Piece,
    Wanted,
    fact_batches,
    opened_frames,
    opened_together,
    plain_rows,
    planned,
    times_of,
    within,
)
from recorder.analysis.table_cache import Deferred, TableCache
from recorder.capture import frames as c
from recorder.capture.remote import SCHEME
from recorder.facts.rows import (
    LARGEST_BODY,
    SIDE,
    UNREAD,
    Decoder,
    DecoderIndex,
    FrameSelector,
    decoded,
    decoded_together,
)

# by the path of a file of frames: by table, the path of its facts
FactFiles = Mapping[str, Mapping[str, str]]
# Reads the rows of one task in a worker.
Read = Callable[[Sequence[Piece]], Iterator[Any]]


class Road(StrEnum):
    """How bodies are read. AUTO uses the workers if they can reach the files."""

    AUTO = "auto"
    WORKER = "worker"
    JVM = "jvm"


# the option of Spark's reader that checks the checksums of pages, as all our readers do
CHECKED = {"parquet.page.verify-checksum.enabled": "true"}
# the bounds of a time in ns
_FIRST_NS, _LAST_NS = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a capture's files of frames.

    `files`: the files of facts by table.
    `frames`, `paths`: the frames whose facts these are, and their files.
    `others`, `other_paths`: the frames of the files without facts; None: all have them.
    """

    files: Mapping[str, Sequence[str]]
    frames: Deferred
    paths: tuple[str, ...]
    others: Deferred | None = None
    other_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Captured:
    """A capture in Spark.

    `frames_read`, `events_read`: its own tables (`frames`, `events`), which are read when they are first asked for.
    `paths`: its files of frames, for the worker road; None if only Spark can reach them.
    `since_ns`, `until_ns`: tables have the frames that arrived between these times, both included; to the microsecond,
    as times in tables are.
    `is_tiny`: a single task computes each table.
    `cache`: keeps tables that several questions read.
    `together`: decoders that share one pass, which runs when the first of their tables is read.
    `facts`: what its frames say, as far as it is known without opening them; None: nothing is.
    """

    spark: SparkSession
    frames_read: Deferred
    events_read: Deferred
    paths: tuple[str, ...] | None = None
    road: Road = Road.AUTO
    largest: int = LARGEST_BODY
    since_ns: int | None = None
    until_ns: int | None = None
    is_tiny: bool = False
    cache: TableCache | None = None
    together: tuple[Decoder, ...] = ()
    facts: Facts | None = None

    def __post_init__(self) -> None:
        if self.since_ns is not None:
            object.__setattr__(self, "since_ns", max(self.since_ns // 1000 * 1000, _FIRST_NS))
        if self.until_ns is not None:
            object.__setattr__(self, "until_ns", min(self.until_ns // 1000 * 1000 + 999, _LAST_NS))

    @property
    def frames(self) -> DataFrame:
        """All frames, whatever time is chosen."""
        return self.frames_read.table

    @property
    def events(self) -> DataFrame:
        """The events."""
        return self.events_read.table

    @property
    def by_workers(self) -> bool:
        """True if bodies are read by the worker road."""
        return self.heads_by_workers or (self.road is not Road.JVM and self.paths is not None)

    @property
    def heads_by_workers(self) -> bool:
        """True if workers read the heads, too. `frames` hold at most the first bytes of some responses then."""
        return is_embedded() or any(path.startswith(SCHEME) for path in self.paths or ())

    @property
    def chosen(self) -> DataFrame:
        """The frames within the chosen time."""
        found = self.frames
        if self.since_ns is not None:
            found = found.filter(F.col(c.AT_NS) >= self.since_ns)
        return found if self.until_ns is None else found.filter(F.col(c.AT_NS) <= self.until_ns)

    @property
    def times(self) -> tuple[int, int] | None:
        """When the first and the last frame arrived, in ns since 1970, if the files tell and no time is chosen."""
        if self.since_ns is not None or self.until_ns is not None or self.paths is None:
            return None
        return times_of(self.paths)

    @property
    def later(self) -> Captured:
        """The same capture without `until_ns`, because a response may arrive after it."""
        return self if self.until_ns is None else replace(self, until_ns=None, together=())

    @property
    def ever(self) -> Captured:
        """The same capture over its whole time, for facts that still hold after they were recorded."""
        is_all = self.since_ns is None and self.until_ns is None
        return self if is_all else replace(self, since_ns=None, until_ns=None, together=())

    @property
    def of_facts(self) -> Captured:
        """The part of the capture that has facts."""
        assert self.facts is not None
        return replace(self, frames_read=self.facts.frames, paths=self.paths and self.facts.paths)

    @property
    def without_facts(self) -> Captured | None:
        """The part of the capture whose frames must be opened; None if there is none."""
        if self.facts is None:
            return self
        if self.facts.others is None:
            return None
        together = tuple(one for one in self.together if stands_on_facts(one))
        paths = self.paths and self.facts.other_paths
        return replace(self, frames_read=self.facts.others, paths=paths, facts=None, together=together)

    def keeping(self) -> Captured:
        """Returns the capture with a store for tables (`cache`), for a table that reads other tables several times."""
        return self if self.cache else replace(self, cache=TableCache())

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Returns the table that `make` computes for the chosen time.

        With `cache`, the table is computed once under this name.
        """
        if self.cache is None:
            return make()
        key = name, self.since_ns, self.until_ns
        whole = (lambda: make().coalesce(1)) if self.is_tiny else make
        return self.cache.table(key, whole, is_tiny=self.is_tiny)


def rows(captured: Captured, decoder: Decoder) -> DataFrame:
    """Returns the decoder's table, of all frames that the decoder asks for. With `cache`, it is computed once."""
    return captured.once(f"rows of {decoder.name}", partial(fresh_rows, captured, decoder))


def fresh_rows(captured: Captured, decoder: Decoder) -> DataFrame:
    """Returns the decoder's table without keeping it.

    Where facts hold its rows, no frame is opened; else a decoder of `together` takes its rows from the shared pass.
    """
    if captured.facts is not None and stands_on_facts(decoder):
        found, others = fact_rows(partial(fact_table, captured), decoder), captured.without_facts
        return found if others is None else found.unionByName(fresh_rows(others, decoder))
    if decoder in captured.together:
        return _of_pass(captured, decoder)
    return _by_workers(captured, decoder) if captured.by_workers else _by_spark(captured, decoder)


def fact_table(captured: Captured, decoder: Decoder) -> DataFrame:
    """Returns a table of facts: the rows of the chosen time."""
    files = () if captured.facts is None else captured.facts.files.get(decoder.name, ())
    found = [*within(files, captured.since_ns, captured.until_ns)]
    paths = [path for path, _ in found]
    spark, schema = captured.spark, decoder.table.ddl
    if not paths:
        return spark.createDataFrame([], schema)
    if paths[0].startswith(SCHEME):
        # workers reach the bucket as the capture's reader does
        read = partial(fact_batches, columns=decoder.table.names)
        return _in_time(captured, by_workers(spark, found, read, schema, is_tiny=captured.is_tiny))
    # without the second option Spark reads names as patterns
    reader = spark.read.schema(schema).options(**CHECKED).option("__globPaths__", "false")
    return _in_time(captured, reader.parquet(*paths))


def _in_time(captured: Captured, found: DataFrame) -> DataFrame:
    """The rows of a table of facts within the chosen time."""
    for bound, holds in ((captured.since_ns, ge), (captured.until_ns, le)):
        if bound is not None:
            found = found.filter(holds(F.col(c.AT), F.timestamp_micros(F.lit(bound // 1000))))
    return found.coalesce(1) if captured.is_tiny else found


def _shared(captured: Captured) -> tuple[Decoder, ...]:
    """The decoders that share one pass over the frames."""
    if captured.facts is None:
        return captured.together
    return tuple(one for one in captured.together if not stands_on_facts(one))


def _of_pass(captured: Captured, decoder: Decoder) -> DataFrame:
    names = ", ".join(one.name for one in _shared(captured))
    every = captured.once(f"rows of {names}", partial(_in_one_pass, captured))
    mine = every.filter(F.col(packed.TABLE) == decoder.name).select(packed.ROWS)
    found = mine.mapInArrow(packed.unpacked, decoder.table.ddl)
    return found if captured.by_workers else found.unionByName(_unopened(captured, decoder))


def _in_one_pass(captured: Captured) -> DataFrame:
    """Returns the packed rows of the decoders that share a pass. On the jvm road, only opened frames have rows."""
    decoders = _shared(captured)
    wanted = tuple(one for decoder in decoders for one in decoder.selectors)
    if captured.by_workers:
        read = partial(_packed_by_workers, decoders=decoders, wanted=_wanted(captured, wanted))
        return scanned(captured, read, packed.DDL)
    opened = (
        captured.chosen.filter(is_selected(wanted))
        .filter(is_readable(captured.largest))
        .select(*DecoderIndex(decoders).reads)
    )
    return opened.mapInArrow(partial(_packed_by_spark, decoders=decoders), packed.DDL)


def _packed_by_workers(task: Sequence[Piece], decoders: Sequence[Decoder], wanted: Wanted) -> Iterator[Any]:
    return packed.packed(opened_together(task, decoders, wanted))


def _packed_by_spark(batches: Iterable[Any], decoders: Sequence[Decoder]) -> Iterator[Any]:
    return packed.packed(decoded_together(batches, DecoderIndex(decoders)))


def opened_rows(captured: Captured, decoder: Decoder) -> tuple[DataFrame, Column]:
    """Returns the decoder's rows for one question, and the condition that selects their frames.

    On the jvm road these are the opened frames alone. A table that scans all frames anyway can add the unread ones
    itself, which saves a second scan.
    """
    is_wanted = is_selected(decoder.selectors)
    if captured.by_workers:
        return _by_workers(captured, decoder), is_wanted
    return _opened_by_spark(captured, decoder), is_wanted & is_readable(captured.largest)


def _by_spark(captured: Captured, decoder: Decoder) -> DataFrame:
    return _opened_by_spark(captured, decoder).unionByName(_unopened(captured, decoder))


def _opened_by_spark(captured: Captured, decoder: Decoder) -> DataFrame:
    # a filter treats null as false; with coalesce() in it, Parquet statistics could not skip row groups
    wanted = captured.chosen.filter(_any_selects(decoder.selectors)).filter(is_readable(captured.largest))
    return wanted.select(*decoder.reads).mapInArrow(partial(decoded, decoder=decoder), decoder.table.ddl)


def _unopened(captured: Captured, decoder: Decoder) -> DataFrame:
    """Returns a row for each frame that is not opened: its head, and the reason."""
    largest = captured.largest
    left = captured.chosen.filter(is_selected(decoder.selectors)).filter(~is_readable(largest))
    return left.select(*_frame_columns(decoder), *_nulls(decoder), _reason(largest).alias(UNREAD))


def is_selected(selectors: Sequence[FrameSelector]) -> Column:
    """Returns the condition that selects the frames for a decoder: true or false, never null."""
    return F.coalesce(_any_selects(selectors), F.lit(False))


def _any_selects(selectors: Sequence[FrameSelector]) -> Column:
    return reduce(or_, map(_selects, selectors))


def _selects(one: FrameSelector) -> Column:
    found = (F.col(c.KIND) == one.side) & (F.col(c.DIALECT) == one.dialect)
    found &= F.col(c.API_KEY).isNotNull() if one.api_keys is None else F.col(c.API_KEY).isin(*one.api_keys)
    return found if one.versions is None else found & F.col(c.API_VERSION).isin(*one.versions)


def is_readable(largest: int) -> Column:
    """True for frames that are stored whole and small enough to be opened."""
    is_whole = F.col(c.STORED) == F.col(c.SIZE)
    return F.coalesce((F.col(c.SIZE) <= largest) & is_whole, F.lit(False))


def _reason(largest: int) -> Column:
    omitted = F.coalesce(F.col(c.STORED) != F.col(c.SIZE), F.lit(True))
    return F.when(omitted, Unread.OMITTED.value).otherwise(Unread.TOO_LARGE.value)


def _frame_columns(decoder: Decoder) -> list[Column]:
    return [F.col(name).alias(SIDE) if name == c.KIND else F.col(name) for name in decoder.copied]


def _nulls(decoder: Decoder) -> list[Column]:
    return [F.lit(None).cast(column.kind).alias(column.name) for column in (*decoder.shared, *decoder.own)]


def _by_workers(captured: Captured, decoder: Decoder) -> DataFrame:
    wanted = _wanted(captured, decoder.selectors)
    return scanned(captured, partial(opened_frames, decoder=decoder, wanted=wanted), decoder.table.ddl)


def _wanted(captured: Captured, selectors: tuple[FrameSelector, ...] = ()) -> Wanted:
    return Wanted(selectors, captured.largest, captured.since_ns, captured.until_ns)


def whole_frames(captured: Captured, columns: Sequence[str], ddl: str) -> DataFrame:
    """Returns columns of the table `frames` with whole frames, wherever the capture is stored."""
    if not captured.heads_by_workers:
        return captured.chosen.select(*columns)
    return scanned(captured, partial(plain_rows, columns=columns, wanted=_wanted(captured)), ddl)


def scanned(captured: Captured, read: Read, ddl: str) -> DataFrame:
    """Returns the rows that workers read from the capture's files of frames within the chosen time."""
    paths = within(captured.paths or (), captured.since_ns, captured.until_ns)
    return by_workers(captured.spark, paths, read, ddl, is_tiny=captured.is_tiny)


def by_workers(
    spark: SparkSession, files: Iterable[tuple[str, int]], read: Read, ddl: str, *, is_tiny: bool
) -> DataFrame:
    """Returns the rows that workers read from files (path, size). `read` turns a task into Arrow batches."""
    cores, may_grow = _cores(spark)
    tasks = planned(files, 1 if is_tiny else cores, may_grow=may_grow)
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(partial(_worked, tasks=tasks, read=read), ddl)


def _cores(spark: SparkSession) -> tuple[int, bool]:
    """Returns how many tasks run at a time at least, and True if more may. With Spark Connect nothing is known."""
    try:
        cores = int(spark.sparkContext.defaultParallelism)
    except PySparkAttributeError:
        return 1, True
    return cores, spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true"


def _worked(batches: Iterable[Any], tasks: list[list[Piece]], read: Read) -> Iterator[Any]:
    """Runs in a Python worker: yields the rows of the tasks with the given numbers."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read(tasks[number])

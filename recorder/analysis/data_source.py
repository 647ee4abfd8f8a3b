"""`spark.read.format("kafka-wiretap")`: tables of a capture that one scan makes, read by Spark's Python workers.

Any session knows the format once it is registered. The rows are those of the worker road: the same planner, reader and
decoders. The source accepts Spark's filters on columns of a frame's head. Such filters choose files by hour, row groups
by their statistics, and rows, before a frame is opened.

Spark up to 4.3.0 applies the filters of a DataFrame's last query to its next one, and those of one side of a join or
union to the other (`job.mixes_up_filters`). With such a Spark, filters are pushed down only on request
(`pushdown`), for a DataFrame with a single query. The options `since`, `until` and `apis` choose files,
row groups and rows as well.

Spark does not tell a Python data source which columns a query uses; the option `columns` or `.schema(...)` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from recorder.analysis.decode.messages import MESSAGES
from recorder.analysis.decode.record_rows import RECORDS
from recorder.analysis.job import mixes_up_filters
from recorder.analysis.pushed import Condition, taken
from recorder.analysis.scan import Piece, Wanted, opened_frames, plain_rows, planned, within
from recorder.analysis.tables.frames import EVENTS, FRAMES
from recorder.capture import frames as c
from recorder.capture.remote import SCHEME, is_url, place_at
from recorder.facts.batches import BATCHES
from recorder.facts.rows import LARGEST_BODY, SIDE, Decoder
from recorder.facts.schema import Column, Table
from recorder.facts.topic_partitions import TOPIC_PARTITIONS

NAME = "kafka-wiretap"
PUSHDOWN = "pushdown"
OPTIONS = ("path", "table", "columns", "apis", "since", "until", "largest", PUSHDOWN)
_DECODERS = {one.name: one for one in (MESSAGES, TOPIC_PARTITIONS, BATCHES, RECORDS)}
_HEADS = {one.name: one for one in (FRAMES, EVENTS)}
# The capture's names of columns that the tables of bodies call differently.
_CAPTURED = {SIDE: c.KIND}


def register(spark: SparkSession) -> None:
    """Registers the format with the session, and enables Spark's filter pushdown to Python sources."""
    # off by default; without it, a reader that accepts filters fails
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(CaptureSource if mixes_up_filters(spark) else PushingSource)


class CaptureSource(DataSource):
    """One table of the capture at `path`. Errors: ValueError for options, in one line."""

    # whether filters are pushed down if the option does not say
    pushes = False

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._chosen = read_options(options)
        self._pushes = _is_true(options.get(PUSHDOWN), self.pushes)

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> str:
        """The chosen columns in Spark's notation."""
        return ", ".join(column.ddl for column in self._chosen.columns)

    def reader(self, schema: Any) -> CaptureReader:
        """A reader of the columns of `schema`, which may be fewer than the table has."""
        fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        found = self._chosen._replace(columns=_typed(self._chosen.table, fields))
        return PushingReader(found) if self._pushes else CaptureReader(found)

    def streamReader(self, schema: Any) -> NoStream:  # noqa: N802 - Spark's name
        """Returns a reader that refuses `spark.readStream` when the stream starts."""
        return NoStream(self._chosen.path)


class PushingSource(CaptureSource):
    """The same source with filter pushdown on, for a Spark that keeps each query's filters apart."""

    pushes = True


class ReadOptions(NamedTuple):
    """A reader's options, checked: the capture, the table, its columns, and the filters."""

    path: str
    table: Table
    columns: tuple[Column, ...]
    wanted: Wanted

    @property
    def decoder(self) -> Decoder | None:
        """The decoder of the table; None for the capture's own tables."""
        return _DECODERS.get(self.table.name)

    @property
    def head(self) -> dict[str, Column]:
        """The columns that can be filtered without opening a frame, by their names in the table."""
        own = self.decoder.frame_columns if self.decoder else self.table.columns
        plain = [column for column in own if column.kind != "binary" and not column.kind.startswith("array")]
        return {column.name: column._replace(name=_CAPTURED.get(column.name, column.name)) for column in plain}


class Task(InputPartition):
    """The pieces that one of Spark's tasks reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(tuple(pieces))


class CaptureReader(DataSourceReader):
    """Plans the tasks in a Python process of the driver, and reads their rows in those of the executors."""

    def __init__(self, chosen: ReadOptions) -> None:
        self._chosen = chosen

    def partitions(self) -> Sequence[InputPartition]:
        """Returns Spark's tasks. Errors: ValueError for a folder without frames."""
        from recorder.capture.reader import files

        options, wanted = self._chosen, self._chosen.wanted
        folder = place_at(options.path)
        kind = options.table.name if options.table.name in _HEADS else c.FRAMES_FOLDER
        there = files(folder, kind)
        if not there and not files(folder):
            raise ValueError(f"{folder} holds no frames: right would be a capture's folder, compacted")
        found = within((str(file.path) for file in there), *wanted.bounds_ns())
        # this runs in a process of Spark's driver, which may have fewer cores than the cluster
        return [Task(pieces) for pieces in planned(found, os.cpu_count() or 1, may_grow=True)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields a task's rows as Arrow batches."""
        names = [column.name for column in self._chosen.columns]
        decoder, wanted = self._chosen.decoder, self._chosen.wanted
        # for an empty list of tasks, Spark makes one partition without a value
        pieces = partition.value or ()
        if decoder is None:
            yield from plain_rows(pieces, names, wanted)
            return
        for batch in opened_frames(pieces, decoder, wanted._replace(selectors=decoder.selectors)):
            yield batch.select(names)


class NoStream(DataSourceStreamReader):
    """Refuses a stream. If `streamReader` itself raised, Spark would hide the reason behind an error of its own."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Errors: ValueError, always."""
        right = f"kafka-wiretap stream {self._path}, or streaming.exchanges_as_they_come(spark, {self._path!r})"
        raise ValueError(f"{NAME} reads what is there, and is no stream; right would be {right}")

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Returns no rows: without a first offset there are no partitions."""
        return iter(())


class PushingReader(CaptureReader):
    """A reader that accepts filters on columns of a frame's head."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Accepts the filters that it can apply, and returns the others to Spark."""
        found, left = taken(filters, self._chosen.head)
        wanted = self._chosen.wanted
        self._chosen = self._chosen._replace(wanted=wanted._replace(conditions=(*wanted.conditions, *found)))
        return left


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Returns the question that a reader's options ask. Errors: ValueError."""
    for name in options:
        if name.lower() not in OPTIONS:
            raise ValueError(f"{name} is no option of {NAME}; right would be {', '.join(OPTIONS)}")
    table = _table(options.get("table", FRAMES.name))
    names = [name.strip() for name in options.get("columns", "").split(",") if name.strip()]
    if "path" not in options:
        raise ValueError(f'no capture: right would be .format("{NAME}").load("/captures/today")')
    if is_url(options["path"]) and not options["path"].startswith(SCHEME):
        raise ValueError(f"{options['path']} is read by Spark alone: right would be a path, or {SCHEME}BUCKET/FOLDER")
    # executors may run in another folder
    path = str(place_at(options["path"]).absolute())
    since, until = (_ns(options.get(name), name, path) for name in ("since", "until"))
    apis = _of_apis(options.get("apis", ""))
    _chosen(table, [condition.column for condition in apis])
    wanted = Wanted((), _bytes(options.get("largest")), since, until, apis)
    return ReadOptions(path, table, _chosen(table, names or table.names), wanted)


def _table(name: str) -> Table:
    offered = {**_HEADS, **{decoder.name: decoder.table for decoder in _DECODERS.values()}}
    if name not in offered:
        raise ValueError(f"{name} is no table of one scan; right would be {', '.join(offered)}; sources.load has all")
    return offered[name]


def _chosen(table: Table, names: Iterable[str]) -> tuple[Column, ...]:
    columns = {column.name: column for column in table.columns}
    for name in names:
        if name not in columns:
            raise ValueError(f"{table.name} has no column {name}; it has {', '.join(columns)}")
    return tuple(columns[name] for name in names)


def _typed(table: Table, fields: Iterable[tuple[str, str]]) -> tuple[Column, ...]:
    """Returns the columns with these names. Errors: ValueError for an unknown name, or another type."""
    fields = list(fields)
    columns = _chosen(table, [name for name, _ in fields])
    for column, (_, kind) in zip(columns, fields, strict=True):
        if kind != column.kind.replace(": ", ":").replace(", ", ","):
            raise ValueError(f"{table.name}: the column {column.name} is {column.kind}, not {kind}")
    return columns


def _of_apis(names: str) -> tuple[Condition, ...]:
    found = tuple(_api(name.strip()) for name in names.split(",") if name.strip())
    return (Condition("In", c.API, "string", found),) if found else ()


def _api(name: str) -> str:
    from proxy.wire.kafka07 import RequestType
    from proxy.wire.renamed import api_today

    today = api_today(name) or next((one.api for one in RequestType if one.api == name), None)
    if today is None:
        raise ValueError(f"apis: no API is called {name}; right would be Fetch,Produce")
    return today


def _ns(text: str | None, option: str, path: str) -> int | None:
    from recorder.capture.reader import last_ns
    from recorder.moments import RIGHT, read

    if text is None:
        return None
    try:
        moment = read(text)
    except ValueError:
        raise ValueError(f"{option} {text!r} is no time; right would be {RIGHT}") from None
    return moment.resolved(lambda: last_ns(place_at(path)))


def _bytes(text: str | None) -> int:
    if text is None:
        return LARGEST_BODY
    if not text.isdecimal() or not int(text):
        raise ValueError(f"largest {text!r} is no number of bytes; right would be {LARGEST_BODY}")
    return int(text)


def _is_true(text: str | None, usual: bool) -> bool:
    if text is None:
        return usual
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{PUSHDOWN} {text!r} is neither true nor false")
    return text.lower() == "true"

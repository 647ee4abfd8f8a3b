"""Gathers the rows of frames and events, and makes an Arrow table of them for each row group.

Used by `ranges` and filled by `rows` and `events`. Built for many small frames: a row's numbers go into one flat list,
and each column is a slice of that list. Values that many rows share (those of a connection, an API, a client id) stand
once in a dictionary, and rows hold their indices. Of frames that are alike, one row stands for all. The frames' bytes
stand one after the other in a buffer that the binary column uses without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recorder.capture import frames as c
from recorder.hashing.batches import Told

# bytes of frames in a row group, so that a reader's memory is bounded; a larger frame is a row group of its own
MAX_BYTES = 64 * 1024 * 1024
# bytes of frames in a row group of the APIs that carry no records: it fills slowly, and waits in memory meanwhile
MAX_BYTES_WITHOUT_RECORDS = 16 * 1024 * 1024
# rows in a row group: their numbers take some 300 bytes a row while they wait here
MAX_ROWS = 100_000
# characters of names in a row group: long names make for fewer rows
MAX_NAMES = 128 * 1024 * 1024
# masked and omitted spans in a row group: each takes some hundred bytes while it waits here
MAX_SPANS = 500_000
# rows of events in a row group: each takes a kilobyte while it waits here
MAX_EVENTS = 20_000

# (start, length)
Spans = list[tuple[int, int]]


class ConnectionColumns(NamedTuple):
    """The columns whose values all frames of a connection share."""

    connection: int
    node: int | None
    listener: str | None
    client: str | None
    principal: str | None
    cluster: str | None = None
    dialect: str = c.KAFKA


class FrameType(NamedTuple):
    """The columns whose values all frames of one kind, sender (`made_by`), API and version share."""

    kind: str
    made_by: str
    api_key: int | None
    api: str | None
    api_version: int | None


class RowNumbers(NamedTuple):
    """The numbers of one row. The first three are indices into `SharedDictionaries`."""

    connection_index: int
    frame_type_index: int
    client_id_index: int
    sequence: int
    exchange: int | None
    mono_ns: int
    first_mono_ns: int
    awaits: bool | None
    correlation_id: int | None
    size: int
    request_size: int | None
    latency_ns: int | None
    queued_ns: int | None
    transfer_ns: int | None


NUMBERS_PER_ROW = len(RowNumbers._fields)
# the numbers that count up from frame to frame where a row stands for several
_COUNTING = ("sequence", "exchange", "correlation_id")
# the first numbers of a row are indices into `SharedDictionaries`
_INDICES = 3


class Dictionary:
    """Distinct values, each with the index that rows hold in its place. `longest`: characters of the longest value."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.longest = 0
        self._indices: dict[Any, int] = {}

    def index_of(self, value: Any) -> int:
        """The index of a value; a new value is added."""
        index = self._indices.get(value)
        if index is None:
            index = self._indices[value] = len(self.values)
            self.values.append(value)
            self.longest = max(self.longest, _characters(value))
        return index


class SharedDictionaries:
    """The dictionaries of one segment's rows, new for each segment, so that they can't grow for ever."""

    def __init__(self) -> None:
        self.connections = Dictionary()
        self.frame_types = Dictionary()
        self.client_ids = Dictionary()


class FrameRows:
    """The rows of the next row group of frames. All have one `clock_offset_ns`: wall clock minus monotonic clock.

    To add a row, extend `numbers` by one `RowNumbers` (or a plain tuple like it), and `body` by the frame's bytes.
    `repeat_newest` adds rows for frames like the newest one. `set_rare_values` adds the values that few rows have.
    `carries_records`: True for frames of APIs that carry records.
    """

    def __init__(
        self,
        session: str,
        cluster: str | None,
        shared: SharedDictionaries,
        clock_offset_ns: int,
        *,
        carries_records: bool = True,
    ) -> None:
        self._max_bytes = MAX_BYTES if carries_records else MAX_BYTES_WITHOUT_RECORDS
        self.session = session
        self.cluster = cluster
        self.shared = shared
        self.clock_offset_ns = clock_offset_ns
        self.numbers: list[Any] = []
        self.body = bytearray()
        # of the rows that lack bytes: how many of theirs are in `body`, and how many `stored` counts
        self._in_body: dict[int, int] = {}
        self._stored: dict[int, int] = {}
        self._masked: dict[int, Spans] = {}
        self._omitted: dict[int, Spans] = {}
        self._dropped: dict[int, Spans] = {}
        # bytes of dropped spans: a reader fills them
        self._dropped_bytes = 0
        # what the batches of rows with hashed records were
        self._batches: dict[int, Sequence[Told]] = {}
        self._notes: dict[int, str] = {}
        self._span_count = 0
        # by the place of its numbers: for how many more rows a row stands; and all these rows
        self._repeats: dict[int, int] = {}
        self._repeated = 0

    def __len__(self) -> int:
        return len(self.numbers) // NUMBERS_PER_ROW + self._repeated

    def has_room(self, size: int) -> bool:
        """True if a frame of `size` bytes, with those of dropped spans, fits into this row group."""
        # as `len(self)`, whose call would take a third of the time; each chunk asks
        rows, shared = len(self.numbers) // NUMBERS_PER_ROW + self._repeated, self.shared
        names = rows * (shared.connections.longest + shared.client_ids.longest)
        is_small = rows < MAX_ROWS and names <= MAX_NAMES and self._span_count <= MAX_SPANS
        return not rows or (is_small and len(self.body) + self._dropped_bytes + size <= self._max_bytes)

    def correct_newest(self, name: str, value: Any) -> None:
        """Changes a number of the newest row. `name`: a field of `RowNumbers`."""
        self.numbers[RowNumbers._fields.index(name) - NUMBERS_PER_ROW] = value

    def repeat_newest(self, count: int) -> None:
        """Adds so many rows like the newest one, but for numbers that count up: sequence, exchange, correlation id."""
        self._repeats[len(self.numbers) // NUMBERS_PER_ROW - 1] = count
        self._repeated += count

    def set_rare_values(
        self,
        in_body: int,
        masked: Spans,
        omitted: Spans,
        note: str | None,
        dropped: Spans | None = None,
        batches: Sequence[Told] | None = None,
    ) -> None:
        """Adds the rare values of the newest row.

        Args:
            in_body: how many bytes at the end of `body` are that row's.
            batches: what its batches were before their records were hashed; None: they were not.
        """
        row = len(self) - 1
        self._span_count += len(masked) + len(omitted) + len(dropped or ()) + len(batches or ())
        if batches is not None:
            self._batches[row] = batches
        if batches is not None:
            # of hashed frames, all is there in another form: their sizes differ from that on the wire
            self._in_body[row] = in_body
        if omitted or dropped:
            self._in_body[row] = self._stored[row] = in_body
        if omitted:
            self._omitted[row] = omitted
        if dropped:
            self._dropped[row] = dropped
            length = sum(length for _, length in dropped)
            self._stored[row] += length
            self._dropped_bytes += length
        if masked:
            self._masked[row] = masked
        if note is not None:
            self._notes[row] = note

    def table(self) -> Any:
        """The rows as an Arrow table of the frames' schema."""
        schema = c.frames_schema()
        rows = len(self)
        number = self._number_columns()
        at_ns = pc.add(number["mono_ns"], self.clock_offset_ns)
        columns: dict[str, Any] = {
            c.SESSION: pa.repeat(pa.scalar(self.session, pa.string()), rows),
            c.AT: pc.cast(pc.cast(at_ns, pa.timestamp("ns", tz="UTC")), schema.field(c.AT).type, safe=False),
            c.AT_NS: at_ns,
            c.STORED: _replaced(number["size"], self._stored),
            c.FRAME: _binary(_replaced(number["size"], self._in_body), self.body),
            c.MASKED: _sparse(self._masked, rows, schema.field(c.MASKED).type),
            c.OMITTED: _sparse(self._omitted, rows, schema.field(c.OMITTED).type),
            c.DROPPED: _sparse(self._dropped, rows, schema.field(c.DROPPED).type),
            c.RECORDS: _sparse(
                {**dict.fromkeys(self._dropped, c.DROP), **dict.fromkeys(self._batches, c.HASH)}, rows, pa.string()
            ),
            c.BATCHES: _told(self._batches, rows, schema.field(c.BATCHES).type),
            c.NOTE: _sparse(self._notes, rows, pa.string()),
            c.CLIENT_ID: _taken(self.shared.client_ids.values, number["client_id_index"], pa.string()),
        }
        for values, index, names in (
            (self.shared.connections.values, number["connection_index"], ConnectionColumns._fields),
            (self.shared.frame_types.values, number["frame_type_index"], FrameType._fields),
        ):
            for position, name in enumerate(names):
                column = [value[position] for value in values]
                if name == c.CLUSTER:
                    column = [value or self.cluster for value in column]
                columns[name] = _taken(column, index, schema.field(name).type)
        columns |= {name: number[name] for name in RowNumbers._fields[_INDICES:]}
        return pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)

    def _number_columns(self) -> dict[str, Any]:
        """The numbers of all rows as columns, by their names in `RowNumbers`."""
        schema = c.frames_schema()
        columns: dict[str, Any] = {}
        for index, name in enumerate(RowNumbers._fields):
            kind = pa.int32() if index < _INDICES else schema.field(name).type
            columns[name] = pa.array(self.numbers[index::NUMBERS_PER_ROW], kind)
        if not self._repeats:
            return columns
        counts = np.ones(len(self) - self._repeated, np.int64)
        counts[[*self._repeats]] += [*self._repeats.values()]
        of = np.repeat(np.arange(len(counts)), counts)
        counted = np.arange(len(of)) - (np.cumsum(counts) - counts)[of]
        columns = {name: column.take(pa.array(of)) for name, column in columns.items()}
        for name in _COUNTING:
            columns[name] = pc.add(columns[name], pa.array(counted, columns[name].type))
        return columns


class EventRows:
    """The rows of the next row group of events. `cluster`: the cluster of all events that name none."""

    def __init__(self, session: str, cluster: str | None) -> None:
        self.session = session
        self.cluster = cluster
        self._rows: list[tuple[Any, ...]] = []
        self._detail_characters = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """True if the next event needs another row group."""
        return len(self) >= MAX_EVENTS or self._detail_characters >= MAX_BYTES

    def add(
        self,
        kind: str,
        connection: int | None,
        mono_ns: int,
        clock_offset_ns: int,
        *,
        cause: str | None = None,
        frames: int | None = None,
        size: int | None = None,
        detail: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Adds one event. The arguments are its columns; None where they don't apply."""
        at_ns = mono_ns + clock_offset_ns
        at = at_ns // 1000
        self._detail_characters += len(detail or "")
        self._rows.append(
            (self.session, cluster or self.cluster, connection, at, at_ns, mono_ns, kind, cause, frames, size, detail)
        )

    def table(self) -> Any:
        """The rows as an Arrow table of the events' schema."""
        schema = c.events_schema()
        columns = zip(*self._rows, strict=True) if self._rows else [[] for _ in schema]
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)


def _characters(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str) else 0


def _taken(values: list[Any], indices: Any, arrow_type: Any) -> Any:
    return pc.take(pa.array(values, arrow_type), indices)


def _replaced(values: Any, rare: dict[int, int]) -> Any:
    """A column of integers with others in a few rows."""
    if not rare:
        return values
    numbers = values.to_numpy().copy()
    numbers[[*rare]] = [*rare.values()]
    return pa.array(numbers, values.type)


def _binary(sizes: Any, body: bytearray) -> Any:
    """A binary column that uses the buffer without a copy."""
    ends = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), sizes]))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, ends.buffers()[1], pa.py_buffer(body)])


def _sparse(rare: dict[int, Any], rows: int, arrow_type: Any) -> Any:
    """A column that is null in all rows but a few."""
    if not rare:
        return pa.nulls(rows, arrow_type)
    if pa.types.is_list(arrow_type):
        return _spans(rare, rows, arrow_type)
    return pa.array([rare.get(row) for row in range(rows)], arrow_type)


def _told(rare: dict[int, Sequence[Told]], rows: int, arrow_type: Any) -> Any:
    """A column of what batches were, null in rows whose records are not hashed."""
    if not rare:
        return pa.nulls(rows, arrow_type)
    told = [*chain.from_iterable(rare[row] for row in sorted(rare))]
    columns = zip(*told, strict=True) if told else ([] for _ in arrow_type.value_type)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, arrow_type.value_type, strict=True)]
    ends = pc.cumulative_sum(pa.array([0, *(len(rare.get(row, ())) for row in range(rows))], pa.int32()))
    mask = pa.array([row not in rare for row in range(rows)])
    structs = pa.StructArray.from_arrays(arrays, fields=list(arrow_type.value_type))
    return pa.ListArray.from_arrays(ends, structs, type=arrow_type, mask=mask)


def _spans(rare: dict[int, Spans], rows: int, arrow_type: Any) -> Any:
    """A column of lists of spans, null in most rows. Built without dicts: there may be millions of spans."""
    counts = [len(rare.get(row, ())) for row in range(rows)]
    numbers = pa.array(chain.from_iterable(chain.from_iterable(rare[row] for row in sorted(rare))), pa.int32())
    pairs = pa.StructArray.from_arrays([numbers[::2], numbers[1::2]], fields=list(arrow_type.value_type))
    ends = pc.cumulative_sum(pa.array([0, *counts], pa.int32()))
    mask = pa.array([row not in rare for row in range(rows)])
    return pa.ListArray.from_arrays(ends, pairs, type=arrow_type, mask=mask)

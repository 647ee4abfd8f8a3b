"""A capture as a stream of happenings in the order of time, all sessions merged.

Each session has a monotonic clock of its own. Its first frame tells how far the wall clock was ahead of it, so that all
sessions share one time line even if a wall clock was set meanwhile. A row group is opened when the merge reaches the
smallest time in its footer. Its narrow columns are read as a whole, since they have to be sorted by time, and stay in
memory as Arrow until the last row has passed. Frames are read a window at a time, and dropped with their rows.

A request's frame decides which API, version and client it is of; its row's columns count where the frame is missing. A
row of another session than its file's has a fault, since nothing tells its time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from proxy.wire.errors import WireError
from proxy.wire.headers import RequestHead, request_head
from proxy.wire.keys import PRODUCE
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError
from recorder.capture.reader import (
    READING,
    ROW,
    CaptureFile,
    Listing,
    Row,
    first_times,
    in_listing,
    listed,
    row_groups,
    streamed_bodies,
)
from recorder.replay.plan import Exchange, FramePlace, Origin, Peer, Reason
from recorder.replay.recorded import facts_of

Connection = tuple[str, int]
# connections whose peers are remembered
_PEERS = 10_000
_EVENTS = (c.SESSION, c.CLUSTER, c.CONNECTION, c.MONO_NS, c.KIND, c.DETAIL)
_BY_TIME = ((c.MONO_NS, "ascending"), (c.CONNECTION, "ascending"), (c.SEQUENCE, "ascending"))
# What is read at a time: bytes of frames, or their number. The thread that serves the sockets waits meanwhile, and the
# frames of a row group may be 64 MiB.
_WINDOW, _WINDOW_FRAMES = 4 << 20, 2000
# at the same time, a connection is opened before its frames and closed after them
_OPENED, _FRAME, _CLOSED = range(3)


class FrameRow(NamedTuple):
    """A row of frames, with the names of its columns, and its place."""

    session: str
    cluster: str | None
    connection: int | None
    sequence: int
    exchange: int | None
    dialect: str
    kind: str
    made_by: str
    mono_ns: int
    first_mono_ns: int | None
    at_ns: int
    node: int | None
    client: str | None
    principal: str | None
    api_key: int | None
    api_version: int | None
    awaits: bool | None
    client_id: str | None
    masked: list[Row] | None
    omitted: list[Row] | None
    note: str | None
    frame: bytes | None
    place: FramePlace


class EventRow(NamedTuple):
    """A row of events."""

    session: str
    cluster: str | None
    connection: int | None
    mono_ns: int
    kind: str
    detail: str | None
    sequence: int = 0


class DiskRead(NamedTuple):
    """The next step reads from the disk, which the thread that serves sockets should not do."""


class RequestRecorded(NamedTuple):
    """A request was recorded. Its answer is not known yet."""

    ns: int
    exchange: Exchange
    cluster: str | None


class AnswerRecorded(NamedTuple):
    """An answer was recorded. `frame`: None if its bytes can't be used. `by_proxy`: it does not come from a broker."""

    ns: int
    origin: Origin
    api_key: int
    version: int
    frame: bytes | None
    by_proxy: bool
    place: FramePlace | None = None
    cluster: str | None = None


class ConnectionOpened(NamedTuple):
    """A connection was opened."""

    ns: int
    connection: Connection
    cluster: str | None = None


class ConnectionClosed(NamedTuple):
    """A connection has ended: its open exchanges have no answer."""

    ns: int
    connection: Connection


class NodeFound(NamedTuple):
    """The proxy found a node, with its recorded id."""

    ns: int
    node: int
    cluster: str | None = None


Happening = RequestRecorded | AnswerRecorded | ConnectionOpened | ConnectionClosed | NodeFound


class _Group(NamedTuple):
    """A row group that is not read yet. `first_ns`: no row is earlier."""

    first_ns: int
    number: int
    file: CaptureFile
    group: int
    is_frames: bool


class _Head(NamedTuple):
    """The next row of an open row group. `order` is unique, so that rows are never compared."""

    order: tuple[int, ...]
    row: FrameRow | EventRow
    rest: _Frames | _Events


# A named tuple's own constructor is a Python function: here it would be called for each of a capture's millions of rows
_row: Callable[[type[FrameRow], tuple[Any, ...]], FrameRow] = tuple.__new__
_place: Callable[[type[FramePlace], tuple[Any, ...]], FramePlace] = tuple.__new__
_origin: Callable[[type[Origin], tuple[Any, ...]], Origin] = tuple.__new__
_request: Callable[[type[RequestRecorded], tuple[Any, ...]], RequestRecorded] = tuple.__new__
_answer: Callable[[type[AnswerRecorded], tuple[Any, ...]], AnswerRecorded] = tuple.__new__
_next: Callable[[type[_Head], tuple[Any, ...]], _Head] = tuple.__new__


def happenings(
    folder: Path, sessions: Sequence[str] = (), cluster: str | None = None, listing: Listing | None = None
) -> Iterator[Happening]:
    """The happenings in a capture, oldest first.

    Args:
        sessions: beginnings of the names of wanted sessions; none: all.
        cluster: the wanted one; None: all.
        listing: an earlier one; what was not in the capture then is left out. None: nothing is.

    Errors: DamagedFileError, UnknownFormatError, OverBudget.
    """
    return (one for one in in_steps(folder, sessions, cluster, listing) if not isinstance(one, DiskRead))


def in_steps(
    folder: Path, sessions: Sequence[str] = (), cluster: str | None = None, listing: Listing | None = None
) -> Iterator[Happening | DiskRead]:
    """The happenings of `happenings`, with a `DiskRead` first and before each step that reads from the disk."""
    yield DiskRead()
    yield from _Merge(folder, tuple(sessions), cluster, listing).run()


class _Merge:
    def __init__(self, folder: Path, sessions: tuple[str, ...], cluster: str | None, then: Listing | None) -> None:
        # rows without a cluster belong to the whole session
        self._clusters = None if cluster is None else (cluster, None)
        now = listed(folder)
        known = now if then is None else Listing(*map(in_listing, now, then))
        frames, events = ([file for file in of if not sessions or file.session.startswith(sessions)] for of in known)
        self._ahead: dict[str, int] = {}
        for file in frames:
            if file.session not in self._ahead and (ahead := _ahead(file)) is not None:
                self._ahead[file.session] = ahead
        numbers = count()
        self._unread = [
            _Group(first + self._ahead[file.session], next(numbers), file, group, is_frames)
            for found, is_frames in ((events, False), (frames, True))
            for file in found
            if file.session in self._ahead
            for group, first in enumerate(first_times(file))
        ]
        heapq.heapify(self._unread)
        self._heads: list[_Head] = []

    def run(self) -> Iterator[Happening | DiskRead]:
        while self._unread or self._heads:
            while self._unread and (not self._heads or self._unread[0].first_ns <= self._heads[0].order[0]):
                yield DiskRead()
                self._open(heapq.heappop(self._unread))
            if not self._heads:
                continue
            order, row, rest = self._heads[0]
            if self._clusters is None or row.cluster in self._clusters:
                found = _frame(row, order[0], rest) if isinstance(row, FrameRow) else _event(row, order[0])
                if found is not None:
                    yield found
            if rest.must_read:
                yield DiskRead()
                rest.read()
            following = rest.next()
            heapq.heapreplace(self._heads, following) if following else heapq.heappop(self._heads)

    def _open(self, group: _Group) -> None:
        kind = _Frames if group.is_frames else _Events
        rows = kind(group.file, group.group, self._ahead[group.file.session])
        if rows.must_read:
            rows.read()
        head = rows.next()
        if head:
            heapq.heappush(self._heads, head)


def _event(row: EventRow, ns: int) -> Happening | None:
    if row.kind == c.EVENT_NODE:
        return _node(ns, row)
    if row.connection is None:
        return None
    connection = row.session, row.connection
    if row.kind == c.EVENT_OPENED:
        return ConnectionOpened(ns, connection, row.cluster)
    return ConnectionClosed(ns, connection) if row.kind == c.EVENT_CLOSED else None


def _frame(row: FrameRow, ns: int, of: _Frames | _Events) -> Happening | None:
    if row.exchange is None or row.connection is None:
        return None
    origin = _origin(Origin, (row.session, row.connection, row.exchange))
    fault = _fault(row, of.session)
    if row.kind == c.REQUEST:
        return _request(RequestRecorded, (ns, _exchange(row, origin, ns, of.ahead, fault), row.cluster))
    key, version = _number(row.api_key), _number(row.api_version)
    frame, by_proxy = None if fault else row.frame, row.made_by == c.BY_PROXY
    return _answer(AnswerRecorded, (ns, origin, key, version, frame, by_proxy, row.place, row.cluster))


def _node(ns: int, row: EventRow) -> NodeFound | None:
    node = facts_of(row.detail).get("node_id")
    return NodeFound(ns, node, row.cluster) if isinstance(node, int) else None


def _ahead(file: CaptureFile) -> int | None:
    """How far the wall clock was ahead of the session's own at its first frame; None without frames."""
    table = next(_tables(file, (c.AT_NS, c.MONO_NS)), None)
    return None if table is None else int(table[c.AT_NS][0].as_py()) - int(table[c.MONO_NS][0].as_py())


class _Events:
    """The events of a row group, by time. They are read as a whole. `ahead`: how far the wall clock was, as below."""

    must_read = False

    def __init__(self, file: CaptureFile, group: int, ahead: int) -> None:
        self.ahead, self.session = ahead, file.session
        tables = _tables(file, _EVENTS, group)
        rows = (EventRow(*row.values()) for t in tables for row in t.sort_by([*_BY_TIME[:2]]).to_pylist())
        self._rows = (row for row in rows if row.session == file.session)

    def read(self) -> None:
        """Does nothing: all events are read."""

    def next(self) -> _Head | None:
        """The next event."""
        row = next(self._rows, None)
        if row is None:
            return None
        rank = _CLOSED if row.kind == c.EVENT_CLOSED else _OPENED
        return _Head((row.mono_ns + self.ahead, rank, row.connection or 0, row.sequence, id(row)), row, self)


class _Frames:
    """The frames of a row group, by time. They are stored nearly in that order: those that are read too early are kept.

    `must_read`: the next frame has to be read from the disk. `ahead`: of the wall clock, before the session's.
    """

    def __init__(self, file: CaptureFile, group: int, ahead: int) -> None:
        self.ahead, self.session = ahead, file.session
        self._file, self._group = file, group
        self._heads = _heads(file, group)
        self._bodies = enumerate(streamed_bodies(file, group))
        self._read: dict[int, bytes | None] = {}
        self._following = next(self._heads, None)
        self.must_read = self._following is not None

    def read(self) -> None:
        """Reads on, at least up to the next frame."""
        assert self._following is not None
        row, size, kept = self._following[-1], 0, self._read
        while row not in kept or (size < _WINDOW and len(kept) < _WINDOW_FRAMES):
            at, body = next(self._bodies, (-1, None))
            if at < 0:
                break
            kept[at] = body
            size += len(body or b"")
        self.must_read = False

    def next(self) -> _Head | None:
        """The next frame, which must have been read."""
        columns, read = self._following, self._read
        if columns is None:
            return None
        at = columns[-1]
        place = _place(FramePlace, (self._file, self._group, at))
        row = _row(FrameRow, (*columns[:-1], read.pop(at), place))
        self._following = following = next(self._heads, None)
        self.must_read = following is not None and following[-1] not in read
        order = row.mono_ns + self.ahead, _FRAME, row.connection or 0, row.sequence, id(row)
        return _next(_Head, (order, row, self))


def _heads(file: CaptureFile, group: int) -> Iterator[tuple[Any, ...]]:
    """The narrow columns of a row group's frames, with the number of each row, by time."""
    # as a list: a suspended generator would keep the unsorted columns, too
    tables = [*_tables(file, (*FrameRow._fields[:-2], ROW), group)]
    return chain.from_iterable(quick_rows(_by_time(tables.pop())) for _ in range(len(tables)))


def _tables(file: CaptureFile, columns: Sequence[str], group: int | None = None) -> Iterator[Any]:
    """Narrow columns of a row group, or of all with rows.

    Errors: those of `row_groups`; DamagedFileError without times.
    """
    for table in row_groups(file, columns, allowance=Allowance(READING, DEFAULT_BUDGET), only_group=group):
        if table[c.MONO_NS].null_count:
            raise DamagedFileError(f"{file.path} can't be read: its column {c.MONO_NS} has holes")
        yield table


def _by_time(table: Any) -> Any:
    return table.take(pc.sort_indices(table.select([name for name, _ in _BY_TIME]), _BY_TIME))


def _exchange(row: FrameRow, origin: Origin, at_ns: int, ahead: int, fault: Reason | None) -> Exchange:
    first, head = row.first_mono_ns, _head_of(row)
    return Exchange(
        origin,
        head.api_key,
        head.api_version,
        row.frame,
        at_ns if first is None else min(first + ahead, at_ns),
        at_ns,
        _peer(row.client or "", head.client_id),
        node=row.node,
        principal=row.principal,
        wall_ns=row.at_ns,
        client=row.client or "",
        # all other requests have answers; a Produce's own acks decide once it is decoded
        awaits=row.awaits is not False or head.api_key != PRODUCE,
        fault=fault,
        masked=_spans(row.masked) if row.masked else (),
        omitted=_spans(row.omitted) if row.omitted else (),
        place=row.place,
    )


def _head_of(row: FrameRow) -> RequestHead:
    """The head of a request: its frame's, or the columns where the frame can't tell."""
    if row.dialect == c.KAFKA and row.frame is not None:
        try:
            return request_head(row.frame)
        except WireError:
            pass
    return RequestHead(_number(row.api_key), _number(row.api_version), 0, row.client_id, 0)


@lru_cache(_PEERS)
def _peer(client: str, client_id: str | None) -> Peer:
    """`client`: an address with its port."""
    return Peer(client.rpartition(":")[0], client_id)


def _fault(row: FrameRow, session: str) -> Reason | None:
    """Why a frame's bytes can't be used as recorded; None if they can. `session`: of the row's file."""
    if row.session != session:
        return Reason.OTHER_SESSION
    if row.dialect != c.KAFKA:
        return Reason.OLD_DIALECT
    if row.api_key is None or row.api_version is None or row.note:
        return Reason.OPAQUE
    if row.masked:
        return Reason.MASKED
    return Reason.CUT if row.frame is None or row.omitted else None


def _number(value: Any) -> int:
    return -1 if value is None else int(value)


def _spans(spans: Any) -> tuple[tuple[int, int], ...]:
    return tuple((span["start"], span["length"]) for span in spans or ())


# rows that are converted at a time
AT_ONCE = 256
# Arrow's integers -> how Python's memoryview calls them
_FORMATS: dict[str, Any] = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
}
# start, stop -> the values of these rows
_Column = Callable[[int, int], Any]


def quick_rows(table: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, in order, as tuples of its columns' values.

    Fast for columns with few different values, as most of a capture: a column with one value is repeated, each text is
    made once, and numbers without nulls are read from Arrow's buffer. Rows are converted a few at a time, so the caller
    never waits long.
    """
    columns = [_column(column.combine_chunks()) for column in table.columns]
    for start in range(0, len(table), AT_ONCE):
        stop = min(start + AT_ONCE, len(table))
        yield from zip(*(column(start, stop) for column in columns), strict=True)


def _column(values: Any) -> _Column:
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if len(values) and values.null_count == len(values):
        return lambda start, stop: repeat(None, stop - start)
    if pa.types.is_string(values.type):
        return _texts(values)
    if pa.types.is_integer(values.type) and not values.null_count:
        return _numbers(values)
    return lambda start, stop: values.slice(start, stop - start).to_pylist()


def _texts(values: Any) -> _Column:
    coded = values.dictionary_encode()
    texts, indices = coded.dictionary.to_pylist(), coded.indices
    if len(texts) == 1 and not values.null_count:
        return lambda start, stop: repeat(texts[0], stop - start)
    # a null has the code behind the last text
    texts.append(None)
    codes = _numbers(indices.fill_null(len(texts) - 1))
    return lambda start, stop: [texts[code] for code in codes(start, stop)]


def _numbers(values: Any) -> _Column:
    """Integers without nulls. Arrow's own way to many of them at once needs numpy, which a plain installation lacks."""
    start, stop = (index * values.type.bit_width // 8 for index in (values.offset, values.offset + len(values)))
    numbers: Any = memoryview(values.buffers()[1]).cast("B")[start:stop].cast(_FORMATS[str(values.type)])
    return lambda start, stop: numbers[start:stop].tolist()

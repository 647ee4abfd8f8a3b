"""A capture as a stream of happenings in the order of time, all sessions merged.

Each session has a monotonic clock of its own. Its first frame tells how far the wall clock was ahead of it, so that all
sessions share one time line even if a wall clock was set meanwhile. A row group is opened when the merge reaches the
smallest time in its footer. Its narrow columns are read as a whole, since they have to be sorted by time, and stay in
memory as Arrow until the last row has passed. Frames are read a window at a time, and dropped with their rows. A thread
reads the next window while the rows of this one pass, so that unfolding takes no time of the caller's.

A request's frame decides which API, version and client it is of; its row's columns count where the frame is missing. A
row of another session than its file's has a fault, since nothing tells its time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import chain, count, repeat
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
    CheckedBodies,
    Listing,
    Row,
    first_times,
    in_listing,
    listed,
    row_groups,
    streamed_bodies,
)
from recorder.capture.remote import Place
from recorder.replay.plan import Exchange, FramePlace, Origin, Peer, Reason
from recorder.replay.recorded_clusters import facts_of

Connection = tuple[str, int]
# connections whose peers are remembered
_PEERS = 10_000
# what is read of a frame's row, besides its frame and its number
_COLUMNS = (
    c.SESSION,
    c.CLUSTER,
    c.CONNECTION,
    c.SEQUENCE,
    c.EXCHANGE,
    c.DIALECT,
    c.KIND,
    c.MADE_BY,
    c.MONO_NS,
    c.FIRST_MONO_NS,
    c.AT_NS,
    c.NODE,
    c.CLIENT,
    c.PRINCIPAL,
    c.API_KEY,
    c.API_VERSION,
    c.AWAITS,
    c.CLIENT_ID,
    c.MASKED,
    c.OMITTED,
    c.RECORDS,
    c.NOTE,
)
_MONO_NS, _CONNECTION, _SEQUENCE = map(_COLUMNS.index, (c.MONO_NS, c.CONNECTION, c.SEQUENCE))
_EVENTS = (c.SESSION, c.CLUSTER, c.CONNECTION, c.MONO_NS, c.KIND, c.DETAIL)
_BY_TIME = ((c.MONO_NS, "ascending"), (c.CONNECTION, "ascending"), (c.SEQUENCE, "ascending"))
# What is read at a time: bytes of frames, or their number. The thread that serves the sockets waits meanwhile, and the
# frames of a row group may be 64 MiB.
_WINDOW, _WINDOW_FRAMES = 4 << 20, 2000
# A row's time (ns), what it is, connection, sequence, and the number of its row group: unique for each open group.
Order = tuple[int, ...]
_NEVER: Order = (1 << 64,)
# at the same time, a connection is opened before its frames and closed after them
_OPENED, _FRAME, _CLOSED = range(3)


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


# A named tuple's own constructor is a Python function: here it would be called for each of a capture's millions of rows
_place: Callable[[type[FramePlace], tuple[Any, ...]], FramePlace] = tuple.__new__
_origin: Callable[[type[Origin], tuple[Any, ...]], Origin] = tuple.__new__
_request: Callable[[type[RequestRecorded], tuple[Any, ...]], RequestRecorded] = tuple.__new__
_answer: Callable[[type[AnswerRecorded], tuple[Any, ...]], AnswerRecorded] = tuple.__new__


def happenings(
    folder: Place,
    sessions: Sequence[str] = (),
    cluster: str | None = None,
    listing: Listing | None = None,
    checked: CheckedBodies | None = None,
) -> Iterator[Happening]:
    """The happenings in a capture, oldest first.

    Args:
        sessions: beginnings of the names of wanted sessions; none: all.
        cluster: the wanted one; None: all.
        listing: an earlier one; what was not in the capture then is left out. None: nothing is.
        checked: row groups whose checksums an earlier pass has computed; those that this pass computes are added.

    Errors: DamagedFileError, UnknownFormatError, OverBudget.
    """
    return (one for one in in_steps(folder, sessions, cluster, listing, checked) if not isinstance(one, DiskRead))


def in_steps(
    folder: Place,
    sessions: Sequence[str] = (),
    cluster: str | None = None,
    listing: Listing | None = None,
    checked: CheckedBodies | None = None,
) -> Iterator[Happening | DiskRead]:
    """The happenings of `happenings`, with a `DiskRead` first and before each step that reads from the disk."""
    yield DiskRead()
    with ThreadPoolExecutor(1, "replay-reader") as executor:
        reading = _Reading(_begun(executor), checked)
        yield from _Merge(folder, tuple(sessions), cluster, listing, reading).run()


def _begun(executor: Executor) -> Executor | None:
    """The executor of one thread, which has started; None if the machine refuses a thread."""
    try:
        executor.submit(int)
    except RuntimeError:
        return None
    return executor


class _Reading(NamedTuple):
    """How frames are read.

    Attributes:
        thread: reads the next window while this one's rows pass; None: windows are read when they are needed.
        checked: row groups whose checksums were right.
    """

    thread: Executor | None
    checked: CheckedBodies | None


class _Merge:
    def __init__(
        self,
        folder: Place,
        sessions: tuple[str, ...],
        cluster: str | None,
        then: Listing | None,
        reading: _Reading,
    ) -> None:
        self._reading = reading
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
        # row groups that are open, by the next row of each
        self._open: list[tuple[Order, _Frames | _Events]] = []

    def run(self) -> Iterator[Happening | DiskRead]:
        unread, opened = self._unread, self._open
        while unread or opened:
            while unread and (not opened or unread[0].first_ns <= opened[0][0][0]):
                yield DiskRead()
                self._open_next()
            if not opened:
                continue
            order, group = opened[0]
            until = self._other_rows()
            # nearly always many rows of one group follow each other
            while order < until:
                found = group.take(order[0])
                if found is not None:
                    yield found
                if group.must_read:
                    yield DiskRead()
                    group.read()
                following = group.order
                if following is None:
                    heapq.heappop(opened)
                    break
                order = following
            else:
                heapq.heapreplace(opened, (order, group))

    def _other_rows(self) -> Order:
        """When a row of another group than that of the first one comes next, or an unread group has to be opened."""
        nexts = [each[0] for each in self._open[1:3]]
        if self._unread:
            nexts.append((self._unread[0].first_ns,))
        return min(nexts, default=_NEVER)

    def _open_next(self) -> None:
        group = heapq.heappop(self._unread)
        ahead = self._ahead[group.file.session]
        rows: _Frames | _Events
        if group.is_frames:
            rows = _Frames(group, ahead, self._clusters, self._reading)
        else:
            rows = _Events(group, ahead, self._clusters)
        if rows.must_read:
            rows.read()
        if rows.order is not None:
            heapq.heappush(self._open, (rows.order, rows))


def _ahead(file: CaptureFile) -> int | None:
    """How far the wall clock was ahead of the session's own at its first frame; None without frames."""
    table = next(_tables(file, (c.AT_NS, c.MONO_NS)), None)
    return None if table is None else int(table[c.AT_NS][0].as_py()) - int(table[c.MONO_NS][0].as_py())


class _Events:
    """The events of a row group, by time. They are read as a whole.

    Args:
        ahead: how far the wall clock was ahead of the session's.
        clusters: those wanted; None: all.

    Attributes:
        order: of the next event among all rows; None: there is none.
        must_read: the next event has to be read from the disk.
    """

    must_read = False

    def __init__(self, group: _Group, ahead: int, clusters: tuple[str | None, ...] | None) -> None:
        self.order: Order | None = None
        self._ahead, self._clusters, self._number = ahead, clusters, group.number
        session = group.file.session
        tables = _tables(group.file, _EVENTS, group.group)
        rows = (tuple(row.values()) for t in tables for row in t.sort_by([*_BY_TIME[:2]]).to_pylist())
        self._rows = (row for row in rows if row[0] == session)
        self._following()

    def read(self) -> None:
        """Does nothing: all events are read."""

    def take(self, ns: int) -> Happening | None:
        """What the next event, of that time, says; None if that is nothing, or of another cluster."""
        session, cluster, connection, _, kind, detail = self._row
        self._following()
        if self._clusters is not None and cluster not in self._clusters:
            return None
        if kind == c.EVENT_NODE:
            node = facts_of(detail).get("node_id")
            return NodeFound(ns, node, cluster) if isinstance(node, int) else None
        if connection is None:
            return None
        if kind == c.EVENT_OPENED:
            return ConnectionOpened(ns, (session, connection), cluster)
        return ConnectionClosed(ns, (session, connection)) if kind == c.EVENT_CLOSED else None

    def _following(self) -> None:
        row = next(self._rows, None)
        if row is None:
            self.order = None
            return
        self._row: tuple[Any, ...] = row
        _, _, connection, mono_ns, kind, _ = row
        rank = _CLOSED if kind == c.EVENT_CLOSED else _OPENED
        self.order = mono_ns + self._ahead, rank, connection or 0, 0, self._number


class _Frames:
    """The frames of a row group, by time. They are stored nearly in that order: those that are read too early are kept.

    Arguments and attributes: as of `_Events`.
    """

    def __init__(self, group: _Group, ahead: int, clusters: tuple[str | None, ...] | None, reading: _Reading) -> None:
        self.order: Order | None = None
        self._ahead, self._clusters, self._number = ahead, clusters, group.number
        self._file, self._group = group.file, group.group
        self._rows = _heads(group.file, group.group)
        self._bodies = enumerate(streamed_bodies(group.file, group.group, checked=reading.checked))
        self._read: dict[int, bytes | None] = {}
        self._thread = reading.thread
        self._next_window: Future[dict[int, bytes | None]] | None = None
        self.must_read = False
        self._following()

    def read(self) -> None:
        """Reads on, at least up to the next frame."""
        row, kept = self._row[-1], self._read
        while row not in kept:
            window = self._window() if self._next_window is None else self._next_window.result()
            if self._thread is not None:
                self._next_window = self._thread.submit(self._window)
            if not window:
                break
            kept.update(window)
        self.must_read = False

    def _window(self) -> dict[int, bytes | None]:
        """The next bodies, by their rows; empty at the end."""
        window, size = dict[int, bytes | None](), 0
        for at, body in self._bodies:
            window[at] = body
            size += len(body or b"")
            if size >= _WINDOW or len(window) >= _WINDOW_FRAMES:
                break
        return window

    def take(self, ns: int) -> Happening | None:
        """What the next frame, of that time, says; None if that is nothing, or of another cluster."""
        # the order of `_COLUMNS`
        (
            session,
            cluster,
            connection,
            _,
            exchange,
            dialect,
            kind,
            made_by,
            _,
            first_ns,
            wall_ns,
            node,
            client,
            principal,
            key,
            version,
            awaits,
            client_id,
            masked,
            omitted,
            records,
            note,
            at,
        ) = self._row
        frame = self._read.pop(at)
        self._following()
        if exchange is None or connection is None or (self._clusters is not None and cluster not in self._clusters):
            return None
        origin = _origin(Origin, (session, connection, exchange))
        is_known = not (key is None or version is None or note)
        is_whole = frame is not None and not omitted
        # of an answer to Produce, a rule leaves out texts of errors, which nobody compares
        lacks_records = records is not None and not (kind == c.RESPONSE and key == PRODUCE)
        is_of_file = session == self._file.session
        fault = _fault(is_of_file, dialect == c.KAFKA, is_known, masked, is_whole, lacks_records)
        place = _place(FramePlace, (self._file, self._group, at))
        key, version = -1 if key is None else key, -1 if version is None else version
        if kind != c.REQUEST:
            by_proxy, known = made_by == c.BY_PROXY, None if fault else frame
            return _answer(AnswerRecorded, (ns, origin, key, version, known, by_proxy, place, cluster))
        head = _head_of(frame) if dialect == c.KAFKA else None
        # the columns count where the frame can't tell
        if head is not None:
            key, version, _, client_id, _ = head
        client = client or ""
        found = Exchange(
            origin,
            key,
            version,
            frame,
            ns if first_ns is None else min(first_ns + self._ahead, ns),
            ns,
            _peer(client, client_id),
            node,
            principal,
            wall_ns,
            client,
            # all other requests have answers; a Produce's own acks decide once it is decoded
            awaits is not False or key != PRODUCE,
            fault,
            _spans(masked) if masked else (),
            _spans(omitted) if omitted else (),
            place=place,
        )
        return _request(RequestRecorded, (ns, found, cluster))

    def _following(self) -> None:
        row = next(self._rows, None)
        if row is None:
            self.order, self.must_read = None, False
            return
        self._row: tuple[Any, ...] = row
        self.order = row[_MONO_NS] + self._ahead, _FRAME, row[_CONNECTION] or 0, row[_SEQUENCE], self._number
        self.must_read = row[-1] not in self._read


def _heads(file: CaptureFile, group: int) -> Iterator[tuple[Any, ...]]:
    """The narrow columns of a row group's frames, with the number of each row, by time."""
    # as a list: a suspended generator would keep the unsorted columns, too
    tables = [*_tables(file, (*_COLUMNS, ROW), group)]
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


@lru_cache(_PEERS)
def _peer(client: str, client_id: str | None) -> Peer:
    """`client`: an address with its port."""
    return Peer(client.rpartition(":")[0], client_id)


def _head_of(frame: bytes | None) -> RequestHead | None:
    try:
        return None if frame is None else request_head(frame)
    except WireError:
        return None


def _fault(
    is_of_file: bool, is_kafka: bool, is_known: bool, masked: list[Row] | None, is_whole: bool, lacks_records: bool
) -> Reason | None:
    """Why a frame's bytes can't be used as recorded; None if they can."""
    if not is_of_file:
        return Reason.OTHER_SESSION
    if not is_kafka:
        return Reason.OLD_DIALECT
    if not is_known:
        return Reason.OPAQUE
    if masked:
        return Reason.MASKED
    if not is_whole:
        return Reason.CUT
    return Reason.NOT_KEPT if lacks_records else None


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
    """Integers without nulls. Arrow's own way to many of them at once needs numpy, which replay does not import."""
    start, stop = (index * values.type.bit_width // 8 for index in (values.offset, values.offset + len(values)))
    numbers: Any = memoryview(values.buffers()[1]).cast("B")[start:stop].cast(_FORMATS[str(values.type)])
    return lambda start, stop: numbers[start:stop].tolist()

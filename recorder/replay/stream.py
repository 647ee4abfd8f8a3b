"""A capture as a stream of what happened, in the order of time, all sessions merged.

Each session has a monotonic clock of its own; its first frame says how far the wall clock was ahead of it, so the
sessions share one time line even where a wall clock was set meanwhile. A row group is read when the merge reaches the
smallest time that its footer gives, and stays in memory, as Arrow, until its last row has passed: memory is that of the
row groups that overlap.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc

from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from recorder.capture import frames as c
from recorder.capture.reader import READING, CaptureFile, Row, files, first_times, row_groups
from recorder.replay.arrow_rows import quick_rows
from recorder.replay.plan import Exchange, Origin, Peer, Place, Reason

Connection = tuple[str, int]
_EVENTS = (c.SESSION, c.CLUSTER, c.CONNECTION, c.MONO_NS, c.KIND, c.DETAIL)
_BY_TIME = ((c.MONO_NS, "ascending"), (c.CONNECTION, "ascending"), (c.SEQUENCE, "ascending"))
# at one time, a connection is opened before its frames and closed behind them
_OPENED, _FRAME, _CLOSED = range(3)


class FrameRow(NamedTuple):
    """A row of frames, by the names of its columns, and its place."""

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
    place: Place


class EventRow(NamedTuple):
    """A row of events."""

    session: str
    cluster: str | None
    connection: int | None
    mono_ns: int
    kind: str
    detail: str | None
    sequence: int = 0


class Reads(NamedTuple):
    """What comes next is read from the disk: not in the thread that serves sockets."""


class Asked(NamedTuple):
    """A request. Its answer is not known yet."""

    ns: int
    exchange: Exchange
    cluster: str | None


class Answered(NamedTuple):
    """An answer. `frame`: None where its bytes can't be used; `by_proxy`: it never came from a broker."""

    ns: int
    origin: Origin
    api_key: int
    version: int
    frame: bytes | None
    by_proxy: bool
    place: Place | None = None
    cluster: str | None = None


class Opened(NamedTuple):
    """A connection. `address`: what the proxy dialled for it; None where it dialled nothing."""

    ns: int
    connection: Connection
    address: str | None = None
    cluster: str | None = None


class Closed(NamedTuple):
    """A connection has ended: its open exchanges have no answer."""

    ns: int
    connection: Connection


class Node(NamedTuple):
    """A node that the proxy found, by its recorded id, and where it dialled it."""

    ns: int
    node: int
    address: str
    cluster: str | None = None


Happening = Asked | Answered | Opened | Closed | Node


class _Group(NamedTuple):
    """A row group that is not read yet. `first_ns`: no row of it is earlier."""

    first_ns: int
    number: int
    file: CaptureFile
    group: int
    is_frames: bool


class _Head(NamedTuple):
    """The next row of an open row group. `order`: unique, so that rows are never compared."""

    order: tuple[int, ...]
    row: FrameRow | EventRow
    rest: Iterator[FrameRow] | Iterator[EventRow]


def happenings(folder: Path, sessions: Sequence[str] = (), cluster: str | None = None) -> Iterator[Happening]:
    """What happened in a capture, oldest first.

    Args:
        sessions: beginnings of the names that are wanted; none: all.
        cluster: the one that is wanted; None: all.
    Errors: DamagedFileError, UnknownFormatError, OverBudget.
    """
    return (one for one in in_steps(folder, sessions, cluster) if not isinstance(one, Reads))


def in_steps(folder: Path, sessions: Sequence[str] = (), cluster: str | None = None) -> Iterator[Happening | Reads]:
    """The same, with a `Reads` before each step that reads from the disk. Nothing is read before the first step."""
    yield Reads()
    yield from _Merge(folder, tuple(sessions), cluster).run()


class _Merge:
    def __init__(self, folder: Path, sessions: tuple[str, ...], cluster: str | None) -> None:
        # rows without a cluster are of the whole session
        self._clusters = None if cluster is None else (cluster, None)
        frames = [file for file in files(folder) if not sessions or file.session.startswith(sessions)]
        events = [file for file in files(folder, c.EVENTS_FOLDER) if not sessions or file.session.startswith(sessions)]
        self._ahead: dict[str, int] = {}
        for file in frames:
            if file.session not in self._ahead:
                self._ahead[file.session] = _ahead(file)
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

    def run(self) -> Iterator[Happening | Reads]:
        while self._unread or self._heads:
            while self._unread and (not self._heads or self._unread[0].first_ns <= self._heads[0].order[0]):
                yield Reads()
                self._open(heapq.heappop(self._unread))
            if not self._heads:
                continue
            _, row, rest = self._heads[0]
            following = self._head(rest)
            heapq.heapreplace(self._heads, following) if following else heapq.heappop(self._heads)
            if self._clusters is not None and row.cluster not in self._clusters:
                continue
            found = self._frame(row) if isinstance(row, FrameRow) else self._event(row)
            if found is not None:
                yield found

    def _open(self, group: _Group) -> None:
        head = self._head(_frames(group.file, group.group) if group.is_frames else _events(group.file, group.group))
        if head:
            heapq.heappush(self._heads, head)

    def _head(self, rows: Iterator[FrameRow] | Iterator[EventRow]) -> _Head | None:
        row = next(rows, None)
        if row is None:
            return None
        is_frame = isinstance(row, FrameRow)
        rank = _FRAME if is_frame else _CLOSED if row.kind == c.EVENT_CLOSED else _OPENED
        return _Head((self._time(row), rank, row.connection or 0, row.sequence, id(row)), row, rows)

    def _time(self, row: FrameRow | EventRow) -> int:
        return row.mono_ns + self._ahead[row.session]

    def _event(self, row: EventRow) -> Happening | None:
        if row.kind == c.EVENT_NODE:
            return _node(self._time(row), row)
        if row.connection is None:
            return None
        connection = row.session, row.connection
        if row.kind == c.EVENT_OPENED:
            return Opened(self._time(row), connection, _text(_facts(row), "upstream"), row.cluster)
        return Closed(self._time(row), connection) if row.kind == c.EVENT_CLOSED else None

    def _frame(self, row: FrameRow) -> Happening | None:
        if row.exchange is None or row.connection is None:
            return None
        origin = Origin(row.session, row.connection, row.exchange)
        if row.kind == c.REQUEST:
            exchange = _exchange(row, origin, self._time(row), self._ahead[row.session])
            return Asked(self._time(row), exchange, row.cluster)
        key, version = _number(row.api_key), _number(row.api_version)
        frame = None if fault_of(row) else row.frame
        by_proxy = row.made_by == c.BY_PROXY
        return Answered(self._time(row), origin, key, version, frame, by_proxy, row.place, row.cluster)


def _node(ns: int, row: EventRow) -> Node | None:
    facts = _facts(row)
    node, address = facts.get("node_id"), _text(facts, "upstream")
    return Node(ns, node, address, row.cluster) if isinstance(node, int) and address is not None else None


def _facts(row: EventRow) -> dict[str, Any]:
    """An event's details; none where they can't be read."""
    try:
        found = json.loads(row.detail or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(facts: dict[str, Any], name: str) -> str | None:
    found = facts.get(name)
    return found if isinstance(found, str) else None


def _ahead(file: CaptureFile) -> int:
    """How far the wall clock was ahead of the session's own when its first frame arrived."""
    table = next(row_groups(file, (c.AT_NS, c.MONO_NS), only=0))
    return int(table[c.AT_NS][0].as_py()) - int(table[c.MONO_NS][0].as_py())


def _events(file: CaptureFile, group: int) -> Iterator[EventRow]:
    allowance = Allowance(READING, DEFAULT_BUDGET)
    for table in row_groups(file, _EVENTS, allowance=allowance, only=group):
        yield from (EventRow(*row.values()) for row in table.sort_by([*_BY_TIME[:2]]).to_pylist())


def _frames(file: CaptureFile, group: int) -> Iterator[FrameRow]:
    allowance = Allowance(READING, DEFAULT_BUDGET)
    for table in row_groups(file, FrameRow._fields[:-1], allowance=allowance, only=group):
        order = pc.sort_indices(table.select([name for name, _ in _BY_TIME]), _BY_TIME).to_pylist()
        frames = table[c.FRAME]
        heads = table.drop_columns([c.FRAME]).take(order)
        # bodies become Python values one by one: they may be large
        for head, at in zip(quick_rows(heads), order, strict=True):
            yield FrameRow._make((*head, frames[at].as_py(), Place(file, group, at)))


def _exchange(row: FrameRow, origin: Origin, at_ns: int, ahead: int) -> Exchange:
    first = row.first_mono_ns
    host, _, _ = (row.client or "").rpartition(":")
    return Exchange(
        origin,
        _number(row.api_key),
        _number(row.api_version),
        row.frame,
        at_ns if first is None else min(first + ahead, at_ns),
        at_ns,
        Peer(host, row.client_id),
        node=row.node,
        principal=row.principal,
        wall_ns=row.at_ns,
        client=row.client or "",
        awaits=row.awaits is not False,
        fault=fault_of(row),
        masked=_spans(row.masked),
        omitted=_spans(row.omitted),
        place=row.place,
    )


def fault_of(row: FrameRow) -> Reason | None:
    """Why a frame's bytes can't be used as they were recorded."""
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

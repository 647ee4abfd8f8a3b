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

from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from recorder.capture import frames as c
from recorder.capture.reader import READING, CaptureFile, Row, files, first_times, row_groups
from recorder.replay.plan import Exchange, Origin, Peer, Reason

Connection = tuple[str, int]
# rows that become Python values at a time: enough to be quick, few enough that bodies among them may be large
_AT_ONCE = 64
_FRAMES = (
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
    c.SIZE,
    c.STORED,
    c.FRAME,
    c.MASKED,
    c.OMITTED,
    c.NOTE,
)
_EVENTS = (c.SESSION, c.CLUSTER, c.CONNECTION, c.MONO_NS, c.KIND, c.DETAIL)
# at one time, a connection is opened before its frames and closed behind them
_OPENED, _FRAME, _CLOSED = range(3)


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


class Opened(NamedTuple):
    """A connection."""

    ns: int
    connection: Connection


class Closed(NamedTuple):
    """A connection has ended: its open exchanges have no answer."""

    ns: int
    connection: Connection


class Node(NamedTuple):
    """A node that the proxy found, by its recorded id, and where it dialled it."""

    ns: int
    node: int
    address: str


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
    row: Row
    rest: Iterator[Row]
    is_frames: bool


def happenings(folder: Path, sessions: Sequence[str] = (), cluster: str | None = None) -> Iterator[Happening]:
    """What happened in a capture, oldest first.

    Args:
        sessions: beginnings of the names that are wanted; none: all.
        cluster: the one that is wanted; None: all.
    Errors: DamagedFileError, UnknownFormatError, OverBudget.
    """
    return _Merge(folder, tuple(sessions), cluster).run()


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

    def run(self) -> Iterator[Happening]:
        while self._unread or self._heads:
            while self._unread and (not self._heads or self._unread[0].first_ns <= self._heads[0].order[0]):
                self._open(heapq.heappop(self._unread))
            if not self._heads:
                continue
            _, row, rest, is_frames = self._heads[0]
            following = self._head(rest, is_frames)
            heapq.heapreplace(self._heads, following) if following else heapq.heappop(self._heads)
            if self._clusters is not None and row[c.CLUSTER] not in self._clusters:
                continue
            found = self._frame(row) if is_frames else self._event(row)
            if found is not None:
                yield found

    def _open(self, group: _Group) -> None:
        rows = _rows(group.file, group.group, _FRAMES if group.is_frames else _EVENTS)
        head = self._head(rows, group.is_frames)
        if head:
            heapq.heappush(self._heads, head)

    def _head(self, rows: Iterator[Row], is_frames: bool) -> _Head | None:
        row = next(rows, None)
        if row is None:
            return None
        ns = self._time(row)
        rank = _FRAME if is_frames else _CLOSED if row[c.KIND] == c.EVENT_CLOSED else _OPENED
        number = row[c.SEQUENCE] if is_frames else 0
        return _Head((ns, rank, row[c.CONNECTION] or 0, number, id(row)), row, rows, is_frames)

    def _time(self, row: Row) -> int:
        return int(row[c.MONO_NS]) + self._ahead[row[c.SESSION]]

    def _event(self, row: Row) -> Happening | None:
        if row[c.KIND] == c.EVENT_NODE:
            return _node(self._time(row), row[c.DETAIL])
        if row[c.CONNECTION] is None:
            return None
        connection = row[c.SESSION], row[c.CONNECTION]
        if row[c.KIND] == c.EVENT_OPENED:
            return Opened(self._time(row), connection)
        return Closed(self._time(row), connection) if row[c.KIND] == c.EVENT_CLOSED else None

    def _frame(self, row: Row) -> Happening | None:
        if row[c.EXCHANGE] is None or row[c.CONNECTION] is None:
            return None
        origin = Origin(row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE])
        if row[c.KIND] == c.REQUEST:
            exchange = _exchange(row, origin, self._time(row), self._ahead[row[c.SESSION]])
            return Asked(self._time(row), exchange, row[c.CLUSTER])
        key, version = _number(row[c.API_KEY]), _number(row[c.API_VERSION])
        frame = None if fault_of(row) else row[c.FRAME]
        return Answered(self._time(row), origin, key, version, frame, row[c.MADE_BY] == c.BY_PROXY)


def _node(ns: int, detail: str | None) -> Node | None:
    try:
        facts = json.loads(detail or "{}")
    except ValueError:
        return None
    node, address = (facts.get("node_id"), facts.get("upstream")) if isinstance(facts, dict) else (None, None)
    return Node(ns, node, address) if isinstance(node, int) and isinstance(address, str) else None


def _ahead(file: CaptureFile) -> int:
    """How far the wall clock was ahead of the session's own when its first frame arrived."""
    table = next(row_groups(file, (c.AT_NS, c.MONO_NS), only=0))
    return int(table[c.AT_NS][0].as_py()) - int(table[c.MONO_NS][0].as_py())


def _rows(file: CaptureFile, group: int, columns: Sequence[str]) -> Iterator[Row]:
    allowance = Allowance(READING, DEFAULT_BUDGET)
    for table in row_groups(file, columns, allowance=allowance, only=group):
        by = [name for name in (c.MONO_NS, c.CONNECTION, c.SEQUENCE) if name in columns]
        for batch in table.sort_by([(name, "ascending") for name in by]).to_batches(max_chunksize=_AT_ONCE):
            yield from batch.to_pylist()


def _exchange(row: Row, origin: Origin, at_ns: int, ahead: int) -> Exchange:
    first = row[c.FIRST_MONO_NS]
    host, _, _ = (row[c.CLIENT] or "").rpartition(":")
    return Exchange(
        origin,
        _number(row[c.API_KEY]),
        _number(row[c.API_VERSION]),
        row[c.FRAME],
        at_ns if first is None else min(first + ahead, at_ns),
        at_ns,
        Peer(host, row[c.CLIENT_ID]),
        node=row[c.NODE],
        principal=row[c.PRINCIPAL],
        wall_ns=row[c.AT_NS],
        client=row[c.CLIENT] or "",
        awaits=row[c.AWAITS] is not False,
        fault=fault_of(row),
        masked=_spans(row[c.MASKED]),
        omitted=_spans(row[c.OMITTED]),
    )


def fault_of(row: Row) -> Reason | None:
    """Why a frame's bytes can't be used as they were recorded."""
    if row[c.DIALECT] != c.KAFKA:
        return Reason.OLD_DIALECT
    if row[c.API_KEY] is None or row[c.API_VERSION] is None or row[c.NOTE]:
        return Reason.OPAQUE
    if row[c.MASKED]:
        return Reason.MASKED
    return Reason.CUT if row[c.FRAME] is None or row[c.OMITTED] else None


def _number(value: Any) -> int:
    return -1 if value is None else int(value)


def _spans(spans: Any) -> tuple[tuple[int, int], ...]:
    return tuple((span["start"], span["length"]) for span in spans or ())


def last_ns(folder: Path) -> int:
    """When the capture's last frame arrived, in ns since 1970; 0 without one."""
    found = files(folder)
    newest = max(((file.date, file.hour) for file in found), default=None)
    times = (
        max(table[c.AT_NS].to_pylist())
        for file in found
        if (file.date, file.hour) == newest
        for table in row_groups(file, [c.AT_NS])
    )
    return max(times, default=0)

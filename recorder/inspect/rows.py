"""Frames in the order of their arrival, the heads of one file of each session in memory at a time.

The capture's own order makes that possible: a session's files follow each other in time, so sorting within a file and
merging the sessions is enough. Bodies are read only where they are asked for, and of a file one row group at a time.
What all of it takes together comes from one allowance; a session is opened when its first hour has come.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from proxy.wire.long_polls import LONG_POLLS
from recorder.capture import frames as c
from recorder.capture.reader import GROUP, HEADS, READING, ROW, Bodies, CaptureFile, Row, files, row_groups
from recorder.inspect.wanted import Wanted

# Rows that become Python values at a time: enough to be quick, few enough that bodies among them may be large.
_AT_ONCE = 256
_ORDER = (c.AT_NS, c.SESSION, c.CONNECTION, c.SEQUENCE)
_COLUMNS = [*HEADS, GROUP, ROW]
# whether the body of a frame is wanted
Choice = Callable[[Row], bool]


def none(row: Row) -> bool:
    """No bodies."""
    return False


def all_bodies(row: Row) -> bool:
    """All of them."""
    return True


def of_answers(row: Row) -> bool:
    """Bodies of responses: what they tell of errors."""
    return bool(row[c.KIND] == c.RESPONSE)


def of_exchanges(row: Row) -> bool:
    """Bodies of responses, and of requests that say how long they may wait."""
    return of_answers(row) or row[c.API_KEY] in LONG_POLLS


def rows(folder: Path, wanted: Wanted, *, bodies: Choice = none, most: int = DEFAULT_BUDGET) -> Iterator[Row]:
    """The wanted frames, oldest first, as dicts of all columns.

    Args:
        bodies: whose bodies are read; those of all others are null.
        most: bytes of memory that heads and bodies may take together, of all sessions that are open at a time.
    Errors: OverBudget, DamagedFileError, UnknownFormatError.
    """
    sessions: dict[str, list[CaptureFile]] = defaultdict(list)
    for file in _files(folder, wanted):
        sessions[file.session].append(file)
    allowance = Allowance(READING, most)
    streams = ((min(map(_start_ns, found)), _session(found, wanted, bodies, allowance)) for found in sessions.values())
    return _merged(sorted(streams, key=itemgetter(0)))


def _merged(streams: list[tuple[int, Iterator[Row]]]) -> Iterator[Row]:
    """Rows in their order. `streams`, each behind the time from which on it has rows: the earliest first."""
    closed = deque(streams)
    heads: list[tuple[tuple[Any, ...], int, Row, Iterator[Row]]] = []
    while heads or closed:
        while closed and (not heads or closed[0][0] <= heads[0][0][0]):
            _, stream = closed.popleft()
            heads += _head(stream, len(closed))
            heapq.heapify(heads)
        if heads:
            _, number, row, stream = heads[0]
            yield row
            following = _head(stream, number)
            heapq.heapreplace(heads, *following) if following else heapq.heappop(heads)


def _head(stream: Iterator[Row], number: int) -> list[tuple[tuple[Any, ...], int, Row, Iterator[Row]]]:
    """Its next row behind that row's place in the order; nothing at its end. `number`: no other stream's."""
    row = next(stream, None)
    return [] if row is None else [(tuple(row[name] for name in _ORDER), number, row, stream)]


def request_of(folder: Path, response: Row, *, most: int = DEFAULT_BUDGET) -> Row | None:
    """The request that a frame answers, with its bytes; None where the capture lacks it. `most`: as of `rows`."""
    key = c.SESSION, c.CONNECTION, c.EXCHANGE
    session, connection, exchange = (response[name] for name in key)
    wanted = Wanted((session,), (connection,), exchanges=(exchange,), kinds=(c.REQUEST,))
    found = rows(folder, wanted, bodies=all_bodies, most=most)
    # a session is found by how its name begins
    return next((row for row in found if row[c.SESSION] == session), None)


def tables(folder: Path, kind: str, columns: Sequence[str], *, most: int = DEFAULT_BUDGET) -> Iterator[Any]:
    """Everything of `kind` (frames or events) as tables, session by session. `most` and errors: as of `rows`."""
    for file in files(folder, kind):
        yield from row_groups(file, columns, allowance=Allowance(READING, most))


def last_ns(folder: Path, *, most: int = DEFAULT_BUDGET) -> int:
    """When the capture's last frame arrived, in ns since 1970; 0 without one. `most` and errors: as of `rows`."""
    found = files(folder)
    newest = max(((file.date, file.hour) for file in found), default=None)
    times = (
        pc.max(group[c.AT_NS]).as_py()
        for file in found
        if (file.date, file.hour) == newest
        for group in row_groups(file, [c.AT_NS], allowance=Allowance(READING, most))
    )
    return max(times, default=0)


def _session(found: Sequence[CaptureFile], wanted: Wanted, bodies: Choice, allowance: Allowance) -> Iterator[Row]:
    for file in found:
        left = allowance.left
        groups = list(row_groups(file, _COLUMNS, where=wanted.expression(), allowance=allowance))
        taken = left - allowance.left
        if groups:
            table = pa.concat_tables(groups).sort_by([(name, "ascending") for name in _ORDER])
            with closing(Bodies(file, allowance)) as opened:
                yield from _with_bodies(opened, table, bodies)
        allowance.give_back(taken)


def _with_bodies(found: Bodies, table: Any, bodies: Choice) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        for row in batch.to_pylist():
            row[c.FRAME] = found.of(row) if bodies(row) else None
            del row[GROUP], row[ROW]
            yield row


def _files(folder: Path, wanted: Wanted) -> Iterator[CaptureFile]:
    for file in files(folder):
        if wanted.in_hour(_start_ns(file)):
            yield file


def _start_ns(file: CaptureFile) -> int:
    """When the hour began in which its rows arrived."""
    start = datetime.fromisoformat(f"{file.date}T{file.hour:02}:00:00").replace(tzinfo=UTC)
    return int(start.timestamp()) * 10**9

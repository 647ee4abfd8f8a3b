"""Frames in the order of arrival, with the heads of one file of each session in memory at a time.

A session's files follow each other in time, so sorting within a file and merging the sessions is enough. Bodies are
read only on request, one row group of a file at a time. One allowance pays for all of it; a session is opened when the
merge reaches its first hour.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from proxy.wire.long_polls import LONG_POLLS
from recorder.capture import frames as c
from recorder.capture.reader import GROUP, HEADS, READING, ROW, Bodies, CaptureFile, Row, files, row_groups
from recorder.capture.remote import Place, S3Path
from recorder.query.columns import Rows, rows_of_ids
from recorder.reading.known import Further, KnownRow, answered

# Rows that become Python values at a time: enough for speed, few enough for large bodies.
_AT_ONCE = 256
# the columns that the order of arrival is by
ORDER = (c.AT_NS, c.SESSION, c.CONNECTION, c.SEQUENCE)
# without columns of which no field of a filter is made
OF_FIELDS = tuple(name for name in HEADS if name not in (c.AT, c.MONO_NS, c.FIRST_MONO_NS, c.CORRELATION_ID, c.STORED))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# returns True for frames whose bodies are wanted
Choice = Callable[[Row], bool]


def none(row: Row) -> bool:
    """Selects no bodies."""
    return False


def all_bodies(row: Row) -> bool:
    """Selects all bodies."""
    return True


def bodies_up_to(size: int) -> Choice:
    """Selects the bodies of frames that had so many bytes at most."""
    return lambda row: bool(row[c.SIZE] <= size)


def of_responses(row: Row) -> bool:
    """Selects the bodies of responses, which hold errors, unless facts tell these."""
    return bool(row[c.KIND] == c.RESPONSE) and answered(row) is None


def of_exchanges(row: Row) -> bool:
    """Selects the bodies of responses, and of long polls' requests, which hold the longest wait that they allow."""
    return of_responses(row) or row[c.API_KEY] in LONG_POLLS


class ByFile(NamedTuple):
    """What else tells how the files of a session are read, and of their rows.

    Attributes:
        where: of the session's files, and the expression for all wanted rows: the expression for each of the files.
        further: of a file and of its heads in the order of arrival: what facts tell of each row; None: nothing.
    """

    where: Callable[[Sequence[CaptureFile], Any], Callable[[CaptureFile], Any]] = lambda _, where: lambda _: where
    further: Callable[[CaptureFile, Any], Iterator[Further] | None] = lambda _, heads: None


ALL_FILES = ByFile()


def rows(
    source: Place | Iterable[CaptureFile],
    wanted: Rows,
    *,
    bodies: Choice = none,
    most: int = DEFAULT_BUDGET,
    by: ByFile = ALL_FILES,
    heads: Sequence[str] = HEADS,
) -> Iterator[Row]:
    """The wanted frames, oldest first, as dicts of all columns.

    Args:
        source: a capture, or files of it, those of a session in the order of its log.
        bodies: selects the frames whose bodies are read; other bodies are null.
        most: the limit in bytes of memory for the heads and bodies of all open sessions together.
        by: what else tells of files and rows.
        heads: the columns besides `frame`: all, or OF_FIELDS.
    Errors: OverBudget, DamagedFileError, UnknownFormatError.
    """
    found = files(source) if isinstance(source, Path | S3Path) else source
    sessions: dict[str, list[CaptureFile]] = defaultdict(list)
    for file in found:
        if wanted.in_hour(file.hour_ns):
            sessions[file.session].append(file)
    allowance = Allowance(READING, most)
    streams = (
        (min(file.hour_ns for file in found), _session(found, wanted, bodies, allowance, by, heads))
        for found in sessions.values()
    )
    return _merged(sorted(streams, key=itemgetter(0)))


def _merged(streams: list[tuple[int, Iterator[Row]]]) -> Iterator[Row]:
    """Merges streams of rows in order. `streams`: (a time not after the stream's first row, rows), in order of time."""
    if len(streams) == 1:
        # nothing to merge: a row costs no comparison
        yield from streams[0][1]
        return
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
    """The heap entry of a stream's next row, in a list; [] at the stream's end.

    `number` is unique, so that rows are never compared.
    """
    row = next(stream, None)
    return [] if row is None else [(tuple(row[name] for name in ORDER), number, row, stream)]


def request_of(folder: Place, response: Row, *, most: int = DEFAULT_BUDGET) -> Row | None:
    """The request of a response, with its bytes; None if the capture lacks it. `most`: as of `rows`."""
    key = c.SESSION, c.CONNECTION, c.EXCHANGE
    session, connection, exchange = (response[name] for name in key)
    wanted = rows_of_ids((session,), (connection,), exchanges=(exchange,), kinds=(c.REQUEST,))
    found = rows(folder, wanted, bodies=all_bodies, most=most)
    # the filter matches all sessions with this prefix
    return next((row for row in found if row[c.SESSION] == session), None)


def tables(folder: Place, kind: str, columns: Sequence[str], *, most: int = DEFAULT_BUDGET) -> Iterator[Any]:
    """All frames or all events (`kind`) as tables, session by session. `most` and errors: as for `rows`."""
    for file in files(folder, kind):
        yield from row_groups(file, columns, allowance=Allowance(READING, most))


def _session(
    found: Sequence[CaptureFile],
    wanted: Rows,
    bodies: Choice,
    allowance: Allowance,
    by: ByFile,
    heads: Sequence[str],
) -> Iterator[Row]:
    where = by.where(found, wanted.expression)
    for file in found:
        left = allowance.left
        groups = list(row_groups(file, [*heads, GROUP, ROW], where=where(file), allowance=allowance))
        taken = left - allowance.left
        if groups:
            table = _in_order(groups)
            with closing(Bodies(file, allowance)) as opened:
                yield from _with_bodies(opened, table, bodies, by.further(file, table))
        allowance.give_back(taken)


def rows_of_tables(tables: Sequence[Any], wanted: Rows, bodies: Choice) -> Iterator[Row]:
    """The wanted frames of tables that hold their bytes, in the order of arrival. `bodies`: as of `rows`."""
    expression = wanted.expression
    table = _in_order([each if expression is None else each.filter(expression) for each in tables])
    for row, body in zip(table.drop_columns([c.FRAME]).to_pylist(), table[c.FRAME], strict=True):
        row[c.FRAME] = body.as_py() if bodies(row) else None
        yield row


def _in_order(tables: Sequence[Any]) -> Any:
    return pa.concat_tables(tables).sort_by([(name, "ascending") for name in ORDER])


def _with_bodies(found: Bodies, heads: Any, bodies: Choice, further: Iterator[Further] | None) -> Iterator[Row]:
    for values in _as_rows(heads):
        row: Row = dict(values) if further is None else KnownRow(values, *next(further))
        row[c.FRAME] = found.of(row) if bodies(row) else None
        del row[GROUP], row[ROW]
        yield row


def _as_rows(heads: Any) -> Iterator[Iterable[tuple[str, Any]]]:
    """The names and values of each row. Arrow's own way takes three times as long, most of it for times with zones."""
    names = heads.column_names
    for batch in heads.to_batches(max_chunksize=_AT_ONCE):
        columns = (_values(column) for column in batch.columns)
        for values in zip(*columns, strict=False):
            yield zip(names, values, strict=True)


def _values(column: Any) -> Iterable[Any]:
    if column.null_count == len(column):
        return repeat(None)
    if not pa.types.is_timestamp(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    return (None if at is None else _EPOCH + timedelta(microseconds=at) for at in column.cast(pa.int64()).to_pylist())

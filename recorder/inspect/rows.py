"""Frames in the order of their arrival, one file of each session in memory at a time.

The capture's own order makes that possible: a session's files follow each other in time, so sorting within a file and
merging the sessions is enough. Bodies are read only if asked for.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from recorder.capture import frames as c
from recorder.inspect.wanted import Wanted

Row = dict[str, Any]
HEADS = tuple(name for name, _ in c.FRAME_COLUMNS if name != c.FRAME)
# Rows that become Python values at a time: enough to be quick, few enough that bodies among them may be large.
_AT_ONCE = 256
_ORDER = (c.AT_NS, c.SESSION, c.CONNECTION, c.SEQUENCE)


class _File(NamedTuple):
    hour: str
    first: int  # of the session's range
    path: Path
    session: str


def rows(folder: Path, wanted: Wanted, columns: Sequence[str] = HEADS) -> Iterator[Row]:
    """The wanted frames, oldest first, as dicts of `columns` (and what the order needs)."""
    sessions: dict[str, list[_File]] = defaultdict(list)
    for file in _files(folder, wanted):
        sessions[file.session].append(file)
    needed = list(dict.fromkeys([*_ORDER, *columns]))
    streams = [_session(sorted(files), wanted, needed) for files in sessions.values()]
    return heapq.merge(*streams, key=lambda row: tuple(row[name] for name in _ORDER))


def tables(
    folder: Path, kind: str, schema: pa.Schema, columns: Sequence[str], wanted: Wanted | None = None
) -> Iterator[Any]:
    """Each file of `kind` (frames or events) as a table, in no particular order."""
    paths = [file.path for file in _files(folder, wanted or Wanted(), kind)]
    for path in paths:
        yield _table(path, schema, columns, wanted.expression() if wanted else None)


def _session(files: Sequence[_File], wanted: Wanted, columns: list[str]) -> Iterator[Row]:
    for file in files:
        table = _table(file.path, c.frames_schema(), columns, wanted.expression())
        table = table.sort_by([(name, "ascending") for name in _ORDER])
        for batch in table.to_batches(max_chunksize=_AT_ONCE):
            yield from batch.to_pylist()


def _table(path: Path, schema: pa.Schema, columns: Sequence[str], expression: Any) -> Any:
    data = ds.dataset([str(path)], format="parquet", schema=schema)
    return data.scanner(columns=list(columns), filter=expression, batch_readahead=1, fragment_readahead=1).to_table()


def _files(folder: Path, wanted: Wanted, kind: str = c.FRAMES_FOLDER) -> Iterator[_File]:
    for path in (folder / kind).glob(f"{c.DATE}=*/{c.HOUR}=*/[!._]*.parquet"):
        day, hour = (part.name.partition("=")[2] for part in (path.parents[1], path.parent))
        start = datetime.fromisoformat(f"{day}T{int(hour):02}:00:00").replace(tzinfo=UTC)
        if wanted.in_hour(int(start.timestamp()) * 10**9):
            session, first, _last = path.stem.rsplit("-", 2)
            yield _File(f"{day} {int(hour):02}", int(first), path, session)

"""The tables and their columns as lines for a terminal and as the page docs/tables.md, from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recorder.analysis.sources import SOURCES
from recorder.analysis.tables.frames import FRAMES
from recorder.facts.rows import FRAME, UNREAD_COLUMN
from recorder.facts.schema import Column, Table
from recorder.facts.tables import TABLES

_HEAD = """\
# The tables of a capture

`make docs` writes this page from the tables' declarations. [analysis.md](analysis.md) says what the tables are for, and
[capture.md](capture.md) has the columns of `frames`."""
_FACTS = """
# Facts
The Parquet files in a capture's `facts` folder ([capture.md](capture.md#facts)): what each frame says by itself. A
topic has its name or its id, as the frame says it, and a Fetch the partitions that it names, not those of its session.
All tables begin with these columns of their frame, by which they are joined (`session`, `connection`, `sequence`):"""


def tables() -> Iterator[str]:
    """Yields a line for each table."""
    widest = max(map(len, SOURCES))
    for name, source in SOURCES.items():
        remark = "  (slower where frames must be opened)" if source.table.needs_bodies else ""
        yield f"{name:{widest}}  {source.table.row}{remark}"


def described(table: Table) -> Iterator[str]:
    """Yields a line that describes a row, and a line for each column."""
    yield f"{table.name}: a row is {table.row}"
    widest = max(map(len, table.names))
    for column in table.columns:
        yield f"  {column.name:{widest}}  {column.kind:10}  {column.meaning}"


def page() -> Iterator[str]:
    """Yields the lines of docs/tables.md."""
    yield from _HEAD.splitlines()
    for source in SOURCES.values():
        table = source.table
        yield from ("", f"## {table.name}")
        yield f"A row is {table.row}.{' Frames are opened for it.' if table.needs_bodies else ''}"
        if table is not FRAMES:
            yield from _columns(table.columns)
    yield from _FACTS.splitlines()
    yield from _columns(FRAME)
    for decoder in TABLES:
        yield from ("", f"### facts/{decoder.name}", f"A row is {decoder.row}.")
        yield from _columns((*decoder.shared, *decoder.own, UNREAD_COLUMN))


def _columns(columns: Iterable[Column]) -> Iterator[str]:
    yield from ("", "| column | type | meaning |", "|---|---|---|")
    yield from (f"| {one.name} | {one.kind} | {one.meaning} |" for one in columns)

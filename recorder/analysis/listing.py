"""The tables and their columns as lines for a terminal and as the page docs/tables.md, from the declarations."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.sources import SOURCES
from recorder.analysis.tables.frames import FRAMES
from recorder.facts.schema import Table

_HEAD = """\
# The tables of a capture

`make docs` writes this page from the tables' declarations. [analysis.md](analysis.md) says what the tables are for, and
[capture.md](capture.md) has the columns of `frames`."""


def tables() -> Iterator[str]:
    """Yields a line for each table."""
    widest = max(map(len, SOURCES))
    for name, source in SOURCES.items():
        yield f"{name:{widest}}  {source.table.row}{'  (decodes frames: slower)' if source.table.needs_bodies else ''}"


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
            yield from ("", "| column | type | meaning |", "|---|---|---|")
            yield from (f"| {one.name} | {one.kind} | {one.meaning} |" for one in table.columns)

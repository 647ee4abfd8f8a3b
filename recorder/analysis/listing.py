"""The tables and their columns as lines for a terminal and as the page docs/tables.md, from the declarations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from recorder.analysis.sources import SOURCES
from recorder.analysis.tables.frames import FRAMES
from recorder.facts.rows import FRAME, UNREAD_COLUMN
from recorder.facts.schema import Column, Table
from recorder.facts.tables import TABLES

_HEAD = """\
# The tables of a capture

`make docs` writes this page from the tables' declarations. [analysis.md](analysis.md) says what the tables are for, and
[capture.md](capture.md) has the columns of `frames`.

## Columns of a frame
Tables of what frames say begin with these columns of their frame."""
# shorter runs of columns that another table has, too, are told again
_RUN = 10
_FACTS = f"""
# Facts
The Parquet files in a capture's `facts` folder ([capture.md](capture.md#facts)): what each frame says by itself. A
topic has its name or its id, as the frame says it, and a Fetch the partitions that it names, not those of its session.
All tables begin with the [columns of their frame](#columns-of-a-frame), by which they are joined (`session`,
`connection`, `sequence`), and end with `{UNREAD_COLUMN.name}` ({UNREAD_COLUMN.kind}): {UNREAD_COLUMN.meaning}."""


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
    told = _Told()
    yield from told.rows("Columns of a frame", FRAME)
    for source in SOURCES.values():
        table = source.table
        yield from ("", f"## {table.name}")
        yield f"A row is {table.row}.{' Frames are opened for it.' if table.needs_bodies else ''}"
        if table is not FRAMES:
            yield from told.rows(table.name, table.columns)
    yield from _FACTS.splitlines()
    for decoder in TABLES:
        yield from ("", f"### facts/{decoder.name}", f"A row is {decoder.row}.")
        yield from told.rows(f"facts/{decoder.name}", (*decoder.shared, *decoder.own))


class _Told:
    """The columns that the page has told. A long run of them in a further table is one row, which leads to them."""

    def __init__(self) -> None:
        self._tables: list[tuple[str, list[Column]]] = []

    def rows(self, heading: str, columns: Sequence[Column]) -> Iterator[str]:
        """Yields the lines of the table of these columns that stands below a heading."""
        yield from ("", "| column | type | meaning |", "|---|---|---|")
        told: list[Column] = []
        left = tuple(columns)
        while left:
            run, link = max(((_run(left, table), link) for link, table in self._tables), default=(0, ""))
            if run < _RUN:
                run = 1
                told.append(left[0])
                yield f"| {left[0].name} | {left[0].kind} | {left[0].meaning} |"
            else:
                yield f"| {left[0].name} to {left[run - 1].name} | | {run} columns as in {link} |"
            left = left[run:]
        anchor = heading.lower().replace(" ", "-").replace("/", "")
        self._tables.append((f"[{heading}](#{anchor})", told))


def _run(columns: Sequence[Column], table: Sequence[Column]) -> int:
    """How many of the columns, from the first one on, stand in the table, one after the other."""
    begins = next((at for at, one in enumerate(table) if one == columns[0]), len(table))
    pairs = zip(columns, table[begins:], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

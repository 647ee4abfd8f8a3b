"""Writes rows of any table to a terminal, to standard output as lines of JSON or CSV, or into a folder.

Lines are written while Spark computes the rows, one partition at a time, so a table may be of any size. Bytes are
base64 in JSON and CSV. A terminal gets the first rows.

CSV is for programs, as RFC 4180 defines it: every value is exactly what was recorded, even if a spreadsheet would take
it for a formula. The usual escape for spreadsheets, a leading apostrophe, would change names such as client ids.
"""

from __future__ import annotations

import csv
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from io import StringIO
from typing import Any

from pyspark.sql import DataFrame, Row
from rich.console import RenderableType

from proxy.terminal import printable
from recorder.terminal import Column, count, fitted

# Options of Spark's writer for any format: CSV in the dialect above, with blanks kept and quotes doubled.
WRITING: Mapping[str, str] = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
# Characters of a cell on a terminal; the rest is cut off.
_CELL = 200
# Types whose values are never broken into lines: numbers and times.
_UNBROKEN = ("smallint", "int", "bigint", "double", "timestamp", "timestamp_ntz")
# The most names that a row needs to be told from others.
_FIRST = 3
# Characters of a value that a note names.
_NAMED = 40


def lines(found: DataFrame, form: str) -> Iterator[str]:
    """Yields all rows as lines of "json" or "csv"; CSV starts with a line of column names."""
    if form == "csv":
        yield _csv(found.columns)
    for row in found.toLocalIterator():
        yield json.dumps(_plain(row)) if form == "json" else _csv(map(_text, row))


def table(
    found: DataFrame, title: str, width: int, limit: int, all_rows: str = "--format json"
) -> tuple[RenderableType | None, str]:
    """Returns the first `limit` rows as a table, and a line about further rows; the line is empty if there are none.

    `all_rows`: the option that prints them all.

    None: there is no row at all. Times are short; the title names their day if all are of one day. A note
    names the value of columns that are left out because all rows have the same one.
    """
    rows = found.limit(limit + 1).collect()
    if not rows:
        return None, ""
    kinds = dict(found.dtypes)
    days = {f"{value:%Y-%m-%d}" for row in rows[:limit] for value in row if isinstance(value, datetime)}
    cells = [[_short(value, with_day=len(days) > 1)[:_CELL] for value in row] for row in rows[:limit]]
    columns = _columns(kinds, cells)
    if len(days) == 1:
        title = ", ".join(filter(None, [title, *days]))
    more = f"the first {count(limit, 'row')}: --limit shows more, {all_rows} all" if len(rows) > limit else ""
    return fitted(title, columns, cells, width), more


def _columns(kinds: Mapping[str, str], cells: Sequence[Sequence[str]]) -> list[Column]:
    """The columns by names and types.

    Left out first are columns with one value in all of several rows, then all names but the first ones, then numbers.
    """
    values = [set(column) for column in zip(*cells, strict=True)]
    varied = [at for at, of_column in enumerate(values) if len(of_column) > 1] or [*range(len(values))]
    unbroken = [at for at, kind in enumerate(kinds.values()) if kind in _UNBROKEN]
    names = [at for at in varied if at not in unbroken]
    numbers = [at for at in varied if at in unbroken]
    same = sorted({*range(len(values))}.difference(varied), key=lambda at: (values[at] == {""}, at))
    ranks = {at: rank for rank, at in enumerate([*names[:_FIRST], *numbers, *names[_FIRST:], *same])}
    remarks = {at: f" ({_named(*values[at])} in all rows)" for at in same}
    return [Column(name, at in unbroken, rank=ranks[at], remark=remarks.get(at, "")) for at, name in enumerate(kinds)]


def _named(value: str) -> str:
    """A value for a note: printable and not long."""
    return printable(value if len(value) <= _NAMED else f"{value[:_NAMED]}…") or "empty"


def _short(value: Any, *, with_day: bool) -> str:
    """A value for a terminal: a time to milliseconds."""
    if not isinstance(value, datetime):
        return _text(value)
    day, _, clock = value.replace(tzinfo=None).isoformat(" ", "milliseconds").partition(" ")
    return f"{day} {clock}" if with_day else clock


def write(found: DataFrame, place: str, form: str, *, overwrite: bool) -> None:
    """Writes the whole table into a folder (or URL), as "parquet", "csv" or "json"."""
    writer = found.write.options(**WRITING)
    # by default both engines refuse a place that exists; the embedded one knows no name for that
    (writer.mode("overwrite") if overwrite else writer).format(form).save(place)


def _csv(values: Any) -> str:
    paper = StringIO()
    # the writer quotes values that contain a character of its line terminator
    csv.writer(paper, lineterminator="\r\n").writerow(values)
    return paper.getvalue().removesuffix("\r\n")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(_plain(value)).strip('"')


def _plain(value: Any) -> Any:
    """Returns the value as JSON can hold it."""
    if isinstance(value, Row):
        return {name: _plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        # a session's times are UTC
        return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    return value if isinstance(value, str | int | float | bool | None) else str(value)

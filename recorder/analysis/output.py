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
from collections.abc import Iterator, Mapping
from datetime import datetime
from io import StringIO
from typing import Any

from pyspark.sql import DataFrame, Row
from rich.console import RenderableType

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
_NUMBERS = ("smallint", "int", "bigint", "double")


def lines(found: DataFrame, form: str) -> Iterator[str]:
    """Yields all rows as lines of "json" or "csv"; CSV starts with a line of column names."""
    if form == "csv":
        yield _csv(found.columns)
    for row in found.toLocalIterator():
        yield json.dumps(_plain(row)) if form == "json" else _csv(map(_text, row))


def table(found: DataFrame, title: str, width: int, limit: int) -> tuple[RenderableType | None, str]:
    """Returns the first `limit` rows as a table, and a line about further rows; the line is empty if there are none.

    None: there is no row at all.
    """
    rows = found.limit(limit + 1).collect()
    if not rows:
        return None, ""
    kinds = dict(found.dtypes)
    columns = [Column(name, kinds[name] in _NUMBERS, rank=at) for at, name in enumerate(found.columns)]
    cells = [[_text(value)[:_CELL] for value in row] for row in rows[:limit]]
    more = f"the first {count(limit, 'row')}: --limit shows more, --format json all" if len(rows) > limit else ""
    return fitted(title, columns, cells, width), more


def write(found: DataFrame, place: str, form: str, *, overwrite: bool) -> None:
    """Writes the whole table into a folder (or URL), as "parquet", "csv" or "json"."""
    writer = found.write.mode("overwrite" if overwrite else "errorifexists").options(**WRITING)
    writer.format(form).save(place)


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
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else str(value)

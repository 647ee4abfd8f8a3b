"""Rows of any table, to a terminal, to standard output as lines of JSON or CSV, or into a folder.

Lines are written as Spark makes the rows, a partition at a time, so a table may be of any size. Bytes are base64 in
JSON and CSV. A terminal gets the first rows.

CSV is for programs, as RFC 4180 has it: every value is what was recorded, also one that a spreadsheet would take for a
formula. A letter in front of it, as exports for spreadsheets put there, would make another client of a client.
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

# Spark's writer for files of any format: CSV as the lines above have it, with all blanks and doubled quotes
WRITING: Mapping[str, str] = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
# letters of a cell on a terminal; more are cut
_CELL = 200
_NUMBERS = ("smallint", "int", "bigint", "double")


def lines(found: DataFrame, form: str) -> Iterator[str]:
    """All rows as lines of "json" or "csv", the latter behind a line of the columns' names."""
    if form == "csv":
        yield _csv(found.columns)
    for row in found.toLocalIterator():
        yield json.dumps(_plain(row)) if form == "json" else _csv(map(_text, row))


def table(found: DataFrame, title: str, width: int, limit: int) -> tuple[RenderableType, str]:
    """The first `limit` rows as a table, and a line that says whether there are more."""
    rows = found.limit(limit + 1).collect()
    kinds = dict(found.dtypes)
    columns = [Column(name, kinds[name] in _NUMBERS, rank=at) for at, name in enumerate(found.columns)]
    cells = [[_text(value)[:_CELL] for value in row] for row in rows[:limit]]
    more = f"the first {count(limit, 'row')}: --limit shows more, --format json all" if len(rows) > limit else ""
    return fitted(title, columns, cells, width), more


def write(found: DataFrame, place: str, form: str, *, overwrite: bool) -> None:
    """The whole table into a folder (or URL), as "parquet", "csv" or "json"."""
    writer = found.write.mode("overwrite" if overwrite else "errorifexists").options(**WRITING)
    writer.format(form).save(place)


def _csv(values: Any) -> str:
    paper = StringIO()
    # a value is quoted that holds a character of the line's end
    csv.writer(paper, lineterminator="\r\n").writerow(values)
    return paper.getvalue().removesuffix("\r\n")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(_plain(value)).strip('"')


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
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

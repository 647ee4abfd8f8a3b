"""Columns that a user asks for, as a table, JSON lines or CSV.

In a table, durations and sizes are for people; elsewhere they are numbers of ns and bytes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from proxy.command_line import folded
from proxy.terminal import each_printable
from proxy.wire.error_codes import kafka_error
from recorder.inspect.lines import instant, moment
from recorder.query.fields import FIELDS, Kind
from recorder.terminal import milliseconds, size

Values = Mapping[str, Any]
# the columns of CSV, if the user does not choose
FRAME_COLUMNS = ("id", "at", "kind", "client", "client_id", "node", "api", "version", "size", "latency")
EXCHANGE_COLUMNS = (*FRAME_COLUMNS[:2], *FRAME_COLUMNS[3:8], "sent", "received", "latency", "outcome", "error")
_WIDTHS = {Kind.MOMENT: 26, Kind.NUMBER: 9, Kind.SIZE: 8, Kind.TIME: 8, Kind.CLIENT: 21, Kind.API: 18}
_TEXT_WIDTH = 16
_RIGHT = (Kind.NUMBER, Kind.SIZE, Kind.TIME)
_BETWEEN = "  "
_LISTED = ", "


def plain(name: str, value: Any) -> Any:
    """A value for programs: times as RFC 3339 has them, durations as ns, errors by name."""
    if isinstance(value, list):
        return [plain(name, each) for each in value]
    kind = FIELDS[name].kind if name in FIELDS else None
    if value is None:
        return None
    if kind is Kind.MOMENT:
        return instant(value)
    if kind is Kind.CLIENT:
        return value[1]
    return kafka_error(value).name if kind is Kind.ERROR else value


def as_json(values: Values) -> str:
    """The values as a line of JSON."""
    return json.dumps({name: plain(name, value) for name, value in values.items()})


def csv_line(cells: Sequence[Any]) -> str:
    """Cells as a line of CSV, without its end."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def as_csv(values: Values) -> str:
    """The values as a line of CSV."""
    return csv_line([_listed(plain(name, value), str) for name, value in values.items()])


def _listed(value: Any, text: Callable[[Any], str]) -> str:
    if isinstance(value, list):
        return _LISTED.join(map(text, value))
    return "" if value is None else text(value)


def _cell(name: str, value: Any) -> str:
    kind = FIELDS[name].kind if name in FIELDS else None
    if kind is Kind.SIZE:
        return _listed(value, size)
    if kind is Kind.MOMENT:
        return _listed(value, moment)
    if kind is Kind.TIME:
        return _listed(value, lambda ns: milliseconds(ns / 1e6))
    return _listed(plain(name, value), str)


def title(name: str) -> str:
    """The title of a column of a table."""
    kind = FIELDS[name].kind if name in FIELDS else None
    return f"{name} (UTC)" if kind is Kind.MOMENT else f"{name} ms" if kind is Kind.TIME else name


def table_lines(columns: Sequence[str], found: Iterator[Values], width: int | None) -> Iterator[str]:
    """The lines of a table, below its header."""
    for values in found:
        yield from folded(_aligned(columns, each_printable([_cell(name, values[name]) for name in columns])), width)


def header(columns: Sequence[str], width: int | None) -> str:
    """The line above a table."""
    return folded(_aligned(columns, [title(name) for name in columns]), width)[0]


def _aligned(columns: Sequence[str], cells: Sequence[str]) -> str:
    parts = []
    for name, cell in zip(columns, cells, strict=True):
        kind = FIELDS[name].kind if name in FIELDS else None
        wide = max(_WIDTHS.get(kind, _TEXT_WIDTH) if kind else _TEXT_WIDTH, len(title(name)))
        parts.append(cell.rjust(wide) if kind in _RIGHT else cell.ljust(wide))
    return _BETWEEN.join(parts).rstrip()

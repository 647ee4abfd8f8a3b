"""The tables of the analysis on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from proxy.wire.error_reader import Unread
from recorder.analysis import columns as t
from recorder.capture import frames as c
from recorder.terminal import Cell, Column, cell, count, fitted, milliseconds, size

Rows = Sequence[Any]
# The suffix of an API whose latencies include waits.
_WAITS = {t.WAITING: ", waiting", t.INCLUDES_WAIT: ", waits included"}
_TITLES = {c.API: "API", c.API_VERSION: "version", c.CLIENT_ID: "client id"}
# A narrow terminal drops bytes first, then the column that is mostly empty, then all percentiles but one.
_LATENCY = (
    Column("reqs", True),
    Column("unansw.", True, rank=4),
    Column("errs", True, rank=1),
    Column("sent", True, rank=5),
    Column("received", True, rank=5),
    Column("p50 ms", True, rank=2),
    Column("p95", True, rank=3),
    Column("p99", True),
)
_ERRORS = (
    Column("error"),
    Column("code", True, rank=2),
    Column("retry", True, rank=3),
    Column("count", True),
    Column("responses", True, rank=1),
)
_UNREAD = (Column("API"), Column("responses", True, rank=1), Column("read", True), Column("not read"))


def latency_table(rows: Rows, width: int, by: Sequence[str] = (c.API,), errors: Rows = ()) -> RenderableType:
    """Returns rows of `latency_by_api` as a table: within a window the busiest first, waiting rows after the others.

    `errors`: the rows of `errors_by_api`. A count of errors is dim if all of them are normal steps of the protocol.
    """
    clock = _clock(rows)
    with_faults = {(_window(row), *_names(row, by)) for row in errors if not row[t.FLOW]}
    normal = {(_window(row), *_names(row, by)) for row in errors} - with_faults
    requests = Counter[tuple[str, ...]]()
    for row in rows:
        requests[_window(row), *_names(row, by)] += row[t.REQUESTS]

    def order(row: Any) -> tuple[Any, ...]:
        return _window(row), -requests[_window(row), *_names(row, by)], _names(row, by), row[t.WAIT] or ""

    cells = [
        [
            *_start(row, clock, by),
            count(row[t.REQUESTS]),
            _unless_zero(row[t.UNANSWERED]),
            _unless_zero(row[t.ERRORS], "dim" if (_window(row), *_names(row, by)) in normal else "bold red"),
            size(row[t.REQUEST_BYTES]),
            size(row[t.RESPONSE_BYTES]),
            *(milliseconds(row[name]) for name in (t.P50_MS, t.P95_MS, t.P99_MS)),
        ]
        for row in sorted(rows, key=order)
    ]
    return _table(f"Requests and latency by {_titled(by)}", rows, [*_columns(by), *_LATENCY], cells, width)


def errors_table(rows: Rows, width: int, by: Sequence[str] = (c.API,)) -> RenderableType:
    """Returns rows of `errors_by_api` as a table: within a window faults first, and the most frequent first."""
    clock = _clock(rows)

    def order(row: Any) -> tuple[Any, ...]:
        return _window(row), row[t.FLOW], -row[t.COUNT], _names(row, by), row[t.ERROR_CODE]

    cells = [
        [
            *(*_start(row, clock, by), _error(row), str(row[t.ERROR_CODE]), "yes" if row[t.RETRIABLE] else "no"),
            *(count(row[t.COUNT]), count(row[t.EXCHANGES])),
        ]
        for row in sorted(rows, key=order)
    ]
    return _table(f"Errors by {_titled(by)}", rows, [*_columns(by), *_ERRORS], cells, width)


def _error(row: Any) -> Text:
    return cell(f"{row[t.ERROR]} (normal)", "dim") if row[t.FLOW] else cell(row[t.ERROR], "red")


def _titled(by: Sequence[str]) -> str:
    return ", ".join(_TITLES.get(name, name) for name in by)


def _columns(by: Sequence[str]) -> list[Column]:
    return [Column(_TITLES.get(name, name)) for name in by]


def _names(row: Any, by: Sequence[str]) -> tuple[str, ...]:
    """Returns the values that the row is grouped by, as text; `-` for null."""
    return tuple("-" if row[name] is None else str(row[name]) for name in by)


def coverage(rows: Rows, width: int) -> Iterator[RenderableType]:
    """Yields the share of responses that could be read, and a table with the reasons for the others."""
    responses, read = (sum(row[name] for row in rows) for name in (t.RESPONSES, t.READ))
    if responses == read:
        yield Text(f"Errors are known of all {count(responses, 'response')}.")
        return
    share = f"{100 * read / responses:.1f}".rstrip("0").rstrip(".")
    yield Text(f"Errors are known of {count(read)} of {count(responses, 'response')} ({share} %).", style="bold")
    cells = [
        [row[c.API], count(row[t.RESPONSES]), count(row[t.READ]), _reasons(row)]
        for row in sorted(rows, key=lambda row: row[t.READ] - row[t.RESPONSES])
        if row[t.READ] < row[t.RESPONSES]
    ]
    yield fitted("Responses that were not read", _UNREAD, cells, width)


def no_errors(rows: Rows) -> Text:
    """Returns the sentence in place of an empty table of errors. `rows`: those of `coverage_by_api`."""
    read = sum(row[t.READ] for row in rows)
    return Text(f"None of the {count(read, 'response')} that could be read held an error.")


def _reasons(row: Any) -> str:
    return ", ".join(f"{why.value} {count(row[why.value])}" for why in Unread if row[why.value])


def _table(title: str, rows: Rows, columns: Sequence[Column], cells: list[list[Cell]], width: int) -> RenderableType:
    """Returns a table. If all windows are of one day, the title names the day, and the windows' column is narrow."""
    days = _days(rows)
    day = f", {min(days)}" if len(days) == 1 else ""
    return fitted(title + day, [*([Column("UTC", is_number=True)] if days else []), *columns], cells, width)


def _days(rows: Rows) -> set[str]:
    return {f"{row[t.WINDOW_START]:%Y-%m-%d}" for row in rows if t.WINDOW_START in row}


def _clock(rows: Rows) -> str:
    """Returns the format of a window's start."""
    return "%H:%M:%S" if len(_days(rows)) == 1 else "%m-%d %H:%M:%S"


def _window(row: Any) -> str:
    return f"{row[t.WINDOW_START]:%Y-%m-%d %H:%M:%S}" if t.WINDOW_START in row else ""


def _start(row: Any, clock: str, by: Sequence[str]) -> list[Cell]:
    """Returns the first cells of a row: its window's start, and the values that it is grouped by."""
    named: list[Text] = [cell(name, "" if at else "cyan") for at, name in enumerate(_names(row, by))]
    named[by.index(c.API) if c.API in by else 0].append(_WAITS.get(row.get(t.WAIT), ""), style="dim")
    return [*([f"{row[t.WINDOW_START]:{clock}}"] if t.WINDOW_START in row else []), *named]


def _unless_zero(number: int, style: str = "bold yellow") -> Cell:
    return Text(count(number), style=style) if number else "-"

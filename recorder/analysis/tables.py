"""The answers as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from recorder.analysis import columns as c
from recorder.terminal import count, milliseconds, size

Rows = Iterable[Any]


def latency_table(rows: Rows) -> Table:
    """Rows of `latency_by_api`, busiest first (within their window)."""
    table = _table("Requests and latency by API", _windowed(rows))
    for title in ("requests", "unanswered", "errors", "sent", "received", "p50 ms", "p95 ms", "p99 ms"):
        table.add_column(title, justify="right")
    for row in sorted(rows, key=lambda row: (_window(row), -row[c.REQUESTS], row[c.API])):
        table.add_row(
            *_start(row),
            count(row[c.REQUESTS]),
            _unless_zero(row[c.UNANSWERED]),
            _unless_zero(row[c.ERRORS], "bold red"),
            size(row[c.REQUEST_BYTES]),
            size(row[c.RESPONSE_BYTES]),
            *(milliseconds(row[name]) for name in (c.P50_MS, c.P95_MS, c.P99_MS)),
        )
    return table


def errors_table(rows: Rows) -> Table:
    """Rows of `errors_by_api`, most frequent first (within their window)."""
    table = _table("Errors by API", _windowed(rows))
    table.add_column("code", justify="right")
    table.add_column("error", style="red")
    table.add_column("retriable")
    table.add_column("count", justify="right")
    table.add_column("in responses", justify="right")
    for row in sorted(rows, key=lambda row: (_window(row), -row[c.COUNT], row[c.API], row[c.ERROR_CODE])):
        retriable = "yes" if row[c.RETRIABLE] else "no"
        numbers = count(row[c.COUNT]), count(row[c.EXCHANGES])
        table.add_row(*_start(row), str(row[c.ERROR_CODE]), row[c.ERROR], retriable, *numbers)
    return table


def _table(title: str, windowed: bool) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    if windowed:
        table.add_column("from (UTC)")
    table.add_column("API", style="cyan", no_wrap=True)
    return table


def _windowed(rows: Rows) -> bool:
    return any(c.WINDOW_START in row for row in rows)


def _window(row: Any) -> str:
    return f"{row[c.WINDOW_START]:%Y-%m-%d %H:%M:%S}" if c.WINDOW_START in row else ""


def _start(row: Any) -> list[str]:
    return [_window(row), row[c.API]] if c.WINDOW_START in row else [row[c.API]]


def _unless_zero(number: int, style: str = "bold yellow") -> str:
    return f"[{style}]{count(number)}[/]" if number else "-"

"""The answers as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from recorder.analysis import columns as c
from recorder.terminal import count, milliseconds, size, table

Rows = Sequence[Any]


def latency_table(rows: Rows) -> Table:
    """Rows of `latency_by_api`, busiest first (within their window)."""
    numbers = ("reqs", "unansw.", "errs", "sent", "received", "p50 ms", "p95", "p99")
    made = _table("Requests and latency by API", rows, (), numbers)
    clock = _clock(rows)
    for row in sorted(rows, key=lambda row: (_window(row), -row[c.REQUESTS], row[c.API])):
        made.add_row(
            *_start(row, clock),
            count(row[c.REQUESTS]),
            _unless_zero(row[c.UNANSWERED]),
            _unless_zero(row[c.ERRORS], "bold red"),
            size(row[c.REQUEST_BYTES]),
            size(row[c.RESPONSE_BYTES]),
            *(milliseconds(row[name]) for name in (c.P50_MS, c.P95_MS, c.P99_MS)),
        )
    return made


def errors_table(rows: Rows) -> Table:
    """Rows of `errors_by_api`, most frequent first (within their window)."""
    made = _table("Errors by API", rows, ("error",), ("code", "retry", "count", "responses"))
    clock = _clock(rows)
    for row in sorted(rows, key=lambda row: (_window(row), -row[c.COUNT], row[c.API], row[c.ERROR_CODE])):
        numbers = count(row[c.COUNT]), count(row[c.EXCHANGES])
        retry = "yes" if row[c.RETRIABLE] else "no"
        made.add_row(*_start(row, clock), f"[red]{row[c.ERROR]}[/]", str(row[c.ERROR_CODE]), retry, *numbers)
    return made


def _table(title: str, rows: Rows, names: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    """A table whose title names the day if all windows are of the same, so that their column is narrow."""
    days = _days(rows)
    day = f", {min(days)}" if len(days) == 1 else ""
    made = table(title + day, ("UTC", "API", *names) if days else ("API", *names), numbers)
    made.columns[0].no_wrap = bool(days)
    return made


def _days(rows: Rows) -> set[str]:
    return {f"{row[c.WINDOW_START]:%Y-%m-%d}" for row in rows if c.WINDOW_START in row}


def _clock(rows: Rows) -> str:
    """How the start of a window is written."""
    return "%H:%M:%S" if len(_days(rows)) == 1 else "%m-%d %H:%M:%S"


def _window(row: Any) -> str:
    return f"{row[c.WINDOW_START]:%Y-%m-%d %H:%M:%S}" if c.WINDOW_START in row else ""


def _start(row: Any, clock: str) -> list[str]:
    api = f"[cyan]{row[c.API]}[/]"
    return [f"{row[c.WINDOW_START]:{clock}}", api] if c.WINDOW_START in row else [api]


def _unless_zero(number: int, style: str = "bold yellow") -> str:
    return f"[{style}]{count(number)}[/]" if number else "-"

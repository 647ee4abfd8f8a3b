"""The answers as people read them."""

from __future__ import annotations

from datetime import datetime
from io import StringIO
from typing import Any

from rich.console import Console

from recorder.analysis.tables import errors_table, latency_table


def printed(table: Any) -> list[list[str]]:
    paper = StringIO()
    Console(width=200, file=paper).print(table)
    return [line.split() for line in paper.getvalue().splitlines()[2:]]


def latency(api: str, requests: int, **other: Any) -> dict[str, Any]:
    row = {"api": api, "requests": requests, "responses": requests, "unanswered": 0, "errors": 0}
    return row | {"request_bytes": 10, "response_bytes": 0, "p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": None} | other


def test_the_busiest_api_stands_first_and_zeros_stay_quiet() -> None:
    rows = [latency("Fetch", 5), latency("Metadata", 70, errors=2)]
    assert printed(latency_table(rows)) == [
        ["Metadata", "70", "-", "2", "10", "B", "0", "B", "1.00", "2.00"],
        ["Fetch", "5", "-", "-", "10", "B", "0", "B", "1.00", "2.00"],
    ]


def test_windows_come_before_everything_else() -> None:
    rows = [latency("Fetch", 9, window_start=datetime(2026, 11, 21, 13)), latency("Fetch", 1)]
    rows[1]["window_start"] = datetime(2026, 11, 21, 12)
    assert [line[1] for line in printed(latency_table(rows))] == ["12:00:00", "13:00:00"]


def test_the_most_frequent_error_stands_first() -> None:
    error = {"api": "Fetch", "retriable": True, "exchanges": 1}
    rows = [error | {"error_code": 6, "error": "A", "count": 1}, error | {"error_code": 1, "error": "B", "count": 3}]
    assert printed(errors_table(rows)) == [["Fetch", "1", "B", "yes", "3", "1"], ["Fetch", "6", "A", "yes", "1", "1"]]

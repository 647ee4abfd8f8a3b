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
    assert [line[0] for line in printed(latency_table(rows))] == ["12:00:00", "13:00:00"]


def test_windows_of_several_days_say_which() -> None:
    rows = [latency("Fetch", 1, window_start=datetime(2026, 11, day, 23, 59)) for day in (21, 22)]
    assert [line[:2] for line in printed(latency_table(rows))] == [["11-21", "23:59:00"], ["11-22", "23:59:00"]]


def test_a_terminal_of_80_columns_shows_every_header_and_breaks_no_number() -> None:
    busy = {"unanswered": 1234, "errors": 99_999, "request_bytes": 99_900_000, "response_bytes": 99_900_000}
    day = {"window_start": datetime(2026, 11, 21, 13), "p50_ms": 1.23, "p95_ms": 12.34, "p99_ms": 12345.0}
    paper = StringIO()
    screen = Console(width=80, file=paper)
    screen.print(latency_table([latency("OffsetForLeaderEpoch", 1_234_567, **busy, **day)]))
    error = {"api": "OffsetForLeaderEpoch", "error_code": 53, "error": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
    screen.print(errors_table([error | {"retriable": False, "count": 12_345, "exchanges": 12_345} | day]))
    said = paper.getvalue()
    assert "…" not in said
    headers = "UTC API reqs unansw. errs sent received p50 ms p95 p99"
    assert headers in [" ".join(line.split()) for line in said.splitlines()]
    assert "UTC API error code retry count responses" in [" ".join(line.split()) for line in said.splitlines()]
    assert all(number in said for number in ("1 234 567", "99 999", "99.9 MB", "12345", "12 345"))


def test_the_most_frequent_error_stands_first() -> None:
    error = {"api": "Fetch", "retriable": True, "exchanges": 1}
    rows = [error | {"error_code": 6, "error": "A", "count": 1}, error | {"error_code": 1, "error": "B", "count": 3}]
    assert printed(errors_table(rows)) == [["Fetch", "B", "1", "yes", "3", "1"], ["Fetch", "A", "6", "yes", "1", "1"]]

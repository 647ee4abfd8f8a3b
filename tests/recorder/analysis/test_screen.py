"""Tests of answers as tables on a terminal."""

from __future__ import annotations

from datetime import datetime
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from proxy.wire.error_reader import Unread
from recorder.analysis import screen

WIDE = 200


def printed(table: Any) -> list[list[str]]:
    paper = StringIO()
    Console(width=WIDE, file=paper).print(table)
    return [line.split() for line in paper.getvalue().splitlines()[2:]]


def latency_table(rows: list[dict[str, Any]], width: int = WIDE) -> Any:
    return screen.latency_table(rows, width)


def errors_table(rows: list[dict[str, Any]], width: int = WIDE) -> Any:
    return screen.errors_table(rows, width)


def latency(api: str, requests: int, **other: Any) -> dict[str, Any]:
    row = {"api": api, "requests": requests, "responses": requests, "unanswered": 0, "errors": 0, "wait": None}
    return row | {"request_bytes": 10, "response_bytes": 0, "p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": None} | other


def test_the_busiest_api_stands_first_and_zeros_stay_quiet() -> None:
    rows = [latency("Fetch", 5), latency("Metadata", 70, errors=2)]
    assert printed(latency_table(rows)) == [
        ["Metadata", "70", "-", "2", "10", "B", "0", "B", "1.00", "2.00"],
        ["Fetch", "5", "-", "-", "10", "B", "0", "B", "1.00", "2.00"],
    ]


def test_long_polls_of_an_api_stand_behind_its_work_and_say_so() -> None:
    rows = [latency("Fetch", 90, wait="wait"), latency("Metadata", 70), latency("Fetch", 5)]
    rows += [latency("JoinGroup", 1, wait="wait"), latency("Fetch", 2, wait="includes_wait")]
    assert [" ".join(line[:3]) for line in printed(latency_table(rows))] == [
        "Fetch 5 -",
        "Fetch, waits included",
        "Fetch, waiting 90",
        "Metadata 70 -",
        "JoinGroup, waiting 1",
    ]


def test_waiting_is_appended_to_the_api_and_not_to_the_topic() -> None:
    rows = [latency("Fetch", 90, wait="wait", topic="orders")]
    assert printed(screen.latency_table(rows, WIDE, ("topic", "api")))[0][:3] == ["orders", "Fetch,", "waiting"]


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
    screen.print(latency_table([latency("OffsetForLeaderEpoch", 1_234_567, **busy, **day)], 80))
    error = {"api": "OffsetForLeaderEpoch", "error_code": 53, "error": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
    error |= {"flow": False, "retriable": False, "count": 12_345, "exchanges": 12_345}
    screen.print(errors_table([error | day], 80))
    said = paper.getvalue()
    assert "…" not in said
    headers = "UTC API reqs unansw. errs sent received p50 ms p95 p99"
    assert headers in [" ".join(line.split()) for line in said.splitlines()]
    assert "UTC API error code retry count responses" in [" ".join(line.split()) for line in said.splitlines()]
    assert all(number in said for number in ("1 234 567", "99 999", "99.9 MB", "12345", "12 345"))


def test_the_most_frequent_error_stands_first() -> None:
    error = {"api": "Fetch", "retriable": True, "flow": False, "exchanges": 1}
    rows = [error | {"error_code": 6, "error": "A", "count": 1}, error | {"error_code": 1, "error": "B", "count": 3}]
    assert printed(errors_table(rows)) == [["Fetch", "B", "1", "yes", "3", "1"], ["Fetch", "A", "6", "yes", "1", "1"]]


def styled(table: Any) -> list[str]:
    """The printed lines, with the codes of their colours."""
    paper = StringIO()
    Console(width=WIDE, file=paper, force_terminal=True, color_system="standard", highlight=False).print(table)
    return paper.getvalue().splitlines()[2:]


RED, DIM = "\x1b[31m", "\x1b[2m"


def test_errors_that_are_a_normal_step_of_the_protocol_are_dim_and_stand_behind_faults() -> None:
    error = {"retriable": False, "exchanges": 1}
    normal = error | {"api": "ApiVersions", "error_code": 35, "error": "UNSUPPORTED_VERSION", "flow": True, "count": 88}
    fault = error | {"api": "Fetch", "error_code": 1, "error": "OFFSET_OUT_OF_RANGE", "flow": False, "count": 1}
    first, last = styled(errors_table([normal, fault]))
    assert f"{RED}OFFSET_OUT_OF_RANGE" in first
    assert f"{DIM}UNSUPPORTED_VERSION (normal)" in last


def test_a_count_of_normal_errors_alone_is_dim() -> None:
    day = {"window_start": datetime(2026, 11, 21, 12)}
    rows = [latency("ApiVersions", 90, errors=88, **day), latency("Fetch", 9, errors=7, **day)]
    codes = (("ApiVersions", True), ("Fetch", True), ("Fetch", False))
    errors = [{"api": api, "flow": flow, **day} for api, flow in codes]
    versions, fetch = styled(screen.latency_table(rows, WIDE, errors=errors))
    assert f"{DIM}  88" in versions
    assert "\x1b[1;31m   7" in fetch


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_has_whole_numbers_and_names_the_omitted_columns(width: int) -> None:
    busy = {"unanswered": 1234, "errors": 99_999, "request_bytes": 99_900_000, "response_bytes": 99_900_000}
    paper = StringIO()
    Console(width=width, file=paper).print(latency_table([latency("Fetch", 1_234_567, p99_ms=12345.0, **busy)], width))
    said = paper.getvalue()
    assert max(map(len, said.splitlines())) <= width
    assert "…" not in said
    assert "1 234 567" in said
    assert "12345" in said
    assert "no room here for: " in said
    assert "received" in said.partition("no room here for: ")[2]


def coverage(responses: int, read: int, api: str = "Fetch", **why: int) -> dict[str, Any]:
    return {"api": api, "responses": responses, "read": read} | dict.fromkeys(Unread, 0) | why


def told(*rows: dict[str, Any]) -> list[str]:
    paper = StringIO()
    Console(width=100, file=paper).print(*screen.coverage(rows, 100), sep="\n")
    return [" ".join(line.split()) for line in paper.getvalue().splitlines() if line.strip()]


def test_the_share_of_read_responses_comes_first() -> None:
    rows = [coverage(2000, 1800, omitted=150, cut=50), coverage(1000, 397, "Produce", omitted=603), coverage(1, 1, "A")]
    assert told(*rows) == [
        "Errors are known of 2 198 of 3 001 responses (73.2 %).",
        "Responses that were not read",
        "API responses read not read",
        "Produce 1 000 397 omitted 603",
        "Fetch 2 000 1 800 omitted 150, cut 50",
    ]


def test_a_sentence_says_that_all_responses_were_read() -> None:
    assert told(coverage(5, 5)) == ["Errors are known of all 5 responses."]
    assert told() == ["Errors are known of all 0 responses."]


def test_a_capture_without_bodies_is_not_reported_as_free_of_errors() -> None:
    assert told(coverage(5, 0, omitted=5))[0] == "Errors are known of 0 of 5 responses (0 %)."
    assert "0 responses" in str(screen.no_errors([coverage(5, 0, omitted=5)]))


def test_responses_are_reported_without_errors_only_if_they_were_read() -> None:
    assert str(screen.no_errors([coverage(9, 4)])) == "None of the 4 responses that could be read held an error."

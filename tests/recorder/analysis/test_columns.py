"""Tests of the analysis's column names, which are in tables that users keep."""

from recorder.analysis import columns
from recorder.capture.frames import EVENT_COLUMNS, FRAME_COLUMNS

MADE_HERE = {
    "outcome",
    "answered_at",
    "response_size",
    "error_codes",
    "unread",
    "wait",
    "read",
    "window_start",
    "requests",
    "responses",
}
MADE_HERE |= {"unanswered", "errors", "request_bytes", "response_bytes", "p50_ms", "p95_ms", "p99_ms"}
MADE_HERE |= {
    "service_ns",
    "throttle_ms",
    "bucket",
    "error_code",
    "error",
    "retriable",
    "flow",
    "count",
    "exchanges",
    "includes_wait",
    "gaps",
    "connections",
}


def test_each_column_is_the_captures_or_made_by_the_analysis() -> None:
    names = {value for name, value in vars(columns).items() if name.isupper() and isinstance(value, str)}
    assert names - {name for name, _ in (*FRAME_COLUMNS, *EVENT_COLUMNS)} == MADE_HERE


def test_requests_and_responses_are_joined_by_connection_and_number() -> None:
    assert columns.KEYS == ["session", "connection", "exchange"]

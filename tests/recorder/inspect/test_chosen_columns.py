"""Tests of columns that a user asks for."""

from __future__ import annotations

import csv
import json

from recorder.inspect.chosen_columns import as_csv, as_json, csv_line, header, table_lines

VALUES = {
    "id": "s/1/e2",
    "at": 1_795_262_400_000_000_000,
    "latency": 1_500_000,
    "size": 2048,
    "client": ("app", "127.0.0.1:5"),
    "topic": ["a,b", "c"],
    "error": [6, 0],
    "node": None,
}


def test_programs_get_numbers_texts_and_names() -> None:
    assert json.loads(as_json(VALUES)) == {
        "id": "s/1/e2",
        "at": "2026-11-21T12:00:00.000000Z",
        "latency": 1_500_000,
        "size": 2048,
        "client": "127.0.0.1:5",
        "topic": ["a,b", "c"],
        "error": ["NOT_LEADER_OR_FOLLOWER", "NONE"],
        "node": None,
    }
    (cells,) = csv.reader([as_csv(VALUES)])
    assert cells[1:6] == ["2026-11-21T12:00:00.000000Z", "1500000", "2048", "127.0.0.1:5", "a,b, c"]
    assert cells[6:] == ["NOT_LEADER_OR_FOLLOWER, NONE", ""]
    assert csv_line(["a", "b"]) == "a,b"


def test_people_get_units_in_columns_below_their_titles() -> None:
    columns = ("at", "latency", "size", "topic")
    (line,) = table_lines(columns, iter([VALUES]), None)
    assert line.split() == ["2026-11-21", "12:00:00.000000", "1.50", "2.0", "kB", "a,b,", "c"]
    assert header(columns, None).split() == ["at", "(UTC)", "latency", "ms", "size", "topic"]
    assert header(columns, None).index("topic") == line.index("a,b")


def test_a_terminal_gets_no_orders_and_no_line_wider_than_itself() -> None:
    values = {"topic": ["\x1b[2J", "x" * 30], "principal": "y " * 20}
    lines = [*table_lines(("topic", "principal"), iter([values]), 40)]
    assert "\x1b" not in "".join(lines)
    assert max(map(len, lines)) <= 40

"""Tests of what columns decide: no row that a filter passes is left out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.capture.frames import HOUR_NS, frames_schema
from recorder.query.columns import Rows, between, rows_of_exchanges, rows_of_frames, rows_of_ids
from recorder.query.evaluation import Subject, predicate
from recorder.query.language import parse
from recorder.query.syntax import condition, resolved

COLUMNS: dict[str, list[Any]] = {
    "kind": ["request", "response"],
    "dialect": ["kafka", "kafka-0.7"],
    "api_key": [0, 1, 2000, None],
    "api": ["Produce", "Fetch", None],
    "api_version": [3, 9, None],
    "client": ["10.0.0.1:5000", "[::1]:5000", None],
    "client_id": ["app", "10.0.0.1", None],
    "principal": ["alice", None],
    "node": [1, 2, None],
    "session": ["2026-a", "2027-b"],
    "at_ns": [0, HOUR_NS, 2 * HOUR_NS],
    "size": [10, 1000],
}
CONDITIONS = (
    *("api == Produce", "api != Fetch", "api == 2000", "api == 0.7/produce", "api ~ 'F*'", "api in (0, 1)"),
    *("version > 3", "version != 9", "client == app", "client == 10.0.0.1", "client ~ '10*'", "client_id != app"),
    *("principal == alice", "node in (1, 3)", "node != 1", "session ~ '2026*'", "session !~ '2026*'"),
    *("size > 100", "kind == response", "dialect == kafka", "topic == x", "topic == x", "error"),
)


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in COLUMNS.items()})
    return st.lists(row, min_size=1, max_size=6)


def texts() -> st.SearchStrategy[str]:
    def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(parts, st.sampled_from(["and", "or"]), parts).map(lambda each: f"({' '.join(each)})"),
            parts.map(lambda each: f"not ({each})"),
        )

    return st.recursive(st.sampled_from(CONDITIONS), joined, max_leaves=5)


def head(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"version": row["api_version"], "client": (row["client_id"], row["client"]), "at": row["at_ns"]}


@given(texts(), rows())
@pytest.mark.parametrize("make", [rows_of_frames, rows_of_exchanges])
def test_each_row_that_a_filter_may_pass_is_read(make: Any, text: str, rows: list[dict[str, Any]]) -> None:
    node = parse(text)
    passes, expression = predicate(node), make(node).expression
    table = pa.table(
        {name: pa.array([row[name] for row in rows], frames_schema().field(name).type) for name in COLUMNS}
        | {"number": range(len(rows))}
    )
    read = {*(table if expression is None else table.filter(expression))["number"].to_pylist()}
    assert read >= {at for at, row in enumerate(rows) if passes(Subject(head(row), [{"topic": "x"}]))}


def test_columns_leave_out_what_no_filter_can_pass() -> None:
    table = pa.table({"api_key": [0, 1], "dialect": ["kafka", "kafka"], "api": ["Produce", "Fetch"]})
    expression = rows_of_exchanges(parse("api == Produce and topic == x and error")).expression
    assert table.filter(expression)["api"].to_pylist() == ["Produce"]


def test_times_that_must_hold_bound_the_rows() -> None:
    def node(text: str) -> Any:
        return resolved(parse(text), lambda: 0)

    assert between(node("at >= 1970-01-01T01:00 and error and at < 1970-01-01T02:00")) == (HOUR_NS, 2 * HOUR_NS)
    assert between(node("at >= 1970-01-01T01:00 or error")) == (None, None)
    assert between(node("not at >= 1970-01-01T01:00")) == (None, None)


def test_only_hours_that_can_hold_wanted_frames_are_opened() -> None:
    rows = Rows(since_ns=5 * HOUR_NS + 1, until_ns=7 * HOUR_NS)
    assert [hour for hour in range(10) if rows.in_hour(hour * HOUR_NS)] == [5, 6, 7]
    assert Rows().in_hour(0)


def test_a_response_may_come_an_hour_after_the_last_wanted_request() -> None:
    rows = rows_of_exchanges(condition("at", "<=", 7 * HOUR_NS))
    assert rows.in_hour(8 * HOUR_NS)
    table = pa.table({"kind": ["request", "response"], "at_ns": [8 * HOUR_NS, 8 * HOUR_NS]})
    assert table.filter(rows.expression)["kind"].to_pylist() == ["response"]


def test_no_id_is_no_expression() -> None:
    assert rows_of_ids().expression is None


def test_a_frame_must_match_all_ids() -> None:
    table = pa.table({"session": ["a-1", "a-2", "b-1"], "connection": [1, 2, 1], "kind": ["request"] * 3})
    wanted = rows_of_ids(sessions=("a",), connections=(1,), kinds=("request", "response"))
    assert table.filter(wanted.expression)["session"].to_pylist() == ["a-1"]

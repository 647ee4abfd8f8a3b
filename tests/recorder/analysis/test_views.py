"""Tests of SQL over the tables: a wrong query gives one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from recorder.analysis.running import as_click_errors
from recorder.analysis.views import answer

pytestmark = pytest.mark.real
Build = Callable[..., Any]


def test_a_query_joins_tables_by_their_names(captured: Build, request_row: Build, response_row: Build) -> None:
    beat = {"api_key": 12, "api": "Heartbeat", "api_version": 4}
    found = captured(request_row(0, **beat), response_row(0, b"\0\0\0\0\0\0\0\0\0\0\x1b\0", **beat))
    query = "select x.api, e.error from exchanges x join Errors e using (session, connection, exchange)"
    assert [tuple(row) for row in answer(found, query).collect()] == [("Heartbeat", "REBALANCE_IN_PROGRESS")]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select colour from connections", "`colour` cannot be resolved. Did you mean one of the following?"),
        ("select * from moons", "'moons' is no table; right would be frames, exchanges,"),
        ("select * from exchange", "'exchange' is no table; did you mean exchanges? There are frames,"),
        ("selec 1", "Syntax error at or near 'selec'"),
    ],
    ids=["column", "table", "similar-table", "word"],
)
def test_a_wrong_query_is_one_line_and_the_users_fault(
    captured: Build, request_row: Build, tmp_path: Path, query: str, said: str
) -> None:
    found = captured(request_row(0))
    with pytest.raises(click.UsageError) as failed, as_click_errors(tmp_path / "log"):
        answer(found, query).collect()
    assert said in failed.value.message
    assert "\n" not in failed.value.message
    assert "SQLSTATE" not in failed.value.message

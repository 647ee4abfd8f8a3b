"""Tests of SQL over the tables: a wrong query gives one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from recorder.analysis.running import as_click_errors
from recorder.analysis.views import answer, is_command, unknown_table
from tests.tables import each_row

Build = Callable[..., Any]


@pytest.mark.real
def test_a_query_joins_tables_by_their_names(captured: Build, request_row: Build, response_row: Build) -> None:
    beat = {"api_key": 12, "api": "Heartbeat", "api_version": 4}
    found = captured(request_row(0, **beat), response_row(0, b"\0\0\0\0\0\0\0\0\0\0\x1b\0", **beat))
    query = "select x.api, e.error from exchanges x join Errors e using (session, connection, exchange)"
    assert [tuple(row) for row in answer(found, query).collect()] == [("Heartbeat", "REBALANCE_IN_PROGRESS")]


@pytest.mark.real
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


STATEMENTS = [
    "drop table exchanges",
    "create or replace temp view v as select * from exchanges",
    "create table t as select 1 as x",
    "insert into exchanges select * from exchanges",
    "insert overwrite directory '/tmp/nowhere' using json select 1",
    "with x as (select 1 as a) insert into exchanges select a from x",
    "from exchanges insert into t select 1",
    "set spark.sql.shuffle.partitions=3",
    "reset",
    "cache table exchanges",
    "use default",
    "show tables",
    "execute immediate 'drop view exchanges'",
    "select 1; select 2",
    "begin select 1; end",
]


@pytest.mark.real
def test_only_queries_are_answered(captured: Build, request_row: Build, tmp_path: Path) -> None:
    found = captured(request_row(0))
    before = answer(found, "select * from exchanges").count(), found.spark.conf.get("spark.sql.shuffle.partitions")
    for statement in STATEMENTS:
        with pytest.raises(click.UsageError) as failed, as_click_errors(tmp_path / "log"):
            answer(found, statement)
        assert "\n" not in failed.value.message, statement
    assert found.spark.catalog.tableExists("exchanges")
    assert not found.spark.catalog.tableExists("v")
    after = answer(found, "select * from exchanges").count(), found.spark.conf.get("spark.sql.shuffle.partitions")
    assert after == before


QUERIES = [
    "with x as (select api from exchanges) select * from x",
    "(select 1) union all (select 2)",
    "values (1), (2)",
    "table exchanges",
    "from exchanges select api",
    "select api from exchanges;",
    "explain select * from exchanges",
    "describe exchanges",
    "desc exchanges api",
    "describe query select api from exchanges",
    "select (select count(*) from errors) n, * from exchanges where api in (select api from exchanges)",
]


@pytest.mark.real
def test_every_form_of_a_query_is_answered(captured: Build, request_row: Build) -> None:
    found = captured(request_row(0))
    for query in QUERIES:
        assert answer(found, query).schema.names, query


@pytest.mark.real
def test_a_plan_is_told_line_by_line(captured: Build, request_row: Build) -> None:
    lines = [row.plan for row in answer(captured(request_row(0)), "explain select * from exchanges").collect()]
    assert lines[0] == "== Physical Plan =="
    assert not [line for line in lines if "\n" in line]


@each_row(
    ("query", "name"),
    [
        ("select * from exchange", "exchange"),
        ("SELECT api FROM Exchange WHERE 1 = 1", "Exchange"),
        ("select * from exchanges join `erors` using (session)", "erors"),
        ("with x as (select * from moons) select * from x", "moons"),
        ("select * from exchanges where api in (select api from moons)", "moons"),
        ("explain select * from moons", "moons"),
        ("/* from x */ select 'from y' -- from z\n from moons", "moons"),
    ],
)
def test_a_wrong_table_is_found_without_spark(query: str, name: str) -> None:
    assert unknown_table(query) == name


@each_row(
    "query",
    [
        "select * from exchanges e join errors x on e.session = x.session",
        "select extract(year from at), trim(both 'x' from api), substring(api from 2) from exchanges",
        "select extract(year from (select max(at) from exchanges))",
        "select * from exchanges where api is not distinct from client_id",
        "with moons as (select 1) select * from moons",
        "with a as (select 1), moons (x) as (select 2) select * from a join moons",
        "with recursive moons(n) max recursion level 5 as (select 1) select * from moons",
        "select * from range(10) join lateral (select 1)",
        "select * from json.`/tmp/x`, parquet.`/tmp/y`",
        "select * from global_temp.moons",
        "select * from values (1), (2) as t(x)",
        "select * from `my own table`",
        "select api as from from exchanges",
        "select * from exchanges where api = r'\\' or api = ' from moons '",
        "select * from exchanges /* a /* b */ from moons */",
        "select * from exchanges where api = \"from moons\" or api = 'it''s from moons'",
        "select * from :name",
        "select * from identifier('exchanges')",
        "drop table moons",
        "show tables from moons",
        "",
    ],
)
def test_a_query_that_may_be_right_is_left_to_spark(query: str) -> None:
    assert unknown_table(query) is None


@each_row(
    ("query", "expected"),
    [
        ("drop table x", True),
        ("-- a comment\n SHOW tables", True),
        ("/* first */ insert into x select 1", True),
        ("select 1; drop table x", False),
        ("with drop as (select 1) select * from drop", False),
        ("`drop`", True),
        ("", False),
    ],
)
def test_a_command_is_known_by_its_first_word_without_spark(query: str, expected: bool) -> None:
    assert is_command(query) is expected

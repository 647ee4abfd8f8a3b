"""Tests of what `top` shows: rates, order, columns that fit, filters of rows."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.query.language import parse
from recorder.top.client import Json, NodeState, ProxyState, Recording
from recorder.top.model import OF_EXCHANGES, VIEWS, WINDOW, Model, age, condition, fitting, of_exchange, ordered, size
from tests.hostile_text import NAME


def told(at: float, **tables: list[Json]) -> Json:
    lines = {view.table: table(*tables.get(view.table, [])) for view in VIEWS.values()}
    return {"at": at, "exchanges": 10 * at, "errors": at, "bytes": 100 * at, "missed": {}, "behind": 0, "tables": lines}


def table(*lines: Json, more: int = 0, forgotten: int = 0) -> Json:
    return {"lines": [*lines], "total": len(lines) + more, "forgotten": forgotten}


def topic(name: str, exchanges: int, errors: int = 0) -> Json:
    return {"topic": name, "exchanges": exchanges, "errors": errors, "records": exchanges, "bytes": exchanges * 100}


def test_rates_are_of_the_last_seconds_and_sums_of_all() -> None:
    model = Model()
    for second in range(20):
        model.tell(told(second, topics=[topic("t", second**2)]))
    (row,) = model.rows("topics")
    # between second 14 and second 19
    assert row["exchanges_s"] == (19**2 - 14**2) / WINDOW
    assert row["exchanges"] == 19**2
    assert model.totals()["exchanges"] == 10


def test_a_row_that_is_new_has_a_rate_and_a_first_message_has_none() -> None:
    model = Model()
    model.tell(told(0, topics=[topic("t", 7)]))
    assert model.rows("topics")[0]["exchanges_s"] == 0
    model.tell(told(2, topics=[topic("t", 7), topic("u", 4)]))
    assert {row["topic"]: row["exchanges_s"] for row in model.rows("topics")} == {"t": 0, "u": 2}
    model.forget()
    assert not model.rows("topics")


def test_a_node_that_is_down_is_shown_without_traffic() -> None:
    model = Model(lambda: 1000)
    nodes = {"1": NodeState(True, 400, 3), "2": NodeState(False, 990), "bootstrap": NodeState(True, 1)}
    model.state = ProxyState(nodes, Recording())
    model.tell(told(0, nodes=[{"node": 1, "exchanges": 5}, {"node": None, "exchanges": 2}]))
    rows = {row["node"]: row for row in model.rows("nodes")}
    assert [(rows[name]["state"], rows[name]["since"]) for name in ("1", "2")] == [("up", 600), ("DOWN", 10)]
    assert (rows["1"]["exchanges"], rows["1"]["connections"], rows["bootstrap"]["exchanges"]) == (5, 3, 2)


def test_a_view_that_lacks_rows_says_so() -> None:
    model = Model()
    assert model.bounds("topics") == ""
    message = told(1, topics=[topic("t", 1)])
    message["tables"]["clients"] = table({}, more=1499)
    message["tables"]["lags"] = table({}, {}, forgotten=3)
    message["tables"]["errors"] = table({}, more=1, forgotten=1)
    model.tell(message)
    assert [model.bounds(name) for name in ("topics", "clients", "groups", "errors")] == [
        "",
        "the first 1 of 1,500 rows",
        "the table is full: 3 rows that were idle longest made room",
        "the first 1 of 2 rows; the table is full: 1 row that was idle longest made room",
    ]


def test_a_process_that_is_behind_is_said() -> None:
    model = Model()
    assert model.delay == ""
    model.tell(told(1))
    assert model.delay == ""
    model.tell(told(2) | {"behind": 90.4})
    assert model.delay.startswith("the live process is 2 min behind")


@pytest.mark.parametrize(
    ("recording", "said"),
    [
        (Recording(), "nothing dropped"),
        (Recording(1, 3000), "dropped 3.0 kB in 1 gap"),
        (Recording(2, 0), "dropped 0 B in 2 gaps"),
        (Recording(2, 3000, is_broken=True), "NOT RECORDING"),
        (Recording(is_stopped=True), "NOT RECORDING (volume full)"),
    ],
)
def test_what_is_lost_is_said_and_that_nothing_is(recording: Recording, said: str) -> None:
    model = Model()
    assert model.losses == ("", False)
    model.state = ProxyState({}, recording)
    assert model.losses == (said, said != "nothing dropped")


def test_what_has_no_value_comes_last_whatever_the_order() -> None:
    (column,) = [one for one in VIEWS["groups"].columns if one.name == "lag"]
    rows: list[dict[str, Any]] = [{"lag": 1}, {"lag": None}, {"lag": 9}]
    assert [row["lag"] for row in ordered(rows, column, is_reversed=False)] == [9, 1, None]
    assert [row["lag"] for row in ordered(rows, column, is_reversed=True)] == [1, 9, None]
    (name,) = [one for one in VIEWS["topics"].columns if one.name == "topic"]
    texts = [{"topic": text} for text in ("b", "A", "c")]
    assert [row["topic"] for row in ordered(texts, name, is_reversed=False)] == ["A", "b", "c"]


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ("clients", {"client_id", "errors"}),
        ("groups", {"group", "topic", "partition", "state", "lag"}),
        ("nodes", {"node", "state", "since", "errors"}),
        ("errors", {"error", "client_id", "errors"}),
    ],
)
def test_sixty_columns_tell_what_is_down_what_is_behind_and_which_client_gets_errors(
    view: str, shown: set[str]
) -> None:
    kept = {one.name for one in fitting(VIEWS[view].columns, 58)}
    assert shown | {VIEWS[view].order} <= kept


@pytest.mark.parametrize("columns", [*(view.columns for view in VIEWS.values()), OF_EXCHANGES])
@pytest.mark.parametrize("width", [58, 98, 158])
def test_columns_fit_and_a_wide_terminal_has_all(columns: Any, width: int) -> None:
    kept = fitting(columns, width)
    assert sum(one.width + 2 for one in kept) <= width
    assert [one for one in columns if not one.rank] == [one for one in kept if not one.rank]
    if width == 158:
        assert kept == [*columns]


@pytest.mark.parametrize("name", ["t", 'a"b', "a\\", NAME, ""])
def test_a_rows_condition_is_a_filter_that_names_it(name: str) -> None:
    view = VIEWS["errors"]
    row = {"error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "client_id": name, "topic": None}
    tree: Any = parse(condition(view, row))
    assert [part.field.name for part in tree.parts] == ["error", "api", "client_id"]
    assert tree.parts[2].values == (name,)


def test_sizes_and_ages_are_short() -> None:
    assert [*map(size, (0, 999, 1000, 99_950, 123_456, 5e9, 7e12))] == [
        *("0 B", "999 B", "1.0 kB", "100.0 kB", "123 kB", "5.0 GB", "7.0 TB")
    ]
    assert [*map(age, (-1, 59, 90, 7200, 200_000))] == ["0 s", "59 s", "2 min", "2 h", "2 d"]


def test_an_exchange_is_a_row_with_its_topics_and_groups() -> None:
    names = {"topic": {"names": ["t"], "more": 0}, "group": {"names": ["g"], "more": 0}}
    row = of_exchange({**names, "sent": 5, "received": None, "error_text": ""})
    assert (row["topics"], row["size"], row["error_text"]) == ("t, g", 5, None)

"""Tests of what `inspect groups`, `transactions` and `metadata` show, over tables that are written by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis import looks
from recorder.analysis.sources import SOURCES
from tests.recorder.analysis.by_hand import NOON, Row, frame

pytestmark = pytest.mark.real
Tables = dict[str, list[Row]]


@pytest.fixture
def shown(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Shows a look over these tables: rows as dicts."""

    def show(look: looks.Look, tables: Tables) -> list[Row]:
        def load(_: object, name: str) -> DataFrame:
            return frame(spark, SOURCES[name].table.ddl, tables.get(name, []))

        monkeypatch.setattr(looks, "load", load)
        found: Any = None
        return [row.asDict() for row in look.rows(found).collect()]

    return show


def at(seconds: float) -> Any:
    return NOON + timedelta(seconds=seconds)


def rebalance(group: str, generation: int, seconds: float, cause: str, *members: str, cluster: str = "c") -> Row:
    row: Row = {"cluster": cluster, "group_id": group, "protocol": "classic", "generation": generation}
    return row | {"from_at": at(seconds), "cause": cause, "members": [*members], "reasons": ["bye"]}


def lag(group: str, partition: int, seconds: float, records: int | None, cluster: str = "c") -> Row:
    row: Row = {"cluster": cluster, "group_id": group, "topic": "t", "topic_id": "t", "partition": partition}
    return row | {"window_end": at(seconds), "lag": records, "lag_ms": records, "committed_offset": 5}


def test_a_group_is_shown_with_its_last_rebalance_and_its_last_lag(shown: Any) -> None:
    tables = {
        "rebalances": [rebalance("g", 2, 9, "left", "a"), rebalance("g", 1, 1, "joined", "a", "b")],
        "lag": [lag("g", 0, 60, 7), lag("g", 0, 120, 3), lag("g", 1, 120, 4), lag("h", 0, 60, 9)],
    }
    first, second = shown(looks.groups(), tables)
    assert (first["group_id"], first["lag"], first["rebalances"]) == ("h", 9, None)
    assert (second["group_id"], second["lag"], second["lag_ms"], second["partitions"]) == ("g", 7, 4, 2)
    assert (second["generation"], second["members"], second["rebalances"]) == (2, 1, 2)
    assert (second["cause"], second["last_rebalance"].replace(tzinfo=None)) == ("left", at(9).replace(tzinfo=None))


def test_who_left_after_the_last_rebalance_is_no_member_any_more(shown: Any) -> None:
    leave: Row = {"session": "s", "connection": 1, "sequence": 1, "cluster": "c", "group_id": "g", "step": "leave"}
    leave |= {"error_code": 0}
    tables = {
        "rebalances": [rebalance("g", 1, 1, "joined", "a", "b"), rebalance("g", 2, 9, "joined", "a", "b", "c")],
        "group_events": [
            leave | {"member_id": "a", "at": at(10)},
            leave | {"member_id": "a", "at": at(11)},
            # before the rebalance; refused; another group's
            leave | {"member_id": "b", "at": at(5)},
            leave | {"member_id": "b", "at": at(12), "error_code": 25},
            leave | {"member_id": "c", "at": at(12), "group_id": "h"},
        ],
    }
    (row,) = shown(looks.groups(), tables)
    assert row["members"] == 2


def test_a_steps_error_is_named(shown: Any) -> None:
    step: Row = {"session": "s", "connection": 1, "group_id": "g", "step": "sync", "member_id": "m", "at": at(1)}
    tables: Tables = {
        "group_events": [step | {"sequence": 1, "error_code": 27}, step | {"sequence": 2, "error_code": 0}]
    }
    assert [row["error"] for row in shown(looks.group("g")["steps"], tables)] == ["REBALANCE_IN_PROGRESS", None]


def test_groups_of_one_name_on_two_clusters_stay_apart(shown: Any) -> None:
    tables = {"lag": [lag("g", 0, 60, 1, "c"), lag("g", 0, 60, 2, "d")]}
    assert [(row["cluster"], row["lag"]) for row in shown(looks.groups(), tables)] == [("d", 2), ("c", 1)]


def test_one_group_shows_its_own_rows_alone_in_their_order(shown: Any) -> None:
    step: Row = {"session": "s", "connection": 1, "group_id": "g", "step": "join", "member_id": "m", "at": at(1)}
    tables: Tables = {
        "rebalances": [rebalance("g", 2, 9, "left"), rebalance("h", 5, 2, "lost"), rebalance("g", 1, 1, "joined")],
        "group_events": [
            step | {"sequence": 3, "at": at(2), "step": "leave"},
            step | {"sequence": 1},
            step | {"sequence": 2, "step": "heartbeat"},
            step | {"sequence": 4, "step": "commit"},
            step | {"sequence": 5, "group_id": "h"},
        ],
        "lag": [lag("g", 0, 60, 7), lag("g", 0, 120, 3), lag("g", 1, 120, 4), lag("h", 0, 60, 9)],
    }
    of_group = looks.group("g")
    assert [(row["generation"], row["cause"]) for row in shown(of_group["rebalances"], tables)] == [
        (1, "joined"),
        (2, "left"),
    ]
    assert [row["step"] for row in shown(of_group["steps"], tables)] == ["join", "leave"]
    assert [(row["partition"], row["lag"]) for row in shown(of_group["lag"], tables)] == [(1, 4), (0, 3)]


def test_members_are_named_by_their_client_ids(shown: Any) -> None:
    step: Row = {"session": "s", "connection": 1, "group_id": "g", "step": "join", "at": at(1)}
    ids = {"members": ["a-1", "static"], "joined": ["a-1"], "left": ["nobody-knows"], "lost": None}
    tables: Tables = {
        "rebalances": [rebalance("g", 1, 1, "joined") | ids],
        "group_events": [
            step | {"sequence": 1, "member_id": "a-1", "client_id": "billing"},
            step | {"sequence": 2, "member_id": "b-1", "instance_id": "static", "client_id": "audit"},
            step | {"sequence": 3, "member_id": "nobody-knows", "group_id": "h", "client_id": "other"},
        ],
    }
    (row,) = shown(looks.group("g")["rebalances"], tables)
    assert (row["members"], row["joined"]) == (["billing (a-1)", "audit (static)"], ["billing (a-1)"])
    assert (row["left"], row["lost"]) == (["nobody-knows"], None)


def test_a_rebalance_whose_members_steps_are_unknown_is_shown(shown: Any) -> None:
    tables: Tables = {"rebalances": [rebalance("g", 1, 1, "joined", "a")]}
    (row,) = shown(looks.group("g")["rebalances"], tables)
    assert row["members"] == ["a"]


@pytest.mark.parametrize(("name", "meant"), [("biling", "; did you mean the group billing?"), ("x", ""), ("audit", "")])
def test_a_group_that_is_not_there_is_answered_by_the_one_most_like_it(
    shown: Any, monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    step: Row = {"session": "s", "connection": 1, "sequence": 1, "step": "join"}
    tables: Tables = {"group_events": [step | {"group_id": one} for one in ("billing", "audit")]}
    look = looks.group(name)["lag"]
    assert shown(look, tables) == []
    found: Any = None
    assert look.meant(found) == meant


def test_first_states_are_no_changes(shown: Any) -> None:
    row: Row = {"cluster": "c", "topic": "t", "partition": 0, "leader": 1, "at": at(0), "is_first": True}
    moved = row | {"at": at(5), "leader": 2, "was_leader": 1, "is_first": False}
    node: Row = {"cluster": "c", "at": at(6), "told_node": 3, "host": "b", "port": 9, "was_address": "a:9"}
    found = shown(looks.moves(), {"metadata_changes": [moved, row, node | {"is_first": False}]})
    assert [(one["was_leader"], one["leader"], one["address"]) for one in found] == [(1, 2, None), (None, None, "b:9")]


def test_transactions_stand_in_the_order_of_their_beginning(shown: Any) -> None:
    row: Row = {"cluster": "c", "transactional_id": "x", "producer_id": 1, "begun_at": at(2), "outcome": "aborted"}
    tables = {"transactions": [row, row | {"begun_at": at(1), "outcome": "committed"}]}
    assert [one["outcome"] for one in shown(looks.of_transactions(), tables)] == ["committed", "aborted"]


def test_names_in_sentences_are_printable() -> None:
    assert all("\x1b" not in look.what for look in looks.group("\x1b[31m").values())

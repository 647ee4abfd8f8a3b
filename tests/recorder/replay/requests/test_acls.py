"""Tests of ACLs under a prefix: they allow and deny nothing outside of it."""

from __future__ import annotations

import pytest

from recorder.replay.cluster import Cluster
from recorder.replay.names import BeyondPrefix, Names
from recorder.replay.plan import Values
from recorder.replay.requests.acls import prefix_rule
from tests.tables import each_row


def ruled(name: str | None, kind: int = 2, pattern: int | None = 3, *, changes: bool = False) -> Values:
    rule: Values = {"kind": kind, "name": name} | ({} if pattern is None else {"pattern": pattern})
    prefix_rule(rule, "kind", "name", "pattern", Names("p-", {}, Cluster()), changes=changes)
    return rule


@each_row("changes", [False, True])
@each_row("kind", [2, 3, 5], ids=["topic", "group", "transaction"])
def test_a_rule_names_what_is_behind_the_prefix(kind: int, changes: bool) -> None:
    assert ruled("orders", kind, changes=changes)["name"] == "p-orders"
    assert ruled("__team-billing", kind, changes=changes)["name"] == "p-__team-billing"
    assert ruled("kafka-cluster", kind, changes=changes)["name"] == "p-kafka-cluster"


def test_only_topics_are_kafkas_own() -> None:
    assert ruled("__consumer_offsets")["name"] == "__consumer_offsets"
    assert ruled("__consumer_offsets", 3)["name"] == "p-__consumer_offsets"


@pytest.mark.parametrize("kind", [4, 6, 7], ids=["cluster", "token", "user"])
def test_a_name_of_a_kind_without_prefix_stays(kind: int) -> None:
    assert ruled("orders", kind)["name"] == "orders"


def test_a_filter_for_any_type_finds_names_behind_the_prefix_and_the_cluster() -> None:
    assert ruled("orders", 1)["name"] == "p-orders"
    assert ruled("kafka-cluster", 1)["name"] == "kafka-cluster"


@pytest.mark.parametrize("pattern", [None, 1, 3, 4], ids=["version-0", "any", "literal", "prefixed"])
def test_a_rule_for_all_becomes_one_for_all_behind_the_prefix(pattern: int | None) -> None:
    assert ruled("*", pattern=pattern, changes=True) == {"kind": 2, "name": "p-", "pattern": 4}


def test_a_filter_for_any_name_stays_where_it_changes_nothing() -> None:
    assert ruled(None) == {"kind": 2, "name": None, "pattern": 3}


@each_row(
    ("name", "kind", "pattern"),
    [
        (None, 2, 3),
        ("orders", 1, 3),
        ("kafka-cluster", 4, 3),
        ("token", 6, 3),
        ("User:alice", 7, 3),
        ("orders", 2, 2),
        ("__consumer_offsets", 2, 3),
    ],
    ids=["any name", "any type", "cluster", "token", "user", "all that apply", "kafka's own"],
)
def test_a_rule_for_more_than_the_replays_names_is_neither_made_nor_deleted(
    name: str | None, kind: int, pattern: int
) -> None:
    with pytest.raises(BeyondPrefix):
        ruled(name, kind, pattern, changes=True)

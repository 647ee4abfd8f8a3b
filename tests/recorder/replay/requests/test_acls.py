"""Tests of ACLs under a prefix: they allow and deny nothing outside of it."""

from __future__ import annotations

import pytest

from recorder.replay.plan import Values
from recorder.replay.requests.acls import is_prefixed, prefix_rule


def ruled(name: str | None, kind: int = 2, pattern: int | None = 3) -> Values:
    rule: Values = {"kind": kind, "name": name} | ({} if pattern is None else {"pattern": pattern})
    prefix_rule(rule, "kind", "name", "pattern", lambda recorded: "p-" + recorded)
    return rule


@pytest.mark.parametrize("kind", [2, 3, 5], ids=["topic", "group", "transaction"])
def test_a_rule_names_what_is_behind_the_prefix(kind: int) -> None:
    assert ruled("orders", kind)["name"] == "p-orders"


@pytest.mark.parametrize("kind", [1, 4, 6, 7], ids=["any", "cluster", "token", "user"])
def test_a_name_of_a_kind_without_prefix_stays(kind: int) -> None:
    assert ruled("orders", kind)["name"] == "orders"


@pytest.mark.parametrize("pattern", [None, 1, 3, 4], ids=["version-0", "any", "literal", "prefixed"])
def test_a_rule_for_all_becomes_one_for_all_behind_the_prefix(pattern: int | None) -> None:
    assert ruled("*", pattern=pattern) == {"kind": 2, "name": "p-", "pattern": 4}


def test_a_filter_for_any_name_stays() -> None:
    assert ruled(None) == {"kind": 2, "name": None, "pattern": 3}


@pytest.mark.parametrize(("pattern", "is_own"), [(None, True), (1, True), (2, False), (3, True), (4, True)])
def test_a_filter_for_whatever_applies_meets_rules_of_others(pattern: int | None, is_own: bool) -> None:
    assert is_prefixed(2, pattern) is is_own
    assert not is_prefixed(4, pattern)

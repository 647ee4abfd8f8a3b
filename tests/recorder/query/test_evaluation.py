"""Tests of filters as predicates, against a slow, obvious evaluator and possible worlds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.query.evaluation import UNKNOWN, UNKNOWN_ELEMENT, Subject, predicate
from recorder.query.language import parse

# a tree is a text, or (a word, parts): what the text of the filter is made of
Tree = Any
NOT_LEADER, REBALANCE = 6, 27
CONDITIONS = {
    "topic == a": lambda head, each: each.get("topic") == "a",
    "topic != a": lambda head, each: each.get("topic") not in (None, "a"),
    "topic ~ 'a*'": lambda head, each: str(each.get("topic", "")).startswith("a"),
    "topic in (a, b)": lambda head, each: each.get("topic") in ("a", "b"),
    "partition > 0": lambda head, each: each.get("partition", 0) > 0,
    "error": lambda head, each: each.get("error", 0) == NOT_LEADER,
    "error != NONE": lambda head, each: each.get("error", 0) != 0,
    "size >= 64KiB": lambda head, each: head["size"] >= 65_536,
    "api == Produce": lambda head, each: head["api_key"] == 0,
}


def test_the_example_of_the_documentation_asks_one_element() -> None:
    passes = predicate(parse('api == Produce and topic ~ "ord*" and size > 64KiB and error'))
    head = {"api": "Produce", "api_key": 0, "dialect": "kafka", "size": 100_000}
    orders, payments = {"topic": "orders", "error": 0}, {"topic": "payments", "error": NOT_LEADER}
    assert passes(Subject(head, [orders, payments])) is False
    assert passes(Subject(head, [orders, payments, orders | {"error": NOT_LEADER}])) is True
    assert passes(Subject(head | {"size": 1}, [orders | {"error": NOT_LEADER}])) is False


def test_not_means_that_no_element_does() -> None:
    passes = predicate(parse("topic == orders and not error"))
    assert passes(Subject({}, [{"topic": "orders", "error": 0}])) is True
    assert passes(Subject({}, [{"topic": "orders", "error": 0}, {"topic": "x", "error": NOT_LEADER}])) is False


def test_a_subject_without_elements_meets_conditions_on_its_head() -> None:
    head = {"api_key": 18, "dialect": "kafka", "api": "ApiVersions"}
    assert predicate(parse("api == ApiVersions"))(Subject(head)) is True
    assert predicate(parse("api == ApiVersions and topic == x"))(Subject(head)) is False
    assert predicate(parse("not topic == x"))(Subject(head)) is True


def test_what_is_unknown_meets_neither_a_condition_nor_its_not() -> None:
    masked = Subject({"api_key": 3, "dialect": "kafka"}, [UNKNOWN_ELEMENT])
    assert predicate(parse("topic == x"))(masked) is None
    assert predicate(parse("not topic == x"))(masked) is None
    assert predicate(parse("api == Produce and topic == x"))(masked) is False
    assert predicate(parse("api == Metadata or topic == x"))(masked) is True
    assert predicate(parse("api == Metadata and not topic == x"))(masked) is None


def test_an_error_that_is_a_normal_step_is_named_but_is_no_fault() -> None:
    rebalance = Subject({"api_key": 12}, [{"error": REBALANCE}])
    assert predicate(parse("error"))(rebalance) is False
    assert predicate(parse("error == REBALANCE_IN_PROGRESS"))(rebalance) is True
    assert predicate(parse("error ~ 'rebalance*'"))(rebalance) is True
    assert predicate(parse("error != NONE"))(rebalance) is True


@pytest.mark.parametrize(
    ("text", "client", "passes"),
    [
        ("client == app", ("app", "10.0.0.1:5000"), True),
        ("client == 10.0.0.1", ("app", "10.0.0.1:5000"), True),
        ("client == 10.0.0.1:5001", ("app", "10.0.0.1:5000"), False),
        ("client == ::1", (None, "[::1]:5000"), True),
        ("client ~ 'ap*'", ("app", "10.0.0.1:5000"), True),
        ("client ~ '10.0.*'", ("app", "10.0.0.1:5000"), True),
        ("client != app", ("app", "10.0.0.1:5000"), False),
        ("client in (x, app)", ("app", None), True),
    ],
)
def test_a_client_is_known_by_its_id_and_by_its_address(text: str, client: tuple[Any, Any], passes: bool) -> None:
    assert predicate(parse(text))(Subject({"client": client})) is passes


def trees() -> st.SearchStrategy[Tree]:
    def joined(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        several = st.lists(parts, min_size=2, max_size=3)
        return st.one_of(
            st.tuples(st.just("and"), several), st.tuples(st.just("or"), several), st.tuples(st.just("not"), parts)
        )

    return st.recursive(st.sampled_from([*CONDITIONS]), joined, max_leaves=6)


def text_of(tree: Tree) -> str:
    match tree:
        case ("not", part):
            return f"not ({text_of(part)})"
        case (word, parts):
            return "(" + f" {word} ".join(map(text_of, parts)) + ")"
    return str(tree)


def holds(tree: Tree, head: Any, elements: list[Any], each: Any) -> bool:
    """As the documentation says it, for known values."""
    match tree:
        case ("not", part):
            return not any(holds(part, head, elements, other) for other in elements)
        case ("and", parts):
            return all(holds(part, head, elements, each) for part in parts)
        case ("or", parts):
            return any(holds(part, head, elements, each) for part in parts)
    return bool(CONDITIONS[tree](head, each))


KNOWN: dict[str, list[Any]] = {"topic": ["a", "ab", "c"], "partition": [0, 1], "error": [0, NOT_LEADER, REBALANCE]}
HEADS = st.fixed_dictionaries({"api_key": st.sampled_from([0, 1]), "size": st.sampled_from([1, 65_536])}).map(
    lambda head: head | {"api": "Produce" if head["api_key"] == 0 else "Fetch", "dialect": "kafka"}
)


def element(values: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(each) for name, each in values.items()})


@given(trees(), HEADS, st.lists(element(KNOWN), min_size=1, max_size=3))
def test_known_values_are_judged_as_the_language_says(tree: Tree, head: Any, elements: list[Any]) -> None:
    expected = any(holds(tree, head, elements, each) for each in elements)
    assert predicate(parse(text_of(tree)))(Subject(head, elements)) is expected


def worlds(elements: list[Any]) -> Iterator[list[Any]]:
    """Elements with all that their unknown values may be."""
    places = [(at, name) for at, each in enumerate(elements) for name, value in each.items() if value is UNKNOWN]
    for values in product(*(KNOWN[name] for _, name in places)):
        world = [dict(each) for each in elements]
        for (at, name), value in zip(places, values, strict=True):
            world[at][name] = value
        yield world


@given(
    trees(),
    HEADS,
    st.lists(element({name: [*each, UNKNOWN] for name, each in KNOWN.items()}), min_size=1, max_size=2),
)
def test_a_verdict_on_unknown_values_holds_whatever_they_are(tree: Tree, head: Any, elements: list[Any]) -> None:
    passes = predicate(parse(text_of(tree)))
    verdict = passes(Subject(head, elements))
    if verdict is not None:
        assert {passes(Subject(head, world)) for world in islice(worlds(elements), 200)} == {verdict}

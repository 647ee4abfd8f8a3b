"""The verdict of an exchange."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.wire import apis
from recorder.replay.compare import Kind, verdict
from recorder.replay.elements import Ways, named_by
from recorder.replay.known import Unchanged, Unknown
from recorder.replay.lines import Line, Lines, lines
from recorder.replay.mapping import What
from recorder.replay.places import WITH_BROKERS_SETTINGS
from recorder.replay.plan import Values
from recorder.replay.volatile import How
from tests.recorder.replay.sent import SENT
from tests.strategies import extremes, must_codec, values_of

RESPONSES = [(key, version) for key in SENT for version in apis.versions(key)]
# all of whose settings count
PLAIN = [(key, version) for key, version in RESPONSES if key not in WITH_BROKERS_SETTINGS]
BLOBS = ("metadata", "assignment", "member_metadata", "member_assignment")

responses = st.sampled_from(RESPONSES)
seeds = st.integers(0, 10_000)


class Pairs:
    """What is known of some values."""

    def __init__(self, pairs: dict[tuple[What, Hashable, Hashable], Hashable]) -> None:
        self.pairs = pairs

    def expected(self, what: What, scope: Hashable, recorded: Hashable) -> Hashable | None:
        return self.pairs.get((what, scope, recorded))


def a_response(api_key: int, version: int, seed: int) -> Values:
    return values_of(must_codec("response", api_key, version), seed)


def distinct(of: Lines, values: Values) -> Values:
    """The values without elements of a name that another one has."""
    return {line.name: _distinct(line, values[line.name]) for line in of if line.name in values}


def _distinct(line: Line, value: Any) -> Any:
    if value is None or not line.inner:
        return value
    if line.named is None:
        return distinct(line.inner, value)
    elements = [distinct(line.inner, one) for one in value]
    if not line.named:
        return elements
    return list({named_by(line.named, one): one for one in elements}.values())


def shuffled(of: Lines, values: Values, random: Random) -> Values:
    """The same answer from a broker with another order."""
    return {line.name: _shuffled(line, values[line.name], random) for line in of if line.name in values}


def _shuffled(line: Line, value: Any, random: Random) -> Any:
    if value is None or not line.inner:
        return random.sample(value, len(value)) if isinstance(value, list) else value
    if line.named is None:
        return shuffled(line.inner, value, random)
    elements = [shuffled(line.inner, one, random) for one in value]
    return random.sample(elements, len(elements)) if line.named else elements


def structs(of: Lines, values: Values, named: Ways = ()) -> Iterator[tuple[Lines, Ways, Values]]:
    """The structs of an answer that are compared, each with its fields, and with those that name it."""
    yield of, named, values
    naming = {field for way in named for field in way}
    for line in (line for line in of if line.name not in naming):
        value = values.get(line.name)
        if line.is_compared and line.inner and value is not None and line.how is not How.ELECTED:
            for one in [value] if line.named is None else value:
                yield from structs(line.inner, one, line.named or ())


def must_be_equal(of: Lines, named: Ways, values: Values) -> list[str]:
    names = {field for way in named for field in way}
    return [
        line.name
        for line in of
        if line.how is How.EQUAL and line.is_compared and not line.inner and values[line.name] is not None
        if line.name not in names and line.name not in BLOBS
    ]


def other(value: Any) -> Any:
    """A value that differs from this one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return 1 if value == 0 else 0
        case str():
            return value + "!"
        case bytes():
            return value + b"!"
    return [*value, other(value[0])] if value else [1]


@pytest.mark.parametrize("known", [Unchanged(), Unknown()], ids=["unchanged", "unknown"])
@given(response=responses, seed=seeds)
def test_an_answer_says_the_same_as_itself(known: Any, response: tuple[int, int], seed: int) -> None:
    values = a_response(*response, seed)
    assert verdict(*response, values, copy.deepcopy(values), known) == (Kind.SAME, ())


@given(response=responses, seed=seeds, random=st.randoms(use_true_random=False))
def test_the_order_of_elements_does_not_matter(response: tuple[int, int], seed: int, random: Random) -> None:
    values = distinct(lines(*response), a_response(*response, seed))
    assert verdict(*response, values, shuffled(lines(*response), values, random), Unchanged()) == (Kind.SAME, ())


def a_full_response(api_key: int, version: int, seed: int) -> Values:
    """An answer where no array is empty and nothing is null, every other time."""
    made = a_response(api_key, version, seed) if seed % 2 else extremes(must_codec("response", api_key, version))
    return distinct(lines(api_key, version), made)


def equal_fields(response: tuple[int, int], values: Values) -> list[tuple[Values, str]]:
    return [(one[-1], name) for one in structs(lines(*response), values) for name in must_be_equal(*one)]


WITH_EQUAL_FIELDS = [one for one in PLAIN if equal_fields(one, a_full_response(*one, 0))]


@given(response=st.sampled_from(WITH_EQUAL_FIELDS), seed=seeds, data=st.data())
def test_a_field_that_must_be_equal_is_found_with_its_path(
    response: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    recorded = a_full_response(*response, seed)
    replayed = copy.deepcopy(recorded)
    found = equal_fields(response, replayed)
    assume(found)
    struct, name = data.draw(st.sampled_from(found))
    struct[name] = other(struct[name])
    kind, differences = verdict(*response, recorded, replayed, Unchanged())
    assert kind is Kind.VALUE
    assert [one.path.rpartition(".")[2] for one in differences] == [name]


@given(response=responses, seed=seeds, data=st.data())
def test_an_error_that_differs_is_found_and_nothing_else_of_its_struct(
    response: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    recorded = a_full_response(*response, seed)
    replayed = copy.deepcopy(recorded)
    found = [
        (struct, line.name) for of, _, struct in structs(lines(*response), replayed) for line in of if line.is_error
    ]
    assume(found)
    struct, name = data.draw(st.sampled_from(found))
    was = struct[name]
    struct[name] = 42 if was != 42 else 10
    kind, differences = verdict(*response, recorded, replayed, Unchanged())
    assert kind is Kind.ERROR
    assert [(one.path.rpartition(".")[2], *one[1:]) for one in differences] == [(name, str(was), str(struct[name]))]

"""Joins the answers to the parts of one request, as if one node had answered.

Elements of several answers are one by their name, never by their place, and come in the request's order. Topics are
merged, and groups and transactions with topics: some of their partitions may have been asked for again. Partitions,
other groups and transactions come from the last answer that has them: each was asked of one node, and of another one
later if the first could not tell. All other elements are what each node says of itself: all stay. A single answer stays
as it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from proxy.wire.places import ElementKey, Elements, Level, body
from recorder.replay.plan import Values

_THROTTLE = "throttle_time_ms"
# elements that are one thing, however many answers name them
_ONE = frozenset({Level.TOPIC, Level.PARTITION, Level.GROUP, Level.TRANSACTION})
# the array of nodes' addresses, one element for each node id
_NODES = "node_endpoints"


def joined_answer(api_key: int, values: Values, answers: Sequence[Values]) -> Values:
    """The answer to a request, from the answers to its parts. `values`: the whole request as it was routed.

    The first answer with an error gives the error code; the longest throttling counts. `answers`: at least one. An
    answer replaces those before it.
    """
    if len(answers) == 1:
        return answers[0]
    response = body("response", api_key)
    places: dict[ElementKey | None, int] = {}
    _count_places(values, body("request", api_key), None, places)
    first = next((each for each in answers if any(each.get(code) for code in response.codes)), answers[-1])
    longest = {_THROTTLE: max(each[_THROTTLE] for each in answers)} if _THROTTLE in first else {}
    return first | longest | _arrays(answers, response, None, places)


def _count_places(
    values: Values, elements: Elements, around: ElementKey | None, places: dict[ElementKey | None, int]
) -> None:
    for name, inner in elements.arrays.items():
        for element in values.get(name) or ():
            where = inner.where(element, around)
            places.setdefault(where, len(places))
            if isinstance(element, dict):
                _count_places(element, inner, where, places)


def _arrays(
    found: Sequence[Values], elements: Elements, around: ElementKey | None, places: dict[ElementKey | None, int]
) -> Values:
    """The arrays of one element that several answers have; null only if null in all."""
    united: Values = {}
    for name, inner in elements.arrays.items():
        given = [each[name] for each in found if each.get(name) is not None]
        if given:
            united[name] = _united(name, [*_each(given)], inner, around, places)
    return united


def _each(arrays: Sequence[Sequence[Any]]) -> Sequence[Any]:
    return [element for array in arrays for element in array]


def _united(
    name: str, found: Sequence[Any], inner: Elements, around: ElementKey | None, places: dict[ElementKey | None, int]
) -> list[Any]:
    by_name: dict[Hashable, list[Any]] = {}
    for place, element in enumerate(found):
        by_name.setdefault(_identity(name, inner, element, place), []).append(element)
    if inner.level is Level.TOPIC or any(each.level is Level.TOPIC for each in inner.arrays.values()):
        united = [_merged(same, inner, around, places) for same in by_name.values()]
    else:
        united = [same[-1] for same in by_name.values()]
    unknown = len(places)
    return sorted(united, key=lambda element: places.get(inner.where(element, around), unknown))


def _merged(
    same: Sequence[Any], inner: Elements, around: ElementKey | None, places: dict[ElementKey | None, int]
) -> Any:
    last = same[-1]
    if not isinstance(last, dict):
        return last
    return last | _arrays(same, inner, inner.where(last, around), places)


def _identity(array: str, inner: Elements, element: Any, place: int) -> Hashable:
    """The value that makes elements of several answers one. Those that are never one have their place instead."""
    if not isinstance(element, dict):
        plain: Hashable = element
        return plain
    if inner.level in _ONE:
        name: Hashable = inner.name(element)
        return name
    return element["node_id"] if array == _NODES else (place, None)

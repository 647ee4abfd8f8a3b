"""Matches the elements of arrays of structs by their names, never by their places.

Brokers answer in any order, and a request that was split is answered in parts. `requests.fields` tells which fields
name an array's elements. An element is named by the first way whose fields it has and whose first value isn't null.
Elements without names come in the request's order, and are matched by place.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from recorder.replay.plan import Values
from recorder.replay.requests.fields import Fields, Ways, ways

Name = tuple[Hashable, ...]


class Matched(NamedTuple):
    """The elements of both sides: matched pairs, and those on one side only.

    `unknown`: recorded elements whose names have no known counterpart, so that they may match any.
    """

    pairs: list[tuple[Values, Values]]
    only_recorded: list[Values]
    only_target: list[Values]
    unknown: list[Values]


def same_name(element: Values, fields: Fields, name: Name) -> Name | None:
    """The target's name of an element with the same name on both sides."""
    return name


def matched(
    api_key: int,
    path: str,
    recorded: Sequence[Values],
    target: Sequence[Values],
    named: Callable[[Values, Fields, Name], Name | None] = same_name,
) -> Matched:
    """The matched elements of the array at `path` ("topics.partitions"), in recorded order.

    Elements with the same name are matched in order.

    Args:
        named: a recorded element, the fields that name it and their values -> the target's values; None: unknown.
    """
    found = Matched([], [], [], [])
    row = ways(api_key, path)
    if not row:
        return _by_place(recorded, target)
    waiting = _by_name(row, target)
    for element in recorded:
        name = _mapped(row, element, named)
        if name is None:
            found.unknown.append(element)
        elif waiting[name]:
            found.pairs.append((element, waiting[name].popleft()))
        else:
            found.only_recorded.append(element)
    found.only_target.extend(element for queue in waiting.values() for element in queue)
    return found


def element_name(row: Ways, element: Values) -> Name | None:
    """The values that name an element; None if no way does."""
    fields = _fields(row, element)
    return None if fields is None else _values(element, fields)


def _fields(row: Ways, element: Values) -> Fields | None:
    """The first way that names an element."""
    for way in row:
        if element.get(way[0]) is not None and (len(way) == 1 or all(one in element for one in way)):
            return way
    return None


def _values(element: Values, fields: Fields) -> Name:
    return tuple(frozen(element[field]) for field in fields)


def _mapped(row: Ways, element: Values, named: Callable[[Values, Fields, Name], Name | None]) -> Name | None:
    fields = _fields(row, element)
    # all elements without a name are alike
    return () if fields is None else named(element, fields, _values(element, fields))


def _by_name(row: Ways, elements: Iterable[Values]) -> defaultdict[Name, deque[Values]]:
    named: defaultdict[Name, deque[Values]] = defaultdict(deque)
    for element in elements:
        named[_mapped(row, element, same_name) or ()].append(element)
    return named


def _by_place(recorded: Sequence[Values], target: Sequence[Values]) -> Matched:
    common = min(len(recorded), len(target))
    return Matched(list(zip(recorded, target, strict=False)), list(recorded[common:]), list(target[common:]), [])


def frozen(value: Any) -> Hashable:
    """A value that may be a key: structs and arrays in it become sorted tuples."""
    if isinstance(value, dict):
        return tuple(sorted(((name, frozen(inner)) for name, inner in value.items()), key=repr))
    if isinstance(value, list):
        return tuple(sorted((frozen(inner) for inner in value), key=repr))
    # NaN differs from itself
    hashable: Hashable = value if value == value else "NaN"
    return hashable

"""Partitions, groups and transactions in decoded messages: to split a request, to narrow it, to find errors in answers.

`proxy.wire.places` knows where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from proxy.wire import places
from proxy.wire.places import KEYED, ElementKey, Elements, Level, body
from recorder.replay.messages import SharedValues
from recorder.replay.plan import Values

# partitions, or other named elements, to which a request is narrowed
WantedElements = frozenset[ElementKey]
Home = TypeVar("Home", bound=Hashable)


def divided(api_key: int, values: Values, level: Level, home: Callable[[str | bytes, int], Home]) -> dict[Home, Values]:
    """A request's values for each home, in the order in which homes first come; {} if nothing in it has a home.

    Each home gets all fields beside the arrays with elements of that level.

    Args:
        level: whose elements have homes.
        home: the home of a partition by topic and index; of another element by its name and WHOLE.
    """
    return _divided(values, body("request", api_key), level, home, None)


def _divided(
    values: Values,
    elements: Elements,
    level: Level,
    home: Callable[[str | bytes, int], Home],
    around: ElementKey | None,
) -> dict[Home, Values]:
    arrays = {name: inner for name, inner in elements.arrays.items() if level in inner.levels and values.get(name)}
    shares: dict[str, dict[Home, list[Any]]] = {name: {} for name in arrays}
    for name, inner in arrays.items():
        for element in values[name]:
            where = inner.where(element, around)
            if inner.level is level and where is not None:
                shares[name].setdefault(home(*where), []).append(element)
            elif inner.level is not level:
                for one, piece in _divided(element, inner, level, home, where).items():
                    shares[name].setdefault(one, []).append(piece)
    homes = dict.fromkeys(one for share in shares.values() for one in share)
    return {one: values | {name: share.get(one, []) for name, share in shares.items()} for one in homes}


def narrowed(api_key: int, values: Values, wanted: Collection[ElementKey]) -> Values:
    """A request's values with only the wanted elements: partitions by topic and index, others by name and WHOLE."""
    return _narrowed(values, body("request", api_key), wanted, None)


def _narrowed(values: Values, elements: Elements, wanted: Collection[ElementKey], around: ElementKey | None) -> Values:
    kept: Values = {}
    for name, inner in elements.arrays.items():
        if values.get(name) and inner.levels & KEYED:
            kept[name] = [*_kept(values[name], inner, wanted, around)]
    return values | kept


def _kept(
    found: Iterable[Any], inner: Elements, wanted: Collection[ElementKey], around: ElementKey | None
) -> Iterable[Any]:
    for element in found:
        where = inner.where(element, around)
        if where in wanted:
            yield element
        elif isinstance(element, dict) and inner.levels & KEYED - {inner.level}:
            piece = _narrowed(element, inner, wanted, where)
            if any(piece.get(name) for name, deeper in inner.arrays.items() if deeper.levels & KEYED):
                yield piece


def without(api_key: int, values: Values, drops: Callable[[ElementKey], bool]) -> Values | None:
    """A request's values without some elements, nor those that held no others; None if that leaves no element.

    `drops`: an element's key, as for `narrowed` -> True for one to leave out.
    """
    return _without(values, body("request", api_key), drops, None)


def _without(
    values: Values, elements: Elements, drops: Callable[[ElementKey], bool], around: ElementKey | None
) -> Values | None:
    kept: Values = {}
    for name, inner in elements.arrays.items():
        if values.get(name) and inner.levels & KEYED:
            kept[name] = [*_left(values[name], inner, drops, around)]
    return values | kept if any(kept.values()) or not kept else None


def _left(
    found: Iterable[Any], inner: Elements, drops: Callable[[ElementKey], bool], around: ElementKey | None
) -> Iterable[Any]:
    for element in found:
        where = inner.where(element, around)
        if inner.level in KEYED and where is not None and drops(where):
            continue
        if isinstance(element, dict) and inner.levels & KEYED - {inner.level}:
            element = _without(element, inner, drops, where)
        if element is not None:
            yield element


def errors(api_key: int, answer: Values) -> Mapping[ElementKey | None, int]:
    """The error codes of a response other than 0 (`places.errors`); the first of each element."""
    if type(answer) is SharedValues:
        if answer.errors is None:
            answer.errors = _errors(api_key, answer)
        return answer.errors
    return _errors(api_key, answer)


def _errors(api_key: int, answer: Values) -> dict[ElementKey | None, int]:
    found: dict[ElementKey | None, int] = {}
    for where, code in places.errors(api_key, answer):
        found.setdefault(where, code)
    return found

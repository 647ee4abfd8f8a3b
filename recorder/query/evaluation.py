"""A tree of conditions as a predicate with three results: True, False, and None for unknown (Kleene's logic).

A condition on an element that has no such value is False; on a value that can't be read it is unknown. `not` asks
whether any element of the subject meets its part. What is unknown passes neither a filter nor its `not`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from proxy.wire.error_codes import kafka_error
from proxy.wire.normal_errors import is_normal
from recorder.query.fields import Kind, Level
from recorder.query.syntax import ALONE, EQUAL, LIKE, ORDERS, UNEQUAL, UNLIKE, And, Comparison, Node, Not, Or
from recorder.query.values import Client, Pattern


class _Unknown:
    """The value of a field that can't be read."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


class PartlyKnown(dict[str, Any]):
    """An element of which nothing else is known."""

    def get(self, name: str, _default: Any = None) -> Any:
        """The value; UNKNOWN if the element has none."""
        return super().get(name, UNKNOWN)


Element = Mapping[str, Any]
UNKNOWN_ELEMENT: Final[Element] = PartlyKnown()
# of a subject without elements, so that conditions on its head have one to be met by
NO_ELEMENT: Final[Element] = {}
Truth = bool | None


@dataclass(frozen=True, slots=True)
class Subject:
    """What a filter passes or not.

    `head`: by the names of fields, with the API's key as `api_key`. `elements`: likewise; none: the subject has none.
    """

    head: Mapping[str, Any]
    elements: Sequence[Element] = field(default=())


Predicate = Callable[[Subject], Truth]
_At = Callable[[Subject, Element], Truth]


def predicate(node: Node) -> Predicate:
    """The predicate of a tree."""
    return _some(_compiled(node))


def element_predicate(node: Node) -> Callable[[Subject, Element], Truth]:
    """Whether an element of a subject meets the tree's conditions."""
    return _compiled(node)


def _some(holds: _At) -> Predicate:
    return lambda subject: any_of(holds(subject, element) for element in subject.elements or (NO_ELEMENT,))


def any_of(results: Iterable[Truth]) -> Truth:
    """True if one result is; unknown if none is, and one is unknown."""
    found: Truth = False
    for result in results:
        if result:
            return True
        if result is None:
            found = None
    return found


def all_of(results: Iterable[Truth]) -> Truth:
    """False if one result is; unknown if none is, and one is unknown."""
    found: Truth = True
    for result in results:
        if result is False:
            return False
        if result is None:
            found = None
    return found


def _compiled(node: Node) -> _At:
    match node:
        case Comparison():
            return _comparison(node)
        case Not(part):
            return _negated(_some(_compiled(part)))
        case And(parts):
            ands = [_compiled(part) for part in parts]
            return lambda subject, element: all_of(part(subject, element) for part in ands)
        case Or(parts):
            ors = [_compiled(part) for part in parts]
            return lambda subject, element: any_of(part(subject, element) for part in ors)


def _negated(holds: Predicate) -> _At:
    def negated(subject: Subject, _: Element) -> Truth:
        found = holds(subject)
        return None if found is None else not found

    return negated


def _comparison(asked: Comparison) -> _At:
    compare, name = _compared(asked), asked.field.name
    is_head = asked.field.level is Level.HEAD
    if asked.field.kind is Kind.API and asked.operator in (EQUAL, UNEQUAL):
        # an API without a name has a key
        name = "api_key"

    def holds(subject: Subject, element: Element) -> Truth:
        value = subject.head.get(name) if is_head else element.get(name, subject.head.get(name))
        if value is UNKNOWN:
            return None
        return value is not None and compare(value, subject)

    return holds


def _compared(asked: Comparison) -> Callable[[Any, Subject], bool]:
    """Compares a value that is known."""
    kind, values = asked.field.kind, asked.values
    if asked.operator == ALONE:
        return lambda code, subject: bool(code) and not is_normal(subject.head.get("api_key"), code)
    if asked.operator in ORDERS:
        compare, other = ORDERS[asked.operator], values[0]
        return lambda value, _: compare(value, other)
    equal = _MATCHES.get(kind) if asked.operator in (LIKE, UNLIKE) else _EQUAL.get(kind)
    if equal is None:
        equal = _like if asked.operator in (LIKE, UNLIKE) else _equal
    if asked.operator in (UNEQUAL, UNLIKE):
        return lambda value, subject: not any(equal(value, other, subject) for other in values)
    return lambda value, subject: any(equal(value, other, subject) for other in values)


def _equal(value: Any, other: Any, _: Subject) -> bool:
    return bool(value == other)


def _like(value: Any, other: Pattern, _: Subject) -> bool:
    return other.compiled.matches(str(value))


def _is_client(value: Any, other: Client, _: Subject) -> bool:
    client_id, address = value
    return client_id == other.name or (address is not None and other.address.matches(address))


def _is_like_client(value: Any, other: Pattern, _: Subject) -> bool:
    return any(each is not None and other.compiled.matches(each) for each in value)


def _is_api(_: Any, other: Any, subject: Subject) -> bool:
    key, dialect = other
    return subject.head.get("api_key") == key and dialect in (None, subject.head.get("dialect"))


def _is_like_error(code: int, other: Pattern, _: Subject) -> bool:
    return other.compiled.matches(kafka_error(code).name)


_Match = Callable[[Any, Any, Subject], bool]
_EQUAL: Mapping[Kind, _Match] = {Kind.CLIENT: _is_client, Kind.API: _is_api}
_MATCHES: Mapping[Kind, _Match] = {Kind.CLIENT: _is_like_client, Kind.ERROR: _is_like_error}

"""Topics, partitions, groups and transactions in decoded messages: to split, narrow and compare values.

The catalog's marks tell where they are, for all versions at once: decoded values show which fields they have. An
element of an array is known by its name or id; a partition by its index and the topic around it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Any, TypeVar

from proxy.wire import apis as catalog
from proxy.wire.apis import MessageKind
from proxy.wire.catalog import CACHE_SIZE
from proxy.wire.error_codes import is_error_code
from proxy.wire.language import Field
from recorder.replay.plan import Values

# the name or id of a topic, a group, or a transactional id, with a partition's index or WHOLE
ElementKey = tuple[str | bytes, int]
# partitions, or other named elements, to which a request is narrowed
WantedElements = frozenset[ElementKey]
WHOLE = -1
Home = TypeVar("Home", bound=Hashable)


class Level(Enum):
    """The kind of an array's elements."""

    TOPIC = auto()
    PARTITION = auto()
    GROUP = auto()
    TRANSACTION = auto()
    OTHER = auto()


_NAMED = frozenset({Level.TOPIC, Level.PARTITION, Level.GROUP, Level.TRANSACTION})
# fields with a partition's index, and arrays of such indexes
INDEXES = ("partition_index", "partition", "partition_id", "index")
_LISTS = frozenset({"partitions", "partition_indexes"})
_LEVELS = {
    "topic_name": Level.TOPIC,
    "topic_id": Level.TOPIC,
    "group_id": Level.GROUP,
    "transactional_id": Level.TRANSACTION,
}
# says why a response has no settings of a topic, which was not refused
_NO_REFUSAL = "topic_config_error_code"


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of an array, or a message's body.

    Attributes:
        names: fields that name an element, in order of preference; () if the element itself is its name.
        codes: its fields with error codes.
        arrays: its arrays.
        levels: kinds of elements in it, at any depth, with its own.
    """

    level: Level
    names: tuple[str, ...]
    codes: tuple[str, ...]
    arrays: Mapping[str, Elements]
    levels: frozenset[Level]

    def name(self, element: Any) -> Any:
        """The name of an element; None if it has none."""
        if not isinstance(element, dict):
            return element if self.level is not Level.OTHER else None
        return next((element[name] for name in self.names if element.get(name) is not None), None)

    def where(self, element: Any, around: ElementKey | None) -> ElementKey | None:
        """The key of an element; `around`: that of the element that holds it."""
        name = self.name(element)
        if self.level is Level.PARTITION:
            return around and (around[0], name)
        return around if name is None else (name, WHOLE)


@lru_cache(CACHE_SIZE)
def body(kind: MessageKind, api_key: int) -> Elements:
    """The body of a request or response, in all versions. That of an unknown API has no elements."""
    found = catalog.message(kind, api_key)
    return _elements(found.fields if found else (), Level.OTHER, ())


def _elements(fields: Sequence[Field], level: Level, names: tuple[str, ...]) -> Elements:
    arrays = {field.name: _array(field) for field in fields if field.is_array}
    codes = tuple(field.name for field in fields if is_error_code(field.name) and field.name != _NO_REFUSAL)
    levels = frozenset({level}).union(*(inner.levels for inner in arrays.values()))
    return Elements(level, names, codes, arrays, levels)


def _array(field: Field) -> Elements:
    if not field.fields:
        return _elements((), _level_of_plain(field), ())
    level = _level(field.fields)
    return _elements(field.fields, level, _names(field.fields, level))


def _level_of_plain(field: Field) -> Level:
    if field.name in _LISTS:
        return Level.PARTITION
    return next((level for mark, level in _LEVELS.items() if mark in field.marks), Level.OTHER)


def _level(fields: Sequence[Field]) -> Level:
    marks = {mark for field in fields if not field.is_array for mark in field.marks}
    marked = next((level for mark, level in _LEVELS.items() if mark in marks), None)
    indexed = any(field.name in INDEXES and not field.is_array for field in fields)
    return marked or (Level.PARTITION if indexed else Level.OTHER)


def _names(fields: Sequence[Field], level: Level) -> tuple[str, ...]:
    """A topic is known by its name rather than its id, in a version with both."""
    plain = [field for field in fields if not field.is_array and not field.fields]
    if level is Level.PARTITION:
        return tuple(field.name for field in plain if field.name in INDEXES)
    marks = [mark for mark, of in _LEVELS.items() if of is level]
    return tuple(field.name for mark in marks for field in plain if mark in field.marks)


@lru_cache(CACHE_SIZE)
def level(api_key: int, path: str) -> Level:
    """The kind of the structs in an array. `path`: in a response, or else in a request, such as "topics.partitions"."""
    kinds: tuple[MessageKind, ...] = ("response", "request")
    return next((_level(found.fields) for kind in kinds if (found := _inside(kind, api_key, path))), Level.OTHER)


def _inside(kind: MessageKind, api_key: int, path: str) -> Field | None:
    """The field at a path of a message."""
    message = catalog.message(kind, api_key)
    found, fields = None, message.fields if message else ()
    for name in path.split("."):
        found = next((field for field in fields if field.name == name), None)
        fields = found.fields if found else ()
    return found


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
        if values.get(name) and inner.levels & _NAMED:
            kept[name] = [*_kept(values[name], inner, wanted, around)]
    return values | kept


def _kept(
    found: Iterable[Any], inner: Elements, wanted: Collection[ElementKey], around: ElementKey | None
) -> Iterable[Any]:
    for element in found:
        where = inner.where(element, around)
        if where in wanted:
            yield element
        elif isinstance(element, dict) and inner.levels & _NAMED - {inner.level}:
            piece = _narrowed(element, inner, wanted, where)
            if any(piece.get(name) for name, deeper in inner.arrays.items() if deeper.levels & _NAMED):
                yield piece


def errors(api_key: int, answer: Values) -> dict[ElementKey | None, int]:
    """The error codes of a response other than 0: of partitions, of named elements, of the whole (None).

    Elements of other kinds (settings, coordinators, members) count for the element around them. The first of several
    codes counts.
    """
    found: dict[ElementKey | None, int] = {}
    _find_errors(answer, body("response", api_key), None, found)
    return found


def _find_errors(
    values: Values, elements: Elements, where: ElementKey | None, found: dict[ElementKey | None, int]
) -> None:
    code = next((values[name] for name in elements.codes if values.get(name)), 0)
    if code:
        found.setdefault(where, code)
    for name, inner in elements.arrays.items():
        for element in values.get(name) or ():
            if isinstance(element, dict):
                _find_errors(element, inner, inner.where(element, where), found)

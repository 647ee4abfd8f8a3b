"""Where a message names partitions, topics, groups, members and transactional ids: one walk for all who ask.

The marks of the `.kafka` files tell which field names what (`messages/README.md`), for all versions of a message at
once: decoded values show which fields they have. So a new API is known here as soon as its fields are marked.

    elements    the elements of one array, or a message's body: what they stand for, and the arrays in them
    key         what an element stands for: the name or id of a topic, a group or a transactional id, with WHOLE; a
                partition's index with the topic around it
    topics      each topic that a message names; `partitions`: each partition, with its topic
    named       the values of all fields with a mark: groups, members, producers, transactional ids
    errors      each error code of a response, with what it is about (`error_reader` finds them in bytes)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

from proxy.wire import apis
from proxy.wire.apis import MessageKind
from proxy.wire.error_codes import is_error_code
from proxy.wire.language import Field

Struct = dict[str, Any]
# the name or id of a topic, a group, or a transactional id, with a partition's index or WHOLE
ElementKey = tuple[str | bytes, int]
WHOLE = -1
# the id of all zeros stands for no topic
NO_ID = bytes(16)
# the array of partitions that a request takes out of its session: it asks nothing of them
FORGOTTEN = "forgotten_topics_data"
_NOTHING: Struct = MappingProxyType({})  # type: ignore[assignment]  # nobody fills what all bare names share


class Level(Enum):
    """What an array's elements stand for."""

    TOPIC = auto()
    PARTITION = auto()
    GROUP = auto()
    TRANSACTION = auto()
    MEMBER = auto()
    OTHER = auto()


# elements that have a key of their own; a member, a setting or a node counts for the element around it
KEYED = frozenset({Level.TOPIC, Level.PARTITION, Level.GROUP, Level.TRANSACTION})
# The first mark that an element's own fields have tells its level, and its names are in this order: a topic is known by
# its name rather than its id, in a version with both.
_LEVELS = {
    "topic_name": Level.TOPIC,
    "topic_id": Level.TOPIC,
    "group_id": Level.GROUP,
    "transactional_id": Level.TRANSACTION,
    "partition": Level.PARTITION,
    "member_id": Level.MEMBER,
}
# says why a response has no settings of a topic, which was not refused
_NO_REFUSAL = "topic_config_error_code"


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of an array, or a message's body.

    Attributes:
        names: fields that name an element, in order of preference; () if the element itself is its name.
        ids: those of `names` that hold a topic's id.
        codes: its fields with error codes.
        arrays: its arrays.
        structs: the structs in it that are no arrays, nor elements.
        levels: what elements in it stand for, at any depth, with its own.
    """

    level: Level
    names: tuple[str, ...]
    ids: frozenset[str]
    codes: tuple[str, ...]
    arrays: Mapping[str, Elements]
    structs: Mapping[str, Elements]
    levels: frozenset[Level]

    def name(self, element: Any) -> Any:
        """The name of an element; None if it has none."""
        if not isinstance(element, Mapping):
            return element if self.level is not Level.OTHER else None
        return next((element[name] for name in self.names if element.get(name) is not None), None)

    def where(self, element: Any, around: ElementKey | None) -> ElementKey | None:
        """The key of an element; `around`: that of the element that holds it."""
        if self.level not in KEYED:
            return around
        name = self.name(element)
        if self.level is Level.PARTITION:
            return around and (around[0], name)
        return around if name is None else (name, WHOLE)

    def code(self, element: Struct) -> int:
        """The first error code of an element other than 0; 0 if it has none."""
        return next((element[name] for name in self.codes if element.get(name)), 0)


# more than there are messages
_CACHE_SIZE = 1024


@lru_cache(_CACHE_SIZE)
def body(kind: MessageKind, api_key: int) -> Elements:
    """The body of a request or response, in all versions. That of an unknown API has no elements."""
    found = apis.message(kind, api_key)
    return _elements(found.fields if found else (), Level.OTHER)


def at(kind: MessageKind, api_key: int, path: str) -> Elements | None:
    """The elements of the array at a path ("topics.partitions") of a message; None if it has no such array."""
    *above, array = path.split(".")
    found = body(kind, api_key)
    for name in above:
        inner = found.arrays.get(name) or found.structs.get(name)
        if inner is None:
            return None
        found = inner
    return found.arrays.get(array)


def _elements(
    fields: Sequence[Field], level: Level, names: tuple[str, ...] = (), ids: frozenset[str] = frozenset()
) -> Elements:
    arrays = {field.name: _array(field) for field in fields if field.is_array}
    structs = {
        field.name: _elements(field.fields, Level.OTHER) for field in fields if field.fields and not field.is_array
    }
    codes = tuple(field.name for field in fields if is_error_code(field.name) and field.name != _NO_REFUSAL)
    levels = frozenset({level}).union(*(inner.levels for inner in arrays.values()))
    return Elements(level, names, ids, codes, arrays, structs, levels)


def _array(field: Field) -> Elements:
    own = [each for each in field.fields if not each.is_array] if field.fields else [field]
    marks = [mark for mark in _LEVELS if any(mark in each.marks for each in own)]
    level = _LEVELS[marks[0]] if marks else Level.OTHER
    if not field.fields:
        return _elements((), level)
    names = {each.name: mark for mark in marks if _LEVELS[mark] is level for each in own if mark in each.marks}
    ids = frozenset(name for name, mark in names.items() if mark == "topic_id")
    return _elements(field.fields, level, tuple(names), ids)


class Topic(NamedTuple):
    """A topic that a message names.

    Attributes:
        key: its name, or its id in a version without names.
        name: its name; None in a version without names.
        topic_id: its id, which may be NO_ID; None in a version without ids.
        values: its struct; without any field in an array of bare names.
        around: the structs around it, from the body on.
    """

    key: str | bytes
    name: str | None
    topic_id: bytes | None
    values: Struct
    around: tuple[Struct, ...]


class Partition(NamedTuple):
    """A partition that a message names.

    Attributes:
        topic: the name of its topic, or the topic's id in a version without names.
        partition: its index.
        values: its struct; without any field in an array of bare indexes.
        code: its error code, the first if it has several; None if it has none, as in a request.
        around: its topic.
    """

    topic: str | bytes
    partition: int
    values: Struct
    code: int | None
    around: Topic


# the constructor of a named tuple is a Python function, which takes three times as long
_topic: Callable[[type[Topic], tuple[object, ...]], Topic] = tuple.__new__
_partition: Callable[[type[Partition], tuple[object, ...]], Partition] = tuple.__new__


class _Partitions(NamedTuple):
    """An array of partitions: its name, the field with the index (None: bare indexes), and that with the error code."""

    array: str
    number: str | None
    code: str

    def partition(self, element: Any, topic: Topic) -> Partition:
        """An element of the array."""
        if self.number is None:
            return _partition(Partition, (topic.key, element, _NOTHING, None, topic))
        return _partition(Partition, (topic.key, element[self.number], element, element.get(self.code), topic))


class _Route(NamedTuple):
    """The way to an array of topics.

    Attributes:
        above: the names of arrays and structs from the body on that lead to the array.
        name, topic_id: a topic's fields; None if it has none. Without either, an element is itself a name.
        partitions: the arrays of partitions in a topic.
    """

    above: tuple[str, ...]
    array: str
    name: str | None
    topic_id: str | None
    partitions: tuple[_Partitions, ...]

    def topic(self, element: Any, around: tuple[Struct, ...]) -> Topic:
        """An element of the array as a topic."""
        if self.name is None and self.topic_id is None:
            return _topic(Topic, (element, element, None, _NOTHING, around))
        name = self.name and element.get(self.name)
        topic_id = self.topic_id and element.get(self.topic_id)
        return _topic(Topic, ((topic_id or NO_ID) if name is None else name, name, topic_id, element, around))


@lru_cache(_CACHE_SIZE)
def _routes(kind: MessageKind, api_key: int, forgotten: bool) -> tuple[_Route, ...]:
    found = _routes_in(body(kind, api_key), ())
    return tuple(route for route in found if (route.array == FORGOTTEN) is forgotten)


def _routes_in(elements: Elements, above: tuple[str, ...]) -> Iterator[_Route]:
    for name, inner in (*elements.arrays.items(), *elements.structs.items()):
        if inner.level is Level.TOPIC:
            names = set(inner.names) - inner.ids
            yield _Route(above, name, _one(names), _one(inner.ids), tuple(_partition_arrays(inner)))
        yield from _routes_in(inner, (*above, name))


def _one(names: Collection[str]) -> str | None:
    return next(iter(names), None)


def _partition_arrays(topics: Elements) -> Iterator[_Partitions]:
    for name, inner in topics.arrays.items():
        if inner.level is Level.PARTITION:
            yield _Partitions(name, _one(inner.names), _one(inner.codes) or "")


def topics(kind: MessageKind, api_key: int, values: Struct) -> Iterator[Topic]:
    """The topics that a decoded message names, in its order within each array; no forgotten ones."""
    for route in _routes(kind, api_key, False):
        yield from _topics(route, values)


def partitions(kind: MessageKind, api_key: int, values: Struct, *, forgotten: bool = False) -> list[Partition]:
    """The partitions that a decoded message names, in its order within each array of topics.

    `forgotten`: those that a request takes out of its session, and no others.
    """
    found = []
    for above, topics_in, topic_of, (array, number, code) in _arrays(kind, api_key, forgotten):
        for around in _holders(above, values):
            for each in around[-1].get(topics_in) or ():
                topic = topic_of(each, around)
                key = topic[0]
                # as `_Partitions.partition` does, without a call for each of a capture's millions
                for element in each.get(array) or ():
                    if number is None:
                        found.append(_partition(Partition, (key, element, _NOTHING, None, topic)))
                    else:
                        found.append(_partition(Partition, (key, element[number], element, element.get(code), topic)))
    return found


def named(kind: MessageKind, api_key: int, values: Struct, mark: str) -> Iterator[Any]:
    """The values of a decoded message's fields with a mark ("group_id"), one by one, without nulls."""
    for above, name in _paths(kind, api_key, mark):
        for around in _holders(above, values):
            value = around[-1].get(name)
            for each in value if isinstance(value, list) else (value,):
                if each is not None:
                    yield each


def is_marked(kind: MessageKind, api_key: int, mark: str) -> bool:
    """True if a field of the message has the mark in some version. An unknown API has no fields."""
    return bool(_paths(kind, api_key, mark))


@lru_cache(_CACHE_SIZE)
def _paths(kind: MessageKind, api_key: int, mark: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The fields with a mark, each behind the names that lead to it."""
    found = apis.message(kind, api_key)
    return tuple(_paths_in(found.fields if found else (), mark, ()))


def _paths_in(fields: Sequence[Field], mark: str, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for field in fields:
        if mark in field.marks:
            yield above, field.name
        yield from _paths_in(field.fields, mark, (*above, field.name))


@lru_cache(_CACHE_SIZE)
def _arrays(
    kind: MessageKind, api_key: int, forgotten: bool
) -> tuple[tuple[tuple[str, ...], str, Callable[[Any, tuple[Struct, ...]], Topic], _Partitions], ...]:
    """Each array of partitions: the way to the array of topics that holds it, and what reads a topic of that."""
    routes = _routes(kind, api_key, forgotten)
    return tuple((route.above, route.array, route.topic, array) for route in routes for array in route.partitions)


def errors(api_key: int, response: Struct) -> list[tuple[ElementKey | None, int]]:
    """The error codes of a decoded response other than 0, each with the key of what it is about; None: of the whole.

    Elements without a key of their own (settings, coordinators, members) count for the element around them. Of an
    element with several codes, the first counts.
    """
    found: list[tuple[ElementKey | None, int]] = []
    _find_errors(response, body("response", api_key), None, found)
    return found


def _find_errors(
    values: Struct, elements: Elements, where: ElementKey | None, found: list[tuple[ElementKey | None, int]]
) -> None:
    if code := elements.code(values):
        found.append((where, code))
    for name, inner in elements.arrays.items():
        for element in values.get(name) or ():
            if isinstance(element, dict):
                _find_errors(element, inner, inner.where(element, where), found)


def leave_out(kind: MessageKind, api_key: int, values: Struct, drops: Callable[[Partition], bool]) -> bool:
    """Takes partitions out of a decoded message, with the topics that have none left.

    `drops`: called once for each partition. False if the message named topics, and none is left.
    """
    had_topics = is_left = False
    for route in _routes(kind, api_key, False):
        for around in _holders(route.above, values) if route.partitions else ():
            found = [route.topic(element, around) for element in around[-1].get(route.array) or ()]
            for topic, array in product(found, route.partitions):
                elements = topic.values.get(array.array) or ()
                topic.values[array.array] = [each for each in elements if not drops(array.partition(each, topic))]
            kept = [topic.values for topic in found if any(topic.values[each.array] for each in route.partitions)]
            if len(kept) < len(found):
                around[-1][route.array] = kept
            had_topics, is_left = had_topics or bool(found), is_left or bool(kept)
    return is_left or not had_topics


def _topics(route: _Route, values: Struct) -> list[Topic]:
    holders = _holders(route.above, values)
    return [route.topic(element, around) for around in holders for element in around[-1].get(route.array) or ()]


def _holders(above: tuple[str, ...], values: Struct) -> list[tuple[Struct, ...]]:
    """The structs to which these names lead, each behind those around it."""
    holders: list[tuple[Struct, ...]] = [(values,)]
    for step in above:
        holders = [(*around, each) for around in holders for each in _structs(around[-1].get(step))]
    return holders


def _structs(below: list[Struct] | Struct | None) -> Sequence[Struct]:
    """The structs in a field that is an array, or one struct, or null."""
    return below if isinstance(below, list) else () if below is None else (below,)

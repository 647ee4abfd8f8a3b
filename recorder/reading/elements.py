"""What a frame says of partitions, groups, members, batches and records, as elements of a filter.

A frame makes a `Side`: elements by their key, and what it says of the whole. The elements of an exchange are those of
both sides, joined by key. Each one inherits what is said of the whole: the group of a commit, the error of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from proxy.wire import records
from proxy.wire.apis import known
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.places import WHOLE, errors, is_marked, named, partitions, topics
from recorder.capture import frames as c
from recorder.capture.reader import Row
from recorder.facts.frame import NOT_KEPT, REQUEST, RESPONSE, Frame, Unreadable, is_not_kept, opened, why
from recorder.facts.rows import frame_of
from recorder.facts.topic_partitions import PARTITION_FACTS, read_facts
from recorder.facts.topics import PARTITION_APIS, Place, id_text, places
from recorder.query.evaluation import UNKNOWN, UNKNOWN_ELEMENT, Element, PartlyKnown
from recorder.query.fields import OF_BATCHES, OF_ELEMENTS, OF_RECORDS, OF_RESPONSES

# the reason why a side is unknown whose frame fell into a gap
LOST = "lost"
# fields that are columns of the partitions' facts, by the name of the column
FIELD_OF_COLUMN = {
    "topic": "topic",
    "topic_id": "topic_id",
    "partition": "partition",
    "error_code": "error",
    "bytes": "bytes",
    "records": "records",
    "fetch_offset": "fetch_offset",
    "base_offset": "base_offset",
    "committed_offset": "committed_offset",
    "high_watermark": "high_watermark",
    "group_id": "group",
    "transactional_id": "transactional_id",
    "producer_id": "producer_id",
}
# their places in a row, whether a negative value stands for none, their fields
_AT = [
    (at, column.is_never_negative, FIELD_OF_COLUMN[column.name])
    for at, column in enumerate(PARTITION_FACTS.own)
    if column.name in FIELD_OF_COLUMN
]
# what names a group, a member, a transaction: marks of fields in messages -> fields of a filter
_MARKS = {"group_id": "group", "member_id": "member", "transactional_id": "transactional_id"}
# fields that only those APIs have whose messages have one of the marks
_NEEDS_MARK = {**{name: (mark,) for mark, name in _MARKS.items()}, "topic": ("topic_name", "topic_id")}
_NEEDS_MARK |= {"partition": ("partition",)}
# fields that only PARTITION_APIS have
_OF_DATA = frozenset({"records", "bytes", "producer_id", "fetch_offset", "base_offset", "committed_offset"})
_OF_DATA |= {"high_watermark"} | OF_BATCHES | OF_RECORDS
# fields of a message's body that are said of the whole
_OF_BODY = {"acks": "acks", "group_instance_id": "instance", "instance_id": "instance"}
# a topic's, group's or transaction's name (a topic's id as text), and a partition or WHOLE
Key = tuple[str, int]
# a session and a connection; a library and its version
Connection = tuple[str, int]
Library = tuple[str | None, str | None]


@dataclass(slots=True)
class Told:
    """What other frames of a capture tell (`told`).

    Attributes:
        topics: topics' names by their ids as Kafka prints them.
        software: library and version by session and connection.
    """

    topics: dict[str, str] = field(default_factory=dict)
    software: dict[Connection, Library] = field(default_factory=dict)

    def software_of(self, connection: Connection) -> Library:
        """The library and version of a connection's client, None if nobody has told them."""
        return self.software.get(connection, (None, None))


@dataclass(slots=True)
class Side:
    """What one frame of an exchange says.

    `unread`: why it, or the rest of it, is unknown. `has_all`: only of elements that it has something is unknown.
    """

    whole: dict[str, Any] = field(default_factory=dict)
    elements: dict[Key, list[dict[str, Any]]] = field(default_factory=dict)
    unread: str | None = None
    has_all: bool = False

    @property
    def number(self) -> int:
        """The number of its elements."""
        return sum(map(len, self.elements.values()))


# more than there are versions of APIs
@lru_cache(4096)
def unknown_element(dialect: str, api_key: int | None, version: int | None) -> Element:
    """The element of a frame that can't be read: what no message of its API has is not unknown."""
    if dialect != c.KAFKA or api_key is None or version is None or not known(api_key, version):
        return UNKNOWN_ELEMENT
    lacking = {
        name
        for name, marks in _NEEDS_MARK.items()
        if not any(is_marked(kind, api_key, mark) for kind in (REQUEST, RESPONSE) for mark in marks)
    }
    return PartlyKnown(dict.fromkeys(lacking if api_key in PARTITION_APIS else lacking | _OF_DATA))


def side_of(row: Row, wanted: frozenset[str], budget: Budget) -> Side:
    """What a frame says; its row must hold its bytes. `wanted`: the names of the fields that are asked for."""
    data, key = row[c.FRAME], row[c.API_KEY]
    if data is None or row[c.OMITTED]:
        return Side(unread="omitted")
    if key is None or row[c.KIND] not in (c.REQUEST, c.RESPONSE):
        return Side(unread="unknown_version")
    frame, found = frame_of(row), Side()
    try:
        _read(found, frame, wanted, budget)
    except Unreadable as error:
        found.unread = error.reason
    except WireError as error:
        found.unread = why(error, frame)
    return found


def _read(found: Side, frame: Frame, wanted: frozenset[str], budget: Budget) -> None:
    if frame.dialect == Dialect.KAFKA_07:
        _add_partition_facts(found, frame, budget)
        return
    values = opened(frame, budget)
    for name, of_field in _OF_BODY.items():
        if values.get(name) is not None:
            found.whole[of_field] = values[name]
    for mark, of_field in _MARKS.items():
        if of_field in wanted:
            _add_named(found, of_field, [each for each in named(frame.side, frame.api_key, values, mark) if each])
    if frame.api_key in PARTITION_APIS:
        if wanted & (OF_BATCHES | OF_RECORDS):
            _add_batches(found, frame, wanted, budget)
        else:
            _add_partition_facts(found, frame, budget)
    elif "topic" in wanted or "partition" in wanted:
        _add_topics(found, frame, values)
    if frame.side == RESPONSE and "error" in wanted:
        _add_errors(found, errors(frame.api_key, values))


def _add_named(found: Side, of_field: str, names: Sequence[Any]) -> None:
    if len(names) == 1:
        found.whole[of_field] = names[0]
        return
    for name in names:
        _add(found, (str(name), WHOLE), {of_field: name})


def _add(found: Side, key: Key, element: dict[str, Any]) -> None:
    found.elements.setdefault(key, []).append(element)


def _add_partition_facts(found: Side, frame: Frame, budget: Budget) -> None:
    for group in read_facts(frame, budget):
        _add_partitions(found, map(_element, group.rows))


def _element(row: Sequence[Any]) -> dict[str, Any]:
    """The fields of a row of the partitions' facts that have a value."""
    told = ((row[at], is_never_negative, name) for at, is_never_negative, name in _AT)
    return {name: value for value, is_none, name in told if value is not None and not (is_none and value < 0)}


def side_of_partitions(partitions: Iterable[dict[str, Any]]) -> Side:
    """What a frame says of partitions. `partitions`: of each, the fields that have a value."""
    found = Side()
    _add_partitions(found, partitions)
    return found


def _add_partitions(found: Side, partitions: Iterable[dict[str, Any]]) -> None:
    for element in partitions:
        name = element.get("topic") or element.get("topic_id") or ""
        _add(found, (name, element.get("partition", WHOLE)), element)


def _add_batches(found: Side, frame: Frame, wanted: frozenset[str], budget: Budget) -> None:
    """An element for each partition, with its facts; for each batch, or each record, if there are some."""
    facts = Side()
    _add_partition_facts(facts, frame, budget)
    by_place = {place_key(place): place for place in places(frame, budget) if place.records}
    for key, elements in facts.elements.items():
        place, inner = by_place.get(key), list[dict[str, Any]]()
        try:
            for each in () if place is None else _inside(place, frame, wanted, budget):
                inner.append(each)
        except Unreadable as error:
            found.unread, found.has_all = found.unread or error.reason, True
            inner.append(dict.fromkeys(OF_BATCHES | OF_RECORDS, UNKNOWN))
        found.elements[key] = [element | each for element in elements for each in inner] or elements


def place_key(place: Place) -> Key:
    """The key of a partition that a message names."""
    name, topic_id, partition = place.named
    return name or topic_id or "", partition


def _inside(place: Place, frame: Frame, wanted: frozenset[str], budget: Budget) -> Iterator[dict[str, Any]]:
    """The batches of a partition, or the records in them. Errors: Unreadable."""
    batches, error = place.batches
    number = 0
    for batch, is_hashed in zip(batches, place.are_hashed, strict=True):
        if batch.control:
            continue
        element = {"codec": batch.codec.value}
        if not wanted & OF_RECORDS:
            yield element
            continue
        if is_not_kept(frame, place.records, batch):
            raise Unreadable(NOT_KEPT)
        as_text = hash_shown if is_hashed else shown
        try:
            for record in records.read_batch(place.records, batch, budget=budget):
                yield element | _record(record, number, frame, as_text)
                number += 1
        except WireError as broken:
            raise Unreadable(why(broken, frame)) from None
    if error:
        raise Unreadable(why(error, frame))


def _record(
    record: records.Record, number: int, frame: Frame, as_text: Callable[[bytes | None], str | None]
) -> dict[str, Any]:
    """The fields of a record. One that was just produced has its `number` in the request in place of an offset."""
    place: dict[str, Any] = {"offset": record.offset} if frame.side == RESPONSE else {"number": number}
    return {
        **place,
        "key": as_text(record.key),
        "value": as_text(record.value),
        "timestamp": record.timestamp * 1_000_000 if record.timestamp >= 0 else None,
        "size": len(record.key or b"") + len(record.value or b""),
    }


def shown(data: bytes | None) -> str | None:
    """Bytes of a record as text. Bytes that are not UTF-8 become escapes."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def hash_shown(data: bytes | None) -> str | None:
    """The hash that stands in place of a record's bytes, as text."""
    return None if data is None else data.hex()


def _add_topics(found: Side, frame: Frame, values: Mapping[str, Any]) -> None:
    """The topics and partitions of an API that is about other things than records and offsets."""
    for topic in topics(frame.side, frame.api_key, dict(values)):
        element = {"topic": topic.name or None, "topic_id": id_text(topic.topic_id)}
        _add(found, (topic.name or id_text(topic.topic_id) or "", WHOLE), element)
    for each in partitions(frame.side, frame.api_key, dict(values)):
        topic = each.around
        about = {"topic": topic.name or None, "topic_id": id_text(topic.topic_id), "partition": each.partition}
        _add(found, (topic.name or id_text(topic.topic_id) or "", each.partition), about)


def _add_errors(found: Side, codes: Sequence[tuple[tuple[str | bytes, int] | None, int]]) -> None:
    for where, code in codes:
        if where is None:
            found.whole["error"] = code
            continue
        name, number = where
        key = (name if isinstance(name, str) else id_text(name) or "", number)
        if key in found.elements:
            for element in found.elements[key]:
                element["error"] = element.get("error") or code
        else:
            _add(found, key, {"error": code})


def joined(
    request: Side | None, response: Side | None, told: Told, unknown: Element = UNKNOWN_ELEMENT
) -> list[Element]:
    """The elements of an exchange. A side is None if its frame is none of the exchange's.

    `unknown`: the element that stands for those that can't be read.
    """
    whole = (request.whole if request else {}) | (response.whole if response else {})
    asked, answered = (side.elements if side else {} for side in (request, response))
    found: list[dict[str, Any]] = []
    for key in {**asked, **answered}:
        lefts, rights = asked.get(key) or [{}], answered.get(key) or [{}]
        found += [whole | left | right for left in lefts for right in rights]
    found = found or [whole]
    for element in found:
        _complete(element, whole, told, response, unknown)
    lacks = [side for side in (request, response) if side and side.unread and not side.has_all]
    return [*found, unknown] if lacks else [*found]


def _complete(
    element: dict[str, Any], whole: Mapping[str, Any], told: Told, response: Side | None, unknown: Element
) -> None:
    if response is not None:
        element["error"] = element.get("error") or whole.get("error", 0)
        if response.unread and not response.has_all:
            element.update({name: unknown.get(name) for name in OF_RESPONSES if not element.get(name)})
    if element.get("topic") is None and element.get("topic_id"):
        element["topic"] = told.topics.get(element["topic_id"], UNKNOWN)
    if "number" in element and element.get("base_offset") is not None:
        base = element["base_offset"]
        element["offset"] = base if base is UNKNOWN else base + element["number"]


def unread_of(request: Side | None, response: Side | None) -> str:
    """Why something of an exchange is unknown."""
    return next((side.unread for side in (request, response) if side and side.unread), "unknown")


def needs_elements(names: frozenset[str]) -> bool:
    """True if a filter of these fields asks for elements."""
    return not names.isdisjoint(OF_ELEMENTS)

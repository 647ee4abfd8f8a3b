"""Finds the partitions that a message names.

PLACES says for each message which fields hold its topics, and which field of a topic holds its partitions. Names, ids
and numbers are found by the field names that Kafka's messages use, so a new version needs no change here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from proxy.wire import keys, records
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from proxy.wire.primitives import uuid_text
from proxy.wire.records import Batch
from recorder.analysis.decode.frame import REQUEST, RESPONSE, Frame, Values, opened, shared
from recorder.analysis.schema import Column

PLACE = (
    Column("topic", "string", "its name; null if the version has only ids: `topic_names` has the name"),
    Column("topic_id", "string", "its id as Kafka prints it; null if the version has only names"),
    Column("partition", "int", "its number"),
)
NO_ID = bytes(16)
_NAMES = ("name", "topic", "topic_name")
_NUMBERS = ("partition_index", "partition", "index")


class Batches(NamedTuple):
    """The headers of batches up to the first that can't be read, and the error of that one."""

    found: list[Batch]
    error: WireError | None


class Where(NamedTuple):
    """The paths to the arrays of topics, and the name of each topic's array of partitions."""

    topics: tuple[str, ...]
    partitions: str


@dataclass(slots=True)
class Place:
    """A partition that a message names. `named`: the values of PLACE. `around`: structs around it, innermost last."""

    named: tuple[str | None, str | None, int | None]
    values: Mapping[str, Any]
    around: tuple[Mapping[str, Any], ...]
    _batches: Batches | None = None

    @property
    def records(self) -> bytes:
        """The bytes of its record batches; empty if the message holds none."""
        return self.values.get("records") or b""

    @property
    def batches(self) -> Batches:
        """The headers of its batches. They are read once, for all callers."""
        if self._batches is None:
            self._batches = _batches_in(self.records)
        return self._batches


_TOPICS = ("topics",)
_RESPONSES = ("responses",)
_OFFSETS_FETCHED = ("topics", "groups.topics")
_ADDED = ("transactions.topics", "v3_and_below_topics")
_ADDED_ANSWERS = ("results_by_transaction.topic_results", "results_by_topic_v3_and_below")

PLACES: Mapping[tuple[str, int], Where] = {
    (REQUEST, keys.PRODUCE): Where(("topic_data",), "partition_data"),
    (RESPONSE, keys.PRODUCE): Where(_RESPONSES, "partition_responses"),
    (REQUEST, keys.FETCH): Where(_TOPICS, "partitions"),
    (RESPONSE, keys.FETCH): Where(_RESPONSES, "partitions"),
    (REQUEST, keys.LIST_OFFSETS): Where(_TOPICS, "partitions"),
    (RESPONSE, keys.LIST_OFFSETS): Where(_TOPICS, "partitions"),
    (REQUEST, keys.OFFSET_COMMIT): Where(_TOPICS, "partitions"),
    (RESPONSE, keys.OFFSET_COMMIT): Where(_TOPICS, "partitions"),
    (REQUEST, keys.OFFSET_FETCH): Where(_OFFSETS_FETCHED, "partition_indexes"),
    (RESPONSE, keys.OFFSET_FETCH): Where(_OFFSETS_FETCHED, "partitions"),
    (REQUEST, keys.DELETE_RECORDS): Where(_TOPICS, "partitions"),
    (RESPONSE, keys.DELETE_RECORDS): Where(_TOPICS, "partitions"),
    (REQUEST, keys.ADD_PARTITIONS_TO_TXN): Where(_ADDED, "partitions"),
    (RESPONSE, keys.ADD_PARTITIONS_TO_TXN): Where(_ADDED_ANSWERS, "results_by_partition"),
    (REQUEST, keys.TXN_OFFSET_COMMIT): Where(_TOPICS, "partitions"),
    (RESPONSE, keys.TXN_OFFSET_COMMIT): Where(_TOPICS, "partitions"),
    (REQUEST, keys.OFFSET_DELETE): Where(_TOPICS, "partitions"),
    (RESPONSE, keys.OFFSET_DELETE): Where(_TOPICS, "partitions"),
    (REQUEST, keys.SHARE_FETCH): Where(_TOPICS, "partitions"),
    (RESPONSE, keys.SHARE_FETCH): Where(_RESPONSES, "partitions"),
    (REQUEST, keys.SHARE_ACKNOWLEDGE): Where(_TOPICS, "partitions"),
    (RESPONSE, keys.SHARE_ACKNOWLEDGE): Where(_RESPONSES, "partitions"),
}


@shared
def places(frame: Frame, budget: Budget) -> tuple[Place, ...]:
    """All partitions that the frame names, in its order. Errors: Unreadable."""
    return tuple(_places(opened(frame, budget), PLACES[frame.side, frame.api_key]))


def _places(values: Values, where: Where) -> Iterator[Place]:
    for around in around_topics(values, where):
        topic = around[-1]
        name, topic_id = topic_name(topic), id_text(topic.get("topic_id"))
        for one in topic.get(where.partitions) or ():
            fields = one if isinstance(one, Mapping) else {_NUMBERS[0]: one}
            yield Place((name, topic_id, number_of(fields)), fields, around)


def _batches_in(data: bytes) -> Batches:
    found: list[Batch] = []
    try:
        found.extend(records.batches(data))
    except WireError as error:
        return Batches(found, error)
    return Batches(found, None)


def around_topics(values: Values, where: Where) -> Iterator[tuple[Mapping[str, Any], ...]]:
    """The topics of a decoded message, each with the structs around it: the topic's own struct comes last."""
    for path in where.topics:
        yield from _reached((values,), path.split("."))


def _reached(around: tuple[Mapping[str, Any], ...], path: list[str]) -> Iterator[tuple[Mapping[str, Any], ...]]:
    if not path:
        yield around
        return
    for one in around[-1].get(path[0]) or ():
        yield from _reached((*around, one), path[1:])


def number_of(partition: Mapping[str, Any]) -> int | None:
    """The number in a partition's struct."""
    found: int | None = _first(partition, _NUMBERS)
    return found


def topic_name(topic: Mapping[str, Any]) -> str | None:
    """The name in a topic's struct; null if its version has only ids."""
    found: str | None = _first(topic, _NAMES)
    return found or None


def id_text(topic_id: bytes | None) -> str | None:
    """A topic's id as Kafka prints it; null for None and for the id of all zeros."""
    return None if topic_id is None or topic_id == NO_ID else uuid_text(topic_id)


def _first(values: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((values[name] for name in names if name in values), None)

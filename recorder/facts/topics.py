"""The partitions that a message names, with the batches in them. `proxy.wire.places` finds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from proxy.wire import keys, records
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from proxy.wire.places import NO_ID, Partition, Topic, partitions
from proxy.wire.primitives import uuid_text
from proxy.wire.records import Batch
from recorder.facts.frame import Frame, Values, opened, shared
from recorder.facts.schema import Column
from recorder.hashing.batches import HASHED, Told

PLACE = (
    Column("topic", "string", "its name; null if the version has only ids: `topic_names` has the name"),
    Column("topic_id", "string", "its id as Kafka prints it; null if the version has only names"),
    Column("partition", "int", "its number"),
)


class Batches(NamedTuple):
    """The headers of batches up to the first that can't be read, and the error of that one."""

    found: list[Batch]
    error: WireError | None


@dataclass(slots=True)
class Place:
    """A partition that a message names.

    Attributes:
        named: the values of PLACE.
        values: its struct; `code`: the error code in it, None in a request.
        around: the structs around it, its topic's last.
        records: the bytes of its record batches; empty if the message holds none.
        told: what the batches were before their records were hashed; None: they are as they were.
    """

    named: tuple[str | None, str | None, int]
    values: Mapping[str, Any]
    code: int | None
    around: tuple[Mapping[str, Any], ...]
    records: bytes
    _batches: Batches | None = None
    told: tuple[Told, ...] | None = None

    @property
    def batches(self) -> Batches:
        """The headers of its batches. They are read once, for all callers."""
        found = self._batches
        if found is None:
            found = self._batches = _batches_in(self.records)
        return found

    @property
    def wire_size(self) -> int:
        """The bytes of its record batches as they arrived."""
        if self.told is None:
            return len(self.records)
        found = self.batches.found
        cut_off = len(self.records) - (found[-1].end if found else 0)
        return sum(told.size for told in self.told) + cut_off

    @property
    def batch_sizes(self) -> list[int]:
        """The bytes of each batch as it arrived; those of a message that held others stand at the last of these."""
        if self.told is None:
            return [batch.end - batch.start for batch in self.batches.found]
        return [size for told in self.told for size in (*[0] * (told.batches - 1), told.size)]

    @property
    def are_hashed(self) -> list[bool]:
        """Of each batch whether hashes stand in place of its records' keys and values."""
        if self.told is None:
            return [False] * len(self.batches.found)
        return [told.rule == HASHED for told in self.told for _ in range(told.batches)]


# the APIs whose requests and responses name partitions that clients use
PARTITION_APIS = (
    keys.PRODUCE,
    keys.FETCH,
    keys.LIST_OFFSETS,
    keys.OFFSET_COMMIT,
    keys.OFFSET_FETCH,
    keys.DELETE_RECORDS,
    keys.ADD_PARTITIONS_TO_TXN,
    keys.TXN_OFFSET_COMMIT,
    keys.OFFSET_DELETE,
    keys.SHARE_FETCH,
    keys.SHARE_ACKNOWLEDGE,
)


class Contents(NamedTuple):
    """A frame's values, and all partitions that it names, in its order; no forgotten ones."""

    values: Values
    places: list[Place]


@shared
def contents(frame: Frame, budget: Budget) -> Contents:
    """What the frame says of partitions. Errors: Unreadable."""
    values = opened(frame, budget)
    found = [*map(_place, partitions(frame.side, frame.api_key, values))]
    if frame.told is not None:
        _tell(found, iter(frame.told))
    return Contents(values, found)


def _tell(found: Iterable[Place], told: Iterator[Told]) -> None:
    """Gives each partition what its batches were: the frame's, in their order."""
    for place in found:
        left, own = len(place.batches.found) if place.records else 0, []
        while left > 0 and (one := next(told, None)) is not None:
            own.append(one)
            left -= one.batches
        if own and left == 0:
            place.told = tuple(own)


def places(frame: Frame, budget: Budget) -> list[Place]:
    """All partitions that the frame names, in its order; no forgotten ones. Errors: Unreadable."""
    return contents(frame, budget).places


def by_topic(frame: Frame, values: Values) -> Iterator[tuple[Topic, Iterator[Partition]]]:
    """The partitions that the frame's values name, by topic, in the frame's order; no forgotten ones."""
    return groupby(partitions(frame.side, frame.api_key, values), attrgetter("around"))


def forgotten(frame: Frame, budget: Budget) -> list[Place]:
    """The partitions that a request takes out of its session. Errors: Unreadable."""
    return [*map(_place, partitions(frame.side, frame.api_key, opened(frame, budget), forgotten=True))]


def _place(found: Partition) -> Place:
    _, partition, values, code, (_, name, topic_id, of_topic, around) = found
    named = name or None, None if topic_id is None else id_text(topic_id), partition
    return Place(named, values, code, (*around, of_topic), values.get("records") or b"")


def named(topic: Topic) -> tuple[str | None, str | None]:
    """A topic's name, null if its version has only ids, and its id as Kafka prints it."""
    return topic.name or None, id_text(topic.topic_id)


def _batches_in(data: bytes) -> Batches:
    found: list[Batch] = []
    try:
        found.extend(records.batches(data))
    except WireError as error:
        return Batches(found, error)
    return Batches(found, None)


# a capture names few topics, each in many frames
@lru_cache(4096)
def id_text(topic_id: bytes | None) -> str | None:
    """A topic's id as Kafka prints it; null for None and for the id of all zeros."""
    return None if topic_id is None or topic_id == NO_ID else uuid_text(topic_id)

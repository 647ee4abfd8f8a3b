"""Reads what a cluster's brokers store: records from log files, and groups and committed offsets from responses."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from proxy.wire import records
from proxy.wire.records import ControlType, Record
from tests.brokers.waiting import PATIENCE

_PARTITION = re.compile(r"(?P<topic>[^_].*)-(?P<partition>\d+)")
# no producer id
_NONE = -1

Place = tuple[str, int]
# key, value, headers, timestamp
Content = tuple[bytes | None, bytes | None, tuple[object, ...], int]


class Entry(NamedTuple):
    """One record of a log. `ended`: how its transaction ended; None if it has none, or an open one."""

    producer: int
    content: Content
    ended: ControlType | None


class Group(NamedTuple):
    """A group as its coordinator describes it. `offsets`: the committed ones."""

    state: str
    kind: str
    offsets: Mapping[Place, int]


def logs(folders: Iterable[Path]) -> dict[Place, list[Entry]]:
    """Returns the records of all topics but Kafka's own. `folders`: one for each node; the longest copy counts."""
    found: dict[Place, list[Entry]] = {}
    for folder in folders:
        for partition in folder.glob("*-*"):
            named = _PARTITION.fullmatch(partition.name)
            if named is not None and partition.is_dir():
                place = named["topic"], int(named["partition"])
                found[place] = max(found.get(place, []), _log(partition), key=len)
    return found


def _log(folder: Path) -> list[Entry]:
    data = b"".join(segment.read_bytes() for segment in sorted(folder.glob("*.log")))
    entries: list[Entry] = []
    open_ones: dict[int, list[int]] = defaultdict(list)
    for batch in records.batches(data):
        for record in records.read_batch(data, batch):
            if record.control is not None:
                for at in open_ones.pop(batch.producer_id, []):
                    entries[at] = entries[at]._replace(ended=record.control)
                continue
            if batch.transactional:
                open_ones[batch.producer_id].append(len(entries))
            entries.append(Entry(batch.producer_id, _content(record), None))
    return entries


def _content(record: Record) -> Content:
    return record.key, record.value, tuple(record.headers), record.timestamp


def what_differs(source: Mapping[Place, list[Entry]], target: Mapping[Place, list[Entry]]) -> list[str]:
    """Returns the partitions in which the target lacks records, has others, or has a producer's in another order."""
    places = sorted(place for place in {*source, *target} if source.get(place) or target.get(place))
    return [
        f"{topic}-{partition}: {differs}"
        for topic, partition in places
        if (differs := _differs(source.get((topic, partition), []), target.get((topic, partition), [])))
    ]


def _differs(source: list[Entry], target: list[Entry]) -> str:
    here, there = (Counter((one.content, one.ended) for one in each) for each in (source, target))
    if here != there:
        return f"{(here - there).total()} missing, {(there - here).total()} extra of {len(source)}"
    places = defaultdict(list)
    for at, entry in enumerate(target):
        places[entry.content].append(at)
    last: dict[int, int] = {}
    for entry in source:
        at = places[entry.content].pop(0)
        # producers without an id can't be told apart
        if entry.producer != _NONE and at < last.get(entry.producer, -1):
            return f"{entry.content} is in another order"
        last[entry.producer] = at
    return ""


def groups(bootstrap: str) -> dict[str, Group]:
    """Returns all consumer groups, with their committed offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    listed = admin.list_consumer_groups(request_timeout=PATIENCE).result(PATIENCE).valid
    return {one.group_id: Group(one.state.name, one.type.name, _committed(admin, one.group_id)) for one in listed}


def _committed(admin: AdminClient, group: str) -> dict[Place, int]:
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = future.result(PATIENCE).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

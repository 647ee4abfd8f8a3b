"""The partitions in a request or an answer, with the fields of each API that hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from proxy.wire.keys import (
    ADD_PARTITIONS_TO_TXN,
    DELETE_RECORDS,
    FETCH,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    TXN_OFFSET_COMMIT,
)
from recorder.replay.plan import Dropped, Exchange, Reason, Values

Topic = str | bytes
TopicPartition = tuple[str, int]


class _Where(NamedTuple):
    topics: str
    partitions: str
    index_field: str
    error: str = "error_code"


_REQUESTS = {
    PRODUCE: _Where("topic_data", "partition_data", "index"),
    FETCH: _Where("topics", "partitions", "partition"),
    LIST_OFFSETS: _Where("topics", "partitions", "partition_index"),
    OFFSET_COMMIT: _Where("topics", "partitions", "partition_index"),
    DELETE_RECORDS: _Where("topics", "partitions", "partition_index"),
    TXN_OFFSET_COMMIT: _Where("topics", "partitions", "partition_index"),
    SHARE_FETCH: _Where("topics", "partitions", "partition_index"),
    SHARE_ACKNOWLEDGE: _Where("topics", "partitions", "partition_index"),
}
_ANSWERS = _REQUESTS | {
    PRODUCE: _Where("responses", "partition_responses", "index"),
    FETCH: _Where("responses", "partitions", "partition_index"),
    ADD_PARTITIONS_TO_TXN: _Where(
        "results_by_topic_v3_and_below", "results_by_partition", "partition_index", "partition_error_code"
    ),
    SHARE_FETCH: _Where("responses", "partitions", "partition_index"),
    SHARE_ACKNOWLEDGE: _Where("responses", "partitions", "partition_index"),
}


class PartitionEntry(NamedTuple):
    """A partition in a request or an answer. `topic`: its name or id there."""

    topic: Topic
    partition: int
    values: Values


# a named tuple's own constructor is a Python function, which takes three times as long
_asked: Callable[[type[PartitionEntry], tuple[object, ...]], PartitionEntry] = tuple.__new__


def topic_of(entry: Values) -> Topic:
    """The name of a topic, or its id in versions without names."""
    for field in ("name", "topic", "topic_id"):
        found = entry.get(field)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return b""


def in_request(api_key: int, values: Values) -> list[PartitionEntry]:
    """The partitions of a request."""
    return _all(_REQUESTS[api_key], values)


def in_answer(api_key: int, values: Values) -> list[PartitionEntry]:
    """The partitions of an answer."""
    return _all(_ANSWERS[api_key], values)


def _all(where: _Where, values: Values) -> list[PartitionEntry]:
    _, partitions, index, _ = where
    return [
        _asked(PartitionEntry, (topic, partition[index], partition))
        for entry in values.get(where.topics) or ()
        for topic in (topic_of(entry),)
        for partition in entry.get(partitions) or ()
    ]


def errors(api_key: int, answer: Values | None, name: Callable[[Topic], str | None]) -> dict[TopicPartition, int]:
    """The error of each partition in an answer, by recorded topic name.

    `name`: the recorded name of the answer's topic.
    """
    field = _ANSWERS[api_key].error
    found = ((name(each.topic), each) for each in in_answer(api_key, answer or {}))
    return {(topic, each.partition): each.values[field] for topic, each in found if topic is not None}


def drop(exchange: Exchange, values: Values, reason: Callable[[PartitionEntry], Reason | None]) -> bool:
    """Leaves partitions out of a request, and topics that have none left. False if all that it had are left out."""
    where = _REQUESTS[exchange.api_key]
    topics = values.get(where.topics) or []
    for entry in topics:
        entry[where.partitions] = [
            each for each in entry[where.partitions] if not _drops(exchange, where, entry, each, reason)
        ]
    kept = [entry for entry in topics if entry[where.partitions]]
    if len(kept) < len(topics):
        values[where.topics] = kept
    return bool(kept) or not topics


def _drops(
    exchange: Exchange,
    where: _Where,
    entry: Values,
    partition: Values,
    reason: Callable[[PartitionEntry], Reason | None],
) -> bool:
    each = PartitionEntry(topic_of(entry), partition[where.index_field], partition)
    found = reason(each)
    if found is not None:
        exchange.dropped.append(Dropped(each.topic, each.partition, found))
    return found is not None

"""Reads names from answers: the cluster's id, and topics' ids with their names.

A topic's id never changes its name, so a later answer also serves earlier frames. The id of all zeros stands for no
topic, and an id without a name makes no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.wire import keys
from proxy.wire.budget import Budget
from recorder.analysis.decode.frame import RESPONSE, Frame, opened
from recorder.analysis.decode.rows import Decoder, FrameSelector, Group
from recorder.analysis.decode.topics import id_text, topic_name
from recorder.analysis.schema import Column

# arrays of structs that hold a topic's id and its name
_TOPICS: Mapping[int, tuple[str, ...]] = {
    keys.METADATA: ("topics",),
    keys.CREATE_TOPICS: ("topics",),
    keys.DELETE_TOPICS: ("responses",),
    keys.DESCRIBE_TOPIC_PARTITIONS: ("topics",),
    keys.CONSUMER_GROUP_DESCRIBE: (
        "groups.members.assignment.topic_partitions",
        "groups.members.target_assignment.topic_partitions",
    ),
    keys.SHARE_GROUP_DESCRIBE: ("groups.members.assignment.topic_partitions",),
    keys.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups.topics",),
    keys.ALTER_SHARE_GROUP_OFFSETS: ("responses",),
    keys.DELETE_SHARE_GROUP_OFFSETS: ("responses",),
}
_OWN = (
    Column("topic", "string", "the name; null where the answer tells the cluster alone"),
    Column("topic_id", "string", "its id as Kafka prints it"),
)
_CLUSTER = (
    Column("cluster_id", "string", "as the brokers call their cluster; only Metadata tells it, from version 2 on"),
)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The names in an answer. Errors: Unreadable."""
    values = opened(frame, budget)
    names = {
        (name, topic_id)
        for path in _TOPICS[frame.api_key]
        for topic in _structs(values, path.split("."))
        if (name := topic_name(topic)) and (topic_id := id_text(topic.get("topic_id")))
    }
    yield Group((values.get("cluster_id"),), [*sorted(names), (None, None)])


def _structs(value: Mapping[str, Any], path: list[str]) -> Iterator[Mapping[str, Any]]:
    if not path:
        yield value
        return
    below = value.get(path[0]) or []
    for one in below if isinstance(below, list) else [below]:
        yield from _structs(one, path[1:])


ANSWERED_NAMES = Decoder(
    "answered_names", "a name in an answer", (FrameSelector(RESPONSE, (*_TOPICS,)),), _CLUSTER, _OWN, read
)

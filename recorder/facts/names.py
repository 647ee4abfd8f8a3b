"""Reads names from answers: the cluster's id, and topics' ids with their names.

A topic's id never changes its name, so a later answer also serves earlier frames. The id of all zeros stands for no
topic, and an id without a name makes no row.
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.wire import keys
from proxy.wire.budget import Budget
from proxy.wire.places import topics
from recorder.facts.frame import RESPONSE, Frame, opened
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column
from recorder.facts.topics import named

# APIs whose responses name topics with their ids
_NAMING_APIS = (
    keys.METADATA,
    keys.CREATE_TOPICS,
    keys.DELETE_TOPICS,
    keys.DESCRIBE_TOPIC_PARTITIONS,
    keys.CONSUMER_GROUP_DESCRIBE,
    keys.SHARE_GROUP_DESCRIBE,
    keys.DESCRIBE_SHARE_GROUP_OFFSETS,
    keys.ALTER_SHARE_GROUP_OFFSETS,
    keys.DELETE_SHARE_GROUP_OFFSETS,
)
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
    pairs = map(named, topics(RESPONSE, frame.api_key, values))
    names = {(name, topic_id) for name, topic_id in pairs if name and topic_id}
    yield Group((values.get("cluster_id"),), [*sorted(names), (None, None)])


ANSWERED_NAMES = Decoder(
    "answered_names", "a name in an answer", (FrameSelector(RESPONSE, _NAMING_APIS),), _CLUSTER, _OWN, read
)

"""Reads partitions, with leaders and replicas, and nodes from answers to Metadata and DescribeTopicPartitions.

Replicas keep the broker's order, which begins with the preferred leader. Nodes in sync and offline nodes are sorted,
because their order means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proxy.wire import keys
from proxy.wire.budget import Budget
from proxy.wire.places import Partition
from recorder.facts.frame import RESPONSE, Frame, none_if_negative, opened
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column
from recorder.facts.topics import PLACE, by_topic, named

PARTITION = (
    Column("leader", "int", "the leader's node id; null: none"),
    Column("leader_epoch", "int", "the leader's epoch; null before Metadata 7"),
    Column("isr", "array<int>", "nodes in sync"),
    Column("replicas", "array<int>", "all its nodes, the preferred leader first"),
    Column("offline", "array<int>", "nodes that are offline; null before Metadata 5"),
)
NODE = (
    Column("told_node", "int", "the node's id, in a node's row"),
    Column("host", "string", "the host that brokers advertise, in a node's row"),
    Column("port", "int", "the port, in a node's row"),
    Column("rack", "string", "the node's rack, in a node's row"),
)
_NO_NODE, _NO_PARTITION = (None,) * len(NODE), (None,) * (len(PLACE) + len(PARTITION))


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The partitions and nodes in an answer. Errors: Unreadable."""
    values = opened(frame, budget)
    nodes = [(one["node_id"], one["host"], one["port"], one.get("rack")) for one in values.get("brokers") or ()]
    yield Group((), [(*_NO_PARTITION, *node) for node in nodes])
    for topic, found in by_topic(frame, values):
        names = named(topic)
        yield Group((), [(*names, *_partition(one), *_NO_NODE) for one in found])


def _partition(found: Partition) -> tuple[Any, ...]:
    values = found.values
    offline = values.get("offline_replicas")
    return (
        found.partition,
        none_if_negative(values["leader_id"]),
        none_if_negative(values.get("leader_epoch")),
        sorted(values["isr_nodes"]),
        values["replica_nodes"],
        None if offline is None else sorted(offline),
    )


METADATA_STATES = Decoder(
    "metadata_states",
    "a partition or a node in an answer",
    (FrameSelector(RESPONSE, (keys.METADATA, keys.DESCRIBE_TOPIC_PARTITIONS)),),
    (),
    (*PLACE, *PARTITION, *NODE),
    read,
)

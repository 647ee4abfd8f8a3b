"""Pairs of values that both clusters assigned: a recorded value leads to the target's.

A pair has a scope: the group of a member id, None for values of the whole cluster. A later pair of the same value
replaces the earlier one.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum


class ValueKind(StrEnum):
    """Kinds of values: values that a cluster assigns, names in it, and counts."""

    TOPIC_ID = "topic id"
    TOPIC_NAME = "topic name"
    TOPIC_PATTERN = "pattern of topic names"
    GROUP = "group id"
    TRANSACTION = "transactional id"
    TRANSACTION_PATTERN = "pattern of transactional ids"
    COORDINATOR_KEY = "coordinator key"
    RESOURCE = "resource name"
    PRODUCER = "producer"  # id and epoch, one value
    PRODUCER_EPOCH = "producer epoch"
    RECORDS = "record batches"  # offsets, times, producers and their sequences
    SEQUENCE = "sequence"
    MEMBER = "member id"
    INSTANCE = "group instance id"
    GENERATION = "generation"
    MEMBER_EPOCH = "member epoch"
    MEMBER_METADATA = "member metadata"
    ASSIGNMENT = "assignment"
    OWNED = "owned partitions"
    GIVEN = "given partitions"  # by a heartbeat's answer, or described
    PROTOCOL = "group protocol"
    GROUP_LEADER = "group leader"
    FOR_LEADER = "told to the group's leader"
    ENDPOINT_EPOCH = "endpoint epoch"
    FETCH_SESSION = "fetch session"
    FETCH_SESSION_EPOCH = "fetch session epoch"
    SHARE_SESSION_EPOCH = "share session epoch"
    ACQUIRED = "acquired offsets"
    OFFSET = "offset"
    LOG_BOUND = "log bound"
    TASK_OFFSET = "task offset"
    LEADER_EPOCH = "leader epoch"
    TIMESTAMP = "timestamp"
    CURSOR = "page cursor"
    CLIENT_INSTANCE = "client instance id"
    SUBSCRIPTION = "telemetry subscription"
    CLUSTER = "cluster id"
    NODE = "node id"
    ADDRESS = "node address"
    RACK = "rack"
    REPLICA = "replica state"
    OWN = "the cluster's own"  # times, sizes, messages: no request quotes it


class Pairs:
    """The pairs of one replay. Memory: one pair for each assigned value."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[ValueKind, Hashable], dict[Hashable, object]] = {}

    def learn(self, what: ValueKind, recorded: Hashable, target: object, scope: Hashable = None) -> None:
        """Pairs a recorded value with the target's."""
        self._pairs.setdefault((what, scope), {})[recorded] = target

    def target(self, what: ValueKind, recorded: Hashable, scope: Hashable = None) -> object | None:
        """The target's value; None while no answer has given it."""
        return self._pairs.get((what, scope), {}).get(recorded)

    def forget(self, what: ValueKind, recorded: Hashable, scope: Hashable = None) -> None:
        """Drops a pair that nothing can quote any more."""
        self._pairs.get((what, scope), {}).pop(recorded, None)

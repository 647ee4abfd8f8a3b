"""The fields of each message and version that hold values which a cluster assigns.

    quoted     in a request: the client repeats a value, so the replay has to send the target's
    learned    in a response: the cluster gives a value, which later requests quote
    echoed     in a response: the cluster repeats a value that it was sent, or that it gave in other answers

Most rows follow from the catalog's marks, and from field names that mean the same in every API. `BY_PATH` has fields
that mean something else in one API. A field may hold more than its row says: record batches hold offsets, times and
producers; an id in a list of owned partitions is a topic's id; a generation may be a KIP-848 member's epoch.

APIs that are never sent, or that each connection makes anew, have no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, StrEnum, auto
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from proxy.wire import apis as catalog
from proxy.wire.apis import MessageKind
from proxy.wire.catalog import CACHE_SIZE
from proxy.wire.keys import (
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_RECORDS,
    DESCRIBE_TOPIC_PARTITIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    PRODUCE,
    SHARE_FETCH,
    SYNC_GROUP,
)
from proxy.wire.language import Field as Declared
from recorder.replay.mapping import ValueKind
from recorder.replay.requests.apis import Treatment, treatment


class Role(Enum):
    """How a field uses a value."""

    QUOTED = auto()
    LEARNED = auto()
    ECHOED = auto()


class Scope(StrEnum):
    """Where a value is unique."""

    CLUSTER = "cluster"
    GROUP = "group"  # or of one member, for a member's value
    CONNECTION = "connection"


class StateField(NamedTuple):
    """A field with an assigned value."""

    what: ValueKind
    role: Role
    scope: Scope


MARKS = {
    "topic_name": ValueKind.TOPIC_NAME,
    "topic_id": ValueKind.TOPIC_ID,
    "group_id": ValueKind.GROUP,
    "producer_id": ValueKind.PRODUCER,
    "transactional_id": ValueKind.TRANSACTION,
    "node_id": ValueKind.NODE,
    "address": ValueKind.ADDRESS,
}

# Field names that mean the same in every message; those of _REQUEST_NAMES in requests only.
_NAMES: tuple[tuple[ValueKind, str], ...] = (
    (ValueKind.MEMBER, "member_id"),
    (ValueKind.INSTANCE, "group_instance_id instance_id"),
    (ValueKind.GENERATION, "generation_id generation_id_or_member_epoch"),
    (ValueKind.MEMBER_EPOCH, "member_epoch"),
    (ValueKind.MEMBER_METADATA, "member_metadata"),
    (ValueKind.ASSIGNMENT, "member_assignment"),
    (ValueKind.PRODUCER_EPOCH, "producer_epoch v3_and_below_producer_epoch ongoing_txn_producer_epoch"),
    (ValueKind.RECORDS, "records"),
    (ValueKind.SEQUENCE, "last_sequence"),
    (ValueKind.OFFSET, "fetch_offset committed_offset start_offset base_offset end_offset"),
    (ValueKind.OFFSET, "old_style_offsets current_txn_start_offset"),
    (ValueKind.LOG_BOUND, "high_watermark last_stable_offset log_start_offset low_watermark"),
    (ValueKind.LEADER_EPOCH, "leader_epoch current_leader_epoch last_fetched_epoch committed_leader_epoch"),
    (ValueKind.FETCH_SESSION, "session_id"),
    (ValueKind.FETCH_SESSION_EPOCH, "session_epoch"),
    (ValueKind.SHARE_SESSION_EPOCH, "share_session_epoch"),
    (ValueKind.ENDPOINT_EPOCH, "endpoint_information_epoch"),
    (ValueKind.CLIENT_INSTANCE, "client_instance_id"),
    (ValueKind.SUBSCRIPTION, "subscription_id"),
    (ValueKind.RESOURCE, "resource_name resource_name_filter"),
    (ValueKind.TOPIC_PATTERN, "subscribed_topic_regex source_topic_regex"),
    (ValueKind.TRANSACTION_PATTERN, "transactional_id_pattern"),
    (ValueKind.TIMESTAMP, "timestamp commit_timestamp"),
    (ValueKind.CLUSTER, "cluster_id"),
    (ValueKind.RACK, "rack_id"),
)
_REQUEST_NAMES: tuple[tuple[ValueKind, str], ...] = (
    (ValueKind.REPLICA, "replica_id replica_epoch replica_directory_id log_start_offset high_watermark"),
)
NAMES = {name: what for what, names in _NAMES for name in names.split()}
REQUEST_NAMES = NAMES | {name: what for what, names in _REQUEST_NAMES for name in names.split()}

_TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")
# (kind, api key or None for all, path) -> what the field holds; None: nothing that a cluster assigns
BY_PATH: Mapping[tuple[MessageKind, int | None, str], ValueKind | None] = {
    ("request", FIND_COORDINATOR, "key"): ValueKind.COORDINATOR_KEY,
    ("request", FIND_COORDINATOR, "coordinator_keys"): ValueKind.COORDINATOR_KEY,
    ("response", FIND_COORDINATOR, "coordinators.key"): ValueKind.COORDINATOR_KEY,
    ("request", JOIN_GROUP, "protocols.metadata"): ValueKind.MEMBER_METADATA,
    ("response", JOIN_GROUP, "members.metadata"): ValueKind.MEMBER_METADATA,
    ("response", JOIN_GROUP, "leader"): ValueKind.GROUP_LEADER,
    ("response", JOIN_GROUP, "skip_assignment"): ValueKind.GROUP_LEADER,
    ("response", JOIN_GROUP, "protocol_name"): ValueKind.PROTOCOL,
    ("response", JOIN_GROUP, "protocol_type"): ValueKind.PROTOCOL,
    ("request", SYNC_GROUP, "protocol_name"): ValueKind.PROTOCOL,
    ("request", SYNC_GROUP, "protocol_type"): ValueKind.PROTOCOL,
    ("response", SYNC_GROUP, "protocol_name"): ValueKind.PROTOCOL,
    ("response", SYNC_GROUP, "protocol_type"): ValueKind.PROTOCOL,
    ("request", SYNC_GROUP, "assignments.assignment"): ValueKind.ASSIGNMENT,
    ("response", SYNC_GROUP, "assignment"): ValueKind.ASSIGNMENT,
    ("request", DELETE_RECORDS, "topics.partitions.offset"): ValueKind.OFFSET,
    ("response", LIST_OFFSETS, "topics.partitions.offset"): ValueKind.OFFSET,
    ("response", FETCH, "responses.partitions.aborted_transactions.first_offset"): ValueKind.OFFSET,
    ("response", FETCH, "responses.partitions.diverging_epoch.epoch"): ValueKind.LEADER_EPOCH,
    ("response", FETCH, "responses.partitions.snapshot_id.epoch"): ValueKind.LEADER_EPOCH,
    ("request", DESCRIBE_TOPIC_PARTITIONS, "cursor.topic_name"): ValueKind.CURSOR,
    ("request", DESCRIBE_TOPIC_PARTITIONS, "cursor.partition_index"): ValueKind.CURSOR,
    ("response", DESCRIBE_TOPIC_PARTITIONS, "next_cursor.topic_name"): ValueKind.CURSOR,
    ("response", DESCRIBE_TOPIC_PARTITIONS, "next_cursor.partition_index"): ValueKind.CURSOR,
    ("response", SHARE_FETCH, "responses.partitions.acquired_records.first_offset"): ValueKind.ACQUIRED,
    ("response", SHARE_FETCH, "responses.partitions.acquired_records.last_offset"): ValueKind.ACQUIRED,
    **{
        ("request", None, f"topics.partitions.acknowledgement_batches.{name}"): ValueKind.ACQUIRED
        for name in ("first_offset", "last_offset", "acknowledge_types")
    },
    ("request", CONSUMER_GROUP_HEARTBEAT, "topic_partitions.partitions"): ValueKind.OWNED,
    ("response", None, "assignment.topic_partitions.partitions"): ValueKind.OWNED,
    **{(kind, None, f"{tasks}.partitions"): ValueKind.OWNED for kind in catalog.KINDS for tasks in _TASKS},
    **{(kind, None, f"{tasks}.subtopology_id"): ValueKind.OWNED for kind in catalog.KINDS for tasks in _TASKS},
    ("request", None, "task_offsets.offset"): ValueKind.TASK_OFFSET,
    ("request", None, "task_end_offsets.offset"): ValueKind.TASK_OFFSET,
    # indexes into the lists beside them
    ("request", None, "topology.subtopologies.copartition_groups.source_topic_regex"): None,
}

_GROUP_SCOPE = frozenset(
    {
        ValueKind.MEMBER,
        ValueKind.INSTANCE,
        ValueKind.GENERATION,
        ValueKind.MEMBER_EPOCH,
        ValueKind.MEMBER_METADATA,
        ValueKind.ASSIGNMENT,
    }
    | {
        ValueKind.OWNED,
        ValueKind.PROTOCOL,
        ValueKind.GROUP_LEADER,
        ValueKind.ENDPOINT_EPOCH,
        ValueKind.SHARE_SESSION_EPOCH,
    }
    | {ValueKind.ACQUIRED, ValueKind.TASK_OFFSET}
)
_CONNECTION_SCOPE = frozenset({ValueKind.FETCH_SESSION, ValueKind.FETCH_SESSION_EPOCH, ValueKind.CURSOR})
# values that any response with them gives
_TOLD = frozenset(
    {
        ValueKind.NODE,
        ValueKind.ADDRESS,
        ValueKind.CLUSTER,
        ValueKind.LEADER_EPOCH,
        ValueKind.LOG_BOUND,
        ValueKind.GENERATION,
        ValueKind.PROTOCOL,
    }
    | {
        ValueKind.GROUP_LEADER,
        ValueKind.ASSIGNMENT,
        ValueKind.OWNED,
        ValueKind.ENDPOINT_EPOCH,
        ValueKind.FETCH_SESSION,
        ValueKind.ACQUIRED,
    }
    | {ValueKind.CLIENT_INSTANCE, ValueKind.SUBSCRIPTION, ValueKind.CURSOR, ValueKind.RECORDS}
)
# values that responses of these APIs give, and others repeat
_TOLD_BY = {
    ValueKind.PRODUCER: (INIT_PRODUCER_ID, END_TXN),
    ValueKind.PRODUCER_EPOCH: (INIT_PRODUCER_ID, END_TXN),
    ValueKind.OFFSET: (PRODUCE,),
}
# values that the top level of a response gives, and deeper levels repeat
_TOLD_AT_TOP = frozenset({ValueKind.MEMBER, ValueKind.MEMBER_EPOCH})


@lru_cache(CACHE_SIZE)
def of(kind: MessageKind, api_key: int, version: int) -> Mapping[str, StateField]:
    """The fields with assigned values in one version, by path (names joined by dots)."""
    found = catalog.message(kind, api_key)
    if treatment(api_key) in (Treatment.NEVER, Treatment.OWN) or not found or version not in found.versions:
        return MappingProxyType({})
    return MappingProxyType(dict(_rows(kind, api_key, found.fields, version, "")))


def _rows(
    kind: MessageKind, api_key: int, fields: Sequence[Declared], version: int, above: str
) -> Iterator[tuple[str, StateField]]:
    present = [field for field in fields if version in field.versions]
    marks = {mark for field in present for mark in field.marks}
    is_pair = {"topic_name", "topic_id"} <= marks
    for field in present:
        path = above + field.name
        what = _what(kind, api_key, path, field)
        if what is not None:
            yield path, StateField(what, _role(kind, api_key, path, what, is_pair), _scope(what))
        yield from _rows(kind, api_key, field.fields, version, path + ".")


def _what(kind: MessageKind, api_key: int, path: str, field: Declared) -> ValueKind | None:
    for key in (api_key, None):
        if (kind, key, path) in BY_PATH:
            return BY_PATH[kind, key, path]
    if field.fields:
        return None
    if kind == "request" and field.name in REQUEST_NAMES:
        return REQUEST_NAMES[field.name]
    if field.name in NAMES:
        return NAMES[field.name]
    return next((what for mark, what in MARKS.items() if mark in field.marks), None)


def _role(kind: MessageKind, api_key: int, path: str, what: ValueKind, is_pair: bool) -> Role:
    """`is_pair`: a topic's name and id stand side by side, which tells that they belong together."""
    if kind == "request":
        return Role.QUOTED
    if is_pair and what in (ValueKind.TOPIC_NAME, ValueKind.TOPIC_ID):
        return Role.LEARNED
    is_told = what in _TOLD or api_key in _TOLD_BY.get(what, ()) or (what in _TOLD_AT_TOP and "." not in path)
    return Role.LEARNED if is_told else Role.ECHOED


def _scope(what: ValueKind) -> Scope:
    if what in _GROUP_SCOPE:
        return Scope.GROUP
    return Scope.CONNECTION if what in _CONNECTION_SCOPE else Scope.CLUSTER

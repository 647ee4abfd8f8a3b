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
from recorder.replay.mapping import What
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


class Field(NamedTuple):
    """A field with an assigned value."""

    what: What
    role: Role
    scope: Scope


MARKS = {
    "topic_name": What.TOPIC_NAME,
    "topic_id": What.TOPIC_ID,
    "group_id": What.GROUP,
    "producer_id": What.PRODUCER,
    "transactional_id": What.TRANSACTION,
    "node_id": What.NODE,
    "address": What.ADDRESS,
}

# Field names that mean the same in every message; those of _REQUEST_NAMES in requests only.
_NAMES: tuple[tuple[What, str], ...] = (
    (What.MEMBER, "member_id"),
    (What.INSTANCE, "group_instance_id instance_id"),
    (What.GENERATION, "generation_id generation_id_or_member_epoch"),
    (What.MEMBER_EPOCH, "member_epoch"),
    (What.MEMBER_METADATA, "member_metadata"),
    (What.ASSIGNMENT, "member_assignment"),
    (What.PRODUCER_EPOCH, "producer_epoch v3_and_below_producer_epoch ongoing_txn_producer_epoch"),
    (What.RECORDS, "records"),
    (What.SEQUENCE, "last_sequence"),
    (What.OFFSET, "fetch_offset committed_offset start_offset base_offset end_offset"),
    (What.OFFSET, "old_style_offsets current_txn_start_offset"),
    (What.LOG_BOUND, "high_watermark last_stable_offset log_start_offset low_watermark"),
    (What.LEADER_EPOCH, "leader_epoch current_leader_epoch last_fetched_epoch committed_leader_epoch"),
    (What.FETCH_SESSION, "session_id"),
    (What.FETCH_SESSION_EPOCH, "session_epoch"),
    (What.SHARE_SESSION_EPOCH, "share_session_epoch"),
    (What.ENDPOINT_EPOCH, "endpoint_information_epoch"),
    (What.CLIENT_INSTANCE, "client_instance_id"),
    (What.SUBSCRIPTION, "subscription_id"),
    (What.RESOURCE, "resource_name resource_name_filter"),
    (What.TOPIC_PATTERN, "subscribed_topic_regex source_topic_regex"),
    (What.TRANSACTION_PATTERN, "transactional_id_pattern"),
    (What.TIMESTAMP, "timestamp commit_timestamp"),
    (What.CLUSTER, "cluster_id"),
    (What.RACK, "rack_id"),
)
_REQUEST_NAMES: tuple[tuple[What, str], ...] = (
    (What.REPLICA, "replica_id replica_epoch replica_directory_id log_start_offset high_watermark"),
)
NAMES = {name: what for what, names in _NAMES for name in names.split()}
REQUEST_NAMES = NAMES | {name: what for what, names in _REQUEST_NAMES for name in names.split()}

_TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")
# (kind, api key or None for all, path) -> what the field holds; None: nothing that a cluster assigns
BY_PATH: Mapping[tuple[MessageKind, int | None, str], What | None] = {
    ("request", FIND_COORDINATOR, "key"): What.COORDINATOR_KEY,
    ("request", FIND_COORDINATOR, "coordinator_keys"): What.COORDINATOR_KEY,
    ("response", FIND_COORDINATOR, "coordinators.key"): What.COORDINATOR_KEY,
    ("request", JOIN_GROUP, "protocols.metadata"): What.MEMBER_METADATA,
    ("response", JOIN_GROUP, "members.metadata"): What.MEMBER_METADATA,
    ("response", JOIN_GROUP, "leader"): What.GROUP_LEADER,
    ("response", JOIN_GROUP, "skip_assignment"): What.GROUP_LEADER,
    ("response", JOIN_GROUP, "protocol_name"): What.PROTOCOL,
    ("response", JOIN_GROUP, "protocol_type"): What.PROTOCOL,
    ("request", SYNC_GROUP, "protocol_name"): What.PROTOCOL,
    ("request", SYNC_GROUP, "protocol_type"): What.PROTOCOL,
    ("response", SYNC_GROUP, "protocol_name"): What.PROTOCOL,
    ("response", SYNC_GROUP, "protocol_type"): What.PROTOCOL,
    ("request", SYNC_GROUP, "assignments.assignment"): What.ASSIGNMENT,
    ("response", SYNC_GROUP, "assignment"): What.ASSIGNMENT,
    ("request", DELETE_RECORDS, "topics.partitions.offset"): What.OFFSET,
    ("response", LIST_OFFSETS, "topics.partitions.offset"): What.OFFSET,
    ("response", FETCH, "responses.partitions.aborted_transactions.first_offset"): What.OFFSET,
    ("response", FETCH, "responses.partitions.diverging_epoch.epoch"): What.LEADER_EPOCH,
    ("response", FETCH, "responses.partitions.snapshot_id.epoch"): What.LEADER_EPOCH,
    ("request", DESCRIBE_TOPIC_PARTITIONS, "cursor.topic_name"): What.CURSOR,
    ("request", DESCRIBE_TOPIC_PARTITIONS, "cursor.partition_index"): What.CURSOR,
    ("response", DESCRIBE_TOPIC_PARTITIONS, "next_cursor.topic_name"): What.CURSOR,
    ("response", DESCRIBE_TOPIC_PARTITIONS, "next_cursor.partition_index"): What.CURSOR,
    ("response", SHARE_FETCH, "responses.partitions.acquired_records.first_offset"): What.ACQUIRED,
    ("response", SHARE_FETCH, "responses.partitions.acquired_records.last_offset"): What.ACQUIRED,
    **{
        ("request", None, f"topics.partitions.acknowledgement_batches.{name}"): What.ACQUIRED
        for name in ("first_offset", "last_offset", "acknowledge_types")
    },
    ("request", CONSUMER_GROUP_HEARTBEAT, "topic_partitions.partitions"): What.OWNED,
    ("response", None, "assignment.topic_partitions.partitions"): What.OWNED,
    **{(kind, None, f"{tasks}.partitions"): What.OWNED for kind in catalog.KINDS for tasks in _TASKS},
    **{(kind, None, f"{tasks}.subtopology_id"): What.OWNED for kind in catalog.KINDS for tasks in _TASKS},
    ("request", None, "task_offsets.offset"): What.TASK_OFFSET,
    ("request", None, "task_end_offsets.offset"): What.TASK_OFFSET,
    # indexes into the lists beside them
    ("request", None, "topology.subtopologies.copartition_groups.source_topic_regex"): None,
}

_GROUP_SCOPE = frozenset(
    {What.MEMBER, What.INSTANCE, What.GENERATION, What.MEMBER_EPOCH, What.MEMBER_METADATA, What.ASSIGNMENT}
    | {What.OWNED, What.PROTOCOL, What.GROUP_LEADER, What.ENDPOINT_EPOCH, What.SHARE_SESSION_EPOCH}
    | {What.ACQUIRED, What.TASK_OFFSET}
)
_CONNECTION_SCOPE = frozenset({What.FETCH_SESSION, What.FETCH_SESSION_EPOCH, What.CURSOR})
# values that any response with them gives
_TOLD = frozenset(
    {What.NODE, What.ADDRESS, What.CLUSTER, What.LEADER_EPOCH, What.LOG_BOUND, What.GENERATION, What.PROTOCOL}
    | {What.GROUP_LEADER, What.ASSIGNMENT, What.OWNED, What.ENDPOINT_EPOCH, What.FETCH_SESSION, What.ACQUIRED}
    | {What.CLIENT_INSTANCE, What.SUBSCRIPTION, What.CURSOR, What.RECORDS}
)
# values that responses of these APIs give, and others repeat
_TOLD_BY = {
    What.PRODUCER: (INIT_PRODUCER_ID, END_TXN),
    What.PRODUCER_EPOCH: (INIT_PRODUCER_ID, END_TXN),
    What.OFFSET: (PRODUCE,),
}
# values that the top level of a response gives, and deeper levels repeat
_TOLD_AT_TOP = frozenset({What.MEMBER, What.MEMBER_EPOCH})


@lru_cache(CACHE_SIZE)
def of(kind: MessageKind, api_key: int, version: int) -> Mapping[str, Field]:
    """The fields with assigned values in one version, by path (names joined by dots)."""
    found = catalog.message(kind, api_key)
    if treatment(api_key) in (Treatment.NEVER, Treatment.REGENERATED) or not found or version not in found.versions:
        return MappingProxyType({})
    return MappingProxyType(dict(_rows(kind, api_key, found.fields, version, "")))


def _rows(
    kind: MessageKind, api_key: int, fields: Sequence[Declared], version: int, above: str
) -> Iterator[tuple[str, Field]]:
    present = [field for field in fields if version in field.versions]
    marks = {mark for field in present for mark in field.marks}
    is_pair = {"topic_name", "topic_id"} <= marks
    for field in present:
        path = above + field.name
        what = _what(kind, api_key, path, field)
        if what is not None:
            yield path, Field(what, _role(kind, api_key, path, what, is_pair), _scope(what))
        yield from _rows(kind, api_key, field.fields, version, path + ".")


def _what(kind: MessageKind, api_key: int, path: str, field: Declared) -> What | None:
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


def _role(kind: MessageKind, api_key: int, path: str, what: What, is_pair: bool) -> Role:
    """`is_pair`: a topic's name and id stand side by side, which tells that they belong together."""
    if kind == "request":
        return Role.QUOTED
    if is_pair and what in (What.TOPIC_NAME, What.TOPIC_ID):
        return Role.LEARNED
    is_told = what in _TOLD or api_key in _TOLD_BY.get(what, ()) or (what in _TOLD_AT_TOP and "." not in path)
    return Role.LEARNED if is_told else Role.ECHOED


def _scope(what: What) -> Scope:
    if what in _GROUP_SCOPE:
        return Scope.GROUP
    return Scope.CONNECTION if what in _CONNECTION_SCOPE else Scope.CLUSTER

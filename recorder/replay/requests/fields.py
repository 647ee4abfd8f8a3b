"""What each field of a message holds, and what follows from it: what a replay sends, and how it compares.

One row a kind of field (`KINDS`): which fields are of that kind, by their names or the catalog's marks; what a request
gets in place of the recorded value; how two answers are compared there (the table "Comparison" of docs/replay.md).
`BY_PATH` has fields that are of another kind in one API. A field may hold more than its kind says: record batches hold
offsets, times and producers; an id in a list of owned partitions is a topic's id; a generation may be a KIP-848
member's epoch.

Error codes are fields as well: where they differ, nothing else of their struct is compared. Fetched records are
compared as streams (`consumers.records`), not answer by answer.

One row a kind of array (`ARRAYS`): the fields that name its elements. There are several ways where versions differ:
topics by name, later by id. Topics, partitions, groups and transactions are known from the catalog's marks
(`proxy.wire.places`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, StrEnum, auto
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from proxy.wire import apis as catalog
from proxy.wire.apis import MessageKind
from proxy.wire.catalog import CACHE_SIZE
from proxy.wire.keys import (
    ALTER_CONFIGS,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_ACLS,
    CREATE_PARTITIONS,
    DELETE_RECORDS,
    DESCRIBE_ACLS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUORUM,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    FETCH,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    SYNC_GROUP,
)
from proxy.wire.language import Field as Declared
from proxy.wire.places import KEYED, Level, at
from recorder.replay.mapping import ValueKind
from recorder.replay.requests.apis import Trait, Treatment, those, treatment


class Sent(Enum):
    """What a request gets in place of a recorded value."""

    NAME = auto()  # the target's name: with the prefix
    PATTERN = auto()  # a pattern of such names
    CLIENT = auto()  # what a client says that knows nothing of the cluster
    LEARNED = auto()  # the target's value, by the room that has learned it; a value that no room learns stays


class ComparisonRule(StrEnum):
    """How a field of two answers is compared."""

    LEFT_OUT = "left out"  # the target's own, with all fields below
    MAPPED = "mapped"  # equal if it is the target's value for the recorded one
    STRUCTURE = "structure only"  # in being there, and in errors within it; values and numbers don't matter
    UNION = "the group's union"  # any member may have any part; all members together must have the same
    ELECTED = "of the elected member"  # told to a group's leader only: compared if both sides elected the same one
    EQUAL = "equal"


class KindRow(NamedTuple):
    """What is done with one kind of field.

    Attributes:
        names: of its fields in every message; `in_requests`, `in_answers`: in these only.
        mark: that its fields have in the catalog.
    """

    kind: ValueKind
    sent: Sent
    compared: ComparisonRule
    names: str = ""
    in_requests: str = ""
    in_answers: str = ""
    mark: str = ""


_NAME, _PATTERN, _CLIENT, _LEARNED = Sent.NAME, Sent.PATTERN, Sent.CLIENT, Sent.LEARNED
_LEFT_OUT, _MAPPED, _EQUAL = ComparisonRule.LEFT_OUT, ComparisonRule.MAPPED, ComparisonRule.EQUAL

KINDS = (
    KindRow(ValueKind.TOPIC_NAME, _NAME, _MAPPED, mark="topic_name"),
    KindRow(ValueKind.TOPIC_ID, _LEARNED, _MAPPED, mark="topic_id"),
    KindRow(ValueKind.TOPIC_PATTERN, _PATTERN, _MAPPED, "subscribed_topic_regex source_topic_regex"),
    KindRow(ValueKind.GROUP, _NAME, _MAPPED, mark="group_id"),
    KindRow(ValueKind.TRANSACTION, _NAME, _MAPPED, mark="transactional_id"),
    KindRow(ValueKind.TRANSACTION_PATTERN, _PATTERN, _EQUAL, "transactional_id_pattern"),
    KindRow(ValueKind.COORDINATOR_KEY, _LEARNED, _MAPPED),
    KindRow(ValueKind.RESOURCE, _LEARNED, _MAPPED, "resource_name resource_name_filter"),
    KindRow(ValueKind.PRODUCER, _LEARNED, _MAPPED, mark="producer_id"),
    KindRow(
        ValueKind.PRODUCER_EPOCH,
        _LEARNED,
        _MAPPED,
        "producer_epoch v3_and_below_producer_epoch ongoing_txn_producer_epoch",
    ),
    # how they are cut into answers depends on the moment
    KindRow(ValueKind.RECORDS, _LEARNED, _LEFT_OUT, "records"),
    # counted by the replay itself
    KindRow(ValueKind.SEQUENCE, _LEARNED, _LEFT_OUT, "last_sequence"),
    KindRow(ValueKind.MEMBER, _LEARNED, _MAPPED, "member_id"),
    KindRow(ValueKind.INSTANCE, _NAME, _MAPPED, "group_instance_id instance_id"),
    KindRow(ValueKind.GENERATION, _LEARNED, _MAPPED, "generation_id generation_id_or_member_epoch"),
    KindRow(ValueKind.MEMBER_EPOCH, _LEARNED, _MAPPED, "member_epoch"),
    # members' blobs are compared decoded
    KindRow(ValueKind.MEMBER_METADATA, _LEARNED, _EQUAL, "member_metadata"),
    KindRow(ValueKind.ASSIGNMENT, _LEARNED, _EQUAL, "member_assignment"),
    KindRow(ValueKind.OWNED, _LEARNED, _EQUAL),
    KindRow(ValueKind.GIVEN, _LEARNED, ComparisonRule.UNION),
    KindRow(ValueKind.PROTOCOL, _LEARNED, _EQUAL),
    # the member that the target elects
    KindRow(ValueKind.GROUP_LEADER, _LEARNED, _LEFT_OUT),
    KindRow(ValueKind.FOR_LEADER, _LEARNED, ComparisonRule.ELECTED),
    KindRow(ValueKind.ENDPOINT_EPOCH, _LEARNED, _LEFT_OUT, "endpoint_information_epoch"),
    KindRow(ValueKind.FETCH_SESSION, _LEARNED, _LEFT_OUT, "session_id"),
    KindRow(ValueKind.FETCH_SESSION_EPOCH, _LEARNED, _EQUAL, "session_epoch"),
    KindRow(ValueKind.SHARE_SESSION_EPOCH, _LEARNED, _EQUAL, "share_session_epoch"),
    KindRow(ValueKind.ACQUIRED, _LEARNED, _EQUAL),
    KindRow(
        ValueKind.OFFSET,
        _LEARNED,
        _MAPPED,
        "fetch_offset committed_offset start_offset base_offset end_offset old_style_offsets current_txn_start_offset",
    ),
    KindRow(
        ValueKind.LOG_BOUND, _LEARNED, _LEFT_OUT, "high_watermark last_stable_offset log_start_offset low_watermark"
    ),
    KindRow(ValueKind.TASK_OFFSET, _LEARNED, _EQUAL),
    KindRow(
        ValueKind.LEADER_EPOCH,
        _CLIENT,
        _LEFT_OUT,
        "leader_epoch current_leader_epoch last_fetched_epoch committed_leader_epoch",
    ),
    KindRow(ValueKind.TIMESTAMP, _LEARNED, _LEFT_OUT, "timestamp commit_timestamp"),
    # the page where an answer stopped
    KindRow(ValueKind.CURSOR, _LEARNED, _LEFT_OUT),
    KindRow(ValueKind.CLIENT_INSTANCE, _LEARNED, _MAPPED, "client_instance_id"),
    KindRow(ValueKind.SUBSCRIPTION, _LEARNED, _MAPPED, "subscription_id"),
    KindRow(ValueKind.CLUSTER, _CLIENT, _LEFT_OUT, "cluster_id"),
    KindRow(ValueKind.NODE, _LEARNED, _LEFT_OUT, mark="node_id"),
    KindRow(ValueKind.ADDRESS, _LEARNED, _LEFT_OUT, mark="address"),
    # a consumer without a rack reads from leaders; a member's own stays
    KindRow(ValueKind.RACK, _CLIENT, _LEFT_OUT, "rack_id"),
    KindRow(
        ValueKind.REPLICA,
        _CLIENT,
        _EQUAL,
        in_requests="replica_id replica_epoch replica_directory_id log_start_offset high_watermark",
    ),
    # what no request quotes
    KindRow(
        ValueKind.OWN,
        _LEARNED,
        _LEFT_OUT,
        in_answers=" ".join(
            (
                "throttle_time_ms",
                # messages for people
                "error_message batch_index_error_message acknowledge_error_message status_detail documentation",
                # addresses of brokers, and of clients as the broker saw them; racks
                "node_endpoints current_leader client_host rack",
                # times
                "log_append_time_ms last_timestamp last_fetch_timestamp last_caught_up_timestamp",
                "transaction_start_time_ms",
                # intervals
                "heartbeat_interval_ms push_interval_ms acquisition_lock_timeout_ms task_offset_interval_ms",
                "session_lifetime_ms",
                # epochs, except producers'
                "coordinator_epoch group_epoch assignment_epoch topology_epoch finalized_features_epoch",
                # where logs end and differ, and lags
                "log_end_offset diverging_epoch snapshot_id",
                "lag offset_lag acceptable_recovery_lag acceptable_recovery_lag_legacy",
                # sizes and directories
                "partition_size total_bytes usable_bytes telemetry_max_bytes log_dir replica_directory_id",
                # limited to the target's number of nodes
                "replication_factor",
                # depends on how the log is cut into answers
                "aborted_transactions acquired_records",
            )
        ),
    ),
)
ROW_OF = {row.kind: row for row in KINDS}
OF_MARK = {row.mark: row.kind for row in KINDS if row.mark}


def _names(kind: MessageKind) -> dict[str, ValueKind]:
    """Field names that mean the same in every message of this kind."""
    everywhere = {name: row.kind for row in KINDS for name in row.names.split()}
    only = [(row.kind, row.in_requests if kind == "request" else row.in_answers) for row in KINDS]
    return everywhere | {name: what for what, names in only for name in names.split()}


OF_NAME: Mapping[MessageKind, Mapping[str, ValueKind]] = {kind: _names(kind) for kind in catalog.KINDS}

TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")
# (kind, api key or None for all, path) -> what the field holds; None: nothing that a cluster assigns
BY_PATH: Mapping[tuple[MessageKind, int | None, str], ValueKind | None] = {
    ("request", FIND_COORDINATOR, "key"): ValueKind.COORDINATOR_KEY,
    ("request", FIND_COORDINATOR, "coordinator_keys"): ValueKind.COORDINATOR_KEY,
    ("response", FIND_COORDINATOR, "coordinators.key"): ValueKind.COORDINATOR_KEY,
    ("request", JOIN_GROUP, "protocols.metadata"): ValueKind.MEMBER_METADATA,
    ("response", JOIN_GROUP, "members.metadata"): ValueKind.MEMBER_METADATA,
    ("response", JOIN_GROUP, "leader"): ValueKind.GROUP_LEADER,
    ("response", JOIN_GROUP, "members"): ValueKind.FOR_LEADER,
    ("response", JOIN_GROUP, "skip_assignment"): ValueKind.FOR_LEADER,
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
    # the replay asks for the present epoch, so this is the log's end
    ("response", OFFSET_FOR_LEADER_EPOCH, "topics.partitions.end_offset"): ValueKind.LOG_BOUND,
    ("response", FETCH, "responses.partitions.diverging_epoch.epoch"): ValueKind.LEADER_EPOCH,
    ("response", FETCH, "responses.partitions.snapshot_id.epoch"): ValueKind.LEADER_EPOCH,
    ("request", DESCRIBE_TOPIC_PARTITIONS, "cursor.topic_name"): ValueKind.CURSOR,
    ("request", DESCRIBE_TOPIC_PARTITIONS, "cursor.partition_index"): ValueKind.CURSOR,
    ("response", DESCRIBE_TOPIC_PARTITIONS, "next_cursor"): ValueKind.CURSOR,
    ("response", SHARE_FETCH, "responses.partitions.acquired_records.first_offset"): ValueKind.ACQUIRED,
    ("response", SHARE_FETCH, "responses.partitions.acquired_records.last_offset"): ValueKind.ACQUIRED,
    **{
        ("request", None, f"topics.partitions.acknowledgement_batches.{name}"): ValueKind.ACQUIRED
        for name in ("first_offset", "last_offset", "acknowledge_types")
    },
    ("request", CONSUMER_GROUP_HEARTBEAT, "topic_partitions.partitions"): ValueKind.OWNED,
    ("response", None, "assignment.topic_partitions.partitions"): ValueKind.OWNED,
    **{(kind, None, f"{tasks}.partitions"): ValueKind.OWNED for kind in catalog.KINDS for tasks in TASKS},
    **{(kind, None, f"{tasks}.subtopology_id"): ValueKind.OWNED for kind in catalog.KINDS for tasks in TASKS},
    ("request", None, "task_offsets.offset"): ValueKind.TASK_OFFSET,
    ("request", None, "task_end_offsets.offset"): ValueKind.TASK_OFFSET,
    # indexes into the lists beside them
    ("request", None, "topology.subtopologies.copartition_groups.source_topic_regex"): None,
    ("response", CONSUMER_GROUP_HEARTBEAT, "assignment"): ValueKind.GIVEN,
    ("response", SHARE_GROUP_HEARTBEAT, "assignment"): ValueKind.GIVEN,
    **{("response", STREAMS_GROUP_HEARTBEAT, tasks): ValueKind.GIVEN for tasks in TASKS},
    # repeats what members were told, and is asked of the member that comes first
    ("response", STREAMS_GROUP_HEARTBEAT, "partitions_by_user_endpoint"): ValueKind.OWN,
    ("response", STREAMS_GROUP_HEARTBEAT, "topology_description_required"): ValueKind.OWN,
    ("response", None, "groups.members.assignment"): ValueKind.GIVEN,
    ("response", None, "groups.members.target_assignment"): ValueKind.GIVEN,
    ("response", None, "groups.members.member_epoch"): ValueKind.OWN,
    ("response", STREAMS_GROUP_DESCRIBE, "groups.topology.epoch"): ValueKind.OWN,
    # a client's own address, from its heartbeats
    ("response", STREAMS_GROUP_DESCRIBE, "groups.members.user_endpoint.host"): None,
    ("response", STREAMS_GROUP_DESCRIBE, "groups.members.user_endpoint.port"): None,
    # a topic's settings fall back to a broker's
    ("response", DESCRIBE_CONFIGS, "results.configs.synonyms"): ValueKind.OWN,
}
# a node's listing depends on the number of nodes; other answers describe nodes and their disks
_STRUCTURE_ONLY = those(Trait.TELLS_NODES)


# fields that name an element together
Fields = tuple[str, ...]
Ways = tuple[Fields, ...]

RESOURCE: Ways = (("resource_type", "resource_name"), ("resource_name",))
MEMBER: Ways = (("member_id",),)
NAME: Ways = (("name",),)
KEY: Ways = (("key",),)
NODE: Ways = (("node_id",), ("broker_id",), ("replica_id",))
TASK: Ways = (("subtopology_id", "partition"), ("subtopology_id",))
ACL = ("principal", "host", "operation", "permission_type")
ACL_OF_RESOURCE: Ways = (
    ("resource_type", "resource_name", "pattern_type", *ACL),
    ("resource_type", "resource_name", *ACL),
)
# elements without names: answers come in the order of the request
BY_PLACE: Ways = ()

ARRAYS: tuple[tuple[Ways, str], ...] = (
    # named by   arrays
    (MEMBER, "members"),
    (RESOURCE, "resources config_resources"),
    (NAME, "configs protocols listeners nodes supported_features finalized_features users"),
    (KEY, "coordinators values ops topic_configs client_tags"),
    (NODE, "brokers node_endpoints current_voters observers"),
    (TASK, "subtopologies active_tasks standby_tasks warmup_tasks task_offsets task_end_offsets"),
    ((ACL,), "acls"),
    (ACL_OF_RESOURCE, "matching_acls"),
    ((("api_key",),), "api_keys"),
    ((("name", "source"),), "synonyms"),
    ((("entity_type",),), "entity components"),
    ((("entity",),), "entries"),
    ((("mechanism",),), "credential_infos"),
    ((("batch_index",),), "record_errors"),
    ((("producer_id",),), "active_producers"),
    ((("producer_id", "first_offset"),), "aborted_transactions"),
    ((("status_code",),), "status"),
    ((("user_endpoint",),), "partitions_by_user_endpoint"),
    ((("source",),), "global_stores"),
    ((("first_offset",),), "acknowledgement_batches acquired_records"),
    (BY_PLACE, "filter_results filters creations copartition_groups"),
)
OF_ARRAY: dict[str, Ways] = {array: ways for ways, arrays in ARRAYS for array in arrays.split()}

# (api key, array) -> the row of an array that differs in this API
OF_API: dict[tuple[int, str], Ways] = {
    (LEAVE_GROUP, "members"): (("member_id", "group_instance_id"),),
    (SYNC_GROUP, "assignments"): MEMBER,
    (DESCRIBE_ACLS, "resources"): (
        ("resource_type", "resource_name", "pattern_type"),
        ("resource_type", "resource_name"),
    ),
    (CREATE_ACLS, "results"): BY_PLACE,
    (DESCRIBE_CONFIGS, "results"): RESOURCE,
    (ALTER_CONFIGS, "responses"): RESOURCE,
    (DESCRIBE_LOG_DIRS, "results"): (("log_dir",),),
    (CREATE_PARTITIONS, "assignments"): BY_PLACE,
    (INCREMENTAL_ALTER_CONFIGS, "responses"): RESOURCE,
    (DESCRIBE_USER_SCRAM_CREDENTIALS, "results"): (("user",),),
    (DESCRIBE_QUORUM, "nodes"): NODE,
}


@lru_cache(CACHE_SIZE)
def of(kind: MessageKind, api_key: int, version: int) -> Mapping[str, ValueKind]:
    """The kinds of the fields in one version, by path (names joined by dots); a field of no kind is missing.

    Requests that are never sent, or that each connection makes anew, have none.
    """
    found = catalog.message(kind, api_key)
    is_unsent = kind == "request" and treatment(api_key) in (Treatment.NEVER, Treatment.OWN)
    if is_unsent or not found or version not in found.versions:
        return MappingProxyType({})
    return MappingProxyType(dict(_kinds(kind, api_key, found.fields, version, "")))


def _kinds(
    kind: MessageKind, api_key: int, fields: Sequence[Declared], version: int, above: str
) -> Iterator[tuple[str, ValueKind]]:
    for field in fields:
        if version in field.versions:
            path = above + field.name
            what = _kind(kind, api_key, path, field)
            if what is not None:
                yield path, what
            yield from _kinds(kind, api_key, field.fields, version, path + ".")


def _kind(kind: MessageKind, api_key: int, path: str, field: Declared) -> ValueKind | None:
    for key in (api_key, None):
        if (kind, key, path) in BY_PATH:
            return BY_PATH[kind, key, path]
    if field.name in OF_NAME[kind]:
        return OF_NAME[kind][field.name]
    return None if field.fields else next((what for mark, what in OF_MARK.items() if mark in field.marks), None)


def rule(api_key: int, what: ValueKind | None) -> ComparisonRule:
    """How a field of this kind is compared in this API's answers, regardless of the fields around it."""
    if what is not None:
        return ROW_OF[what].compared
    return ComparisonRule.STRUCTURE if api_key in _STRUCTURE_ONLY else ComparisonRule.EQUAL


def level(api_key: int, path: str) -> Level:
    """What the elements of the array at a path ("topics.partitions") stand for; OTHER if they have a row here."""
    return Level.OTHER if _row(api_key, path) is not None else _marked(api_key, path)[0]


def ways(api_key: int, path: str) -> Ways:
    """The ways to name the elements of the array at a path; none if it has neither a row nor marks."""
    row = _row(api_key, path)
    return _marked(api_key, path)[1] if row is None else row


def _row(api_key: int, path: str) -> Ways | None:
    array = path.rpartition(".")[2]
    return OF_API.get((api_key, array), OF_ARRAY.get(array))


@cache
def _marked(api_key: int, path: str) -> tuple[Level, Ways]:
    found = at("response", api_key, path) or at("request", api_key, path)
    if found is None or found.level not in KEYED:
        return Level.OTHER, BY_PLACE
    return found.level, tuple((name,) for name in found.names)

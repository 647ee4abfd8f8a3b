"""How a replay treats each API: whether it is sent, to which node, and its order. Rules are tables by API.

`refusal` tells from a request's head and the options whether it may be sent; `refusal_of_values` tells it from the
decoded request. Both are asked before anything is translated, so names and ids are the recorded ones.

Every API of the catalog has a treatment. Unknown APIs, such as vendors' own, are never sent: nobody knows what they
would do to the target.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache

from proxy.wire.apis import known, message
from proxy.wire.catalog import CACHE_SIZE
from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    ADD_RAFT_VOTER,
    ALLOCATE_PRODUCER_IDS,
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_PARTITION,
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    ALTER_SHARE_GROUP_OFFSETS,
    ALTER_USER_SCRAM_CREDENTIALS,
    API_VERSIONS,
    ASSIGN_REPLICAS_TO_DIRS,
    BEGIN_QUORUM_EPOCH,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    CONTROLLED_SHUTDOWN,
    CONTROLLER_REGISTRATION,
    CREATE_ACLS,
    CREATE_DELEGATION_TOKEN,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_STATE,
    DELETE_TOPICS,
    DESCRIBE_ACLS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_QUORUM,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_TRANSACTIONS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ELECT_LEADERS,
    END_QUORUM_EPOCH,
    END_TXN,
    ENVELOPE,
    EXPIRE_DELEGATION_TOKEN,
    FETCH,
    FETCH_SNAPSHOT,
    FIND_COORDINATOR,
    GET_TELEMETRY_SUBSCRIPTIONS,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    INITIALIZE_SHARE_GROUP_STATE,
    JOIN_GROUP,
    LEADER_AND_ISR,
    LEAVE_GROUP,
    LIST_CONFIG_RESOURCES,
    LIST_GROUPS,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    PUSH_TELEMETRY,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    REMOVE_RAFT_VOTER,
    RENEW_DELEGATION_TOKEN,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
    STOP_REPLICA,
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    UNREGISTER_BROKER,
    UNREGISTER_CONTROLLER,
    UPDATE_FEATURES,
    UPDATE_METADATA,
    UPDATE_RAFT_VOTER,
    VOTE,
    WRITE_SHARE_GROUP_STATE,
    WRITE_TXN_MARKERS,
)
from recorder.replay.cluster import SHARE
from recorder.replay.options import Deletes, Options
from recorder.replay.plan import Exchange, Reason, Values


class Treatment(Enum):
    """What a replay does with requests of an API."""

    NEVER = auto()  # brokers' own, irreversible, or with secrets that the capture lacks
    ADMIN = auto()  # sent with --admin
    DELETES = auto()  # sent with --deletes
    TELEMETRY = auto()  # sent with --telemetry
    REGENERATED = auto()  # each connection of the replay makes its own: logins and versions
    SENT = auto()


class Destination(Enum):
    """Which node of the target takes a request."""

    LEADER = auto()  # of each partition
    GROUP = auto()  # the coordinator of each group
    TRANSACTION = auto()  # the coordinator of each transactional id
    CONTROLLER = auto()
    UNITED = auto()  # all nodes that stand for the recorded one; their answers are joined
    MAPPED = auto()  # one node that stands for the recorded one


_TREATMENTS = {
    Treatment.NEVER: (
        *(LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN, WRITE_TXN_MARKERS),
        *(ALTER_REPLICA_LOG_DIRS, CREATE_DELEGATION_TOKEN, RENEW_DELEGATION_TOKEN, EXPIRE_DELEGATION_TOKEN),
        *(DESCRIBE_DELEGATION_TOKEN, ALTER_USER_SCRAM_CREDENTIALS, VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH),
        *(ALTER_PARTITION, UPDATE_FEATURES, ENVELOPE, FETCH_SNAPSHOT, BROKER_REGISTRATION, BROKER_HEARTBEAT),
        *(UNREGISTER_BROKER, ALLOCATE_PRODUCER_IDS, CONTROLLER_REGISTRATION, ASSIGN_REPLICAS_TO_DIRS),
        *(ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_RAFT_VOTER, INITIALIZE_SHARE_GROUP_STATE),
        *(READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE, DELETE_SHARE_GROUP_STATE),
        *(READ_SHARE_GROUP_STATE_SUMMARY, UNREGISTER_CONTROLLER),
    ),
    Treatment.ADMIN: (
        *(CREATE_TOPICS, CREATE_ACLS, ALTER_CONFIGS, CREATE_PARTITIONS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS),
        *(ALTER_PARTITION_REASSIGNMENTS, ALTER_CLIENT_QUOTAS, ALTER_SHARE_GROUP_OFFSETS),
    ),
    Treatment.DELETES: (
        *(DELETE_TOPICS, DELETE_RECORDS, DELETE_ACLS, DELETE_GROUPS, OFFSET_DELETE, DELETE_SHARE_GROUP_OFFSETS),
    ),
    Treatment.TELEMETRY: (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY),
    Treatment.REGENERATED: (SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE),
    Treatment.SENT: (
        *(PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP),
        *(HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, INIT_PRODUCER_ID),
        *(OFFSET_FOR_LEADER_EPOCH, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT),
        *(DESCRIBE_ACLS, DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS, LIST_PARTITION_REASSIGNMENTS),
        *(DESCRIBE_CLIENT_QUOTAS, DESCRIBE_USER_SCRAM_CREDENTIALS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER),
        *(DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS, CONSUMER_GROUP_HEARTBEAT),
        *(CONSUMER_GROUP_DESCRIBE, LIST_CONFIG_RESOURCES, DESCRIBE_TOPIC_PARTITIONS, SHARE_GROUP_HEARTBEAT),
        *(SHARE_GROUP_DESCRIBE, SHARE_FETCH, SHARE_ACKNOWLEDGE, STREAMS_GROUP_HEARTBEAT, STREAMS_GROUP_DESCRIBE),
        *(DESCRIBE_SHARE_GROUP_OFFSETS, STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE),
    ),
}
TREATMENTS = {api_key: treatment for treatment, api_keys in _TREATMENTS.items() for api_key in api_keys}

_DESTINATIONS = {
    Destination.LEADER: (
        *(PRODUCE, FETCH, LIST_OFFSETS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_PRODUCERS),
        *(SHARE_FETCH, SHARE_ACKNOWLEDGE),
    ),
    Destination.GROUP: (
        *(OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS),
        *(TXN_OFFSET_COMMIT, DELETE_GROUPS, OFFSET_DELETE, CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE),
        *(SHARE_GROUP_HEARTBEAT, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_HEARTBEAT, STREAMS_GROUP_DESCRIBE),
        *(DESCRIBE_SHARE_GROUP_OFFSETS, ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS),
        *(STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,),
    ),
    # an InitProducerId without a transactional id goes to the mapped node
    Destination.TRANSACTION: (
        *(INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, DESCRIBE_TRANSACTIONS),
    ),
    Destination.CONTROLLER: (
        *(CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS),
        *(LIST_PARTITION_REASSIGNMENTS,),
    ),
    # DescribeConfigs and both APIs that alter settings go to several nodes too, with the settings of brokers
    Destination.UNITED: (LIST_GROUPS, DESCRIBE_LOG_DIRS, LIST_TRANSACTIONS),
}
DESTINATIONS = {api_key: to for to, api_keys in _DESTINATIONS.items() for api_key in api_keys}
# APIs whose resources may be brokers
CONFIG_APIS = frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS})

# The APIs of --read-only: consumers' reads, and APIs that list or describe.
READ_ONLY = frozenset(
    {
        *(FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH, FIND_COORDINATOR, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_GROUPS),
        *(LIST_GROUPS, DESCRIBE_ACLS, DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS, LIST_PARTITION_REASSIGNMENTS),
        *(DESCRIBE_CLIENT_QUOTAS, DESCRIBE_USER_SCRAM_CREDENTIALS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER),
        *(DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS, CONSUMER_GROUP_DESCRIBE),
        *(LIST_CONFIG_RESOURCES, DESCRIBE_TOPIC_PARTITIONS, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE),
        *(DESCRIBE_SHARE_GROUP_OFFSETS,),
    }
)
PRODUCE_ONLY = frozenset({PRODUCE, METADATA, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN})

# Requests of one group wait for each other's answers.
GROUP_APIS = frozenset(
    {
        *(OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, TXN_OFFSET_COMMIT),
        *(DELETE_GROUPS, OFFSET_DELETE, CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT),
    }
)
# APIs by which members join and leave. They leave in recorded order. A classic Heartbeat changes no membership.
MEMBERSHIP = frozenset(
    {
        *(JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP),
        *(CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT),
    }
)
# APIs by which members join: their answers tell who is in the group
JOINING = frozenset({JOIN_GROUP, CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT})
# the topics of requests that write records or markers; brokers alone write those of Kafka's own
_WRITTEN = {PRODUCE: "topic_data", ADD_PARTITIONS_TO_TXN: "v3_and_below_topics"}
_NO_REPLICA: Values = {}
# APIs with which a member joins, or a transaction begins or ends: a replay that ends awaits their answers.
OPENING = frozenset(
    {
        *JOINING,
        *(INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, END_TXN, PRODUCE),
    }
)
# APIs whose recorded requests and answers tell a generation's members and assignments. The groups room uses these once
# the request is due, even while it still waits.
NOTED_WHEN_DUE = frozenset({JOIN_GROUP, SYNC_GROUP})
# APIs whose requests say how long a broker may wait for records. (Joins and syncs wait too, for other members.)
LONG_POLLS = frozenset({FETCH, SHARE_FETCH})

# APIs whose answers may tell the cluster's id
TELLS_CLUSTER = frozenset({METADATA, DESCRIBE_CLUSTER})
# APIs whose answers wait on purpose, for records or members: their latency says nothing of the target's speed.
WAITING = LONG_POLLS | {JOIN_GROUP, SYNC_GROUP}


def treatment(api_key: int) -> Treatment:
    """What a replay does with requests of this API."""
    return TREATMENTS.get(api_key, Treatment.NEVER)


def writes(api_key: int) -> bool:
    """True for APIs that change something on the cluster. A ShareFetch reads, though it acquires what it reads."""
    return api_key not in READ_ONLY | LONG_POLLS


def destination(api_key: int) -> Destination:
    """The node of the target that takes requests of this API."""
    return DESTINATIONS.get(api_key, Destination.MAPPED)


def refusal(exchange: Exchange, options: Options) -> Reason | None:
    """Why a request may not be sent, by its head; None if nothing there forbids it."""
    return forbidden(options, exchange.api_key, exchange.version)


def forbidden(options: Options, api_key: int, version: int) -> Reason | None:
    """Why requests of this API and version may not be sent; None if nothing forbids it.

    A regenerated request is not refused: ask `treatment` first.
    """
    how = treatment(api_key)
    if how is Treatment.NEVER or _is_brokers_own(api_key, version):
        return Reason.NEVER
    if not known(api_key, version):
        return Reason.OPAQUE
    if how is Treatment.REGENERATED:
        return None
    return _not_chosen(api_key, options) or _not_allowed(how, options)


def _is_brokers_own(api_key: int, version: int) -> bool:
    """From version 4 on, brokers send AddPartitionsToTxn to transaction coordinators (KIP-890); clients don't."""
    return api_key == ADD_PARTITIONS_TO_TXN and version >= 4


def _not_chosen(api_key: int, options: Options) -> Reason | None:
    if not options.chooses(api_key):
        return Reason.NOT_CHOSEN
    if options.read_only and api_key not in READ_ONLY:
        return Reason.READ_ONLY
    return Reason.PRODUCE_ONLY if options.produce_only and api_key not in PRODUCE_ONLY else None


def _not_allowed(how: Treatment, options: Options) -> Reason | None:
    if how is Treatment.ADMIN and not options.admin:
        return Reason.NEEDS_ADMIN
    if how is Treatment.DELETES and options.deletes is Deletes.NOTHING:
        return Reason.NEEDS_DELETES
    return Reason.NEEDS_TELEMETRY if how is Treatment.TELEMETRY and not options.telemetry else None


@lru_cache(CACHE_SIZE)
def may_be_refused(api_key: int) -> bool:
    """False for APIs whose requests are never refused for their values or deletions."""
    request = message("request", api_key)
    named = {field.name for field in request.fields} if request else set()
    looked_at = api_key in {FIND_COORDINATOR, *_WRITTEN} or treatment(api_key) is Treatment.DELETES
    return looked_at or bool(named & {"replica_id", "replica_state"})


def refusal_of_values(exchange: Exchange, values: Values, is_kafkas: Callable[[str | bytes], bool]) -> Reason | None:
    """Why a request may not be sent, by its values; None if nothing there forbids it. `deletes` judges deletions.

    Args:
        values: the decoded request, in recorded terms.
        is_kafkas: true for a topic of Kafka's own, by its name or recorded id (`Names.is_kafkas`).
    """
    if exchange.api_key == FIND_COORDINATOR and values.get("key_type") == SHARE:
        return Reason.NEVER
    # a consumer's replica id is below 0
    if values.get("replica_id", -1) >= 0 or (values.get("replica_state") or _NO_REPLICA).get("replica_id", -1) >= 0:
        return Reason.NEVER
    for entry in values.get(_WRITTEN.get(exchange.api_key, ""), ()):
        if is_kafkas(entry["name"] if "name" in entry else entry["topic_id"]):
            return Reason.NEVER
    return None

"""How a replay compares each field of an answer: the table "Comparison" of docs/replay.md as data.

Two clusters that do the same never give quite the same answers. A field is

    left out      the target's own: times, addresses, sizes, epochs, log bounds
    mapped        assigned by the cluster: equal if it is the target's value for the recorded one
    structure     compared in being there, and in errors within it; values and numbers of elements don't matter
    union         an assignment: any member may have any part; all members together must have the same
    elected       told to a group's leader only: compared if both sides elected the same one
    equal         everything else

The first rule that applies decides: the field's own row (`ROWS`, by API and path, also for all fields below), a row of
its name (`NAMES`) or of one of its marks (`MARKS`), its API's (`STRUCTURE_ONLY`); else the field must be equal. Error
codes are fields as well; where they differ, nothing else of their struct is compared. Fetched records are compared as
streams (`records`), not answer by answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from proxy.wire import apis
from proxy.wire.language import Field
from recorder.replay.requests.apis import Trait, those

# responses in one version that are remembered: more than there are
MOST_RESPONSES = 1024


class ComparisonRule(StrEnum):
    """How a field is compared."""

    LEFT_OUT = "left out"
    MAPPED = "mapped"
    STRUCTURE = "structure only"
    UNION = "the group's union"
    ELECTED = "of the elected member"
    EQUAL = "equal"


# a node's listing depends on the number of nodes; other answers describe nodes and their disks
STRUCTURE_ONLY = those(Trait.TELLS_NODES)

NAMES: Mapping[ComparisonRule, tuple[str, ...]] = {
    ComparisonRule.LEFT_OUT: (
        # throttling
        "throttle_time_ms",
        # messages for people
        *("error_message", "batch_index_error_message", "acknowledge_error_message", "status_detail", "documentation"),
        # addresses: of brokers by their mark; of clients as the broker saw them
        *("client_host", "node_endpoints"),
        # racks
        *("rack", "rack_id"),
        # times
        *("log_append_time_ms", "timestamp", "last_timestamp", "last_fetch_timestamp", "last_caught_up_timestamp"),
        "transaction_start_time_ms",
        # intervals
        *("heartbeat_interval_ms", "push_interval_ms", "acquisition_lock_timeout_ms", "task_offset_interval_ms"),
        "session_lifetime_ms",
        # session and cluster ids; node ids by their mark
        *("session_id", "cluster_id"),
        # epochs, except producers'
        *("leader_epoch", "committed_leader_epoch", "coordinator_epoch", "group_epoch", "assignment_epoch"),
        *("topology_epoch", "endpoint_information_epoch", "finalized_features_epoch", "current_leader"),
        *("diverging_epoch", "snapshot_id"),
        # watermarks, last stable offsets, log starts and ends
        *("high_watermark", "low_watermark", "last_stable_offset", "log_start_offset", "log_end_offset"),
        # lags
        *("lag", "offset_lag", "acceptable_recovery_lag", "acceptable_recovery_lag_legacy"),
        # sizes
        *("partition_size", "total_bytes", "usable_bytes", "telemetry_max_bytes"),
        # directories
        *("log_dir", "replica_directory_id"),
        # limited to the target's number of nodes
        "replication_factor",
        # counted by the replay itself
        "last_sequence",
        # depends on how the log is cut into answers
        *("records", "aborted_transactions", "acquired_records"),
    ),
    ComparisonRule.MAPPED: (
        *("member_id", "group_instance_id", "instance_id", "generation_id", "resource_name"),
        "subscribed_topic_regex",
        *("producer_epoch", "ongoing_txn_producer_epoch", "base_offset", "offset", "old_style_offsets"),
        *("committed_offset", "start_offset", "current_txn_start_offset", "client_instance_id", "subscription_id"),
    ),
}
MARKS: Mapping[ComparisonRule, tuple[str, ...]] = {
    ComparisonRule.LEFT_OUT: ("node_id", "address"),
    ComparisonRule.MAPPED: ("topic_name", "topic_id", "group_id", "producer_id", "transactional_id"),
}

# (api key, path) -> how; for all fields below the path as well
ROWS: Mapping[tuple[int, str], ComparisonRule] = {
    # a group's or transactional id
    (10, "coordinators.key"): ComparisonRule.MAPPED,
    # the member that the target elects
    (11, "leader"): ComparisonRule.LEFT_OUT,
    (11, "members"): ComparisonRule.ELECTED,
    (11, "skip_assignment"): ComparisonRule.ELECTED,
    # the replay asks for the present epoch, so this is the log's end
    (23, "topics.partitions.end_offset"): ComparisonRule.LEFT_OUT,
    # a topic's settings fall back to a broker's
    (32, "results.configs.synonyms"): ComparisonRule.LEFT_OUT,
    # members' assignments
    (68, "assignment"): ComparisonRule.UNION,
    (68, "member_epoch"): ComparisonRule.MAPPED,
    (76, "assignment"): ComparisonRule.UNION,
    (76, "member_epoch"): ComparisonRule.MAPPED,
    (88, "member_epoch"): ComparisonRule.MAPPED,
    (88, "active_tasks"): ComparisonRule.UNION,
    (88, "standby_tasks"): ComparisonRule.UNION,
    (88, "warmup_tasks"): ComparisonRule.UNION,
    # repeats what members were told
    (88, "partitions_by_user_endpoint"): ComparisonRule.LEFT_OUT,
    # asked of the member that comes first
    (88, "topology_description_required"): ComparisonRule.LEFT_OUT,
    # descriptions of members
    (69, "groups.members.assignment"): ComparisonRule.UNION,
    (69, "groups.members.member_epoch"): ComparisonRule.LEFT_OUT,
    (69, "groups.members.target_assignment"): ComparisonRule.UNION,
    (77, "groups.members.assignment"): ComparisonRule.UNION,
    (77, "groups.members.member_epoch"): ComparisonRule.LEFT_OUT,
    (89, "groups.members.assignment"): ComparisonRule.UNION,
    (89, "groups.members.member_epoch"): ComparisonRule.LEFT_OUT,
    (89, "groups.members.target_assignment"): ComparisonRule.UNION,
    (89, "groups.topology.epoch"): ComparisonRule.LEFT_OUT,
    # repeats what the member said
    (89, "groups.members.task_offsets.offset"): ComparisonRule.EQUAL,
    (89, "groups.members.task_end_offsets.offset"): ComparisonRule.EQUAL,
    # a client's own address, from its heartbeats
    (89, "groups.members.user_endpoint"): ComparisonRule.EQUAL,
    # the page where the answer stopped
    (75, "next_cursor"): ComparisonRule.LEFT_OUT,
}


@lru_cache(MOST_RESPONSES)
def rules(api_key: int, version: int) -> Mapping[str, ComparisonRule]:
    """How each field of a response is compared, by path; empty for an API that the catalog lacks."""
    response = apis.message("response", api_key)
    return MappingProxyType(dict(_rules(api_key, version, response.fields, "", None))) if response else {}


def _rules(
    api_key: int, version: int, fields: tuple[Field, ...], above: str, inherited: ComparisonRule | None
) -> Iterator[tuple[str, ComparisonRule]]:
    for field in fields:
        if version in field.versions:
            path = above + field.name
            how = inherited or rule(api_key, path, field)
            yield path, how
            # a struct is compared field by field unless its rule is for all of it
            passed_on = how if inherited or _holds_below(api_key, path, how) else None
            yield from _rules(api_key, version, field.fields, path + ".", passed_on)


def _holds_below(api_key: int, path: str, how: ComparisonRule) -> bool:
    return (
        how is ComparisonRule.LEFT_OUT
        or how is ComparisonRule.UNION
        or ((api_key, path) in ROWS and how is ComparisonRule.EQUAL)
    )


def rule(api_key: int, path: str, field: Field) -> ComparisonRule:
    """The rule of one field, regardless of the fields around it."""
    of_path = ROWS.get((api_key, path))
    if of_path is not None:
        return of_path
    for how in named(field):
        return how
    return ComparisonRule.STRUCTURE if api_key in STRUCTURE_ONLY else ComparisonRule.EQUAL


def named(field: Field) -> set[ComparisonRule]:
    """The rules for a field's name and marks: one, or none."""
    of_name = {how for how, names in NAMES.items() if field.name in names}
    return of_name | {how for how, marks in MARKS.items() if field.marks & set(marks)}

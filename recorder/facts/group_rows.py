"""Declares the rows about groups. Requests and answers, members' steps and offsets share one shape.

Most answers don't name their group. So a request and its answer are separate rows, which `tables.group_events` joins by
exchange and `part`. An exchange may be about several groups, members or partitions; `part` says which one a row is
about.
"""

from __future__ import annotations

from typing import NamedTuple

from recorder.facts.schema import Column

# what a member does
JOIN, SYNC, LEAVE, HEARTBEAT = "join", "sync", "leave", "heartbeat"
# what happens to a group's offsets
COMMIT, FETCH_OFFSETS, DELETE = "commit", "fetch_offsets", "delete"
# the end of a producer's transaction, which decides on its commits: no step of a group
END_TXN = "end_txn"
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class GroupRow(NamedTuple):
    """What one side of an exchange says of a group, a member or a partition: values of COLUMNS."""

    part: str = ""
    step: str | None = None
    protocol: str | None = None
    group_id: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    generation: int | None = None
    assignor: str | None = None
    is_leader: bool | None = None
    members: list[str] | None = None
    subscription: list[str] | None = None
    owned: list[str] | None = None
    assignment: list[str] | None = None
    given: list[str] | None = None
    reason: str | None = None
    error_code: int | None = None
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    committed_offset: int | None = None
    transactional_id: str | None = None
    # heartbeat requests: whether they say more than "I am alive"; EndTxn: whether it commits
    is_news: bool | None = None
    # of requests to join a classic group: what the group is for, and the assignors that the member knows
    protocol_type: str | None = None
    protocols: list[str] | None = None


COLUMNS = (
    Column("part", "string", "which of the exchange's groups, members or partitions"),
    Column("step", "string", "what is done"),
    Column("protocol", "string", f"`{CLASSIC}`, `{CONSUMER}`, `{SHARE}`, `{STREAMS}`; null for offsets"),
    Column("group_id", "string", "the group"),
    Column("member_id", "string", "the member"),
    Column("instance_id", "string", "a static member's name"),
    Column("generation", "int", "the generation, or the member's epoch"),
    Column("assignor", "string", "the assignor"),
    Column("is_leader", "boolean", "whether the member leads its generation"),
    Column("members", "array<string>", "all members of the generation"),
    Column("subscription", "array<string>", "the topics that the member wants"),
    Column("owned", "array<string>", "the partitions that the member says to have"),
    Column("assignment", "array<string>", "the partitions that the member gets"),
    Column("given", "array<string>", "the partitions that the leader gives to all members"),
    Column("reason", "string", "why, as the member says"),
    Column("error_code", "smallint", "of the answer"),
    Column("topic", "string", "the topic"),
    Column("topic_id", "string", "its id"),
    Column("partition", "int", "the partition"),
    Column("committed_offset", "bigint", "the group's offset"),
    Column("transactional_id", "string", "the transaction"),
    Column("is_news", "boolean", "of requests: whether it says more than that the member is alive, or commits"),
)
# what only facts have: a request to join has them in a table of its own otherwise
JOINING = (
    Column("protocol_type", "string", "of requests to join a classic group: `consumer`, `connect`, ..."),
    Column("protocols", "array<string>", "of requests to join a classic group: the member's assignors"),
)


def text(value: str | None) -> str | None:
    """Null for an empty text."""
    return value or None

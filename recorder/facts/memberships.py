"""Reads the requests and answers of group members, in all protocols: classic, consumer (KIP-848), share, streams.

Partitions are written as Kafka prints them (`orders-3`), with the topic's id if the version has no name. Tasks of
streams are written `0_3`. A heartbeat's answer makes no row if it only says "go on".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from proxy.wire import embedded, keys
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Values, none_if_negative, opened
from recorder.facts.group_rows import (
    CLASSIC,
    COLUMNS,
    CONSUMER,
    HEARTBEAT,
    JOIN,
    LEAVE,
    SHARE,
    STREAMS,
    SYNC,
    GroupRow,
    text,
)
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.topics import id_text

Rows = Iterator[GroupRow]
_PROTOCOLS = {
    keys.CONSUMER_GROUP_HEARTBEAT: CONSUMER,
    keys.SHARE_GROUP_HEARTBEAT: SHARE,
    keys.STREAMS_GROUP_HEARTBEAT: STREAMS,
}
HEARTBEATS = (keys.HEARTBEAT, *_PROTOCOLS)
CLASSIC_STEPS = (keys.JOIN_GROUP, keys.SYNC_GROUP, keys.LEAVE_GROUP)
# groups of other types (Connect, schema registries) exchange data in other formats
_CONSUMERS = (None, "consumer")


def _asks_to_join(values: Values) -> Rows:
    subscriptions = [_blob("ConsumerProtocolSubscription", one["metadata"], values) for one in values["protocols"]]
    first = next((one for one in subscriptions if one is not None), {})
    yield GroupRow(
        step=JOIN,
        protocol=CLASSIC,
        group_id=values["group_id"],
        member_id=text(values["member_id"]),
        instance_id=values.get("group_instance_id"),
        subscription=sorted(first["topics"]) if first else None,
        owned=_partitions(first["owned_partitions"]) if "owned_partitions" in first else None,
        reason=text(values.get("reason")),
        protocol_type=values["protocol_type"],
        protocols=[one["name"] for one in values["protocols"]],
    )


def _told_to_join(values: Values) -> Rows:
    member = text(values["member_id"])
    members = sorted(one.get("group_instance_id") or one["member_id"] for one in values["members"])
    yield GroupRow(
        member_id=member,
        generation=none_if_negative(values["generation_id"]),
        assignor=text(values.get("protocol_name")),
        is_leader=None if values["error_code"] else values["leader"] == member,
        members=members or None,
        error_code=values["error_code"],
    )


def _asks_to_sync(values: Values) -> Rows:
    blobs = [_blob("ConsumerProtocolAssignment", one["assignment"], values) for one in values["assignments"]]
    given = [name for blob in blobs if blob for name in _partitions(blob["assigned_partitions"])]
    yield GroupRow(
        step=SYNC,
        protocol=CLASSIC,
        group_id=values["group_id"],
        member_id=text(values["member_id"]),
        instance_id=values.get("group_instance_id"),
        generation=none_if_negative(values["generation_id"]),
        assignor=text(values.get("protocol_name")),
        given=sorted(given) if any(blobs) else None,
    )


def _told_to_sync(values: Values) -> Rows:
    blob = _blob("ConsumerProtocolAssignment", values["assignment"], values)
    assignment = None if values["error_code"] or blob is None else _partitions(blob["assigned_partitions"])
    yield GroupRow(assignment=assignment, error_code=values["error_code"])


def _asks_to_leave(values: Values) -> Rows:
    for one in values.get("members") or [values]:
        yield GroupRow(
            part=_member_part(one),
            step=LEAVE,
            protocol=CLASSIC,
            group_id=values["group_id"],
            member_id=text(one.get("member_id")),
            instance_id=one.get("group_instance_id"),
            reason=text(one.get("reason")),
        )


def _told_to_leave(values: Values) -> Rows:
    yield GroupRow(error_code=values["error_code"])
    for one in values.get("members") or ():
        yield GroupRow(part=_member_part(one), error_code=values["error_code"] or one["error_code"])


def _member_part(one: Mapping[str, Any]) -> str:
    """The `part` of a member in a LeaveGroup with several members; empty in old versions, which name one."""
    return f"{one['member_id']}/{one['group_instance_id'] or ''}" if "group_instance_id" in one else ""


def _is_alive(values: Values) -> Rows:
    yield GroupRow(
        step=HEARTBEAT,
        protocol=CLASSIC,
        group_id=values["group_id"],
        member_id=text(values["member_id"]),
        instance_id=values.get("group_instance_id"),
        generation=none_if_negative(values["generation_id"]),
        is_news=False,
    )


def _told_alive(values: Values) -> Rows:
    if values["error_code"]:
        yield GroupRow(error_code=values["error_code"])


def _beats(protocol: str) -> Callable[[Values], Rows]:
    """Makes the reader of a newer protocol's heartbeat requests, by which members also join and leave."""

    def read(values: Values) -> Rows:
        epoch, owned, wanted = values["member_epoch"], _owned(values), _wanted(values)
        yield GroupRow(
            step=JOIN if epoch == 0 else LEAVE if epoch < 0 else HEARTBEAT,
            protocol=protocol,
            group_id=values["group_id"],
            member_id=text(values["member_id"]),
            instance_id=values.get("instance_id"),
            generation=none_if_negative(epoch) or None,
            subscription=wanted,
            owned=owned,
            is_news=epoch <= 0 or owned is not None or wanted is not None,
        )

    return read


def _owned(values: Values) -> list[str] | None:
    """The partitions, or the active tasks, that a member says it owns; null if it says nothing."""
    partitions, tasks = values.get("topic_partitions"), values.get("active_tasks")
    return None if partitions is None and tasks is None else [*_partitions(partitions or ()), *_tasks(tasks or ())]


def _wanted(values: Values) -> list[str] | None:
    """The topics, or the regular expression, that a member subscribes to; null if it says nothing new."""
    names, regex, topology = (
        values.get(name) for name in ("subscribed_topic_names", "subscribed_topic_regex", "topology")
    )
    if topology is not None:
        return sorted({name for one in topology["subtopologies"] for name in one["source_topics"]})
    if names is None and not regex:
        return None
    return sorted(names or ()) + ([f"/{regex}/"] if regex else [])


def _told_of_beat(values: Values) -> Rows:
    assigned, tasks, epoch = values.get("assignment"), values.get("active_tasks"), values["member_epoch"]
    is_given = assigned is not None or tasks is not None
    if values["error_code"] or is_given or epoch <= 0:
        partitions = [*_partitions((assigned or {}).get("topic_partitions", ())), *_tasks(tasks or ())]
        yield GroupRow(
            member_id=text(values["member_id"]),
            generation=None if values["error_code"] else none_if_negative(epoch) or None,
            assignment=partitions if is_given else None,
            error_code=values["error_code"],
        )


def _partitions(topics: Iterable[Mapping[str, Any]]) -> list[str]:
    # what an assignor wrote has names, and is no message of an API; heartbeats have ids
    named = ((one.get("topic") or id_text(one.get("topic_id")), one["partitions"]) for one in topics)
    return sorted(f"{topic}-{partition}" for topic, partitions in named for partition in partitions)


def _tasks(tasks: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(f"{one['subtopology_id']}_{partition}" for one in tasks for partition in one["partitions"])


def _blob(name: str, data: bytes, values: Values) -> Mapping[str, Any] | None:
    """What a consumer's assignor wrote, decoded; null for groups of other types, and for unreadable bytes."""
    if values.get("protocol_type") not in _CONSUMERS or not data:
        return None
    try:
        found = embedded.decode_blob(name, data)
    except WireError:
        return None
    return found.values if isinstance(found, embedded.Embedded) and not found.rest else None


_READERS: Mapping[tuple[str, int], Callable[[Values], Rows]] = {
    (REQUEST, keys.JOIN_GROUP): _asks_to_join,
    (RESPONSE, keys.JOIN_GROUP): _told_to_join,
    (REQUEST, keys.SYNC_GROUP): _asks_to_sync,
    (RESPONSE, keys.SYNC_GROUP): _told_to_sync,
    (REQUEST, keys.LEAVE_GROUP): _asks_to_leave,
    (RESPONSE, keys.LEAVE_GROUP): _told_to_leave,
    (REQUEST, keys.HEARTBEAT): _is_alive,
    (RESPONSE, keys.HEARTBEAT): _told_alive,
    **{(REQUEST, key): _beats(protocol) for key, protocol in _PROTOCOLS.items()},
    **{(RESPONSE, key): _told_of_beat for key in _PROTOCOLS},
}


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """What the frame says of members. Errors: Unreadable."""
    yield Group((), [*_READERS[frame.side, frame.api_key](opened(frame, budget))])


HEARTBEAT_REQUESTS = Decoder(
    "heartbeat_requests", "a member's heartbeat", (FrameSelector(REQUEST, HEARTBEATS),), (), COLUMNS, read
)
HEARTBEAT_ANSWERS = Decoder(
    "heartbeat_answers", "an answer to a heartbeat with news", (FrameSelector(RESPONSE, HEARTBEATS),), (), COLUMNS, read
)

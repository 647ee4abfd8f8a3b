"""Changes of version that mean more for a request than its fields: a table of boundaries.

A boundary is an API and the last version below it. A step checks or changes values on the way over it. It returns a
list, because a newer version may ask for many things at once that an older one asks for one by one. A step without a
right result raises `Loss`; no step changes values in place. `recode` knows what Kafka's definitions say of fields,
such as names and ids of topics, so that this needs no row.

Sources: the comments on versions in Kafka's message definitions, its `…Request.Builder` classes, KIP-98, 482, 699, 709,
734, 890, 1005, 1023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from proxy.wire.keys import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_CONFIG_RESOURCES,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from proxy.wire.places import NO_ID
from proxy.wire.records import Compression
from recorder.replay.plan import Reason, Values, Withheld
from recorder.replay.versions import batches
from recorder.replay.versions.recode import Loss, Topics

Step = Callable[[Values, Topics], list[Values]]
CLIENT_METRICS = 16


class Boundary(NamedTuple):
    """The steps of requests over a boundary; None: only fields change.

    Attributes:
        anew: the steps return values in the other version's form; else `recode` follows them.
        splits: the way down makes several requests of one.
    """

    up: Step | None = None
    down: Step | None = None
    anew: bool = False
    splits: bool = False


def _no(what: str) -> Loss:
    return Loss(Withheld(Reason.NO_CROSSING, what))


def _never(what: str) -> Step:
    """A way that no request may take."""

    def step(_values: Values, _topics: Topics) -> list[Values]:
        raise _no(what)

    return step


def _unless(refused: Callable[[Values], bool], what: str) -> Step:
    """A way that only some requests may take."""

    def step(values: Values, _topics: Topics) -> list[Values]:
        if refused(values):
            raise _no(what)
        return [values]

    return step


# Produce


def _partitions(values: Values) -> list[Values]:
    return [one for topic in values.get("topic_data", ()) for one in topic.get("partition_data", ())]


def _with_batches(values: Values, _topics: Topics) -> list[Values]:
    """From version 3 on, brokers want one batch of magic 2 for each partition."""
    topics = [
        {**topic, "partition_data": [_with_batch(one) for one in topic.get("partition_data", ())]}
        for topic in values.get("topic_data", ())
    ]
    return [{**values, "topic_data": topics}]


def _with_batch(partition: Values) -> Values:
    data = partition.get("records")
    return {**partition, "records": batches.as_batch(data)} if data else partition


def _has_magic_1(values: Values) -> bool:
    return any(1 in batches.magics_of(one.get("records") or b"") for one in _partitions(values))


def _has_zstd(values: Values) -> bool:
    return any(Compression.ZSTD in batches.codecs_of(one.get("records") or b"") for one in _partitions(values))


def _is_transactional(values: Values) -> bool:
    return values.get("transactional_id") is not None


# Fetch and ListOffsets


def _goes_on(values: Values) -> bool:
    """True for a fetch that names only changes of its session."""
    return bool(values.get("session_epoch", -1) > 0)


def _below(lowest: int) -> Step:
    """Timestamps below 0 mean special offsets, and newer versions add some."""

    def asks_below(values: Values) -> bool:
        asked = (one for topic in values.get("topics", ()) for one in topic.get("partitions", ()))
        return any(one.get("timestamp", 0) < lowest for one in asked)

    return _unless(asks_below, "topics.partitions.timestamp")


# Metadata


def _null_for_all(values: Values, _topics: Topics) -> list[Values]:
    return [{**values, "topics": values.get("topics") or None}]


def _empty_for_all(values: Values, _topics: Topics) -> list[Values]:
    if values.get("topics") == []:
        raise _no("topics")
    return [{**values, "topics": values.get("topics") or []}]


def _topics_by_name(values: Values, topics: Topics) -> list[Values]:
    """Below version 12 brokers look up topics by name only, though versions 10 and 11 have a field for the id."""
    if values.get("topics") is None:
        return [values]
    return [{**values, "topics": [{**one, "topic_id": NO_ID, "name": _name(one, topics)} for one in values["topics"]]}]


def _name(topic: Values, topics: Topics) -> str:
    name = topic.get("name")
    found = name if name is not None else topics.topic_name(topic.get("topic_id", NO_ID))
    if found is None:
        raise Loss(Withheld(Reason.NO_TOPIC, topic.get("topic_id", NO_ID).hex()))
    return found


# groups and coordinators


def _each_group(values: Values, _topics: Topics) -> list[Values]:
    rest = {"require_stable": values.get("require_stable", False)}
    return [{"group_id": "", "topics": [], **one, **rest} for one in _some(values, "groups")]


def _all_groups(values: Values, _topics: Topics) -> list[Values]:
    group = {"group_id": values.get("group_id", ""), "topics": values.get("topics", [])}
    return [{"groups": [group], "require_stable": values.get("require_stable", False)}]


def _each_key(values: Values, _topics: Topics) -> list[Values]:
    return [{"key": key, "key_type": values.get("key_type", 0)} for key in _some(values, "coordinator_keys")]


def _all_keys(values: Values, _topics: Topics) -> list[Values]:
    return [{"key_type": values.get("key_type", 0), "coordinator_keys": [values.get("key", "")]}]


def _each_member(values: Values, _topics: Topics) -> list[Values]:
    members = _some(values, "members")
    if any(one.get("group_instance_id") is not None for one in members):
        raise Loss(Withheld(Reason.LOST_FIELD, "members.group_instance_id"))
    return [{"group_id": values.get("group_id", ""), "member_id": one.get("member_id", "")} for one in members]


def _all_members(values: Values, _topics: Topics) -> list[Values]:
    member = {"member_id": values.get("member_id", ""), "group_instance_id": None}
    return [{"group_id": values.get("group_id", ""), "members": [member]}]


def _some(values: Values, name: str) -> list[Any]:
    """The things that a request asks for. A request for nothing can't be split."""
    if not values.get(name):
        raise _no(name)
    return list(values[name])


def _with_rebalance_timeout(values: Values, _topics: Topics) -> list[Values]:
    """In version 0 the session timeout is the rebalance timeout too."""
    return [{**values, "rebalance_timeout_ms": values.get("session_timeout_ms", 0)}]


# administration


def _has_default_counts(values: Values) -> bool:
    """True if -1 asks for the broker's default number of partitions or replicas, which versions from 4 on allow."""
    return any(
        not one.get("assignments") and -1 in (one.get("num_partitions"), one.get("replication_factor"))
        for one in values.get("topics", ())
    )


def _topic_names(values: Values, topics: Topics) -> list[Values]:
    names = [_name(one, topics) for one in values.get("topics", ())]
    return [{"topic_names": names, "timeout_ms": values.get("timeout_ms", 0)}]


def _topic_structs(values: Values, _topics: Topics) -> list[Values]:
    found = [{"name": name, "topic_id": NO_ID} for name in values.get("topic_names", ())]
    return [{"topics": found, "timeout_ms": values.get("timeout_ms", 0)}]


def _is_not_of_clients(values: Values) -> bool:
    return values.get("resource_types") != [CLIENT_METRICS]


def _of_clients(values: Values, _topics: Topics) -> list[Values]:
    return [{**values, "resource_types": [CLIENT_METRICS]}]


def _without_types(values: Values, topics: Topics) -> list[Values]:
    _unless(_is_not_of_clients, "resource_types")(values, topics)
    return [{}]


REQUESTS: Mapping[tuple[int, int], Boundary] = {
    (PRODUCE, 1): Boundary(down=_unless(_has_magic_1, "messages of magic 1")),
    (PRODUCE, 2): Boundary(up=_with_batches, down=_never("batches of magic 2")),
    (PRODUCE, 6): Boundary(down=_unless(_has_zstd, "zstd")),
    (PRODUCE, 11): Boundary(up=_unless(_is_transactional, "transactions of version 2")),
    (FETCH, 6): Boundary(down=_unless(_goes_on, "fetch session")),
    (LIST_OFFSETS, 6): Boundary(down=_below(-2)),
    (LIST_OFFSETS, 7): Boundary(down=_below(-3)),
    (LIST_OFFSETS, 8): Boundary(down=_below(-4)),
    (LIST_OFFSETS, 10): Boundary(down=_below(-5)),
    (METADATA, 0): Boundary(up=_null_for_all, down=_empty_for_all),
    (METADATA, 11): Boundary(down=_topics_by_name),
    (OFFSET_FETCH, 7): Boundary(up=_all_groups, down=_each_group, anew=True, splits=True),
    (FIND_COORDINATOR, 3): Boundary(up=_all_keys, down=_each_key, anew=True, splits=True),
    (JOIN_GROUP, 0): Boundary(up=_with_rebalance_timeout),
    (LEAVE_GROUP, 2): Boundary(up=_all_members, down=_each_member, anew=True, splits=True),
    (SYNC_GROUP, 4): Boundary(up=_never("protocol_type")),
    (CREATE_TOPICS, 3): Boundary(down=_unless(_has_default_counts, "topics.num_partitions")),
    (DELETE_TOPICS, 5): Boundary(up=_topic_structs, down=_topic_names, anew=True),
    (END_TXN, 4): Boundary(up=_never("transactions of version 2")),
    (TXN_OFFSET_COMMIT, 4): Boundary(up=_never("transactions of version 2")),
    (LIST_CONFIG_RESOURCES, 0): Boundary(up=_of_clients, down=_without_types),
}

"""Translates names, ids, and values that a client can't know of the target: the translator that runs last.

    topic ids       the target's ids of the same names; partitions of an unknown id are withheld
    names           with `--prefix`, of topics, groups, transactional ids and instances, wherever they are; a request
                    that would change anything else is withheld
    cluster's own   leader epochs, cluster id, the rack in Fetch, replica state: as from a client that knows none
    quoted          page cursors, telemetry ids, a group's protocol: what the target answered last

The table of `fields` tells which fields these are; `layout` finds ids.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from proxy.terminal import printable
from proxy.wire.catalog import CACHE_SIZE, marked
from proxy.wire.keys import (
    ALTER_CLIENT_QUOTAS,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    DESCRIBE_CONFIGS,
    ELECT_LEADERS,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    STREAMS_GROUP_HEARTBEAT,
)
from proxy.wire.places import NO_ID, WHOLE, Elements, Level, body
from proxy.wire.primitives import uuid_text
from recorder.replay.cluster import GROUP, SHARE, Cluster
from recorder.replay.mapping import Pairs, ValueKind
from recorder.replay.names import GROUP_RESOURCE, TOPIC_RESOURCE, BeyondPrefix, Names
from recorder.replay.plan import Dropped, Exchange, Reason, Values, Withheld
from recorder.replay.requests import fields
from recorder.replay.requests.acls import prefix_rule
from recorder.replay.requests.apis import CONFIG_APIS, Destination, Trait, Treatment, destination, those, treatment
from recorder.replay.requests.blobs import BLOBS, rename_topics
from recorder.replay.requests.patterns import prefixed
from recorder.replay.requests.quoted import QUOTING_APIS, QuotedValues
from recorder.replay.translator import Translator

Path = tuple[str, ...]
Change = Callable[[Any], Any]

NO_EPOCH = -1
# a consumer's values for a replica's state: Kafka's defaults
_CONSUMER: Mapping[str, int | bytes] = {
    "replica_id": -1,
    "replica_epoch": -1,
    "log_start_offset": -1,
    "replica_directory_id": NO_ID,
    "high_watermark": (1 << 63) - 1,
}
_TAKE_NAMELESS_GROUP = those(Trait.TAKES_NAMELESS_GROUP)
_FILTER = ("resource_type_filter", "resource_name_filter", "pattern_type_filter")
_RULES: Mapping[int, tuple[str, tuple[str, str, str]]] = {
    CREATE_ACLS: ("creations", ("resource_type", "resource_name", "resource_pattern_type")),
    DELETE_ACLS: ("filters", _FILTER),
}
# requests with special rules, and those whose answers are learned from
_WITH_RULES = frozenset({METADATA, OFFSET_FOR_LEADER_EPOCH, FIND_COORDINATOR}) | QUOTING_APIS
# APIs that may be sent without any topic within a session: the epoch's field, and the epochs that are not within one
_SESSIONS = {
    FETCH: ("session_epoch", (0, -1)),
    SHARE_FETCH: ("share_session_epoch", (0,)),
    SHARE_ACKNOWLEDGE: ("share_session_epoch", (0,)),
}


class NamesTranslator(Translator):
    """Translates names and ids. Its only state is pairs of cursors, telemetry ids and protocols."""

    def __init__(self, names: Names, cluster: Cluster, pairs: Pairs) -> None:
        self._names, self._cluster, self._answers = names, cluster, QuotedValues(names, pairs)
        # by api key and version
        self._changes = lru_cache(CACHE_SIZE)(self._find_changes)
        self._puts = lru_cache(CACHE_SIZE)(self._find_puts)

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs with names or ids to translate."""
        return (
            bool(self._names.prefix)
            or api_key in _WITH_RULES
            or bool(marked("request", api_key, version, "topic_id"))
            or bool(self._changes(api_key, version))
        )

    def _find_changes(self, api_key: int, version: int) -> Changes | None:
        found = ((path, self._change(api_key, what, path)) for path, what in _rows(api_key, version))
        return _tree([(path, change) for path, change in found if change is not None])

    def _find_puts(self, api_key: int, version: int) -> tuple[Callable[[Exchange, Values], Withheld | None], ...]:
        """The special rules of an API, in their order."""
        found: list[Callable[[Exchange, Values], Withheld | None]] = []
        if api_key == OFFSET_FOR_LEADER_EPOCH:
            found.append(self._put_epochs)
        if marked("request", api_key, version, "topic_id"):
            found.append(self._put_ids)
        if api_key == FIND_COORDINATOR:
            found.append(self._put_keys)
        if api_key in QUOTING_APIS:
            found.append(self._answers.put)
        return tuple(found)

    def request(self, exchange: Exchange, values: Values, now: int) -> Withheld | None:
        """Changes `values`. Withholds a request whose topics the target lacks, or that reaches beyond the prefix."""
        del now
        try:
            return self._request(exchange, values)
        except BeyondPrefix as error:
            return Withheld(Reason.BEYOND_PREFIX, str(error))

    def _request(self, exchange: Exchange, values: Values) -> Withheld | None:
        for put in self._puts(exchange.api_key, exchange.version):
            withheld = put(exchange, values)
            if withheld is not None:
                return withheld
        changes = self._changes(exchange.api_key, exchange.version)
        if changes is not None:
            _apply(values, changes)
        if exchange.api_key == METADATA:
            values["allow_auto_topic_creation"] = False
        if self._names.prefix:
            self._put_prefix(exchange.api_key, values)
        return None

    def learns(self, api_key: int) -> bool:
        """True for APIs whose answers give values that later requests quote."""
        return api_key in QUOTING_APIS

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> None:
        """Learns values that later requests quote."""
        self._answers.learn(exchange, values, answer)

    def _name(self, recorded: str | None) -> str | None:
        """The target's name. Null and empty names stay."""
        return self._names.target(recorded) if recorded else recorded

    def _group(self, recorded: str | None) -> str | None:
        """The target's name of a group that may have an empty one. Null stays."""
        return None if recorded is None else self._names.target(recorded)

    def _topic(self, recorded: str | None) -> str | None:
        """The target's name of a topic. Null and empty names stay."""
        return self._names.target_topic(recorded) if recorded else recorded

    def _own_topic(self, recorded: str | None) -> str | None:
        """The target's name of a topic that the request changes. Errors: BeyondPrefix for one of Kafka's own."""
        if recorded and self._names.is_kafkas(recorded):
            raise BeyondPrefix(f"topic {printable(recorded)}")
        return self._topic(recorded)

    def _change(self, api_key: int, what: ValueKind, path: Path) -> Change | None:
        """The change of a field's value; None if it stays, or another translator changes it."""
        sent = fields.ROW_OF[what].sent
        if self._names.prefix and what is ValueKind.TOPIC_NAME:
            return self._own_topic if _changes_topics(api_key, path) else self._topic
        if self._names.prefix and what is ValueKind.GROUP and api_key in _TAKE_NAMELESS_GROUP:
            return self._group
        if self._names.prefix and sent is fields.Sent.NAME:
            return self._name
        if self._names.prefix and sent is fields.Sent.PATTERN:
            return lambda pattern: pattern and prefixed(pattern, self._names.prefix)
        if what is ValueKind.REPLICA:
            return lambda _: _CONSUMER[path[-1]]
        return _CONSTANTS.get(what)

    # epochs

    def _put_epochs(self, exchange: Exchange, values: Values) -> Withheld | None:
        """OffsetForLeaderEpoch asks for the present epoch. If the topic is not known yet, routing asks for it first."""
        kept = [topic for topic in values["topics"] if self._put_epoch(exchange, topic)]
        had_topics, values["topics"] = bool(values["topics"]), kept
        return Withheld(Reason.NO_EPOCH) if had_topics and not kept else None

    def _put_epoch(self, exchange: Exchange, topic: Values) -> bool:
        """False for a topic of which no partition is left."""
        name, kept = self._names.target_topic(topic["topic"]), []
        for partition in topic["partitions"]:
            where = name, partition["partition"]
            partition["leader_epoch"] = self._cluster.leader_epochs.get(where, NO_EPOCH)
            if where in self._cluster.leaders and partition["leader_epoch"] < 0:
                exchange.dropped.append(Dropped(topic["topic"], where[1], Reason.NO_EPOCH))
            else:
                kept.append(partition)
        is_left = bool(kept) or not topic["partitions"]
        topic["partitions"] = kept
        return is_left

    # topic ids

    def _put_ids(self, exchange: Exchange, values: Values) -> Withheld | None:
        elements = body("request", exchange.api_key)
        if not self._map_ids(exchange, values, elements) or _names_topics(values, elements):
            return None
        if exchange.api_key == CONSUMER_GROUP_HEARTBEAT or _is_in_session(exchange.api_key, values):
            return None
        return Withheld(Reason.NO_TOPIC)

    def _map_ids(self, exchange: Exchange, values: Values, elements: Elements) -> bool:
        """True if a topic was left out."""
        lacks = False
        for name, inner in elements.arrays.items():
            if Level.TOPIC not in inner.levels or not values.get(name) or not isinstance(values[name][0], dict):
                continue
            kept = [entry for entry in values[name] if self._map_id(exchange, entry, inner)]
            lacks |= len(kept) < len(values[name])
            values[name] = kept
            if inner.level is not Level.TOPIC:
                lacks |= True in [self._map_ids(exchange, entry, inner) for entry in kept]
        return lacks

    def _map_id(self, exchange: Exchange, entry: Values, elements: Elements) -> bool:
        """False for a topic that the target lacks."""
        recorded = entry.get("topic_id", NO_ID)
        if recorded == NO_ID:
            return True
        if self._names.prefix and _changes_topics(exchange.api_key):
            self._own_topic(self._names.topic(recorded))
        target = self._names.target_id(recorded)
        if target is None:
            topic = self._names.topic(recorded) or recorded
            exchange.dropped += [Dropped(topic, index, Reason.NO_TOPIC) for index in _indexes(entry, elements)]
            return False
        entry["topic_id"] = target
        return True

    # names in special fields

    def _put_prefix(self, api_key: int, values: Values) -> None:
        if api_key == ALTER_CLIENT_QUOTAS:
            raise BeyondPrefix("quotas")
        if api_key == ELECT_LEADERS and values["topic_partitions"] is None:
            raise BeyondPrefix("all partitions")
        if api_key in CONFIG_APIS:
            for resource in values["resources"]:
                self._put_resource(resource, changes=api_key != DESCRIBE_CONFIGS)
        elif api_key == DESCRIBE_ACLS:
            prefix_rule(values, *_FILTER, self._names, changes=False)
        elif api_key in _RULES:
            rules, names = _RULES[api_key]
            for rule in values[rules]:
                prefix_rule(rule, *names, self._names, changes=True)
        elif api_key in BLOBS:
            rename_topics(api_key, values, self._names.target_topic)

    def _put_resource(self, resource: Values, *, changes: bool) -> None:
        kind, name = resource["resource_type"], resource["resource_name"]
        if kind == TOPIC_RESOURCE:
            resource["resource_name"] = self._own_topic(name) if changes else self._topic(name)
        elif kind == GROUP_RESOURCE:
            resource["resource_name"] = self._name(name)
        elif changes:
            raise BeyondPrefix(f"the settings of {printable(name) or 'all brokers'}")

    def _put_keys(self, exchange: Exchange, values: Values) -> Withheld | None:
        """The keys of FindCoordinator: names, or keys of share groups' partitions, which contain a topic id."""
        change = {SHARE: self._share_key, GROUP: self._group}.get(values.get("key_type", GROUP), self._name)
        recorded = values.get("coordinator_keys", [values.get("key")])
        keys = [change(key) for key in recorded]
        exchange.dropped += [
            Dropped(key, WHOLE, Reason.NO_TOPIC) for key, target in zip(recorded, keys, strict=True) if target is None
        ]
        found = [key for key in keys if key is not None]
        if recorded and not found:
            return Withheld(Reason.NO_TOPIC)
        if "key" in values:
            values["key"] = found[0]
        else:
            values["coordinator_keys"] = found
        return None

    def _share_key(self, key: str) -> str | None:
        """A SharePartitionKey, `group:topic id:partition`, in the target's terms; None for an unknown topic."""
        group, topic_id, partition = ["", "", *key.rsplit(":", 2)][-3:]
        target = self._names.target_id(_uuid(topic_id))
        return None if target is None else f"{self._name(group)}:{uuid_text(target)}:{partition}"


# values of a client that knows nothing of the cluster; a consumer without a rack reads from leaders
_CONSTANTS: Mapping[ValueKind, Change] = {
    ValueKind.LEADER_EPOCH: lambda _: NO_EPOCH,
    ValueKind.CLUSTER: lambda _: None,
    ValueKind.RACK: lambda _: "",
}


@lru_cache(CACHE_SIZE)
def _rows(api_key: int, version: int) -> tuple[tuple[Path, ValueKind], ...]:
    """The fields that change by their kind. A member's rack, and the epoch that is asked for, stay."""
    rows = fields.of("request", api_key, version).items()
    return tuple((tuple(path.split(".")), what) for path, what in rows if _is_changed(api_key, path, what))


def _is_changed(api_key: int, path: str, what: ValueKind) -> bool:
    if what is ValueKind.RACK:
        return api_key == FETCH
    if what is ValueKind.LEADER_EPOCH:
        return (api_key, path) != (OFFSET_FOR_LEADER_EPOCH, "topics.partitions.leader_epoch")
    return fields.ROW_OF[what].sent is not fields.Sent.LEARNED


def _changes_topics(api_key: int, path: Path = ()) -> bool:
    """True for a request that makes, changes or deletes the topics that it names there.

    Requests about a group's offsets don't. A group's coordinator makes the topics of a Streams topology, but for those
    that the application reads.
    """
    if api_key == STREAMS_GROUP_HEARTBEAT:
        return "source_topics" not in path
    how = treatment(api_key)
    return how in (Treatment.ADMIN, Treatment.DELETES) and destination(api_key) is not Destination.GROUP


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a struct: by field, of its value or of the structs in it. In the order of the fields."""

    fields: tuple[tuple[str, Change | Changes], ...]


def _tree(changes: Sequence[tuple[Path, Change]]) -> Changes | None:
    """Changes by path as those of structs; None if there are none."""
    found: dict[str, Change | list[tuple[Path, Change]]] = {}
    for (name, *deeper), change in changes:
        if not deeper:
            found[name] = change
        elif isinstance(inner := found.setdefault(name, []), list):
            inner.append((tuple(deeper), change))
    fields = ((name, _tree(each) if isinstance(each, list) else each) for name, each in found.items())
    return Changes(tuple((name, each) for name, each in fields if each is not None)) if found else None


def _apply(values: Values, changes: Changes) -> None:
    """Changes the values of a struct.

    Structs in it are copied first: all messages share the default of an absent tagged one.
    """
    for name, change in changes.fields:
        found = values.get(name)
        if not isinstance(change, Changes):
            values[name] = [*map(change, found)] if isinstance(found, list) else change(found)
        elif isinstance(found, list):
            for each in found:
                _apply(each, change)
        elif found is not None:
            values[name] = dict(found)
            _apply(values[name], change)


def _names_topics(values: Values, elements: Elements) -> bool:
    """True if a request names a topic, at any depth."""
    for name, inner in elements.arrays.items():
        found = values.get(name)
        if not found or Level.TOPIC not in inner.levels:
            continue
        if inner.level is Level.TOPIC or any(_names_topics(entry, inner) for entry in found):
            return True
    return False


def _is_in_session(api_key: int, values: Values) -> bool:
    """True within a session, where a request without topics asks for those that it had before, or ends the session."""
    field, begins = _SESSIONS.get(api_key, ("", ()))
    return values.get(field, NO_EPOCH) not in begins if begins else False


def _indexes(entry: Values, elements: Elements) -> list[int]:
    """The partitions of a topic in a request; WHOLE if it names none."""
    for name, inner in elements.arrays.items():
        if inner.level is Level.PARTITION:
            return [inner.name(each) for each in entry.get(name) or ()]
    return [WHOLE]


def _uuid(text: str) -> bytes:
    """The bytes of an id in Kafka's notation; empty for anything else."""
    try:
        return urlsafe_b64decode(text + "==")
    except ValueError:
        return b""

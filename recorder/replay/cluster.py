"""The target as its answers describe it: nodes, leaders, coordinators, topic ids, versions. Names are the target's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from proxy.wire.apis import versions as catalog_versions
from proxy.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from recorder.replay.plan import OfferedVersions, Values

GROUP, TRANSACTION, SHARE = range(3)
# the purpose of these made requests, in reports
ROUTING = "to learn where requests go"


def about_topics(names: Iterable[str], *, creates: bool = False) -> Values:
    """The values of a Metadata request about these topics. `creates`: lets the target create those that it lacks."""
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": creates}


def about_coordinator(kind: int, key: str) -> Values:
    """The values of a FindCoordinator request for one key, in all versions."""
    return {"key": key, "key_type": kind, "coordinator_keys": [key]}


def newest(api_key: int, offered: OfferedVersions, limit: int | None = None) -> int | None:
    """The highest version of an API that a node offers and the catalog knows, `limit` at most."""
    known, has = catalog_versions(api_key), offered.get(api_key)
    if known is None or has is None:
        return None
    version = min(known.stop, has.stop) - 1
    if limit is not None:
        version = min(version, limit)
    return version if version >= max(known.start, has.start) else None


@dataclass
class Cluster:
    """The target's last word on itself.

    Attributes:
        id: null before 0.10.1.
        nodes: id -> host and port.
        leaders: (topic, partition) -> node id, -1 without a leader.
        topic_ids, topic_names: name -> id, id -> name. Before 2.8 the ids are invented.
        coordinators: (kind, key) -> node id; kinds are GROUP, TRANSACTION, SHARE.
        offered: node id -> api key -> versions.
        features: name -> finalized level.
        leader_epochs: by partition; -1: the target's Metadata has none.
        absent: topics that the target has said it lacks. A topic whose leaders are known is not absent.
    """

    id: str | None = None
    controller: int = -1
    nodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    leaders: dict[tuple[str, int], int] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    topic_names: dict[bytes, str] = field(default_factory=dict)
    coordinators: dict[tuple[int, str], int] = field(default_factory=dict)
    offered: dict[int, OfferedVersions] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    leader_epochs: dict[tuple[str, int], int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic; 0 for a topic that is not known."""
        return sum(1 for name, _ in self.leaders if name == topic)

    def invent_id(self, name: str) -> None:
        """Gives an id to a topic that has none. Requests use it until they are written; it is never sent."""
        if name not in self.topic_ids:
            self.name_topic(name, sha256(name.encode()).digest()[:16])

    def name_topic(self, name: str, topic_id: bytes) -> None:
        """Remembers a topic's id, in both directions."""
        self.topic_ids[name], self.topic_names[topic_id] = topic_id, name

    def forget_topic(self, name: str) -> None:
        """Forgets a deleted topic. Its id still leads to its name, for answers that quote the id."""
        self.topic_ids.pop(name, None)
        for where in [where for where in self.leaders if where[0] == name]:
            del self.leaders[where]
            self.leader_epochs.pop(where, None)

    def any_node(self) -> int | None:
        """A node for requests that any node can answer: the first whose versions are known, else the first."""
        return next(iter(sorted(self.offered.keys() & self.nodes.keys())), next(iter(sorted(self.nodes)), None))

    def any_offered(self) -> OfferedVersions:
        """The versions that one node offers. All nodes of a cluster offer nearly the same."""
        return next(iter(self.offered.values()), {})

    def learn_metadata(self, answer: Values) -> None:
        """Learns nodes and topics from an answer to Metadata. Topics that it does not name stay as they are."""
        nodes = {each["node_id"]: (each["host"], each["port"]) for each in answer["brokers"]}
        self.nodes = nodes or self.nodes
        # the answer may be older than what FindCoordinator has told, or newer: the coordinator is asked for again
        self.coordinators = {key: node for key, node in self.coordinators.items() if node in self.nodes}
        self.id = answer.get("cluster_id") or self.id
        self.controller = answer.get("controller_id", self.controller)
        for topic in answer["topics"]:
            if not topic["error_code"] and topic["name"] is not None:
                self._learn_topic(topic["name"], topic)
            elif topic["error_code"] == UNKNOWN_TOPIC_OR_PARTITION and topic["name"] is not None:
                self.absent.add(topic["name"])

    def _learn_topic(self, name: str, topic: Values) -> None:
        if any(topic.get("topic_id", b"")):
            self.name_topic(name, topic["topic_id"])
        else:
            self.invent_id(name)
        for partition in topic["partitions"]:
            where = name, partition["partition_index"]
            self.leaders[where] = partition["leader_id"]
            self.leader_epochs[where] = partition.get("leader_epoch", -1)

    def learn_coordinator(self, kind: int, key: str, answer: Values) -> None:
        """Learns the coordinator of one key from an answer to FindCoordinator. After an error it stays unknown."""
        found = next((each for each in answer.get("coordinators", ()) if each["key"] == key), answer)
        if not found.get("error_code") and found.get("host"):
            self.coordinators[kind, key] = found["node_id"]
            self.nodes.setdefault(found["node_id"], (found["host"], found["port"]))

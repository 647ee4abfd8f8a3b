"""The target as far as its answers tell: nodes, leaders, coordinators, topic ids, versions. Names are the target's."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.replay.plan import Offered

GROUP, TRANSACTION, SHARE = range(3)


@dataclass
class Cluster:
    """What the target last said of itself.

    Attributes:
        id: null before 0.10.1.
        nodes: id -> host and port.
        leaders: (topic, partition) -> node id; a partition without a leader is there with -1.
        topic_ids, topic_names: one the inverse of the other; empty before 2.8.
        coordinators: (kind, key) -> node id; kinds are GROUP, TRANSACTION, SHARE.
        offered: node id -> api key -> versions; `features`: name -> finalized level.
    """

    id: str | None = None
    controller: int = -1
    nodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    leaders: dict[tuple[str, int], int] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    topic_names: dict[bytes, str] = field(default_factory=dict)
    coordinators: dict[tuple[int, str], int] = field(default_factory=dict)
    offered: dict[int, Offered] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0: there is none of that name."""
        return sum(1 for name, _ in self.leaders if name == topic)

    def name_topic(self, name: str, topic_id: bytes) -> None:
        """Both ways between a name and an id."""
        self.topic_ids[name], self.topic_names[topic_id] = topic_id, name

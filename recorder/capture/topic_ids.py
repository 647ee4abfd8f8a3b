"""The names of topics by their ids, as a cluster's answers have told them. Used by the tap, for rules by topic.

All connections of a process to one cluster share what they learn. A topic that was deleted and made again has a new id,
so an id never changes its name.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.wire.places import NO_ID

# ids that are known at most, some 150 bytes each: more than a cluster has topics
MAX_KNOWN = 200_000


class TopicIds:
    """The names of a cluster's topics. The ids that were told longest ago are forgotten first.

    `changes`: how often anything was learned.
    """

    def __init__(self, most: int = MAX_KNOWN) -> None:
        self.changes = 0
        self._names: dict[bytes, str] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._names)

    def learn(self, topic_id: bytes, name: str) -> None:
        """Notes what an answer tells of a topic."""
        if topic_id == NO_ID or self._names.get(topic_id) == name:
            return
        if len(self._names) >= self._most:
            del self._names[next(iter(self._names))]
        self._names[topic_id] = name
        self.changes += 1

    def items(self) -> Iterable[tuple[bytes, str]]:
        """All ids with their names."""
        return self._names.items()

    def name(self, topic_id: bytes) -> str | None:
        """The name of a topic; None: nobody has told it."""
        return self._names.get(topic_id)

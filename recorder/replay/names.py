"""Names of topics, groups, transactional ids and instances: the recorded name for the target's, and back.

With `--prefix P` the target's name is P followed by the recorded one. Kafka's own names (`__…`) stay, and without a
prefix both names are equal. The survey has found the topic ids of the recording before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from recorder.replay.cluster import Cluster

INTERNAL = "__"
NO_ID = bytes(16)
# characters of a topic's name, and its greatest length (Kafka's `Topic.validate`)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")
LONGEST_TOPIC = 249


def is_prefix(text: str) -> bool:
    """True if a prefix makes legal names of all topics, `_orders` too, and none of Kafka's own."""
    return _LEGAL.fullmatch(text) is not None and not f"{text}_".startswith(INTERNAL)


class Names:
    """The names of one replay. `recorded_ids`: topic id of the recording -> recorded name."""

    def __init__(self, prefix: str, recorded_ids: Mapping[bytes, str], cluster: Cluster) -> None:
        self.prefix = prefix
        self._recorded_ids = recorded_ids
        self._ids_of_names = {name: topic_id for topic_id, name in recorded_ids.items()}
        self._cluster = cluster

    def target(self, recorded: str) -> str:
        """The target's name for a recorded one."""
        return recorded if recorded.startswith(INTERNAL) else self.prefix + recorded

    def recorded(self, target: str) -> str:
        """The recorded name for one of the target's."""
        return target if target.startswith(INTERNAL) else target.removeprefix(self.prefix)

    def topic(self, recorded: str | bytes) -> str | None:
        """The recorded name of a topic, from a recorded request's name or id; None for an unknown id."""
        return self._recorded_ids.get(recorded) if isinstance(recorded, bytes) else recorded

    def recorded_topic(self, target: str | bytes) -> str | None:
        """The recorded name of a topic, from the name or id in an answer of the target; None for an unknown id."""
        name = self._cluster.topic_names.get(target) if isinstance(target, bytes) else target
        return None if name is None else self.recorded(name)

    def target_id(self, recorded: bytes) -> bytes | None:
        """The target's id of the topic with this recorded id; None if the target has no such topic."""
        name = self._recorded_ids.get(recorded)
        return None if name is None else self._cluster.topic_ids.get(self.target(name))

    def recorded_id(self, target: bytes) -> bytes | None:
        """A recorded id of the topic with this id on the target; None if the recording has no such topic."""
        name = self._cluster.topic_names.get(target)
        return None if name is None else self._ids_of_names.get(self.recorded(name))

    def of(self, place: tuple[str, int]) -> tuple[str, int]:
        """A partition of the target under the recorded name of its topic."""
        return self.recorded(place[0]), place[1]

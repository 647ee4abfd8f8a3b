"""Names of topics, groups, transactional ids and instances: the recorded name for the target's, and back.

With `--prefix P` the target's name is P followed by the recorded one. Only Kafka's own topics keep their names. They
are a list: those of Kafka's source, and those that the recording's Metadata calls internal. Other names may begin with
`__`, too. Without a prefix both names are equal. The survey has found topic ids and internal topics of the recording
before anything is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import overload

from proxy.wire.embedded.logs import LOGS
from proxy.wire.texts import TOPIC_LETTERS
from recorder.replay.cluster import Cluster

# org.apache.kafka.common.config.ConfigResource.Type: topics and groups, whose names are the replay's
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32
# how Kafka's own topics begin
_KAFKAS = "__"


class BeyondPrefix(Exception):
    """A request reaches beyond the names with the prefix. The argument says by what, for people."""


def is_prefix(text: str) -> bool:
    """True if a prefix makes legal names of all topics, `_orders` too, and none of Kafka's own."""
    return {*text} <= {*TOPIC_LETTERS} and not f"{text}_".startswith(_KAFKAS)


class Names:
    """The names of one replay.

    Args:
        recorded_ids: topic id of the recording -> recorded name.
        internal: topics that the recording calls internal.
    """

    def __init__(
        self, prefix: str, recorded_ids: Mapping[bytes, str], cluster: Cluster, internal: Collection[str] = ()
    ) -> None:
        self.prefix = prefix
        self._internal = frozenset(LOGS) | {*internal}
        self._recorded_ids = recorded_ids
        self._ids_of_names = {name: topic_id for topic_id, name in recorded_ids.items()}
        self._cluster = cluster

    def target(self, recorded: str) -> str:
        """The target's name for that of a recorded group, transactional id or instance."""
        return self.prefix + recorded

    def recorded(self, target: str) -> str:
        """The recorded name for that of a group, transactional id or instance of the target."""
        return target.removeprefix(self.prefix)

    def is_kafkas(self, recorded: str | bytes) -> bool:
        """True for a topic of Kafka's own, by its recorded name or id."""
        return self.topic(recorded) in self._internal

    def target_topic(self, recorded: str) -> str:
        """The target's name for that of a recorded topic."""
        return recorded if recorded in self._internal else self.prefix + recorded

    def topic(self, recorded: str | bytes) -> str | None:
        """The recorded name of a topic, from a recorded request's name or id; None for an unknown id."""
        return self._recorded_ids.get(recorded) if isinstance(recorded, bytes) else recorded

    @overload
    def recorded_topic(self, target: str) -> str: ...
    @overload
    def recorded_topic(self, target: str | bytes) -> str | None: ...

    def recorded_topic(self, target: str | bytes) -> str | None:
        """The recorded name of a topic, from the target's name or id; None for an unknown id."""
        name = self._cluster.topic_names.get(target) if isinstance(target, bytes) else target
        if name is None or name in self._internal:
            return name
        return name.removeprefix(self.prefix)

    def target_id(self, recorded: bytes) -> bytes | None:
        """The target's id of the topic with this recorded id; None if the target has no such topic."""
        name = self._recorded_ids.get(recorded)
        return None if name is None else self._cluster.topic_ids.get(self.target_topic(name))

    def recorded_id(self, target: bytes) -> bytes | None:
        """A recorded id of the topic with this id on the target; None if the recording has no such topic."""
        name = self._cluster.topic_names.get(target)
        return None if name is None else self._ids_of_names.get(self.recorded_topic(name))

    def of(self, place: tuple[str, int]) -> tuple[str, int]:
        """A partition of the target under the recorded name of its topic."""
        return self.recorded_topic(place[0]), place[1]

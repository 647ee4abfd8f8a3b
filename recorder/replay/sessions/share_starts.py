"""Where share groups begin to read: on the target where the recording's group did.

A share group that is new begins at its partitions' ends, or where its settings say, which a capture has masked. What
the recording's group acquired first is known from the survey. Before its first member joins, the group is told to begin
there (a made AlterShareGroupOffsets), in the target's offsets of that moment. Partitions of which it acquired nothing
begin at their ends: all of a topic are told, so that the target has none left to begin by itself, which takes a while.
A target that refuses decides by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proxy.wire.keys import ALTER_SHARE_GROUP_OFFSETS, SHARE_GROUP_HEARTBEAT
from recorder.replay.cluster import GROUP
from recorder.replay.names import Names
from recorder.replay.partitions import Place
from recorder.replay.plan import Exchange, Hold, Made, Needs, Reason, Refusal, ToCoordinator, Values

PURPOSE = "to have share groups begin where the recorded ones did"
_JOIN = 0
# Behind all offsets.
_END = 2**63 - 1
# (recorded topic, partition, recorded offset) -> the target's offset
Expected = Callable[[str, int, int], int]
Starts = Mapping[str, Mapping[Place, int]]


class ShareStarts:
    """The beginnings of one replay's share groups. A translator.

    Args:
        starts: recorded group -> (recorded topic, partition) -> the first offset that it acquired.
        partitions: recorded topic -> how many partitions it has.
    """

    def __init__(self, names: Names, starts: Starts, partitions: Mapping[str, int], expected: Expected) -> None:
        self._names, self._starts, self._expected = names, dict(starts), expected
        self._partitions = partitions
        self._asked: set[str] = set()

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that these rules are about: nothing else is asked here."""
        return api_key == SHARE_GROUP_HEARTBEAT

    def request(self, exchange: Exchange, values: Values, now: int) -> Refusal | None:
        """A group's first join waits until the target was told where the group begins."""
        if exchange.api_key != SHARE_GROUP_HEARTBEAT or values["member_epoch"] != _JOIN:
            return None
        group = values["group_id"]
        if group in self._asked:
            return Hold(Reason.NO_OFFSET)
        if not self._starts.get(group):
            return None
        self._asked.add(group)
        return Needs((self._made(group, self._starts.pop(group)),))

    def _made(self, group: str, starts: Mapping[Place, int]) -> Made:
        topics: dict[str, list[Values]] = {}
        others = {(topic, index): _END for topic, _ in starts for index in range(self._partitions.get(topic, 0))}
        for (topic, partition), offset in sorted((others | {**starts}).items()):
            start = self._expected(topic, partition, offset)
            if start != _END:
                told = {"partition_index": partition, "start_offset": start}
                topics.setdefault(self._names.target(topic), []).append(told)
        name = self._names.target(group)
        values = {
            "group_id": name,
            "topics": [{"topic_name": topic, "partitions": found} for topic, found in topics.items()],
        }

        def done(answer: Values | None) -> None:
            self._asked.discard(group)

        return Made(ALTER_SHARE_GROUP_OFFSETS, values, ToCoordinator(GROUP, name), PURPOSE, done)

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """Nothing moves when a request leaves."""

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> None:
        """Nothing is learned."""

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """Nothing is lost."""

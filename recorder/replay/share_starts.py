"""Where share groups begin to read: on the target where the recording's group did.

A share group that is new begins at its partitions' ends, or where its settings say, which a capture has masked. What
the recording's group acquired first is known from the survey. Before its first member joins, the group is told to begin
there (a made AlterShareGroupOffsets), in the target's offsets of that moment. A target that refuses decides by itself.
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
# (recorded topic, partition, recorded offset) -> the target's offset
Expected = Callable[[str, int, int], int]
Starts = Mapping[str, Mapping[Place, int]]


class ShareStarts:
    """The beginnings of one replay's share groups. A translator.

    Args:
        starts: recorded group -> (recorded topic, partition) -> the first offset that it acquired.
    """

    def __init__(self, names: Names, starts: Starts, expected: Expected) -> None:
        self._names, self._starts, self._expected = names, dict(starts), expected
        self._asked: set[str] = set()

    def request(self, exchange: Exchange, values: Values, now: int) -> Refusal | None:
        """A group's first join waits until the target was told where the group begins."""
        if exchange.api_key != SHARE_GROUP_HEARTBEAT or values["member_epoch"] != _JOIN:
            return None
        group = values["group_id"]
        if group in self._asked:
            return Hold(Reason.NO_OFFSET)
        if group not in self._starts:
            return None
        self._asked.add(group)
        return Needs((self._made(group, self._starts.pop(group)),))

    def _made(self, group: str, starts: Mapping[Place, int]) -> Made:
        topics: dict[str, list[Values]] = {}
        for (topic, partition), offset in sorted(starts.items()):
            start = {"partition_index": partition, "start_offset": self._expected(topic, partition, offset)}
            topics.setdefault(self._names.target(topic), []).append(start)
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

"""Makes share groups of the target begin to read where the recorded ones did.

A new share group begins at its partitions' ends, or where its settings say, which a capture has masked. The survey
knows what the recorded group acquired first. Before the group's first member joins, or fetches because it has joined
before the recording, a made AlterShareGroupOffsets has the group begin there, in the target's offsets of that moment.
The target must have the records by then that stand before it, or the group would get those, too: at `max`, and where
the target is slow, the member waits for them, but not for long, since they may have been refused. Partitions of which
the recorded group acquired nothing begin at their ends. The request names all partitions of a topic, since it takes
the target a while to begin with one by itself. A target that refuses the request decides where the group begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proxy.wire.keys import ALTER_SHARE_GROUP_OFFSETS, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from recorder.replay.cluster import GROUP
from recorder.replay.names import Names
from recorder.replay.partitions import LARGEST_OFFSET, TopicPartition
from recorder.replay.plan import (
    NANOSECONDS,
    AskFirst,
    Exchange,
    Hold,
    MadeRequest,
    NotSent,
    Reason,
    ToCoordinator,
    Values,
)
from recorder.replay.requests.apis import JOIN_EPOCH
from recorder.replay.translator import Translator

PURPOSE = "to have share groups begin where the recorded ones did"
# how long a group's first member waits for records before the group's beginning
LONGEST_WAIT = 5 * NANOSECONDS
# (recorded topic, partition, recorded offset) -> the target's offset
Expected = Callable[[str, int, int], int]
# the same -> True unless the target's log lacks records before that offset
HasAllBefore = Callable[[str, int, int], bool]
Starts = Mapping[str, Mapping[TopicPartition, int]]


class ShareStarts(Translator):
    """The beginnings of one replay's share groups. A translator.

    Args:
        starts: recorded group -> (recorded topic, partition) -> the first offset that it acquired.
        partitions: recorded topic -> how many partitions it has.
    """

    def __init__(
        self,
        names: Names,
        starts: Starts,
        partitions: Mapping[str, int],
        expected: Expected,
        has_all_before: HasAllBefore,
    ) -> None:
        self._names, self._starts, self._expected = names, dict(starts), expected
        self._partitions, self._has_all_before = partitions, has_all_before
        self._asked: set[str] = set()
        # group -> when its first member has waited for long
        self._until: dict[str, int] = {}

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room translates."""
        return api_key in (SHARE_GROUP_HEARTBEAT, SHARE_FETCH)

    def request(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        """Holds a group's first join, or fetch, until the target knows where the group begins."""
        if (
            not self.concerns(exchange.api_key, exchange.version)
            or values.get("member_epoch", JOIN_EPOCH) != JOIN_EPOCH
        ):
            return None
        group = values["group_id"] or ""
        if group in self._asked:
            return Hold(Reason.NO_OFFSET)
        starts = self._starts.get(group)
        if not starts:
            return None
        until = self._until.setdefault(group, now + LONGEST_WAIT)
        if now < until and not all(self._has_all_before(*place, offset) for place, offset in starts.items()):
            return Hold(Reason.NO_OFFSET, until)
        self._asked.add(group)
        return AskFirst((self._made(group, self._starts.pop(group)),))

    def _made(self, group: str, starts: Mapping[TopicPartition, int]) -> MadeRequest:
        topics: dict[str, list[Values]] = {}
        others = {
            (topic, index): LARGEST_OFFSET for topic, _ in starts for index in range(self._partitions.get(topic, 0))
        }
        for (topic, partition), offset in sorted((others | {**starts}).items()):
            start = self._expected(topic, partition, offset)
            if start != LARGEST_OFFSET:
                told = {"partition_index": partition, "start_offset": start}
                topics.setdefault(self._names.target_topic(topic), []).append(told)
        name = self._names.target(group)
        values = {
            "group_id": name,
            "topics": [{"topic_name": topic, "partitions": found} for topic, found in topics.items()],
        }

        def done(answer: Values | None) -> None:
            self._asked.discard(group)

        return MadeRequest(ALTER_SHARE_GROUP_OFFSETS, values, ToCoordinator(GROUP, name), PURPOSE, done)

"""Adds records that members of share groups acquired to the streams: one stream for each group and partition.

The target gives a group's records to the member that asks first, and gives released ones again, so members are not told
apart. A record counts once: how often it is given depends on which member had it when a session ended. At the end the
replay asks for nothing more, since only a member could, and all have left. Records that the group still owes are
missing if the target had no more when it was last asked, and unread if records were given back since then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from recorder.replay import partitions
from recorder.replay.consumers.matching import Side
from recorder.replay.consumers.records import Range, Streams
from recorder.replay.names import Names
from recorder.replay.partitions import Topic, TopicPartition
from recorder.replay.plan import Exchange, Origin, ShareGroup, Values

# Gaps that are remembered: five times the records of a partition that a broker lets a group have
# (group.share.partition.max.record.locks).
MOST_GAPS = 10_000
# AcknowledgeType.RELEASE
_RELEASE = 2


class SharedRecords:
    """Adds the records of one replay's share groups to the streams.

    A translator; it comes after that of share sessions.
    """

    def __init__(self, names: Names, streams: Streams) -> None:
        self._names, self._streams = names, streams
        self._asked: dict[Origin, list[TopicPartition]] = {}
        self._given: dict[tuple[Side, ShareGroup, TopicPartition], OffsetRanges] = {}

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room looks at."""
        return api_key in (SHARE_FETCH, SHARE_ACKNOWLEDGE)

    def request(self, exchange: Exchange, values: Values, now: int) -> None:
        """Remembers the partitions that a ShareFetch asks for. `values`: all of its session, in recorded terms."""
        if exchange.api_key == SHARE_FETCH:
            asked = (
                (self._names.topic(one.topic), one.partition) for one in partitions.in_request(SHARE_FETCH, values)
            )
            self._asked[exchange.origin] = [(name, index) for name, index in asked if name is not None]

    def owes(self, exchange: Exchange) -> bool:
        """True if the recording has given the group records that the target has not given yet."""
        places = self._asked.get(exchange.origin, ())
        return any(self._streams.owed(_group(exchange), *place).records for place in places)

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """Records that a request gives back may come again."""
        if exchange.api_key not in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
            return
        for one in partitions.in_request(exchange.api_key, values):
            name = self._names.recorded_topic(one.topic)
            gives_back = any(_RELEASE in batch["acknowledge_types"] for batch in one.values["acknowledgement_batches"])
            if name is not None and gives_back:
                self._streams.end(_group(exchange), name, one.partition, is_at_end=False)

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> None:
        """Adds the records of both answers."""
        asked = self._asked.pop(exchange.origin, None)
        if asked is None:
            return
        self._add(Side.RECORDED, exchange, exchange.answer or {}, self._names.topic)
        found = self._add(Side.REPLAYED, exchange, answer, self._names.recorded_topic)
        if not found and not answer.get("error_code", 0):
            for place in asked:
                self._streams.end(_group(exchange), *place, is_at_end=True)

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come. The target owes the records of the recorded answer."""
        if self._asked.pop(exchange.origin, None) is not None:
            self._add(Side.RECORDED, exchange, exchange.answer or {}, self._names.topic)

    def _add(self, side: Side, exchange: Exchange, answer: Values, named: Callable[[Topic], str | None]) -> bool:
        """Adds the records of an answer. True if any were acquired."""
        has_some = False
        for one in partitions.in_answer(SHARE_FETCH, answer):
            name, data, found = named(one.topic), one.values["records"], one.values["acquired_records"]
            if name is not None and found and data:
                has_some = True
                once = self._given.setdefault((side, _group(exchange), (name, one.partition)), OffsetRanges())
                ranges = [new for each in found for new in once.take(each["first_offset"], each["last_offset"])]
                self._streams.add_acquired(side, _group(exchange), name, one.partition, data, ranges)
        return has_some


class OffsetRanges:
    """Offsets that were given once. Memory: a range for each run of them."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def take(self, first: int, last: int) -> list[Range]:
        """Adds offsets. Returns the ranges of those that are new."""
        if not 0 <= first <= last:
            return []
        start = stop = max(bisect_left(self._ranges, (first, first)) - 1, 0)
        found, at, low, high = [], first, first, last
        if stop < len(self._ranges) and self._ranges[stop][1] < first - 1:
            start = stop = stop + 1
        while stop < len(self._ranges) and self._ranges[stop][0] <= last + 1:
            before, behind = self._ranges[stop]
            if before > at:
                found.append((at, before - 1))
            at, low, high, stop = max(at, behind + 1), min(low, before), max(high, behind), stop + 1
        if at <= last:
            found.append((at, last))
        self._ranges[start:stop] = [(low, high)]
        del self._ranges[:-MOST_GAPS]
        return found


def _group(exchange: Exchange) -> ShareGroup:
    return ShareGroup(exchange.request["group_id"] or "")

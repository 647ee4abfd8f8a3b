"""Hands what the members of share groups acquired to the streams of records: one stream for each group and partition.

The target gives a group's records to whichever member asks first, and gives back what one has released. So members are
not told apart; a record that was acquired twice is in the stream twice. At the end nothing more is asked for: only a
member could, and all have left. What the group owes then is missing if the target had no more when it was last asked;
if records were given back since, it is unread.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from recorder.replay import partitions
from recorder.replay.matching import Side
from recorder.replay.names import Names
from recorder.replay.partitions import Place, Topic
from recorder.replay.plan import Exchange, Origin, ShareGroup, Values
from recorder.replay.records import Streams

# AcknowledgeType.RELEASE
_RELEASE = 2


class Shared:
    """What one replay's share groups acquired. A translator; it comes behind that of share sessions."""

    def __init__(self, names: Names, streams: Streams) -> None:
        self._names, self._streams = names, streams
        self._asked: dict[Origin, list[Place]] = {}

    def request(self, exchange: Exchange, values: Values, now: int) -> None:
        """Remembers which partitions a ShareFetch asks for. `values`: all of its session, in recorded terms."""
        if exchange.api_key == SHARE_FETCH:
            asked = ((self._names.topic(one.topic), one.partition) for one in partitions.asked(SHARE_FETCH, values))
            self._asked[exchange.origin] = [(name, index) for name, index in asked if name is not None]

    def owes(self, exchange: Exchange) -> bool:
        """True if the recording has given the group records that the target has not given yet."""
        places = self._asked.get(exchange.origin, ())
        return any(self._streams.owed(_group(exchange), *place).records for place in places)

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """What a request gives back can be had again."""
        if exchange.api_key not in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
            return
        for one in partitions.asked(exchange.api_key, values):
            name = self._names.recorded_topic(one.topic)
            gives_back = any(_RELEASE in batch["acknowledge_types"] for batch in one.values["acknowledgement_batches"])
            if name is not None and gives_back:
                self._streams.end(_group(exchange), name, one.partition, is_at_end=False)

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> None:
        """Adds what both answers gave."""
        asked = self._asked.pop(exchange.origin, None)
        if asked is None:
            return
        self._add(Side.RECORDED, exchange, exchange.answer or {}, self._names.topic)
        found = self._add(Side.REPLAYED, exchange, answer, self._names.recorded_topic)
        if not found and not answer.get("error_code", 0):
            for place in asked:
                self._streams.end(_group(exchange), *place, is_at_end=True)

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come: what the recording's answer holds is owed."""
        if self._asked.pop(exchange.origin, None) is not None:
            self._add(Side.RECORDED, exchange, exchange.answer or {}, self._names.topic)

    def _add(self, side: Side, exchange: Exchange, answer: Values, named: Callable[[Topic], str | None]) -> bool:
        """True if something was acquired."""
        has_some = False
        for one in partitions.told(SHARE_FETCH, answer):
            ranges = [(found["first_offset"], found["last_offset"]) for found in one.values["acquired_records"]]
            name, data = named(one.topic), one.values["records"]
            if name is not None and ranges and data:
                self._streams.add_acquired(side, _group(exchange), name, one.partition, data, ranges)
                has_some = True
        return has_some


def _group(exchange: Exchange) -> ShareGroup:
    return ShareGroup(exchange.request["group_id"] or "")

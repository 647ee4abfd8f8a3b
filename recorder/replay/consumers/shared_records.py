"""Adds records that members of share groups acquired to the streams: one stream for each group and partition.

The target gives a group's records to the member that asks first, and gives released ones again, so members are not told
apart. A record counts once: how often it is given depends on which member had it when a session ended. At the end the
replay asks for nothing more, since only a member could, and all have left. Records that the target still owes the group
are missing if it had no more when it was last asked, and unread if records were given back since then.

A poll does not wait for the requests that write its records, since it may have left before them. So an empty answer
tells nothing while such a request is unsettled: the record may still come. A poll that waited until after has found
that the target has no more. It has waited in vain only if it also left after.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH
from recorder.replay import partitions
from recorder.replay.consumers.matching import Side
from recorder.replay.consumers.records import Range, Streams, count_within
from recorder.replay.names import Names
from recorder.replay.partitions import Topic, TopicPartition
from recorder.replay.plan import Exchange, Origin, ShareGroup, Values
from recorder.replay.translator import Translator

# Gaps that are remembered: five times the records of a partition that a broker lets a group have
# (group.share.partition.max.record.locks).
MOST_GAPS = 10_000
# AcknowledgeType.RELEASE
_RELEASE = 2


class SharedRecords(Translator):
    """Adds the records of one replay's share groups to the streams.

    A translator; it comes after that of share sessions.

    Args:
        is_writing: recorded place, recorded time -> True while the target owes an answer to a request that was recorded
            until then and brings records to the place.
    """

    def __init__(
        self,
        names: Names,
        streams: Streams,
        is_writing: Callable[[TopicPartition, int], bool] = lambda place, until_ns: False,
    ) -> None:
        self._names, self._streams, self._is_writing = names, streams, is_writing
        self._asked: dict[Origin, list[TopicPartition]] = {}
        # places that polls in flight have asked for too early: their records were still being written
        self._too_early: dict[Origin, set[TopicPartition]] = {}
        # when the recording last gave a group records of a place: all of these were written before
        self._given_ns: dict[tuple[ShareGroup, TopicPartition], int] = {}
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
        """True if a poll may wait for records that the recording has given its group, this answer's too."""
        asked = self._asked.get(exchange.origin, ())
        given = self._counts(exchange) if asked else {}
        return any(self._streams.lacks(_group(exchange), *place, given.get(place, 0)) for place in asked)

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """Records that a request gives back may come again. Notes which records are not written yet."""
        if exchange.api_key not in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
            return
        if asked := self._asked.get(exchange.origin):
            self._too_early[exchange.origin] = self._still_written(exchange, asked)
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
        too_early = self._too_early.pop(exchange.origin, set())
        self._add_recorded(exchange)
        found = self._add(Side.REPLAYED, exchange, answer, self._names.recorded_topic)
        for place in found:
            # the target had more than an earlier poll has found, and may have more still
            self._streams.end(_group(exchange), *place, is_at_end=False)
        if found or answer.get("error_code", 0):
            return
        has_waited = _waits(exchange, values) and not _is_refused(answer)
        unsettled = self._still_written(exchange, asked)
        too_early |= unsettled
        # the answer to a poll that does not wait may cross the one to the request that writes
        not_at_end = unsettled if has_waited else too_early
        for place in asked:
            self._streams.end(_group(exchange), *place, is_at_end=place not in not_at_end)
            if has_waited and place not in too_early:
                self._streams.waited(_group(exchange), *place)

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come. The target owes the records of the recorded answer."""
        self._too_early.pop(exchange.origin, None)
        if self._asked.pop(exchange.origin, None) is not None:
            self._add_recorded(exchange)

    def forget_topic(self, topic: str) -> None:
        """Forgets which offsets of a recorded topic were given: the target has deleted its logs."""
        self._given_ns = {key: at_ns for key, at_ns in self._given_ns.items() if key[1][0] != topic}
        self._given = {key: ranges for key, ranges in self._given.items() if key[2][0] != topic}

    def _still_written(self, exchange: Exchange, asked: list[TopicPartition]) -> set[TopicPartition]:
        """The places whose records the target may still get: those of recorded answers, this one's too."""
        times = {place: self._given_ns.get((_group(exchange), place)) for place in asked}
        times |= dict.fromkeys(self._given_places(exchange), exchange.answered_ns)
        return {place for place in asked if (until := times[place]) is not None and self._is_writing(place, until)}

    def _given_places(self, exchange: Exchange) -> list[TopicPartition]:
        """The places of which the recorded answer gives records."""
        found = partitions.in_answer(SHARE_FETCH, exchange.answer or {})
        named = ((self._names.topic(one.topic), one) for one in found if one.values["acquired_records"])
        return [(name, one.partition) for name, one in named if name is not None]

    def _add_recorded(self, exchange: Exchange) -> None:
        for place in self._given_places(exchange):
            key = _group(exchange), place
            self._given_ns[key] = max(self._given_ns.get(key, 0), exchange.answered_ns or 0)
        self._add(Side.RECORDED, exchange, exchange.answer or {}, self._names.topic)

    def _counts(self, exchange: Exchange) -> dict[TopicPartition, int]:
        """The numbers of records that the recorded answer gives and no earlier one has given."""
        counts = {}
        for one in partitions.in_answer(SHARE_FETCH, exchange.answer or {}):
            name, data, acquired = self._names.topic(one.topic), one.values["records"], one.values["acquired_records"]
            if name is not None and acquired and data:
                place = name, one.partition
                once = self._given.get((Side.RECORDED, _group(exchange), place), OffsetRanges())
                new = [part for each in acquired for part in once.lacking(each["first_offset"], each["last_offset"])]
                first = self._streams.first(*place)
                counts[place] = count_within([(max(low, first), high) for low, high in new if high >= first], data)
        return counts

    def _add(
        self, side: Side, exchange: Exchange, answer: Values, named: Callable[[Topic], str | None]
    ) -> list[TopicPartition]:
        """Adds the records of an answer. Returns the places of which some were acquired."""
        places = []
        for one in partitions.in_answer(SHARE_FETCH, answer):
            name, data, found = named(one.topic), one.values["records"], one.values["acquired_records"]
            if name is not None and found and data:
                places.append((name, one.partition))
                once = self._given.setdefault((side, _group(exchange), (name, one.partition)), OffsetRanges())
                ranges = [new for each in found for new in once.take(each["first_offset"], each["last_offset"])]
                self._streams.add_acquired(side, _group(exchange), name, one.partition, data, ranges)
        return places


class OffsetRanges:
    """Offsets that were given once. Memory: a range for each run of them."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def lacking(self, first: int, last: int) -> list[Range]:
        """The ranges of these offsets that are new."""
        start, stop = self._touching(first, last)
        new, at = [], first
        for low, high in self._ranges[start:stop]:
            if low > at:
                new.append((at, low - 1))
            at = max(at, high + 1)
        return [*new, (at, last)] if at <= last else new

    def take(self, first: int, last: int) -> list[Range]:
        """Adds offsets. Returns the ranges of those that are new."""
        if not 0 <= first <= last:
            return []
        new = self.lacking(first, last)
        start, stop = self._touching(first, last)
        joined = [(first, last), *self._ranges[start:stop]]
        self._ranges[start:stop] = [(min(low for low, _ in joined), max(high for _, high in joined))]
        del self._ranges[:-MOST_GAPS]
        return new

    def _touching(self, first: int, last: int) -> tuple[int, int]:
        """The slice of the known ranges that these offsets overlap or adjoin."""
        return (
            bisect_left(self._ranges, first - 1, key=lambda known: known[1]),
            bisect_right(self._ranges, last + 1, key=lambda known: known[0]),
        )


def _waits(exchange: Exchange, values: Values) -> bool:
    """True for a poll that was sent with the whole time that its client gave it.

    Members share their group's streams: a poll that waits less says nothing about what another one may wait for.
    """
    wanted: int = exchange.request["max_wait_ms"]
    return bool(wanted) and values["max_wait_ms"] == wanted


def _is_refused(answer: Values) -> bool:
    """True for an answer that tells an error of a partition: the broker did not wait."""
    return any(one.values["error_code"] for one in partitions.in_answer(SHARE_FETCH, answer))


def _group(exchange: Exchange) -> ShareGroup:
    return ShareGroup(exchange.request["group_id"] or "")

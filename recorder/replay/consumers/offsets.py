"""Translates offsets: where the target has the record that the recording had at an offset.

    Fetch at the offset where the consumer's last recorded answer       where the target's last answer ended
    ended, or at any offset after an answer that is not recorded
    other Fetch, OffsetCommit, TxnOffsetCommit, DeleteRecords           moved by the difference (`differences`), as a
                                                                        boundary between records
    ... of a partition without a Produce that both answered             as recorded; DeleteRecords is withheld
    ... where a Produce is in flight, the first Fetch of a reader       not behind offsets of the target that no Produce
                                                                        has told of
    ... where a Produce is unsettled that was requested before, a       waits for it: its records may be those that are
        commit                                                          committed
    all of these                                                        limited to the target's log, unless the recorded
                                                                        error is 1 (OFFSET_OUT_OF_RANGE). Commits are
                                                                        not, where the recording writes records
    ... where the recording writes transactions                         not behind the last record of a Produce
    negative offsets                                                    as recorded: they have a meaning of their own

`readers` knows the last answer of a consumer. Places are recorded topic names with partitions. Timestamps of
ListOffsets and of records move by `shift_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from proxy.wire import WireError
from proxy.wire.keys import DELETE_RECORDS, FETCH, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, PRODUCE, TXN_OFFSET_COMMIT
from proxy.wire.pieces import Pieces
from proxy.wire.places import Partition
from recorder.replay import partitions
from recorder.replay.consumers.differences import Differences
from recorder.replay.consumers.pending import PendingOffsets
from recorder.replay.consumers.readers import Consumer, Position, Reader, Readers
from recorder.replay.messages import batches, record_count
from recorder.replay.names import Names
from recorder.replay.partitions import LARGEST_OFFSET, TopicPartition
from recorder.replay.plan import NO_OFFSET, Exchange, Hold, NotSent, Origin, Reason, Resend, Values, Withheld
from recorder.replay.translator import Translator
from recorder.replay.versions.batches import shifted

OUT_OF_RANGE = 1
LATEST, EARLIEST = -1, -2


class _Moved(NamedTuple):
    """One offset on both sides. `is_deleted`: its topic was deleted while the request was in flight."""

    recorded: int
    target: int
    reader: Reader | None = None
    begins_at: int | None = None
    is_deleted: bool = False


# for a partition that a Produce writes to
_NOTHING_MOVED = _Moved(NO_OFFSET, NO_OFFSET)


class Offsets(Translator):
    """The translator of offsets. It comes after that of producers, which needs the recorded bytes.

    Args:
        starts, ends: bounds of the target's logs when the replay began, by recorded place.
        first: the first base offset that the recording has of a partition, by recorded place.
        shift_ms: how far timestamps of ListOffsets and of records move.
        before: topic, partition -> the recorded offset below which records are from before the recording.
        is_writing: place, time -> True while a Produce of that place is unsettled that was requested until that
            recorded time (ns).
    """

    def __init__(
        self,
        names: Names,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        first: Mapping[TopicPartition, int] | None = None,
        shift_ms: int = 0,
        before: Callable[[str, int], int] = lambda topic, partition: 0,
        is_writing: Callable[[TopicPartition, int], bool] = lambda place, until_ns: False,
    ) -> None:
        self._names, self._shift_ms, self._before, self._is_writing = names, shift_ms, before, is_writing
        self._starts, self._ends = dict(starts), dict(ends)
        self._differences: dict[TopicPartition, Differences] = {}
        for place, offset in (first or {}).items():
            if place in ends:
                self._differences[place] = Differences((offset, ends[place]))
        self._readers = Readers()
        self._pending = PendingOffsets(names)
        self._written: set[TopicPartition] = set()
        # the partitions with markers of transactions, which have no pairs
        self._marked: set[TopicPartition] = set()
        self._committed: dict[tuple[str, TopicPartition], _Moved] = {}
        # first or last offsets of logs, as both sides last answered ListOffsets
        self._bounds: dict[TopicPartition, _Moved] = {}
        self._moved: dict[Origin, dict[TopicPartition, _Moved]] = {}
        self._requests: dict[int, Callable[[Exchange, Values], NotSent | None]] = {
            FETCH: self._fetch,
            OFFSET_COMMIT: self._commit,
            TXN_OFFSET_COMMIT: self._commit,
            DELETE_RECORDS: self._delete,
            LIST_OFFSETS: self._shift,
            PRODUCE: self._write,
        }
        self._answers: dict[int, Callable[[Exchange, Values, Values], None]] = {
            FETCH: self._fetched,
            PRODUCE: self._produced,
            OFFSET_COMMIT: self._kept,
            TXN_OFFSET_COMMIT: self._kept,
            DELETE_RECORDS: self._deleted,
            LIST_OFFSETS: self._listed,
        }

    # translator

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room translates or learns from."""
        return api_key in self._requests or api_key in self._answers or api_key == OFFSET_FETCH

    def request(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        """Moves the offsets of a recorded request."""
        move = self._requests.get(exchange.api_key)
        return move(exchange, values) if move else None

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """Counts records that no answer will tell of: where offsets are limited to the target's log, it has them."""
        if exchange.api_key == PRODUCE and not exchange.awaits:
            for place, length in self._sent_lengths(exchange, values).items():
                if place in self._ends:
                    self._ends[place] += length

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> Resend | None:
        """Learns the target's log and the consumer's position. Sends an OffsetFetch again that is too early."""
        if exchange.api_key == OFFSET_FETCH and self._pending.is_early(exchange, answer):
            return Resend()
        learn = self._answers.get(exchange.api_key)
        if learn:
            learn(exchange, values, answer)
        self._settle(exchange)
        return None

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come. The consumer stays where it was."""
        self._settle(exchange)

    def _settle(self, exchange: Exchange) -> None:
        """The exchange is in flight no more."""
        for moved in self._moved.pop(exchange.origin, {}).values():
            if moved.reader is not None:
                moved.reader.settled(exchange.connection)
        self._pending.forget(exchange.origin)

    # for other rooms

    def expected(self, topic: str, partition: int, recorded: int) -> int:
        """The target's offset for a recorded boundary between records, limited to the target's log."""
        found = self._boundary((topic, partition), recorded)
        return found if recorded < 0 else self._within((topic, partition), found)

    def has_all_before(self, topic: str, partition: int, recorded: int) -> bool:
        """False while the target's log lacks records that the recording has before an offset.

        True where that is unknown: of a partition with records from before, of which no Produce tells offsets.
        """
        place = topic, partition
        if place not in self._differences and self._before(*place) > 0:
            return True
        return self._boundary(place, recorded) <= self._ends.get(place, LARGEST_OFFSET)

    def is_before(self, topic: str, partition: int, recorded: int) -> bool:
        """True for the recorded offset of a record from before the recording."""
        return recorded < self._before(topic, partition)

    def boundary(self, topic: str, partition: int, recorded: int) -> int | None:
        """Where the target has all that the recording has from an offset on; None if no Produce tells."""
        known = self._differences.get((topic, partition))
        found = known.boundary(recorded) if known is not None else None
        if known is None or found is None or (topic, partition) not in self._marked:
            return found
        # behind the last records known, the recording may have markers that the target has before them
        return min(found, known.end())

    def counterpart(self, topic: str, partition: int, recorded: int) -> int:
        """The target's offset of a recorded record of a recorded topic, not limited to the target's log."""
        known = self._differences.get((topic, partition))
        moved = known.target(recorded) if recorded >= 0 and known is not None else None
        return recorded if moved is None else moved

    def of_record(self, topic: str, partition: int, recorded: int) -> int:
        """The target's offset of a recorded record of a recorded topic, limited to the target's log."""
        found = self.counterpart(topic, partition, recorded)
        return found if recorded < 0 else self._within((topic, partition), found)

    def listed(self, topic: str, partition: int, recorded: int) -> int:
        """The target's offset for an offset of a recorded answer to ListOffsets."""
        bound = self._bounds.get((topic, partition))
        if bound is not None and bound.recorded == recorded:
            return bound.target
        return self.expected(topic, partition, recorded)

    def committed(self, group: str, topic: str, partition: int, recorded: int) -> int:
        """The target's offset for a recorded commit of a recorded group: the one that was committed in its place."""
        kept = self._committed.get((group, (topic, partition)))
        if kept and kept.recorded == recorded:
            return kept.target
        ahead = self._pending.ahead(group, (topic, partition), recorded)
        return self.expected(topic, partition, recorded) if ahead is None else ahead

    def consumer(self, origin: Origin, place: TopicPartition) -> Consumer | None:
        """The consumer of a partition in a Fetch in flight; None if the Fetch does not ask for it."""
        moved = self._moved.get(origin, {}).get(place)
        return moved.reader.consumer if moved and moved.reader else None

    def asked_at(self, origin: Origin, place: TopicPartition) -> int | None:
        """The target's offset that a Fetch in flight asks for; None if it does not ask for the partition."""
        moved = self._moved.get(origin, {}).get(place)
        return moved.target if moved else None

    def begin_unasked(self, exchange: Exchange, place: TopicPartition, offset: int) -> None:
        """A consumer has read from an offset on for which no request asked. It goes on there on the target."""
        reader = self._readers.reader(exchange.peer, exchange.connection, place, offset)
        target = reader.position.target if reader.position and reader.is_at(offset) else self.expected(*place, offset)
        self._moved.setdefault(exchange.origin, {})[place] = _Moved(offset, target, reader)

    def begins_at(self, origin: Origin, place: TopicPartition) -> int | None:
        """The target's offset that the records before a consumer's first one are below; None if its Fetch goes on."""
        moved = self._moved.get(origin, {}).get(place)
        return moved.begins_at if moved else None

    def forget_topic(self, topic: str) -> None:
        """Forgets the logs of a recorded topic, which the target has deleted, and commits and positions in them."""
        for each in (self._differences, self._starts, self._ends, self._bounds):
            for place in [place for place in each if place[0] == topic]:
                del each[place]
        for written in (self._written, self._marked):
            written -= {place for place in written if place[0] == topic}
        self._committed = {key: kept for key, kept in self._committed.items() if key[1][0] != topic}
        self._readers.forget_topic(topic)
        self._pending.forget_topic(topic)
        for in_flight in self._moved.values():
            in_flight |= {
                place: each._replace(is_deleted=True) for place, each in in_flight.items() if place[0] == topic
            }

    # requests

    def _fetch(self, exchange: Exchange, values: Values) -> NotSent | None:
        moved = self._moved[exchange.origin] = {}
        errors: dict[TopicPartition, int] | None = None
        for place, each in self._places(FETCH, values):
            offset = each.values["fetch_offset"]
            reader = self._readers.reader(exchange.peer, exchange.connection, place, offset)
            goes_on = reader.position if reader.is_at(offset) else None
            if goes_on is None:
                errors = self._recorded_errors(exchange) if errors is None else errors
                target, begins_at = self._first(place, offset, errors), self._beginning(place, offset)
            else:
                target, begins_at = goes_on.target, None
            each.values["fetch_offset"] = target
            moved[place] = _Moved(offset, target, reader, begins_at)
        return None

    def _commit(self, exchange: Exchange, values: Values) -> NotSent | None:
        places = self._places(exchange.api_key, values)
        if any(self._is_writing(place, exchange.first_ns) for place, _ in places):
            return Hold(Reason.NO_OFFSET)
        moved = self._moved[exchange.origin] = {}
        for place, each in places:
            offset = each.values["committed_offset"]
            # the ends of logs that the recording writes to are known too late: records that it will write are committed
            # too
            is_written = place in self._written or place in self._differences
            target = self._boundary(place, offset) if is_written else self.expected(*place, offset)
            # below the target's log are records from before the recording
            target = target if offset < 0 else max(target, self._starts.get(place, 0))
            each.values["committed_offset"] = target
            moved[place] = _Moved(offset, target)
        return None

    def _delete(self, exchange: Exchange, values: Values) -> NotSent | None:
        errors = self._recorded_errors(exchange)

        def reason(each: Partition) -> Reason | None:
            topic = self._names.topic(each.topic)
            offset = each.values["offset"]
            if topic is None or offset < 0:
                return None
            if (topic, each.partition) not in self._differences:
                return Reason.NO_OFFSET
            each.values["offset"] = self._found((topic, each.partition), offset, errors)
            return None

        return None if partitions.drop(exchange, values, reason) else Withheld(Reason.NO_OFFSET)

    def _shift(self, exchange: Exchange, values: Values) -> NotSent | None:
        for each in partitions.in_request(LIST_OFFSETS, values):
            if each.values["timestamp"] >= 0:
                each.values["timestamp"] += self._shift_ms
        # the stable end moves a moment behind the answer to EndTxn
        is_stable = bool(values.get("isolation_level"))
        self._moved[exchange.origin] = {
            place: _Moved(each.values["timestamp"], 0 if is_stable else self._ends.get(place, 0))
            for place, each in self._places(LIST_OFFSETS, values)
        }
        return None

    def _write(self, exchange: Exchange, values: Values) -> NotSent | None:
        for place, each in self._places(PRODUCE, values):
            self._written.add(place)
            if values.get("transactional_id") is not None:
                self._marked.add(place)
            if exchange.awaits:
                self._moved.setdefault(exchange.origin, {})[place] = _NOTHING_MOVED
            if self._shift_ms and each.values["records"]:
                each.values["records"] = shifted(each.values["records"], self._shift_ms)
        return None

    def _first(self, place: TopicPartition, offset: int, errors: Mapping[TopicPartition, int]) -> int:
        """The target's offset where a reader begins.

        A Produce in flight may stand on the target before records that it follows in the recording. Its reader begins
        before the offsets that may be its.
        """
        found = self._found(place, offset, errors)
        known = self._differences.get(place)
        is_written = any(moved.get(place) is _NOTHING_MOVED for moved in self._moved.values())
        gap = known.first_gap() if known is not None and is_written else None
        return found if gap is None else min(found, gap)

    def _beginning(self, place: TopicPartition, recorded: int) -> int:
        """The target's offset that the records before a consumer's first one are below."""
        known = self._differences.get(place)
        moved = known.behind_earlier(recorded) if known is not None else None
        return recorded if moved is None else moved

    def _found(self, place: TopicPartition, offset: int, errors: Mapping[TopicPartition, int]) -> int:
        if errors.get(place) == OUT_OF_RANGE:
            return self.counterpart(*place, offset)
        return self.expected(*place, offset)

    def _boundary(self, place: TopicPartition, recorded: int) -> int:
        moved = self.boundary(*place, recorded) if recorded >= 0 else None
        return recorded if moved is None else moved

    def _within(self, place: TopicPartition, offset: int) -> int:
        end = self._ends.get(place)
        below = offset if end is None or offset <= end else end
        start = self._starts.get(place, 0)
        return max(below, start)

    # answers

    def _fetched(self, exchange: Exchange, values: Values, answer: Values) -> None:
        target_places = {place: each.values for place, each in self._target_places(exchange, answer)}
        for place, each in target_places.items():
            self._log_is(place, each.get("log_start_offset", -1), each["high_watermark"])
        if exchange.answered_ns is None:
            return
        recorded_places = None
        if exchange.answer is not None:
            told = partitions.in_answer(FETCH, exchange.answer)
            recorded_places = {(self._names.topic(each.topic), each.partition): each.values for each in told}
        for place, moved in self._moved.get(exchange.origin, {}).items():
            if place in target_places and target_places[place]["error_code"] == OUT_OF_RANGE:
                self._readers.forget(exchange.peer, exchange.connection, place)
            elif moved.reader is not None and not moved.is_deleted:
                recorded = None if recorded_places is None else _end(recorded_places.get(place), moved.recorded)
                target = _end(target_places.get(place), moved.target)
                at = Position(recorded, moved.target if target is None else target)
                self._readers.move(moved.reader, exchange.connection, place, at)

    def _produced(self, exchange: Exchange, values: Values, answer: Values) -> None:
        lengths, bases = self._sent_lengths(exchange, values), self._recorded_bases(exchange)
        for place, each in self._target_places(exchange, answer):
            base, recorded = each.values["base_offset"], bases.get(place, NO_OFFSET)
            if base < 0 or each.values["error_code"]:
                continue
            self._log_is(place, each.values.get("log_start_offset", -1), base + lengths.get(place, 0))
            if recorded >= 0 and not self.is_before(*place, recorded):
                known = self._differences.get(place)
                if known is None:
                    known = self._differences[place] = Differences()
                known.add(recorded, base, lengths.get(place, 0))

    def _recorded_bases(self, exchange: Exchange) -> dict[TopicPartition, int]:
        """The recorded base offset of each partition of a Produce."""
        bases: dict[TopicPartition, int] = {}
        for each in partitions.in_answer(PRODUCE, exchange.answer or {}):
            topic = self._names.topic(each.topic)
            if topic is not None:
                bases[topic, each.partition] = each.values["base_offset"]
        return bases

    def _sent_lengths(self, exchange: Exchange, values: Values) -> dict[TopicPartition, int]:
        """The number of records of each partition of a Produce that was sent.

        Large changed batches are in pieces. The recorded ones tell how many records these have.
        """
        sent = {place: each.values["records"] for place, each in self._target_requests(PRODUCE, values)}
        lengths = {place: record_count(data) for place, data in sent.items() if not isinstance(data, Pieces)}
        for place, each in self._places(PRODUCE, exchange.request) if len(lengths) < len(sent) else ():
            if place in sent and place not in lengths:
                lengths[place] = record_count(each.values["records"])
        return lengths

    def _kept(self, exchange: Exchange, values: Values, answer: Values) -> None:
        codes = partitions.errors(exchange.api_key, answer, self._names.recorded_topic)
        group = exchange.request["group_id"]
        for place, moved in self._moved.get(exchange.origin, {}).items():
            if codes.get(place) == 0 and not moved.is_deleted:
                self._committed[group, place] = moved
                if exchange.api_key == TXN_OFFSET_COMMIT:
                    self._pending.add(group, place, moved.recorded, moved.target)

    def _deleted(self, exchange: Exchange, values: Values, answer: Values) -> None:
        for place, each in self._target_places(exchange, answer):
            self._log_is(place, each.values["low_watermark"], -1)

    def _listed(self, exchange: Exchange, values: Values, answer: Values) -> None:
        self._meet_bounds(exchange, answer)
        asked = {place: each.values["timestamp"] for place, each in self._target_requests(LIST_OFFSETS, values)}
        for place, each in self._target_places(exchange, answer):
            offset, which = each.values.get("offset", -1), asked.get(place)
            if which in (EARLIEST, LATEST):
                self._log_is(place, offset if which == EARLIEST else -1, offset if which == LATEST else -1)

    def _meet_bounds(self, exchange: Exchange, answer: Values) -> None:
        """Keeps the target's offset as that of the recorded one, unless the target's log lacks records.

        Records that were on their way when the last offset was asked for may be before it or not, and a replay that is
        ahead of the recording has written more. Records that were there before must be there, or all recorded ones. The
        first record of a time, or a later one, is not behind the one that the recording found. Where batches stand in
        another order, records that the recording has behind that one may be before it.
        """
        told = partitions.in_answer(LIST_OFFSETS, exchange.answer or {})
        theirs = {(self._names.topic(each.topic), each.partition): each.values.get("offset", -1) for each in told}
        asked = self._moved.get(exchange.origin, {})
        for place, each in self._target_places(exchange, answer):
            self._bounds.pop(place, None)
            which, least = asked.get(place, (None, 0))[:2]
            recorded, target = theirs.get(place, -1), each.values.get("offset", -1)
            expected = self.expected(*place, recorded)
            has_all = (
                (which == LATEST and target >= min(least, expected))
                or (which == EARLIEST and target <= expected)
                or (which is not None and which >= 0 and expected <= target <= self.of_record(*place, recorded))
            )
            if has_all and recorded >= 0 and target >= 0:
                self._bounds[place] = _Moved(recorded, target)

    def _log_is(self, place: TopicPartition, start: int, end: int) -> None:
        """Learns the bounds of the target's log; -1: unknown. They never move back."""
        if start >= 0 and start > self._starts.get(place, -1):
            self._starts[place] = start
        if end >= 0 and end > self._ends.get(place, -1):
            self._ends[place] = end

    # lookups

    def _recorded_errors(self, exchange: Exchange) -> dict[TopicPartition, int]:
        """The recorded errors by place; none if the answer is not read yet."""
        answer = None if exchange.answer_frame is None else exchange.answer
        return partitions.errors(exchange.api_key, answer, self._names.topic)

    def _places(self, api_key: int, values: Values) -> list[tuple[TopicPartition, Partition]]:
        found = []
        for each in partitions.in_request(api_key, values):
            topic = self._names.topic(each.topic)
            if topic is not None:
                found.append(((topic, each.partition), each))
        return found

    def _target_requests(self, api_key: int, values: Values) -> list[tuple[TopicPartition, Partition]]:
        return self._recorded_places(partitions.in_request(api_key, values))

    def _target_places(self, exchange: Exchange, answer: Values) -> list[tuple[TopicPartition, Partition]]:
        """The partitions of the target's answer, without those that were deleted while the request was in flight."""
        in_flight = self._moved.get(exchange.origin, {})
        found = self._recorded_places(partitions.in_answer(exchange.api_key, answer))
        return [(place, each) for place, each in found if place not in in_flight or not in_flight[place].is_deleted]

    def _recorded_places(self, told: list[Partition]) -> list[tuple[TopicPartition, Partition]]:
        found = []
        for each in told:
            topic = self._names.recorded_topic(each.topic)
            if topic is not None:
                found.append(((topic, each.partition), each))
        return found


def _end(answer: Values | None, offset: int) -> int | None:
    """The offset behind the whole batches in a partition's answer to a Fetch at `offset`; None if unreadable."""
    if answer is None or answer["error_code"] or not answer["records"]:
        return offset
    try:
        return max([offset, *(batch.last_offset + 1 for batch in batches(answer["records"]))])
    except WireError:
        return None

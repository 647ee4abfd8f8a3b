"""Compares fetched records as streams: the records that a consumer has read of a partition, in whatever answers.

A consumer is any key of the caller's: one reader of a peer, or a share group. Topics have their recorded names. Each
answer's records are added with the offset that was asked for, recorded ones and the target's in any order; `matching`
pairs equal ones.

    equal       on both sides
    missing     recorded; the target's log ended without them
    unread      recorded; the target's log had more when the replay ended
    before      recorded, and neither written in the recording nor given by the target
    extra       the target's, before the last equal one; not those before the record that the consumer began with,
                nor those that the recording has where the consumer had stopped: they stand among the others, since
                producers' records may stand in another order
    reordered   equal, but not in their producer's order

Records that a consumer ignores are skipped: control batches, records before the offset that it asked for (a batch
begins at its first record), records that a share group's member has not acquired, a batch that is cut at an answer's
end. The target's records behind the last equal one are skipped too: the recorded consumer stopped there. Records of
aborted transactions count: they were fetched.

A batch that can't be read counts as unreadable. Memory: MOST_WAITING records of all streams wait for an equal one;
beyond that only sums are kept of the longest stream. Beyond MOST_STREAMS, only counts are kept of streams in which no
record waits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from proxy.wire import records
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from proxy.wire.primitives import Buffer
from proxy.wire.records import Batch, Compression, TimestampType
from recorder.replay.consumers.digests import content, with_time
from recorder.replay.consumers.matching import EARLIER, NO_PRODUCER, Matching, Side
from recorder.replay.messages import MOST_MESSAGES, SMALL, batches
from recorder.replay.partitions import LARGEST_OFFSET

# about 140 MB
MOST_WAITING = 1_000_000
# some 10 MB
MOST_STREAMS = 10_000
# ten times the clients' default for one answer (50 MiB)
MOST_UNFOLDED = 512 << 20


class StreamCounts(NamedTuple):
    """The counts of one stream. `is_exact`: False if only sums are known, so that counts are the least possible."""

    consumer: Hashable
    topic: str
    partition: int
    equal: int
    missing: int
    unread: int
    extra: int
    reordered: int
    unreadable: tuple[int, int]
    is_exact: bool
    before: int = 0

    def with_more(self, more: StreamCounts) -> StreamCounts:
        """The sum of two counts of streams in which no record waits."""
        return self._replace(
            equal=self.equal + more.equal,
            extra=self.extra + more.extra,
            reordered=self.reordered + more.reordered,
            unreadable=(self.unreadable[0] + more.unreadable[0], self.unreadable[1] + more.unreadable[1]),
            before=self.before + more.before,
        )


class Owed(NamedTuple):
    """How far the target is with a stream.

    Attributes:
        records: recorded ones that the target hasn't given.
        at: the next offset to ask the target for; None: it was not asked yet.
        is_at_end: the target's log had no more when it was last asked.
    """

    records: int
    at: int | None
    is_at_end: bool


Key = tuple[Hashable, str, int]
# first and last offset
Range = tuple[int, int]


class Streams:
    """The streams of one replay."""

    def __init__(
        self,
        named: Callable[[Hashable], Hashable] = lambda consumer: consumer,
        boundary: Callable[[str, int, int], int | None] = lambda topic, partition, recorded: None,
        first: Callable[[str, int], int] = lambda topic, partition: 0,
        *,
        compares_times: bool = True,
        most_waiting: int = MOST_WAITING,
        most: int = MOST_STREAMS,
    ) -> None:
        """`named`: the name under which consumers count together.

        `boundary`: topic, partition, recorded offset -> where the target has all records from there on; None: unknown.

        `first`: topic, partition -> the offset below which recorded records are from before the recording.

        `compares_times`: False if the replay moves timestamps.
        """
        self._named, self._boundary, self.first = named, boundary, first
        self._compares_times, self._most_waiting = compares_times, most_waiting
        self._least = self._most = most
        self._streams: dict[Key, _Stream] = {}
        self._met: dict[Key, StreamCounts] = {}
        self._waiting = 0

    def add_recorded(self, consumer: Hashable, topic: str, partition: int, data: Buffer, fetch_offset: int) -> None:
        """Adds the records of a recorded answer. `fetch_offset`: the offset that was asked for."""
        stream = self._stream(consumer, topic, partition)
        self._add(stream, Side.RECORDED, data, [(fetch_offset, LARGEST_OFFSET)])

    def add_replayed(
        self,
        consumer: Hashable,
        topic: str,
        partition: int,
        data: Buffer,
        fetch_offset: int,
        log_end: int | None = None,
        begins_at: int | None = None,
    ) -> None:
        """Adds the records of a target's answer, with the offset that the target was asked for.

        `log_end`: the end of the log for this reader: high watermark, or last stable offset.

        `begins_at`: the target's offset that the records before the consumer's first one are below; None: it goes on.
        """
        stream = self._stream(consumer, topic, partition)
        if begins_at is not None:
            stream.begins_at = begins_at
        stream.at = self._add(stream, Side.REPLAYED, data, [(fetch_offset, LARGEST_OFFSET)])
        stream.is_at_end = log_end is not None and stream.at >= log_end

    def add_acquired(
        self, side: Side, consumer: Hashable, topic: str, partition: int, data: Buffer, ranges: Sequence[Range]
    ) -> None:
        """Adds the records of an answer to a ShareFetch. `ranges`: first and last offsets of the acquired ones.

        The order of a share group's records is not compared: members get them in any order, and some of them again.
        """
        stream = self._stream(consumer, topic, partition)
        self._add(stream, side, data, sorted(ranges), is_ordered=False)

    def end(self, consumer: Hashable, topic: str, partition: int, *, is_at_end: bool) -> None:
        """The target had no more for a consumer that asked; or it has more, since records were given back."""
        stream = self._streams.get((consumer, topic, partition))
        if stream is not None:
            stream.is_at_end = is_at_end

    def asked(self, consumer: Hashable, topic: str, partition: int, at: int) -> None:
        """The target was asked for an offset. An answer without news of the partition does not name it."""
        stream = self._streams.get((consumer, topic, partition))
        if stream is not None and stream.at is None:
            stream.at = at

    def lacks(self, consumer: Hashable, topic: str, partition: int, more: int) -> bool:
        """True if a poll may wait: for records that the recording has given, or `more` that it gives next.

        Records for which a poll has waited in vain are not waited for again: they may never come.
        """
        stream = self._streams.get((consumer, topic, partition))
        if stream is None:
            return more > 0
        return stream.matching.owed > stream.in_vain or more > stream.matching.ahead

    def waited(self, consumer: Hashable, topic: str, partition: int) -> None:
        """A poll has waited for all that the target owes, and got nothing."""
        stream = self._streams.get((consumer, topic, partition))
        if stream is not None:
            stream.in_vain = stream.matching.owed

    def owing(self) -> Iterator[tuple[Key, Owed]]:
        """The streams of which the target owes records, or may have some from before the recording."""
        for key, stream in self._streams.items():
            if stream.owed.records or (stream.matching.before and not stream.is_at_end):
                yield key, stream.owed

    def counts(self) -> Iterator[StreamCounts]:
        """The counts of each stream. Streams of which only counts were kept are counted together."""
        yield from self._met.values()
        for key, stream in self._streams.items():
            yield stream.counts(key, self._stop(key, stream))

    def forget_topic(self, topic: str) -> None:
        """The target has deleted a topic: its streams were of the old log."""
        for key, stream in self._streams.items():
            if key[1] == topic:
                stream.stopped_at = None

    def _stop(self, key: Key, stream: _Stream) -> int | None:
        """Where the recorded consumer stopped, on the target; None: unknown."""
        return None if stream.stopped_at is None else self._boundary(key[1], key[2], stream.stopped_at)

    def _stream(self, consumer: Hashable, topic: str, partition: int) -> _Stream:
        key = consumer, topic, partition
        if key not in self._streams:
            if len(self._streams) >= self._most:
                self._count_met()
            self._streams[key] = _Stream(self._compares_times, self.first(topic, partition))
        return self._streams[key]

    def _count_met(self) -> None:
        """Keeps only the counts of streams in which no record waits. A consumer that reads on begins a new stream."""
        for key in [key for key, stream in self._streams.items() if stream.has_met]:
            whose = self._named(key[0]), key[1], key[2]
            found = self._streams.pop(key).counts(whose)
            before = self._met.get(whose)
            self._met[whose] = before.with_more(found) if before else found
        self._most = max(self._least, 2 * len(self._streams))

    def _add(
        self, stream: _Stream, side: Side, data: Buffer, ranges: Sequence[Range], *, is_ordered: bool = True
    ) -> int:
        """Adds the records of an answer that are in these ranges.

        Returns the offset behind the last batch, or else the first one asked for.
        """
        unfolding, at = _Unfolding(), ranges[0][0] if ranges else 0
        try:
            for batch in _batches(data):
                at = max(at, batch.last_offset + 1)
                if not batch.control and ranges and batch.last_offset >= ranges[0][0]:
                    producer_id = batch.producer_id if is_ordered else -1
                    self._add_batch(stream, side, producer_id, _wanted(data, batch, unfolding, ranges))
        except WireError:
            stream.unreadable[side] += 1
        stream.in_vain = min(stream.in_vain, stream.matching.owed)
        if side is Side.RECORDED:
            stream.stopped_at = max(stream.stopped_at or 0, at)
        return at

    def _add_batch(self, stream: _Stream, side: Side, producer_id: int, each: Iterator[_Digest]) -> None:
        producer = stream.number_of(producer_id) if side is Side.RECORDED else NO_PRODUCER
        try:
            for record in each:
                is_earlier = side is Side.REPLAYED and record.offset < stream.begins_at
                self._waiting += stream.add(side, record, EARLIER if is_earlier else producer)
                if self._waiting > self._most_waiting:
                    self._sum_up()
        except WireError:
            stream.unreadable[side] += 1

    def _sum_up(self) -> None:
        longest = max((stream.matching for stream in self._streams.values()), key=lambda one: one.waiting_count)
        longest.sum_up()
        self._waiting = sum(stream.matching.waiting_count for stream in self._streams.values())


def count_from(offset: int, data: Buffer) -> int:
    """The number of records that a consumer reads from this offset on: at most, where only a wrapper knows it."""
    if len(data) <= SMALL:
        return _remembered_count(offset, bytes(data))
    return count_within([(offset, LARGEST_OFFSET)], data)


@lru_cache(MOST_MESSAGES)
def _remembered_count(offset: int, data: bytes) -> int:
    return count_within([(offset, LARGEST_OFFSET)], data)


def count_within(ranges: Sequence[Range], data: Buffer) -> int:
    """The number of records in these ranges of offsets: at most, where a batch does not tell which offsets it has."""
    apart = deque(_apart(ranges))
    count = 0
    with suppress(WireError):
        for batch in _batches(data):
            inside = _take_until(batch.last_offset, apart)
            if not batch.control:
                count += inside if batch.count is None else min(batch.count, inside)
    return count


def _apart(ranges: Iterable[Range]) -> list[Range]:
    """The ranges in order, those that overlap as one."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _take_until(offset: int, apart: deque[Range]) -> int:
    """Takes offsets up to this one off the ranges. Returns how many these were."""
    count = 0
    while apart and apart[0][0] <= offset:
        first, last = apart.popleft()
        count += min(last, offset) - first + 1
        if last > offset:
            apart.appendleft((offset + 1, last))
    return count


def _batches(data: Buffer) -> Iterable[Batch]:
    """The batches of an answer. A batch that can't be read is an error once it is reached."""
    try:
        return batches(data)
    except WireError:
        return records.batches(data)


class _Unfolding:
    """What the batches of one answer may take. The budget is made for the first batch that is unfolded."""

    __slots__ = ("_budget",)

    def __init__(self) -> None:
        self._budget: Budget | None = None

    @property
    def budget(self) -> Budget:
        if self._budget is None:
            self._budget = Budget(MOST_UNFOLDED)
        return self._budget


def _wanted(data: Buffer, batch: Batch, unfolding: _Unfolding, ranges: Sequence[Range]) -> Iterator[_Digest]:
    for record in _digests(data, batch, unfolding):
        place = bisect_right(ranges, (record.offset, LARGEST_OFFSET)) - 1
        if place >= 0 and record.offset <= ranges[place][1]:
            yield record


def _digests(data: Buffer, batch: Batch, unfolding: _Unfolding) -> Iterable[_Digest]:
    if batch.end - batch.start <= SMALL and batch.codec is Compression.NONE:
        try:
            return _remembered_digests(bytes(data[batch.start : batch.end]))
        except WireError:
            pass
    return _read_digests(data, batch, unfolding.budget)


@lru_cache(MOST_MESSAGES)
def _remembered_digests(data: bytes) -> tuple[_Digest, ...]:
    """The digests of a small batch: both sides have it, and all its consumers."""
    (batch,) = records.batches(data)
    return tuple(_read_digests(data, batch, Budget(MOST_UNFOLDED)))


def _read_digests(data: Buffer, batch: Batch, budget: Budget) -> Iterator[_Digest]:
    for record in records.read_batch(data, batch, budget=budget):
        yield _Digest(record.offset, content(record), record.timestamp, record.timestamp_type)


class _Digest(NamedTuple):
    """A record: its offset, the number of its content, and its time."""

    offset: int
    number: int
    timestamp: int
    timestamp_type: TimestampType


class _Stream:
    """One stream: its matching, and how far the target is.

    Attributes:
        begins_at: the target's offset that the records before the consumer's first one are below.
        stopped_at: the recorded offset behind the last record; None: unknown.
        in_vain: owed records that a poll has waited for.
    """

    def __init__(self, compares_times: bool, first: int) -> None:
        self.matching = Matching()
        self.at: int | None = None
        self.is_at_end = False
        self.begins_at = self.in_vain = 0
        self.stopped_at: int | None = None
        self.unreadable = [0, 0]
        self._compares_times, self._first = compares_times, first
        self._producers: dict[int, int] = {}

    def add(self, side: Side, record: _Digest, producer: int) -> int:
        """Matches a record. Returns by how many more records wait now."""
        waited = self.matching.waiting_count
        number = record.number
        if self._compares_times and record.timestamp_type is not TimestampType.CREATE:
            self._compares_times = False
            self.matching.forget_times()
        if self._compares_times:
            number = with_time(number, record.timestamp)
        is_before = side is Side.RECORDED and record.offset < self._first
        # who knows where the target's counterparts come from
        whose = NO_PRODUCER if is_before else producer
        self.matching.add(side, number, record.timestamp, whose, record.offset, is_before=is_before)
        return self.matching.waiting_count - waited

    def number_of(self, producer_id: int) -> int:
        """A small number for a producer id; NO_PRODUCER if there is none."""
        return self._producers.setdefault(producer_id, len(self._producers) + 1) if producer_id >= 0 else NO_PRODUCER

    @property
    def has_met(self) -> bool:
        """True if all records of both sides have been equal so far."""
        return self.matching.sums is None and not self.matching.waiting_count

    @property
    def owed(self) -> Owed:
        return Owed(self.matching.owed, self.at, self.is_at_end)

    def counts(self, key: Key, stopped_at: int | None = None) -> StreamCounts:
        """The counts. `stopped_at`: the target's offset from which on the recorded consumer has not read."""
        matching = self.matching
        owed = matching.owed + matching.is_unlike
        missing, unread = (owed, 0) if self.is_at_end else (0, owed)
        recorded, replayed = self.unreadable
        return StreamCounts(
            *key,
            equal=matching.equal,
            missing=missing,
            unread=unread,
            extra=matching.extra(stopped_at),
            reordered=matching.reordered,
            unreadable=(recorded, replayed),
            is_exact=matching.sums is None,
            before=matching.before,
        )

"""Records that the target has taken although the recording refused them: their retries must not be sent.

A client repeats refused records in other batches: with another epoch and sequence, split because they were too large,
or several in one. A batch without a sequence may have new records, too. So retries are recognized by their records
(timestamp, key, value, headers), not by their bytes. Equal records are counted: as many are retries as were refused.
The recorded cluster may refuse a retry, too: then the next one is not sent either, until one was taken.

Batches are only decoded while their producer has records to retry, which is rare. Clients give up after a while: the
records of requests that were not retried for that long are dropped. Beyond MOST_RECORDS the records of the oldest
requests are forgotten. Their retries would be sent, so the target may have them twice: `forgotten` counts them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, compress, count, islice, repeat, takewhile
from typing import NamedTuple

from proxy.wire import WireError, records
from proxy.wire.primitives import Buffer
from recorder.replay.messages import record_count
from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import NO_OFFSET, Exchange, Peer, Repeated


class Key(NamedTuple):
    """A producer, by its peer and transactional id, and a partition, by its recorded topic.

    `is_plain`: its batches have no sequence. They may have new records beside retries, and no cluster recognizes them.
    """

    peer: Peer
    transactional_id: str | None
    topic: str
    partition: int
    is_plain: bool = True

    @property
    def place(self) -> TopicPartition:
        """The partition, by its recorded topic."""
        return self.topic, self.partition


# Records that are remembered, of all producers: some 30 MB. Also the most that are looked at in one request.
MOST_RECORDS = 100_000
# How long clients may be silent before their next retry: librdkafka's default for all retries (message.timeout.ms).
# Kafka's own client gives up after two minutes.
_RETRYING_NS = 300 * 10**9


@dataclass(eq=False, slots=True)
class _Refused:
    """The records of one refused request.

    Attributes:
        at_ns: the recorded time of the refusal, or of the last retry.
        order: the target's offset of the first record (NO_OFFSET: unknown), and a number of its own.
        owed: the records, in the order of their offsets.
        waiting: how many of them may still be retried; `first`: the number of the first one.
    """

    key: Key
    at_ns: int
    order: tuple[int, int]
    owed: list[_Owed] = field(default_factory=list)
    waiting: int = 0
    first: int = 0

    def is_given_up(self, at_ns: int) -> bool:
        """True if no client retries the records any more at a recorded time."""
        return at_ns - self.at_ns >= _RETRYING_NS

    def lowest(self) -> int:
        """The target's offset of the first record that may still be retried."""
        while self.owed[self.first].by is None:
            self.first += 1
        return self.owed[self.first].offset


@dataclass(eq=False, slots=True)
class _Owed:
    """A record whose retry may come.

    Attributes:
        offset: the target's offset of it.
        by: the last exchange that had it; None once its retry was taken, or it was forgotten.
    """

    digest: bytes
    offset: int
    by: Exchange | None
    refused: _Refused


class _KeptBack:
    """Requests whose records keep commits back, by partition: in the order of their offsets on the target."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, list[_Refused]] = {}

    def add(self, refused: _Refused) -> None:
        """Adds a request, unless it is there or its offsets are unknown."""
        if refused.order[0] == NO_OFFSET:
            return
        kept = self._of.setdefault(refused.key.place, [])
        at = bisect_left(kept, refused.order, key=_order)
        if refused not in kept[at : at + 1]:
            kept.insert(at, refused)

    def drop(self, refused: _Refused) -> None:
        """Drops a request, if it is there."""
        kept = self._of.get(refused.key.place, [])
        at = bisect_left(kept, refused.order, key=_order)
        if refused in kept[at : at + 1]:
            del kept[at]
            self._forget_empty(refused.key.place)

    def lowest(self, place: TopicPartition, at_ns: int) -> int | None:
        """The lowest offset of records that may still be retried at a recorded time; None: there are none."""
        kept = self._of.get(place)
        if not kept:
            return None
        given_up = sum(1 for _ in takewhile(lambda each: each.is_given_up(at_ns), kept))
        if given_up:
            del kept[:given_up]
            self._forget_empty(place)
        lowest: int | None = None
        for each in kept:
            # those behind it are higher
            if lowest is not None and lowest <= each.order[0]:
                break
            if not each.is_given_up(at_ns):
                lowest = each.lowest() if lowest is None else min(lowest, each.lowest())
        return lowest

    def _forget_empty(self, place: TopicPartition) -> None:
        if not self._of[place]:
            del self._of[place]


def _order(refused: _Refused) -> tuple[int, int]:
    return refused.order


class _Retry(NamedTuple):
    """The records of a retry that were refused before. `length`: the number of all its records."""

    found: list[_Owed]
    length: int


class Repeats:
    """Records whose retry may come, by producer and partition.

    Args:
        is_over: exchange, key, number of its records -> True if no client sends the partition's records again after the
            recorded answer to the exchange.
    """

    def __init__(self, is_over: Callable[[Exchange, Key, int], bool], most: int = MOST_RECORDS) -> None:
        self._is_over, self._most = is_over, most
        self._owed: dict[Key, dict[bytes, list[_Owed]]] = {}
        # retries whose recorded answers may still be read
        self._retries: dict[Key, dict[Exchange, _Retry]] = {}
        # the oldest first
        self._refused: OrderedDict[_Refused, None] = OrderedDict()
        self._refused_of: dict[Key, OrderedDict[_Refused, None]] = {}
        self._kept_back = _KeptBack()
        self._numbers = count()
        self._waiting = Counter[Key]()
        self._count = 0
        self.forgotten = 0

    @property
    def is_empty(self) -> bool:
        """True if no batch can be a retry."""
        return not self._owed

    def refused(self, key: Key, data: Buffer, exchange: Exchange, base: int, repeated: Sequence[Repeated] = ()) -> None:
        """The recording refused these batches of an exchange, and the target has taken what it did not have of them.

        Args:
            base: the target's offset of the first record that it did not have; NO_OFFSET: unknown.
            repeated: the records that the target had before: they are owed already.
        """
        found: list[bytes] = []
        with suppress(WireError):
            found = [*islice(compress(_digests(data), are_new(repeated)), self._most)]
        self.forgotten += max(record_count(data) - sum(each.length for each in repeated) - len(found), 0)
        if found:
            self._add(key, found, exchange, base)
        while self._count > self._most:
            self._forget_oldest(exchange.first_ns)

    def take(self, key: Key, data: Buffer, exchange: Exchange) -> tuple[Repeated, ...]:
        """The records of an exchange's batches that are retries of records that the target has."""
        self.settle(key)
        self._drop_given_up(key, exchange.first_ns)
        if key not in self._owed:
            return ()
        met: list[_Owed | None] = []
        with suppress(WireError):
            met = [*self._met(key, data, exchange)]
        found = [one for one in met if one is not None]
        length = record_count(data)
        behind = max(length - len(met), 0)
        if not key.is_plain and (behind or len(found) < len(met)):
            return ()
        if behind and len(met) == self._most:
            # retries may stand beyond the records that were looked at
            self.forgotten += min(behind, self._waiting[key] - len(found))
        for one in found:
            one.by = exchange
        if found:
            self._retries.setdefault(key, {})[exchange] = _Retry(found, length)
        for refused in dict.fromkeys(one.refused for one in found):
            self._tried_again(refused, exchange.first_ns)
        return _runs(met)

    def settle(self, key: Key) -> None:
        """Forgets records that no client retries any more after the recorded answer to their retry.

        The recorded cluster has taken them, or refused them for good: the same records again are new ones.
        """
        retries = self._retries.get(key, {})
        for retry in [retry for retry in retries if retry.answered_ns is not None]:
            found, length = retries.pop(retry)
            if self._is_over(retry, key, length):
                self._drop([one for one in found if one.by is retry])
        if not retries:
            self._retries.pop(key, None)

    def settle_retry(self, exchange: Exchange) -> None:
        """The recorded answer to an exchange with retries was read."""
        for key in [key for key, retries in self._retries.items() if exchange in retries]:
            self.settle(key)

    def forget(self, key: Key) -> None:
        """Forgets the records: their transaction has ended, so that they may be sent again."""
        self._drop([*chain.from_iterable(self._owed.get(key, {}).values())])

    def forget_topic(self, topic: str) -> None:
        """Forgets the records of a recorded topic: the target has deleted them."""
        for key in [key for key in self._owed if key.topic == topic]:
            self.forget(key)

    def lowest(self, topic: str, partition: int, at_ns: int) -> int | None:
        """The target's lowest offset of records whose retries may still come, at a recorded time; None: none may."""
        # other producers may play far behind this time: their records are still owed
        return self._kept_back.lowest((topic, partition), at_ns)

    def _add(self, key: Key, found: list[bytes], exchange: Exchange, base: int) -> None:
        order = max(base, NO_OFFSET), next(self._numbers)
        refused = _Refused(key, exchange.answered_ns or exchange.at_ns, order, waiting=len(found))
        owed = self._owed.setdefault(key, {})
        for place, digest in enumerate(found):
            one = _Owed(digest, NO_OFFSET if base < 0 else base + place, exchange, refused)
            refused.owed.append(one)
            owed.setdefault(digest, []).append(one)
        self._refused[refused] = None
        self._refused_of.setdefault(key, OrderedDict())[refused] = None
        self._kept_back.add(refused)
        self._waiting[key] += len(found)
        self._count += len(found)

    def _tried_again(self, refused: _Refused, at_ns: int) -> None:
        """The client still retries the records of a request at a recorded time: it becomes the youngest one."""
        refused.at_ns = max(refused.at_ns, at_ns)
        for oldest_first in (self._refused, self._refused_of[refused.key]):
            oldest_first.move_to_end(refused)
        self._kept_back.add(refused)

    def _drop(self, found: Iterable[_Owed]) -> None:
        """Drops records that wait. A request counts until all of its records are dropped."""
        touched = dict[tuple[Key, bytes], None]()
        for one in found:
            refused = one.refused
            one.by = None
            touched[refused.key, one.digest] = None
            self._waiting[refused.key] -= 1
            refused.waiting -= 1
            if not refused.waiting:
                self._drop_request(refused)
        for key, digest in touched:
            self._drop_digest(key, digest)

    def _drop_digest(self, key: Key, digest: bytes) -> None:
        """Keeps those of equal records that still wait."""
        owed = self._owed[key]
        owed[digest] = [one for one in owed[digest] if one.by is not None]
        if not owed[digest]:
            del owed[digest]
        if not owed:
            del self._owed[key], self._waiting[key]
            self._retries.pop(key, None)

    def _drop_request(self, refused: _Refused) -> None:
        key = refused.key
        del self._refused[refused], self._refused_of[key][refused]
        if not self._refused_of[key]:
            del self._refused_of[key]
        self._kept_back.drop(refused)
        self._count -= len(refused.owed)

    def _drop_given_up(self, key: Key, at_ns: int) -> None:
        """Drops the records of a producer that its client retries no more at a recorded time."""
        given_up = [*takewhile(lambda each: each.is_given_up(at_ns), self._refused_of.get(key, ()))]
        self._drop(one for each in given_up for one in each.owed if one.by is not None)

    def _forget_oldest(self, at_ns: int) -> None:
        oldest = next(iter(self._refused))
        self.settle(oldest.key)
        found = [one for one in oldest.owed if one.by is not None]
        if not oldest.is_given_up(at_ns):
            self.forgotten += len(found)
        self._drop(found)

    def _met(self, key: Key, data: Buffer, exchange: Exchange) -> Iterator[_Owed | None]:
        """The counterpart of each record; None for a new one. Ends with the last that may be a retry."""
        owed, left = self._owed.get(key, {}), dict[bytes, Iterator[_Owed]]()
        missing = self._waiting[key]
        for digest in islice(_digests(data), self._most) if owed else ():
            if digest not in left:
                left[digest] = (one for one in owed.get(digest, ()) if _may_repeat(exchange, one.by))
            found = next(left[digest], None)
            missing -= found is not None
            yield found
            if not missing:
                return


def are_new(repeated: Iterable[Repeated]) -> Iterator[bool]:
    """For each record of a partition, without end: True if it is not repeated."""
    at = 0
    for each in repeated:
        yield from chain(repeat(True, each.first - at), repeat(False, each.length))
        at = each.first + each.length
    yield from repeat(True)


def _may_repeat(exchange: Exchange, earlier: Exchange | None) -> bool:
    """True unless the client had no answer to the earlier exchange yet when it sent this one.

    Clocks of two connections may differ, and a client does not await answers on a broken one.
    """
    if earlier is None or exchange.connection != earlier.connection:
        return True
    return earlier.answered_ns is not None and earlier.answered_ns <= exchange.first_ns


def _runs(met: Iterable[_Owed | None]) -> tuple[Repeated, ...]:
    """The retried records, in runs that stand together on the target."""
    runs: list[Repeated] = []
    for index, one in enumerate(met):
        if one is None:
            continue
        if runs and runs[-1].goes_on_with(index, one.offset):
            runs[-1] = runs[-1]._replace(length=runs[-1].length + 1)
        else:
            runs.append(Repeated(index, 1, one.offset))
    return tuple(runs)


def _digests(data: Buffer) -> Iterator[bytes]:
    """A digest of each record. Errors: WireError."""
    return map(_digest, records.read(data))


def _digest(record: records.Record) -> bytes:
    told = repr((record.timestamp, record.key, record.value, record.headers))
    return blake2b(told.encode(), digest_size=16).digest()

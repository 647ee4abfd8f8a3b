"""Records that the target has taken although the recording refused them: their retries must not be sent.

A client repeats refused records in other batches: with another epoch and sequence, split because they were too large,
or several in one. A batch without a sequence may have new records, too. So retries are recognized by their records
(timestamp, key, value, headers), not by their bytes. Equal records are counted: as many are retries as were refused.
The recorded cluster may refuse a retry, too: then the next one is not sent either, until one was taken.

Batches are only decoded while their producer has records to retry, which is rare. Beyond MOST_RECORDS the records of
the oldest refused requests are forgotten. Their retries would be sent, so the target may have them twice: `forgotten`
counts them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, compress, islice, repeat
from typing import NamedTuple

from proxy.wire import WireError, records
from proxy.wire.primitives import Buffer
from recorder.replay.messages import batches
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


# Records that are remembered, of all producers: some 30 MB. Also the most that are looked at in one request.
MOST_RECORDS = 100_000
# How long clients retry: librdkafka's default (message.timeout.ms). Kafka's own client gives up after two minutes.
_RETRYING_NS = 300 * 10**9


@dataclass(eq=False, slots=True)
class _Refused:
    """The records of one refused request. `waiting`: how many of them may still be retried; `at_ns`: of the refusal."""

    key: Key
    at_ns: int
    owed: list[_Owed] = field(default_factory=list)
    waiting: int = 0


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


class Repeats:
    """Records whose retry may come, by producer and partition.

    Args:
        is_taken: True if the recorded answer to an exchange says that the partition's records were taken.
    """

    def __init__(self, is_taken: Callable[[Exchange, Key], bool], most: int = MOST_RECORDS) -> None:
        self._is_taken, self._most = is_taken, most
        self._owed: dict[Key, dict[bytes, list[_Owed]]] = {}
        # retries whose recorded answers may still be read, with their records
        self._retries: dict[Key, dict[Exchange, list[_Owed]]] = {}
        # the oldest first
        self._refused: OrderedDict[_Refused, None] = OrderedDict()
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
        self.forgotten += max(_count(data) - sum(each.length for each in repeated) - len(found), 0)
        if found:
            self._add(key, found, exchange, base)
        while self._count > self._most:
            self._forget_oldest()

    def take(self, key: Key, data: Buffer, exchange: Exchange) -> tuple[Repeated, ...]:
        """The records of an exchange's batches that are retries of records that the target has."""
        self.settle(key)
        met: list[_Owed | None] = []
        with suppress(WireError):
            met = [*self._met(key, data, exchange)]
        found = [one for one in met if one is not None]
        behind = _count(data) - len(met)
        if not key.is_plain and (behind or len(found) < len(met)):
            return ()
        if behind and len(met) == self._most:
            # retries may stand beyond the records that were looked at
            self.forgotten += min(behind, self._waiting[key] - len(found))
        for one in found:
            one.by = exchange
        if found:
            self._retries.setdefault(key, {})[exchange] = found
        return _runs(met)

    def settle(self, key: Key) -> None:
        """Forgets records whose retry the recorded cluster has taken: the same records again are new ones."""
        retries = self._retries.get(key, {})
        for retry in [retry for retry in retries if retry.answered_ns is not None]:
            found = retries.pop(retry)
            if self._is_taken(retry, key):
                self._drop([one for one in found if one.by is retry])

    def forget(self, key: Key) -> None:
        """Forgets the records: their transaction has ended, so that they may be sent again."""
        self._drop([*chain.from_iterable(self._owed.get(key, {}).values())])

    def lowest(self, topic: str, partition: int, at_ns: int) -> int | None:
        """The target's lowest offset of records whose retries may still come, at a recorded time; None: none may."""
        found = (
            one.offset
            for key, owed in self._owed.items()
            if (key.topic, key.partition) == (topic, partition)
            for one in chain.from_iterable(owed.values())
            if one.offset != NO_OFFSET and at_ns - one.refused.at_ns < _RETRYING_NS
        )
        return min(found, default=None)

    def _add(self, key: Key, found: list[bytes], exchange: Exchange, base: int) -> None:
        refused = _Refused(key, exchange.answered_ns or exchange.at_ns, waiting=len(found))
        owed = self._owed.setdefault(key, {})
        for place, digest in enumerate(found):
            one = _Owed(digest, NO_OFFSET if base < 0 else base + place, exchange, refused)
            refused.owed.append(one)
            owed.setdefault(digest, []).append(one)
        self._refused[refused] = None
        self._waiting[key] += len(found)
        self._count += len(found)

    def _drop(self, found: Iterable[_Owed]) -> None:
        """Drops records that wait. A request counts until all of its records are dropped."""
        for one in found:
            refused, owed = one.refused, self._owed[one.refused.key]
            owed[one.digest].remove(one)
            if not owed[one.digest]:
                del owed[one.digest]
            one.by = None
            self._waiting[refused.key] -= 1
            if not owed:
                del self._owed[refused.key], self._waiting[refused.key]
                self._retries.pop(refused.key, None)
            refused.waiting -= 1
            if not refused.waiting:
                del self._refused[refused]
                self._count -= len(refused.owed)

    def _forget_oldest(self) -> None:
        found = [one for one in next(iter(self._refused)).owed if one.by is not None]
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


def _count(data: Buffer) -> int:
    """The number of records, by the heads of their batches."""
    with suppress(WireError):
        return sum(batch.count or 1 for batch in batches(data))
    return 0


def _digests(data: Buffer) -> Iterator[bytes]:
    """A digest of each record. Errors: WireError."""
    return map(_digest, records.read(data))


def _digest(record: records.Record) -> bytes:
    told = repr((record.timestamp, record.key, record.value, record.headers))
    return blake2b(told.encode(), digest_size=16).digest()

"""Records that the target has taken although the recording refused them: their retries must not be sent.

A client repeats refused records in other batches: with another epoch and sequence, split because they were too large,
or several in one. A batch without a sequence may have new records, too. So retries are recognized by their records
(timestamp, key, value, headers), not by their bytes. The recorded cluster may refuse a retry, too: then the next one is
not sent either, until one was taken. Batches are only decoded while their producer has records to retry, which is rare.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

from proxy.wire import WireError, records
from proxy.wire.primitives import Buffer
from recorder.replay.plan import Exchange, Peer

# A producer, by its peer and transactional id, and a partition, by its recorded topic.
Key = tuple[Peer, str | None, str, int]
# Records of one producer and partition: as many as a few refused batches have.
_MOST_RECORDS = 10_000
# Places with records to retry. The oldest are forgotten.
_MOST_PLACES = 1_000


@dataclass(eq=False, slots=True)
class _Owed:
    """A record whose retry may come. `by`: the exchange of its last retry; None: there was none."""

    digest: bytes
    by: Exchange | None = None


class Repeats:
    """Records whose retry may come, by producer and partition.

    Args:
        is_taken: True if the recorded answer to an exchange says that the partition's records were taken.
    """

    def __init__(self, is_taken: Callable[[Exchange, Key], bool]) -> None:
        self._is_taken = is_taken
        self._owed: OrderedDict[Key, list[_Owed]] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        """True if no batch can be a retry."""
        return not self._owed

    def refused(self, key: Key, data: Buffer, exchange: Exchange) -> None:
        """The recording refused these batches of an exchange, and the target has taken what it did not have of them."""
        repeated = {one.digest for one in self._owed.get(key, ()) if one.by is exchange}
        found = [digest for digest in _digests(data) if digest not in repeated]
        if found and len(found) <= _MOST_RECORDS:
            owed = self._owed.setdefault(key, [])
            owed += map(_Owed, found)
            del owed[:-_MOST_RECORDS]
            self._owed.move_to_end(key)
            while len(self._owed) > _MOST_PLACES:
                self._owed.popitem(last=False)

    def take(self, key: Key, data: Buffer, exchange: Exchange, *, may_be_some: bool) -> list[bool]:
        """For each record of an exchange's batches: True if it is a retry of one that the target has.

        The records behind the returned ones are new: a batch may have more than this room looks at.

        Args:
            may_be_some: a batch may have new records beside those that are retried.
        """
        self.settle(key)
        if key not in self._owed:
            return []
        owed: dict[bytes, deque[_Owed]] = {}
        for one in self._owed[key]:
            owed.setdefault(one.digest, deque()).append(one)
        met = [owed[digest].popleft() if owed.get(digest) else None for digest in _digests(data)]
        if None in met and not may_be_some:
            return []
        for each in met:
            if each is not None:
                each.by = exchange
        return [each is not None for each in met]

    def settle(self, key: Key) -> None:
        """Forgets records whose retry the recorded cluster has taken: the same records again are new ones."""
        owed = [one for one in self._owed.pop(key, ()) if one.by is None or not self._is_over(one.by, key)]
        if owed:
            self._owed[key] = owed

    def _is_over(self, retry: Exchange, key: Key) -> bool:
        return retry.answered_ns is not None and self._is_taken(retry, key)

    def forget(self, key: Key) -> None:
        """Forgets the records: their transaction has ended, so that they may be sent again."""
        self._owed.pop(key, None)


def _digests(data: Buffer) -> list[bytes]:
    """A digest of each record, one more than are kept at most; none if the records can't be read."""
    try:
        return [_digest(record) for record in islice(records.read(data), _MOST_RECORDS + 1)]
    except WireError:
        return []


def _digest(record: records.Record) -> bytes:
    told = repr((record.timestamp, record.key, record.value, record.headers))
    return blake2b(told.encode(), digest_size=16).digest()

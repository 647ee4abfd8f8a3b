"""Records that the target has taken although the recording refused them: their retries must not be sent.

A client repeats refused records in other batches: with another epoch and sequence, or split, because they were too
large. So retries are recognized by their records (timestamp, key, value, headers) in order, not by their bytes. Batches
are only decoded while their producer has records to retry, which is rare.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from hashlib import blake2b
from itertools import islice

from proxy.wire import WireError, records
from proxy.wire.primitives import Buffer

# Records of one producer and partition: as many as a few refused batches have.
_MOST_RECORDS = 10_000
# Places with records to retry. The oldest are forgotten.
_MOST_PLACES = 1_000


class Repeats:
    """Records whose retry may come, by place: a producer's partition, as the caller names it."""

    def __init__(self) -> None:
        self._owed: OrderedDict[Hashable, list[list[bytes]]] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        """True if no batch can be a retry."""
        return not self._owed

    def refused(self, place: Hashable, data: Buffer) -> None:
        """The recording refused these batches, and the target has taken them."""
        found = _digests(data)
        if found and len(found) <= _MOST_RECORDS:
            owed = self._owed.setdefault(place, [])
            owed.append(found)
            self._owed.move_to_end(place)
            while sum(map(len, owed)) > _MOST_RECORDS:
                del owed[0]
            while len(self._owed) > _MOST_PLACES:
                self._owed.popitem(last=False)

    def take(self, place: Hashable, data: Buffer) -> bool:
        """True if these batches are a retry of records that the target has. Each refused record is retried once."""
        owed = self._owed.get(place)
        found = _digests(data) if owed else []
        for batch in owed or ():
            if found and batch[: len(found)] == found:
                del batch[: len(found)]
                self._clean(place)
                return True
        return False

    def forget(self, place: Hashable) -> None:
        """The place's records may be sent again: their transaction has ended."""
        self._owed.pop(place, None)

    def _clean(self, place: Hashable) -> None:
        self._owed[place] = [batch for batch in self._owed[place] if batch]
        if not self._owed[place]:
            del self._owed[place]


def _digests(data: Buffer) -> list[bytes]:
    """A digest of each record, one more than are kept at most; none if the records can't be read."""
    try:
        return [_digest(record) for record in islice(records.read(data), _MOST_RECORDS + 1)]
    except WireError:
        return []


def _digest(record: records.Record) -> bytes:
    told = repr((record.timestamp, record.key, record.value, record.headers))
    return blake2b(told.encode(), digest_size=16).digest()

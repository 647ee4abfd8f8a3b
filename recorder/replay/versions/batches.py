"""What becomes of the records of a Produce request: other producers, other times, another format.

Most of a batch stays as it was recorded: of magic 2 only fields of the header change, the checksum is computed anew,
and the compressed block is not touched. Message sets of magic 0 and 1 become one batch of magic 2 where the target's
version of Produce wants that; the way back would lose headers and producers, and is never taken.

All functions take bytes of strangers: they raise WireError and nothing else. Those that unfold or make records take a
`Budget`, by default one of DEFAULT_LIMIT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from struct import Struct
from typing import NamedTuple

from proxy.wire import Budget
from proxy.wire.errors import Malformed, Truncated
from proxy.wire.primitives import Buffer
from proxy.wire.records import (
    DEFAULT_LIMIT,
    Batch,
    Compression,
    Record,
    batches,
    partial,
    read,
    read_batch,
    verify,
    with_producer,
    write_batch,
    write_message_set,
)
from proxy.wire.records.batch import BATCH_CRC_FROM, NO_TIMESTAMP
from proxy.wire.records.checksums import crc32c

CRC = Struct(">I")
CRC_AT = 17
TIMES = Struct(">qq")
TIMES_AT = 27
INT64 = range(-(1 << 63), 1 << 63)
# the memory of what is made of a batch, which may be a message of 26 bytes
BATCH_COST = 200
# the memory of a record of ours while its batch is written
RECORD_COST = 400


class Numbering(NamedTuple):
    """Whose batch it is, and the number of its first record there; -1 for a batch without a producer."""

    producer_id: int
    epoch: int
    base_sequence: int


def producers_of(records: Buffer) -> list[tuple[int, int, int, int]]:
    """(producer id, epoch, base sequence, number of records) of each batch, in their order.

    A message of magic 0 or 1 counts as a batch without a producer; of a wrapper's records the number is 0.

    Errors: Malformed, Truncated, OverBudget.
    """
    return [(one.producer_id, one.producer_epoch, one.base_sequence, one.count or 0) for one in _all(records)]


def codecs_of(records: Buffer) -> set[Compression]:
    """The codecs of the batches. Errors: as `producers_of`."""
    return {batch.codec for batch in _all(records)}


def magics_of(records: Buffer) -> set[int]:
    """The formats of the batches: 0, 1, 2. Errors: as `producers_of`."""
    return {batch.magic for batch in _all(records)}


def _all(records: Buffer, budget: Budget | None = None) -> Iterator[Batch]:
    """All batches, paid for as if they were kept; a producer sends whole ones.

    Errors: Malformed, Truncated, OverBudget.
    """
    if cut := partial(records):
        raise Truncated(f"{cut} bytes that are no whole batch", api="records")
    budget = budget or Budget(DEFAULT_LIMIT)
    for batch in batches(records):
        budget.values.take(BATCH_COST)
        yield batch


def renumbered(records: bytes, numberings: Iterable[Numbering]) -> bytes:
    """The batches as other producers send them: one numbering for each.

    Batches that have theirs already stay as is, and those whose checksum is wrong: the target is to refuse them too.

    Errors: Malformed, also for other numbers of batches and numberings, and for a message that is to have a producer.
    """
    pieces = []
    for batch, wanted in zip_longest(_all(records), numberings):
        if batch is None or wanted is None:
            raise Malformed("not as many batches as producers", api="records")
        pieces.append(_renumbered(records, batch, wanted))
    return b"".join(pieces)


def _renumbered(records: bytes, batch: Batch, wanted: Numbering) -> bytes:
    one = records[batch.start : batch.end]
    is_theirs = (batch.producer_id, batch.producer_epoch, batch.base_sequence) == tuple(wanted)
    return one if is_theirs or _is_damaged(records, batch) else with_producer(one, *wanted)


def _is_damaged(records: bytes, batch: Batch) -> bool:
    """True if the batch's checksum is wrong. A new one would hide that, and the target take what it has to refuse."""
    try:
        verify(records, batch)
    except Malformed:
        return True
    return False


def shifted(records: bytes, by: int, *, budget: Budget | None = None) -> bytes:
    """The records `by` ms later; those without a time stay without.

    Batches keep their blocks; a wrapper of magic 1, whose times are inside, is written anew. A batch whose checksum is
    wrong stays as is.

    Errors: Malformed, OverBudget.
    """
    budget = budget or Budget(DEFAULT_LIMIT)
    return b"".join(_shifted(records, batch, by, budget) for batch in _all(records, budget)) if by else records


def _shifted(records: bytes, batch: Batch, by: int, budget: Budget) -> bytes:
    one = records[batch.start : batch.end]
    if _is_damaged(records, batch):
        return one
    if batch.magic == 2:
        return _with_times(one, _later(batch.base_timestamp, by), _later(batch.max_timestamp, by))
    if batch.magic == 0:
        return one
    inside = _paid(read_batch(records, batch, budget=budget), budget)
    moved = [record._replace(timestamp=_later(record.timestamp, by)) for record in inside]
    return write_message_set(moved, magic=1, codec=batch.codec, timestamp_type=batch.timestamp_type)


def _paid(records: Iterator[Record], budget: Budget) -> Iterator[Record]:
    """The records, which are all held at once."""
    for record in records:
        budget.values.take(RECORD_COST)
        yield record


def _later(timestamp: int, by: int) -> int:
    if timestamp == NO_TIMESTAMP:
        return timestamp
    if timestamp + by not in INT64:
        raise Malformed("a time beyond 64 bits", api="records")
    return timestamp + by


def _with_times(batch: bytes, base: int, largest: int) -> bytes:
    out = bytearray(batch)
    TIMES.pack_into(out, TIMES_AT, base, largest)
    CRC.pack_into(out, CRC_AT, crc32c(memoryview(out)[BATCH_CRC_FROM:]))
    return bytes(out)


def as_batch(records: bytes, *, budget: Budget | None = None) -> bytes:
    """Message sets of magic 0 and 1 as one batch of magic 2, of the first one's codec; a batch of magic 2 as it is.

    Offsets count from 0, as a producer's. What had no time still has none.

    Errors: Malformed (also for both formats side by side), OverBudget.
    """
    magics = magics_of(records)
    if not magics or magics == {2}:
        return records
    if 2 in magics:
        raise Malformed("batches and messages side by side", api="records")
    budget = budget or Budget(DEFAULT_LIMIT)
    first = next(batches(records))
    plain = _paid(read(records, budget=budget), budget)
    numbered = [record._replace(offset=place) for place, record in enumerate(plain)]
    return write_batch(numbered, codec=first.codec)

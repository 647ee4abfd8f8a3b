"""What becomes of the records of a Produce request: other producers, other times, another format.

Most of a batch stays as it was recorded: of magic 2 only fields of the header change, the checksum is computed anew,
and the compressed block is neither touched nor copied (`Pieces`). Message sets of magic 0 and 1 become one batch of
magic 2 where the target's version of Produce wants that; the way back would lose headers and producers, and is never
taken.

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
from proxy.wire.pieces import Pieces
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
    write_batch,
    write_message_set,
)
from proxy.wire.records.batch import BATCH_CRC_FROM, BATCH_HEAD, NO_TIMESTAMP
from proxy.wire.records.checksums import crc32c

Records = Buffer | Pieces
CRC = Struct(">I")
CRC_AT = 17
TIMES = Struct(">qq")
TIMES_AT = 27
PRODUCER = Struct(">qhi")
PRODUCER_AT = 43
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


def producers_of(records: Records) -> list[tuple[int, int, int, int]]:
    """(producer id, epoch, base sequence, number of records) of each batch, in their order.

    A message of magic 0 or 1 counts as a batch without a producer; of a wrapper's records the number is 0.

    Errors: Malformed, Truncated, OverBudget.
    """
    return [(one.producer_id, one.producer_epoch, one.base_sequence, one.count or 0) for one in _all(_whole(records))]


def codecs_of(records: Records) -> set[Compression]:
    """The codecs of the batches. Errors: as `producers_of`."""
    return {batch.codec for batch in _all(_whole(records))}


def magics_of(records: Records) -> set[int]:
    """The formats of the batches: 0, 1, 2. Errors: as `producers_of`."""
    return {batch.magic for batch in _all(_whole(records))}


def _whole(records: Records) -> Buffer:
    return bytes(records) if isinstance(records, Pieces) else records


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


def renumbered(records: Buffer, numberings: Iterable[Numbering]) -> Records:
    """The batches as other producers send them: one numbering for each.

    Batches that have theirs already stay as is, and those whose checksum is wrong: the target is to refuse them too.

    Errors: Malformed, also for other numbers of batches and numberings, and for a message that is to have a producer.
    """
    view, pieces = memoryview(records), list[Buffer]()
    for batch, wanted in zip_longest(_all(view), numberings):
        if batch is None or wanted is None:
            raise Malformed("not as many batches as producers", api="records")
        pieces += _renumbered(view, batch, wanted)
    return _small_or_pieces(pieces)


def _small_or_pieces(found: list[Buffer]) -> Records:
    whole = Pieces(found)
    return whole if len(whole.buffers) > 1 else bytes(whole)


def _renumbered(records: memoryview, batch: Batch, wanted: Numbering) -> list[Buffer]:
    is_theirs = (batch.producer_id, batch.producer_epoch, batch.base_sequence) == tuple(wanted)
    if is_theirs or _is_damaged(records, batch):
        return [records[batch.start : batch.end]]
    if batch.magic != 2:
        raise Malformed(f"a message of magic {batch.magic}: only batches of magic 2 have a producer", api="records")
    return _changed(records, batch, PRODUCER_AT, PRODUCER.pack(*wanted))


def _changed(records: memoryview, batch: Batch, at: int, new: bytes) -> list[Buffer]:
    """A batch of magic 2 with other bytes `at` its header, the checksum of that, and the same records."""
    head = bytearray(records[batch.start : batch.start + BATCH_HEAD.size])
    rest = records[batch.start + BATCH_HEAD.size : batch.end]
    head[at : at + len(new)] = new
    CRC.pack_into(head, CRC_AT, crc32c(rest, crc32c(bytes(head[BATCH_CRC_FROM:]))))
    return [bytes(head), rest]


def _is_damaged(records: Buffer, batch: Batch) -> bool:
    """True if the batch's checksum is wrong. A new one would hide that, and the target take what it has to refuse."""
    try:
        verify(records, batch)
    except Malformed:
        return True
    return False


def shifted(records: Records, by: int, *, budget: Budget | None = None) -> Records:
    """The records `by` ms later; those without a time stay without.

    Batches keep their blocks; a wrapper of magic 1, whose times are inside, is written anew. A batch whose checksum is
    wrong stays as is.

    Errors: Malformed, OverBudget.
    """
    if not by:
        return records
    budget, view = budget or Budget(DEFAULT_LIMIT), memoryview(_whole(records))
    return _small_or_pieces([piece for batch in _all(view, budget) for piece in _shifted(view, batch, by, budget)])


def _shifted(records: memoryview, batch: Batch, by: int, budget: Budget) -> list[Buffer]:
    if batch.magic == 0 or _is_damaged(records, batch):
        return [records[batch.start : batch.end]]
    if batch.magic == 2:
        times = _later(batch.base_timestamp, by), _later(batch.max_timestamp, by)
        return _changed(records, batch, TIMES_AT, TIMES.pack(*times))
    inside = _paid(read_batch(records, batch, budget=budget), budget)
    moved = [record._replace(timestamp=_later(record.timestamp, by)) for record in inside]
    return [write_message_set(moved, magic=1, codec=batch.codec, timestamp_type=batch.timestamp_type)]


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


def as_batch(records: Records, *, budget: Budget | None = None) -> Records:
    """Message sets of magic 0 and 1 as one batch of magic 2, of the first one's codec; a batch of magic 2 as it is.

    Offsets count from 0, as a producer's. What had no time still has none.

    Errors: Malformed (also for both formats side by side), OverBudget.
    """
    records = _whole(records)
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

"""Changes the records of a Produce request: other producers, other timestamps, another format.

Most of a batch stays as recorded. In magic 2 only header fields change and the checksum is computed anew; the
compressed block is neither touched nor copied (`Pieces`). Message sets of magic 0 and 1 become one batch of magic 2 if
the target's version of Produce wants that. The way back would lose headers and producers, and is never taken.

All functions take untrusted bytes, and raise WireError only. Those that decode or encode records take a `Budget`, by
default one of DEFAULT_LIMIT.
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
# the memory of a decoded batch, which may be a message of 26 bytes
BATCH_COST = 200
# the memory of a record while its batch is written
RECORD_COST = 400


class Numbering(NamedTuple):
    """A batch's producer, and the sequence of its first record; -1 without a producer."""

    producer_id: int
    epoch: int
    base_sequence: int


def codecs_of(records: Records) -> set[Compression]:
    """The codecs of the batches. Errors: Malformed, Truncated, OverBudget."""
    return {batch.codec for batch in _all(_whole(records))}


def magics_of(records: Records) -> set[int]:
    """The formats of the batches: 0, 1, 2. Errors: as `codecs_of`."""
    return {batch.magic for batch in _all(_whole(records))}


def _whole(records: Records) -> Buffer:
    return bytes(records) if isinstance(records, Pieces) else records


def _all(records: Buffer, budget: Budget | None = None) -> Iterator[Batch]:
    """All batches, each of which costs memory of the budget. Producers send whole batches only.

    Errors: Malformed, Truncated, OverBudget.
    """
    if cut := partial(records):
        raise Truncated(f"{cut} bytes that are no whole batch", api="records")
    budget = budget or Budget(DEFAULT_LIMIT)
    for batch in batches(records):
        budget.values.take(BATCH_COST)
        yield batch


def renumbered(records: Buffer, numberings: Iterable[Numbering]) -> Records:
    """The batches with other producers and sequences: one numbering for each.

    A batch that has its numbering already stays as it is. So does one with a wrong checksum: the target is to refuse it
    too.

    Errors: Malformed, also if there are not as many numberings as batches, and for a message of magic 0 or 1 that needs
    a producer.
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
    """A batch of magic 2 with `new` bytes at `at` in its header, a new checksum, and the same records."""
    head = bytearray(records[batch.start : batch.start + BATCH_HEAD.size])
    rest = records[batch.start + BATCH_HEAD.size : batch.end]
    head[at : at + len(new)] = new
    CRC.pack_into(head, CRC_AT, crc32c(rest, crc32c(bytes(head[BATCH_CRC_FROM:]))))
    return [bytes(head), rest]


def _is_damaged(records: Buffer, batch: Batch) -> bool:
    """True if the batch's checksum is wrong. A new one would hide that, and the target would take the batch."""
    try:
        verify(records, batch)
    except Malformed:
        return True
    return False


def shifted(records: Records, by: int, *, budget: Budget | None = None) -> Records:
    """The records `by` ms later. Records without a timestamp keep none.

    Batches keep their compressed blocks; a wrapper of magic 1, whose timestamps are inside, is written anew. A batch
    with a wrong checksum stays as it is.

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
    """The records, paid for from the budget: all are held at once."""
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
    """Message sets of magic 0 and 1 as one batch of magic 2, with the first one's codec. Batches of magic 2 stay.

    Offsets count from 0, as a producer's do. Records without a timestamp keep none.

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

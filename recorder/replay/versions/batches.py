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
from proxy.wire.records.batch import BATCH_CRC_FROM, BATCH_HEAD, LOG_OVERHEAD, NO_TIMESTAMP, header
from proxy.wire.records.checksums import crc32c

Records = Buffer | Pieces
CRC = Struct(">I")
CRC_AT = 17
TIMES = Struct(">qq")
TIMES_AT = 27
PRODUCER = Struct(">qhi")
PRODUCER_AT = 43
SIZE = Struct(">i")
SIZE_AT = 8
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
    return Pieces(pieces)


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
    return Pieces([piece for batch in _all(view, budget) for piece in _shifted(view, batch, by, budget)])


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


def filled(headers: bytes, *, budget: Budget | None = None) -> bytes:
    """Batches of magic 2 of which nothing but the headers was kept, with records made up: as many, and as large.

    `headers`: one behind the other. The records are not compressed, but together as large as the compressed ones, to
    within a few bytes, or as small as so many records can be. Each has a key, because compacted topics ask for one.

    Errors: Malformed, Truncated, OverBudget.
    """
    budget = budget or Budget(DEFAULT_LIMIT)
    return b"".join(_filled(headers, start, budget) for start in range(0, len(headers), BATCH_HEAD.size))


def _filled(headers: bytes, start: int, budget: Budget) -> bytes:
    kept = headers[start : start + BATCH_HEAD.size]
    if len(kept) < BATCH_HEAD.size:
        raise Truncated("a header that is cut off", api="records")
    batch = header(kept, 0, len(kept))
    size = SIZE.unpack_from(kept, SIZE_AT)[0] + LOG_OVERHEAD - BATCH_HEAD.size
    if batch.magic != 2 or batch.count is None or size < 0 or batch.base_offset is None:
        raise Malformed("no header of a batch of magic 2", api="records")
    budget.unfolded.take(max(size, batch.count * SMALLEST))
    budget.values.take(batch.count * RECORD_COST)
    return write_batch(
        list(_made(batch, batch.base_offset, batch.count, size)),
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        max_timestamp=batch.max_timestamp,
        transactional=batch.transactional,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )


# length, attributes, time, offset, key's length, a key of one byte, value's length, number of headers
SMALLEST = 8


def _made(batch: Batch, base_offset: int, count: int, size: int) -> Iterator[Record]:
    """So many records, of `size` bytes together: each takes what it must, and a like share of the rest."""
    spare = max(0, size - sum(_record_size(place, 0) for place in range(count)))
    for place in range(count):
        least, share = _record_size(place, 0), spare // (count - place)
        value = share
        # longer lengths take up to four bytes more each
        while value and _record_size(place, value) > least + share:
            value -= 1
        spare -= _record_size(place, value) - least
        yield Record(base_offset + place, batch.base_timestamp, _key(place), bytes(value))


def _key(place: int) -> bytes:
    return b"%d" % place


def _record_size(place: int, value: int) -> int:
    """The bytes of a record without headers, whose time is that of its batch."""
    key = _key(place)
    body = 3 + _varint_size(place) + _varint_size(len(key)) + len(key) + _varint_size(value) + value
    return _varint_size(body) + body


def _varint_size(value: int) -> int:
    """The bytes of a zigzag varint of a number that is not negative."""
    return max(1, ((value << 1).bit_length() + 6) // 7)

"""Finds batches in a buffer, and reads their headers. Payloads are not touched.

Offset, size and magic have the same positions in all formats, so one buffer may hold several formats:

    magic 2      a batch: 61 bytes of header, then its records, compressed as one block or not
    magic 0, 1   a message: one record, or a wrapper whose value is a compressed message set

Each message counts as a batch of its own, as in Kafka's reader. A Fetch response may end inside a batch, and a piece of
a snapshot anywhere: incomplete bytes at the end are no batch and no error; `partial` counts them.
Source: Kafka's `DefaultRecordBatch`, `LegacyRecord`, KIP-98, KIP-32, KIP-534 (delete horizon).
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from proxy.wire.errors import Malformed, OverBudget, WireError, in_bytes, naming
from proxy.wire.primitives import Buffer
from proxy.wire.records.kinds import (
    CODECS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_BIT,
    TRANSACTIONAL_BIT,
    Compression,
    TimestampType,
)

# the "api" of errors; their version is the magic
NAME = "records"
# offset, size: the bytes before those that the size counts
LOG_OVERHEAD = 12
# the offset of the magic, which names the format
MAGIC_AT = 16
# a batch's header; `delta`: from the base offset to the last one
BATCH_FIELDS = (
    *("base_offset", "size", "leader_epoch", "magic", "crc", "attributes", "delta", "base_timestamp", "max_timestamp"),
    *("producer_id", "producer_epoch", "base_sequence", "count"),
)
BATCH_HEAD = Struct(">qiibIhiqqqhii")
# offset, size, crc, magic, attributes
MESSAGE_HEAD = Struct(">qiIbB")
SIZE = Struct(">i")
TIMESTAMP = Struct(">q")
TIMESTAMP_AT = MESSAGE_HEAD.size
# CRC-32C covers a batch from its attributes, CRC-32 a message from its magic
BATCH_CRC_FROM = 21
MESSAGE_CRC_FROM = 16
SMALLEST_MESSAGE = {0: 26, 1: 34}
# bytes of a batch with the marker of a transaction's end, as brokers write it: a version, a type and an epoch
END_MARKER = 78

NO_TIMESTAMP = -1
NO_PRODUCER = -1
NO_PRODUCER_FIELDS = (NO_PRODUCER, -1, -1)
INT64_END = 1 << 63
_read_batch, _read_size = BATCH_HEAD.unpack_from, SIZE.unpack_from


class Batch(NamedTuple):
    """A batch's header; for a message (magic 0 and 1) the fields that it has. Positions count from the buffer's start.

    Lists of batches are long, so this is a tuple; rarer values are properties.
    """

    start: int  # of the first byte in the buffer
    end: int  # of the byte behind the batch
    magic: int
    base_offset: int | None  # None for a wrapper: the first offset stands inside
    last_offset: int
    attributes: int
    crc: int
    leader_epoch: int  # -1 from producers and in messages
    base_timestamp: int  # ms; the delete horizon, if it has one
    max_timestamp: int  # ms; -1 for none
    producer_id: int  # -1 for none
    producer_epoch: int
    base_sequence: int
    # of records; None for a wrapper. The name hides tuple.count, which is not used.
    count: int | None  # type: ignore[assignment]

    @property
    def codec(self) -> Compression:
        """The records' compression; UNKNOWN for the three numbers that no Kafka uses."""
        return CODECS[self.attributes & 7]

    @property
    def timestamp_type(self) -> TimestampType:
        """The source of the records' timestamps. With LOG_APPEND, `max_timestamp` is that of every record."""
        if self.magic == 0:
            return TimestampType.NONE
        return TimestampType.LOG_APPEND if self.attributes & LOG_APPEND_BIT else TimestampType.CREATE

    @property
    def transactional(self) -> bool:
        """True if the records are part of a transaction, and count only once it is committed."""
        return self.magic > 1 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def control(self) -> bool:
        """True if brokers wrote the records for themselves; they are no user data."""
        return self.magic > 1 and bool(self.attributes & CONTROL_BIT)

    @property
    def is_end_marker(self) -> bool:
        """True for the marker of a transaction's end: of all batches that a broker sends, it alone has no user data.

        Other control batches are those of a broker's own logs, and brokers refuse any that a client sends. A batch that
        only claims to be one may hold anything, so size and count count, too.
        """
        is_alone = self.count == 1 and self.codec is Compression.NONE
        return self.control and is_alone and self.end - self.start == END_MARKER

    @property
    def delete_horizon(self) -> int | None:
        """The time in ms from which tombstones and markers of this batch may be removed; None if not known yet."""
        return self.base_timestamp if self.magic > 1 and self.attributes & DELETE_HORIZON_BIT else None


# the constructor of a named tuple is a Python function, which takes three times as long
_batch: Callable[[type[Batch], tuple[object, ...]], Batch] = tuple.__new__


def batches(buf: Buffer, at: int = 0, end: int | None = None) -> Iterator[Batch]:
    """The whole batches in `buf[at:end]`, in their order. Errors: Malformed, with the offset."""
    end = len(buf) if end is None else min(end, len(buf))
    with naming(NAME):
        while (stop := whole(buf, at, end)) is not None:
            yield header(buf, at, stop)
            at = stop


def partial(buf: Buffer, at: int = 0, end: int | None = None) -> int:
    """The size of the incomplete batch at the end of `buf[at:end]`; 0 for none. Errors: Malformed."""
    end = len(buf) if end is None else min(end, len(buf))
    with naming(NAME):
        while (stop := whole(buf, at, end)) is not None:
            at = stop
    return max(0, end - at)


def whole(buf: Buffer, at: int, end: int) -> int | None:
    """The end of the batch at `at`; None if it is incomplete. Errors: Malformed."""
    if end - at < LOG_OVERHEAD:
        return None
    (size,) = _read_size(buf, at + 8)
    # the minimum of each format is checked with the magic
    if size < MAGIC_AT + 1 - LOG_OVERHEAD:
        raise Malformed(f"a batch of {in_bytes(size)}", offset=at + 8)
    stop: int = at + LOG_OVERHEAD + size
    return stop if stop <= end else None


def header(buf: Buffer, start: int, end: int) -> Batch:
    """The header of the whole batch at `start`. Errors: Malformed."""
    magic = buf[start + MAGIC_AT]
    if magic == 2:
        return _batch_header(buf, start, end)
    if magic > 2:
        raise Malformed(f"magic {magic}: 0, 1 and 2 are known", api=NAME, version=magic, offset=start + MAGIC_AT)
    return _message_header(buf, start, end, magic)


def _batch_header(buf: Buffer, start: int, end: int) -> Batch:
    _check_room(start, end, 2, BATCH_HEAD.size)
    offset, _, leader_epoch, magic, crc, attributes, delta, base_timestamp, max_timestamp, *producer, count = (
        _read_batch(buf, start)
    )
    if delta < 0 or count < 0:
        reason = f"a batch of {count} records, the last offset {delta} behind its first"
        raise Malformed(reason, api=NAME, version=2, offset=start)
    last = offset + delta
    if last >= INT64_END:
        raise Malformed("an offset of more than 64 bits", api=NAME, version=2, offset=start)
    times = base_timestamp, max_timestamp
    return _batch(Batch, (start, end, magic, offset, last, attributes, crc, leader_epoch, *times, *producer, count))


def _message_header(buf: Buffer, start: int, end: int, magic: int) -> Batch:
    _check_room(start, end, magic, SMALLEST_MESSAGE[magic])
    offset, _, crc, _, attributes = MESSAGE_HEAD.unpack_from(buf, start)
    timestamp = TIMESTAMP.unpack_from(buf, start + TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    base, count = (None, None) if attributes & 7 else (offset, 1)
    times = timestamp, timestamp
    return Batch(start, end, magic, base, offset, attributes, crc, -1, *times, *NO_PRODUCER_FIELDS, count)


def kind_of(error: WireError) -> type[WireError]:
    """The class for an error within a whole batch: Truncated becomes Malformed."""
    return OverBudget if isinstance(error, OverBudget) else Malformed


def unfolded(error: WireError, batch: Batch) -> WireError:
    """An error in unfolded data, with the offset of the batch or wrapper; the text keeps the inner offset."""
    where = "" if error.offset is None else f", at byte {error.offset} of what they unfold to"
    reason = f"in {batch.codec.value} records{where}: {error.reason}"
    return kind_of(error)(reason, api=NAME, version=batch.magic, offset=batch.start)


def _check_room(start: int, end: int, magic: int, smallest: int) -> None:
    if end - start < smallest:
        reason = f"{in_bytes(end - start)} for magic {magic}, which has {smallest} at least"
        raise Malformed(reason, api=NAME, version=magic, offset=start + 8)

"""Records -> the bytes of a batch or a message set; and changes to a batch that leave its records alone.

The bytes are those that Kafka's Java clients write, apart from differences of compression libraries. Some changes
concern a whole batch: base offset and leader epoch when a broker appends it, producer fields before a client sends it.
They are made in the batch's header, and no record is read.
Source: Kafka's `DefaultRecordBatch`, `DefaultRecord`, `LegacyRecord`, `MemoryRecordsBuilder`.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from zlib import crc32

from proxy.wire.errors import Malformed, naming
from proxy.wire.primitives import Buffer, uvarint
from proxy.wire.records.batch import (
    BATCH_CRC_FROM,
    BATCH_HEAD,
    LOG_OVERHEAD,
    NAME,
    NO_PRODUCER,
    NO_TIMESTAMP,
    Batch,
    header,
    whole,
)
from proxy.wire.records.checksums import crc32c
from proxy.wire.records.compression import compress
from proxy.wire.records.kinds import (
    CODEC_BITS,
    CODECS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_BIT,
    TRANSACTIONAL_BIT,
    Compression,
    ControlType,
    TimestampType,
)
from proxy.wire.records.record import Headers, Record, control_key, int64
from proxy.wire.varints import signed

CRC = Struct(">I")
CRC_AT = 17
OFFSET = Struct(">q")
LEADER_EPOCH = Struct(">i")
LEADER_EPOCH_AT = 12
PRODUCER = Struct(">qhi")
PRODUCER_AT = 43
# the value of a record that ends a transaction: version, the coordinator's epoch
END_MARKER = Struct(">hi")
MESSAGE = Struct(">bb")
INT32 = Struct(">i")
INT64 = Struct(">q")
NO_BYTES = b"\x01"
# the zigzag varints of most lengths and deltas
SMALL = tuple(uvarint(value << 1) for value in range(1024))
NULL = INT32.pack(-1)


@contextmanager
def _fitting(magic: int) -> Iterator[None]:
    """Turns errors of values that don't fit the format into Malformed: too large a number, a text in place of bytes."""
    with naming(NAME, magic):
        try:
            yield
        except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
            raise Malformed(f"no record or batch can hold that: {error}") from None


def write_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE,
    max_timestamp: int | None = None,
    delete_horizon: int | None = None,
    transactional: bool = False,
    control: bool = False,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
) -> bytes:
    """A batch of magic 2.

    Args: records: in the order of their offsets, which may have holes; an empty batch needs `base_offset` and
    `last_offset`. base_offset, last_offset: the batch's range; None means the offset of the first or last record.
    level: on the codec's own scale. timestamp_type: with LOG_APPEND every record's time is `max_timestamp`.
    max_timestamp: in ms; None means the records' largest. delete_horizon: in ms. control: `records` are control records
    (`end_marker_batch` writes the ends of transactions).
    Errors: Malformed for values that the format can't hold; the errors of `compress`.
    """
    with _fitting(2):
        base = base_offset if base_offset is not None else records[0].offset if records else 0
        last = last_offset if last_offset is not None else records[-1].offset if records else base
        if last < (records[-1].offset if records else base):
            raise Malformed(f"a batch whose last offset, {last}, is before that of its last record")
        base_timestamp = delete_horizon
        if base_timestamp is None:
            base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
        if max_timestamp is None:
            max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
        attributes = (
            _number(codec)
            | LOG_APPEND_BIT * (timestamp_type is TimestampType.LOG_APPEND)
            | TRANSACTIONAL_BIT * transactional
            | CONTROL_BIT * control
            | DELETE_HORIZON_BIT * (delete_horizon is not None)
        )
        plain = b"".join(_record(record, base, base_timestamp) for record in records)
        payload = compress(codec, plain, level) if records else b""
        size = BATCH_HEAD.size - LOG_OVERHEAD + len(payload)
        rest = base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, len(records)
        head = BATCH_HEAD.pack(base, size, leader_epoch, 2, 0, attributes, last - base, *rest)
        return _summed(bytearray(head + payload))


def with_records(batch: Batch, records: Iterable[Record]) -> bytes:
    """A batch of magic 2 with the header of `batch` and these records in place of its own, uncompressed.

    Size, codec and checksum are those of the new records; all other fields stay, the count too. Times are written as
    differences to the base timestamp, whatever the batch says of their source. Errors: Malformed.
    """
    with _fitting(2):
        base, attributes = batch.base_offset or 0, batch.attributes & ~CODEC_BITS
        payload = b"".join(_record(record, base, batch.base_timestamp) for record in records)
        size = BATCH_HEAD.size - LOG_OVERHEAD + len(payload)
        places = batch.last_offset - base, batch.base_timestamp, batch.max_timestamp
        producer = batch.producer_id, batch.producer_epoch, batch.base_sequence
        fields = base, size, batch.leader_epoch, 2, 0, attributes, *places, *producer, batch.count
        return _summed(bytearray(BATCH_HEAD.pack(*fields) + payload))


def _number(codec: Compression) -> int:
    if codec is Compression.UNKNOWN or codec not in CODECS:
        raise Malformed(f"nobody can write records of the codec {codec}")
    return CODECS.index(codec)


def end_marker_batch(
    kind: ControlType,
    *,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends a transaction: `kind` is ABORT or COMMIT; timestamp in ms.

    Errors: ValueError for any other kind, Malformed for numbers that don't fit.
    """
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise ValueError(f"{kind} ends no transaction")
    with _fitting(2):
        value = END_MARKER.pack(0, coordinator_epoch)
    return write_batch(
        [Record(offset, timestamp, control_key(kind), value)],
        transactional=True,
        control=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
    )


def _record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    offset, timestamp, key, value, headers, _, _ = record
    if offset < base_offset:
        raise Malformed(f"offset {offset} in a batch that begins at {base_offset}")
    body = b"".join(
        (
            b"\0",
            _signed(timestamp - base_timestamp),
            _varint(offset - base_offset),
            NO_BYTES if key is None else _varint(len(key)) + key,
            NO_BYTES if value is None else _varint(len(value)) + value,
            _headers(headers) if headers else b"\0",
        )
    )
    return _varint(len(body)) + body


def _headers(headers: Headers) -> bytes:
    fields = [_sized(name.encode()) + _sized(value) for name, value in headers]
    return _varint(len(fields)) + b"".join(fields)


def _sized(data: bytes | None) -> bytes:
    return NO_BYTES if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """A number from 0 on as a zigzag varint."""
    return SMALL[value] if value < len(SMALL) else uvarint(value << 1)


def _signed(value: int) -> bytes:
    """A number of 64 bits as a zigzag varint; larger numbers wrap."""
    return SMALL[value] if 0 <= value < len(SMALL) else signed(64, int64(value))


def _summed(batch: bytearray) -> bytes:
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[BATCH_CRC_FROM:]))
    return bytes(batch)


@_fitting(2)
def with_base_offset(batch: Buffer, base_offset: int, leader_epoch: int | None = None) -> bytes:
    """One whole batch of magic 2 as a broker appends it at `base_offset`. `leader_epoch`: None leaves it unchanged.

    The checksum stays, because it does not cover these fields. Errors: Malformed.
    """
    out = _one(batch)
    OFFSET.pack_into(out, 0, base_offset)
    if leader_epoch is not None:
        LEADER_EPOCH.pack_into(out, LEADER_EPOCH_AT, leader_epoch)
    header(out, 0, len(out))
    return bytes(out)


@_fitting(2)
def with_producer(batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """One whole batch of magic 2 as another producer sends it, its checksum computed anew. Errors: Malformed."""
    out = _one(batch)
    PRODUCER.pack_into(out, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    return _summed(out)


def _one(batch: Buffer) -> bytearray:
    end = whole(batch, 0, len(batch))
    if end != len(batch):
        raise Malformed("these are not the bytes of one batch")
    found: Batch = header(batch, 0, end)
    if found.magic != 2:
        raise Malformed(f"a message of magic {found.magic}: only batches of magic 2 have these fields")
    return bytearray(batch)


def write_message_set(
    records: Sequence[Record],
    *,
    magic: int = 1,
    codec: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE,
    log_append_time: int | None = None,
) -> bytes:
    """A message set of magic 0 or 1: a message for each record, in a wrapper if `codec` compresses them.

    Args: log_append_time: in ms, the time of the wrapper or of every message if `timestamp_type` is LOG_APPEND; None
    means each message's own time, in a wrapper the records' largest.
    Errors: Malformed for values that the format can't hold: headers, zstd, a compressed empty set; ValueError for any
    other magic.
    """
    if magic not in (0, 1):
        raise ValueError(f"message sets have magic 0 or 1, not {magic}")
    attributes = LOG_APPEND_BIT if magic and timestamp_type is TimestampType.LOG_APPEND else 0
    stamp = log_append_time if attributes else None
    with _fitting(magic):
        if codec is Compression.NONE:
            return b"".join(_message(record, magic, attributes, record.offset, stamp) for record in records)
        if codec is Compression.ZSTD or not records:
            raise Malformed("zstd in a message set, or a compressed set of nothing")
        base = records[0].offset if magic else 0
        plain = b"".join(_message(record, magic, 0, record.offset - base, None) for record in records)
        largest = max(record.timestamp for record in records)
        wrapper = Record(records[-1].offset, largest, None, compress(codec, plain, level, magic=magic))
        return _message(wrapper, magic, attributes | _number(codec), wrapper.offset, stamp)


def _message(record: Record, magic: int, attributes: int, offset: int, stamp: int | None) -> bytes:
    if record.headers:
        raise Malformed("headers in a message set: only batches of magic 2 have them")
    timestamp = INT64.pack(record.timestamp if stamp is None else stamp) if magic else b""
    summed = b"".join((MESSAGE.pack(magic, attributes), timestamp, _classic(record.key), _classic(record.value)))
    return OFFSET.pack(offset) + INT32.pack(CRC.size + len(summed)) + CRC.pack(crc32(summed)) + summed


def _classic(data: bytes | None) -> bytes:
    return NULL if data is None else INT32.pack(len(data)) + data

"""Message sets of magic 0 and 1: a run of messages, each a record or the wrapper of a compressed set.

A wrapper's messages are plain and of its magic. Their offsets: as they are in magic 0; in magic 1 counted from 0, the
wrapper's offset being that of the last one. (Some versions of librdkafka leave the wrapper's offset 0 in what they
produce: the numbers inside are the offsets then.) A wrapper that a broker stamped (log append time) tells the time of
all.
Source: Kafka's `AbstractLegacyRecordBatch`, KIP-31 (relative offsets), KIP-32 (timestamps).
"""

from collections.abc import Iterator
from struct import Struct

from proxy.wire.errors import Malformed
from proxy.wire.primitives import Buffer
from proxy.wire.records.batch import INT64_END, MESSAGE_CRC_FROM, Batch, batches, partial
from proxy.wire.records.checksums import crc32
from proxy.wire.records.compression import decompress
from proxy.wire.records.kinds import Codec, TimestampType
from proxy.wire.records.record import Raw

SIZE = Struct(">i")
KEY_AT = {0: 18, 1: 26}


def message(buf: Buffer, batch: Batch) -> Raw:
    """The message of `batch` as a record; its value may be a compressed set. Errors: Malformed."""
    key, at = _nullable(buf, batch.start + KEY_AT[batch.magic], batch.end)
    value, at = _nullable(buf, at, batch.end)
    if at != batch.end:
        raise Malformed(f"{batch.end - at} bytes behind a message's value", offset=at)
    return batch.last_offset, batch.max_timestamp, key, value, (), batch.timestamp_type, None


def _nullable(buf: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    if end - at < SIZE.size:
        raise Malformed("a message goes beyond its end", offset=at)
    (size,) = SIZE.unpack_from(buf, at)
    if size == -1:
        return None, at + SIZE.size
    at += SIZE.size
    if not 0 <= size <= end - at:
        raise Malformed(f"a field of {size} bytes", offset=at - SIZE.size)
    return bytes(buf[at : at + size]), at + size


def check_crc32(buf: Buffer, batch: Batch) -> None:
    """Errors: Malformed."""
    found = crc32(memoryview(buf)[batch.start + MESSAGE_CRC_FROM : batch.end])
    if found != batch.crc:
        raise Malformed(f"CRC-32 {found:08x}, the message says {batch.crc:08x}", offset=batch.start)


def unwrapped(wrapper: Batch, value: bytes | None, limit: int, check_crc: bool) -> list[Raw]:
    """The records in a wrapper's value. Errors: Malformed, its offset counted in the plain set."""
    if wrapper.codec is Codec.ZSTD:
        raise Malformed("zstd in a message set: only batches of magic 2 have it")
    if value is None:
        raise Malformed("a compressed message without a value")
    plain = decompress(wrapper.codec, value, limit, magic=wrapper.magic)
    found = list(_inner(wrapper, plain, check_crc))
    if not found or partial(plain):
        raise Malformed("a compressed message set that is empty or cut off")
    base = _base(wrapper, found[-1][0])
    return [_placed(wrapper, raw, base) for raw in found]


def _inner(wrapper: Batch, plain: bytes, check_crc: bool) -> Iterator[Raw]:
    for inner in batches(plain):
        if inner.magic != wrapper.magic or inner.codec is not Codec.NONE:
            raise Malformed("a wrapper holds plain messages of its own magic alone", offset=inner.start)
        if check_crc:
            check_crc32(plain, inner)
        yield message(plain, inner)


def _base(wrapper: Batch, last_inside: int) -> int:
    if wrapper.magic == 0 or wrapper.last_offset == 0:
        return 0
    return wrapper.last_offset - last_inside


def _placed(wrapper: Batch, raw: Raw, base: int) -> Raw:
    offset, timestamp, key, value, headers, _, control = raw
    if not -INT64_END <= base + offset < INT64_END:
        raise Malformed("an offset of more than 64 bits")
    if wrapper.timestamp_type is TimestampType.LOG_APPEND:
        timestamp = wrapper.max_timestamp
    return base + offset, timestamp, key, value, headers, wrapper.timestamp_type, control

"""Message sets of magic 0 and 1: a run of messages, each a record or the wrapper of a compressed set.

A wrapper's messages have the wrapper's magic. Their offsets are absolute in magic 0. In magic 1 they count from 0, and
the wrapper's offset is that of its last message. (Some versions of librdkafka produce wrappers with offset 0: then the
inner offsets are absolute.) If a broker stamped a wrapper (log append time), that is the time of all its messages.

In magic 0 wrappers may nest: the protocol guide allows it, and the readers of 0.8 unfold them. Brokers never wrote
nested wrappers, and every reader since 0.10, which introduced magic 1, refuses them. This reader follows 0.8.
Source: Kafka's `AbstractLegacyRecordBatch`, 0.8's `ByteBufferMessageSet`, KIP-31 (relative offsets), KIP-32
(timestamps).
"""

from struct import Struct
from zlib import crc32

from proxy.wire.budget import Allowance
from proxy.wire.errors import Malformed, WireError, in_bytes
from proxy.wire.primitives import Buffer
from proxy.wire.records.batch import (
    INT64_END,
    LOG_OVERHEAD,
    MESSAGE_CRC_FROM,
    NO_TIMESTAMP,
    SIZE,
    SMALLEST_MESSAGE,
    Batch,
    batches,
    unfolded,
)
from proxy.wire.records.compression import DEEPEST, joined, unfold
from proxy.wire.records.kinds import LOG_APPEND_BIT, Compression, TimestampType
from proxy.wire.records.record import CHUNK, Raw

KEY_AT = {0: 18, 1: 26}
# offset, size, crc, magic, attributes, in magic 1 the timestamp, the key's length
PLAIN_HEADS = {0: Struct(">qiIBBi"), 1: Struct(">qiIBBqi")}
# The memory of a message besides its key and its value: all messages of a wrapper are held at once, twice.
MESSAGE_COST = 500
APPENDED = {0: TimestampType.CREATE, LOG_APPEND_BIT: TimestampType.LOG_APPEND}


def message(buf: Buffer, batch: Batch) -> Raw:
    """The message of `batch` as a record; its value may be a compressed set. Errors: Malformed."""
    key, at = _nullable(buf, batch.start + KEY_AT[batch.magic], batch.end)
    value, at = _nullable(buf, at, batch.end)
    if at != batch.end:
        raise Malformed(f"{in_bytes(batch.end - at)} behind a message's value", offset=at)
    return batch.last_offset, batch.max_timestamp, key, value, (), batch.timestamp_type, None


def _nullable(buf: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    if end - at < SIZE.size:
        raise Malformed("a message goes beyond its end", offset=at)
    (size,) = SIZE.unpack_from(buf, at)
    if size == -1:
        return None, at + SIZE.size
    at += SIZE.size
    if not 0 <= size <= end - at:
        raise Malformed(f"a field of {in_bytes(size)}", offset=at - SIZE.size)
    return bytes(buf[at : at + size]), at + size


def check_crc32(buf: Buffer, batch: Batch) -> None:
    """Checks a message's checksum. Errors: Malformed."""
    if _crc32_of(buf, batch) != batch.crc:
        raise bad_crc32(buf, batch)


def bad_crc32(buf: Buffer, batch: Batch) -> Malformed:
    """The error for a message whose checksum does not fit."""
    return Malformed(f"CRC-32 {_crc32_of(buf, batch):08x}, the message says {batch.crc:08x}", offset=batch.start)


def _crc32_of(buf: Buffer, batch: Batch) -> int:
    return crc32(memoryview(buf)[batch.start + MESSAGE_CRC_FROM : batch.end])


def plain_run(buf: Buffer, at: int, end: int, magic: int, check_crc: bool) -> tuple[list[Raw], int]:
    """The plain messages of `magic` from `at` on, some hundreds at most, and the offset behind them.

    A fast path. It stops before a message that is a wrapper, of another magic, damaged or incomplete.
    """
    out: list[Raw] = []
    head = PLAIN_HEADS[magic]
    unpack, view, smallest = head.unpack_from, memoryview(buf), SMALLEST_MESSAGE[magic]
    while end - at >= smallest and len(out) < CHUNK:
        offset, size, crc, found, attributes, *timestamp, key_size = unpack(buf, at)
        stop = at + LOG_OVERHEAD + size
        if found != magic or attributes & 7 or stop > end:
            break
        place = at + head.size
        value_at = place + key_size if key_size >= 0 else place
        if key_size < -1 or value_at + SIZE.size > stop:
            break
        (value_size,) = SIZE.unpack_from(buf, value_at)
        if value_size < -1 or value_at + SIZE.size + max(value_size, 0) != stop:
            break
        if check_crc and crc32(view[at + MESSAGE_CRC_FROM : stop]) != crc:
            break
        key = bytes(buf[place:value_at]) if key_size >= 0 else None
        value = bytes(buf[value_at + SIZE.size : stop]) if value_size >= 0 else None
        kind = APPENDED[attributes & LOG_APPEND_BIT] if magic else TimestampType.NONE
        out.append((offset, timestamp[0] if magic else NO_TIMESTAMP, key, value, (), kind, None))
        at = stop
    return out, at


def unwrapped(
    wrapper: Batch, value: bytes | None, to_unfold: Allowance, values: Allowance, check_crc: bool
) -> list[Raw]:
    """The records in a wrapper's value.

    `to_unfold`: pays for the unfolded bytes, also of nested wrappers. `values`: pays for the messages.

    Errors: OverBudget, Malformed, its offset counted in the plain set.
    """
    return _Unfolding(to_unfold, values, check_crc).records(wrapper, value, 1)


class _Unfolding:
    """Unfolds one wrapper; the allowances pay for its bytes and messages."""

    def __init__(self, to_unfold: Allowance, values: Allowance, check_crc: bool) -> None:
        self._to_unfold, self._values, self._check_crc = to_unfold, values, check_crc

    def records(self, wrapper: Batch, value: bytes | None, depth: int) -> list[Raw]:
        """The records of a wrapper at this depth; the outermost has depth 1."""
        plain = self._plain(wrapper, value)
        found: list[Raw] = []
        at = 0
        while at < len(plain):
            run, after = plain_run(plain, at, len(plain), wrapper.magic, self._check_crc)
            if run:
                self._values.take(len(run) * MESSAGE_COST)
            else:
                run, after = self._nested(wrapper, plain, at, depth)
            found += run
            at = after
        if not found:
            raise Malformed("a compressed message set of nothing")
        return _placed(wrapper, found)

    def _plain(self, wrapper: Batch, value: bytes | None) -> bytes:
        if wrapper.codec is Compression.ZSTD:
            raise Malformed("zstd in a message set: only batches of magic 2 have it")
        if value is None:
            raise Malformed("a compressed message without a value")
        return joined(unfold(wrapper.codec, value, self._to_unfold, magic=wrapper.magic))

    def _nested(self, wrapper: Batch, plain: bytes, at: int, depth: int) -> tuple[list[Raw], int]:
        """The records of the nested wrapper at `at`, where `plain_run` stopped, and the offset behind the wrapper.

        Errors: OverBudget; Malformed, also if `plain_run` stopped at a damaged message.
        """
        inner = next(batches(plain, at), None)
        if inner is None:
            raise Malformed("a compressed message set that is cut off", offset=at)
        if inner.magic != wrapper.magic:
            raise Malformed("a wrapper holds messages of its own magic alone", offset=at)
        _, _, _, value, *_ = message(plain, inner)
        if inner.codec is Compression.NONE:
            raise bad_crc32(plain, inner)
        if inner.magic:
            raise Malformed("a wrapper of magic 1 holds plain messages alone", offset=at)
        if depth == DEEPEST:
            raise Malformed(f"compressed more than {DEEPEST} times", offset=at)
        if self._check_crc:
            check_crc32(plain, inner)
        try:
            return self.records(inner, value, depth + 1), inner.end
        except WireError as error:
            raise unfolded(error, inner) from None


def _placed(wrapper: Batch, found: list[Raw]) -> list[Raw]:
    """The records with their offsets in the log, and the wrapper's time if a broker stamped it."""
    last = found[-1][0]
    base = 0 if wrapper.magic == 0 or wrapper.last_offset == 0 else wrapper.last_offset - last
    if base < 0:
        raise Malformed(f"a wrapper at offset {wrapper.last_offset}, whose last message says {last}")
    kind = wrapper.timestamp_type
    if not -INT64_END <= base + min(one[0] for one in found) <= base + max(one[0] for one in found) < INT64_END:
        raise Malformed("an offset of more than 64 bits")
    if kind is TimestampType.LOG_APPEND:
        return [(base + one[0], wrapper.max_timestamp, *one[2:5], kind, None) for one in found]
    return [(base + one[0], *one[1:5], kind, None) for one in found]

"""Digests: a record as one number, to find it again in another log.

The number is a hash of what the producer gave: key, value, headers, timestamp. Offsets, batches and compression belong
to the log. A broker may set the timestamp itself (LogAppendTime), and magic 0 has none. So the timestamp is added to
the hash of the rest, and can be subtracted from numbers that were made before the broker's setting was known.
"""

from __future__ import annotations

from hashlib import blake2b

from proxy.wire.records import Record

# Among a million records at a time, two different ones share a number in one of 37 million replays.
DIGEST_BYTES = 8
MASK = (1 << 8 * DIGEST_BYTES) - 1
# The golden ratio's bits: neighbouring times become numbers far apart.
_SPREAD = 0x9E3779B97F4A7C15


def content(record: Record) -> int:
    """The number of a record's key, value and headers."""
    made = blake2b(_size(record.key), digest_size=DIGEST_BYTES)
    for part in (record.key, _size(record.value), record.value):
        made.update(part or b"")
    for name, value in record.headers:
        encoded = name.encode()
        made.update(b"".join((_size(encoded), encoded, _size(value), value or b"")))
    return int.from_bytes(made.digest(), "big")


def with_time(number: int, timestamp: int) -> int:
    """The number of a record with its timestamp."""
    return number + (timestamp + 1) * _SPREAD & MASK


def without_time(number: int, timestamp: int) -> int:
    """The number of a record without its timestamp: the reverse of `with_time`."""
    return number - (timestamp + 1) * _SPREAD & MASK


def _size(part: bytes | None) -> bytes:
    return (-1 if part is None else len(part)).to_bytes(8, "big", signed=True)

"""One record of any format, and the types of control records. `embedded` decodes the values of control records.

Source: Kafka's `DefaultRecord`, `ControlRecordType`; KIP-82 (headers), KIP-98 (control).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from struct import Struct
from typing import NamedTuple

from proxy.wire.errors import Malformed
from proxy.wire.records.kinds import CONTROL_TYPES, ControlType, TimestampType

Headers = tuple[tuple[str, bytes | None], ...]

# Records made per turn of a loop: enough to leave the loop rarely, few enough for the caches.
CHUNK = 256
CONTROL_KEY = Struct(">hh")


class Record(NamedTuple):
    """A record. `timestamp`: ms since 1970, -1 for none. `value`: None is a tombstone. `control`: None for user data.

    Header names are text; bytes that are not UTF-8 become U+FFFD, as in Java.
    """

    offset: int
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_type: TimestampType = TimestampType.CREATE
    control: ControlType | None = None


Raw = tuple[int, int, bytes | None, bytes | None, Headers, TimestampType, ControlType | None]

# A tuple -> a record, in an eighth of the time of a call of the class.
_record: Callable[[Raw], Record] = partial(tuple.__new__, Record)


def as_records(chunks: Iterable[Iterable[Raw]]) -> Iterator[Record]:
    """The records of all chunks; between two records of a chunk no Python code runs."""
    return map(_record, chain.from_iterable(chunks))


def control_type(key: bytes | None) -> ControlType:
    """The type of a control record, by its key: int16 version, int16 type. Errors: Malformed."""
    if key is None or len(key) < CONTROL_KEY.size:
        raise Malformed("a control record's key of less than 4 bytes")
    version, kind = CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise Malformed(f"a control record of version {version}")
    return CONTROL_TYPES[kind] if 0 <= kind < len(CONTROL_TYPES) else ControlType.UNKNOWN


def control_key(kind: ControlType) -> bytes:
    """The key of a control record, version 0. Errors: ValueError for UNKNOWN."""
    if kind is ControlType.UNKNOWN:
        raise ValueError("an UNKNOWN control record has no number to write")
    return CONTROL_KEY.pack(0, CONTROL_TYPES.index(kind))


def with_control(raw: Raw) -> Raw:
    """A raw record of a control batch with its control type."""
    offset, timestamp, key, value, headers, timestamp_type, _ = raw
    return offset, timestamp, key, value, headers, timestamp_type, control_type(key)


def int64(value: int) -> int:
    """The value as Java's long holds it: sums of extreme timestamps wrap."""
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)

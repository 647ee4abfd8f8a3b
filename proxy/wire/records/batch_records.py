"""Reads the unfolded records of a magic 2 batch, in one flat loop.

Every field of a record but its attributes is a zigzag varint or has one before it. Nearly all of these take one byte or
two, and are read in place; functions read longer ones. Bounds are not checked field by field: the data ends with the
batch, so a read beyond it raises IndexError, and each record must end where its length says.

Unfolded data arrives in pieces. The loop runs through a window of them and fails at its end; if the failed record is
only cut there, the window moves on, and the loop begins again with that record.
"""

from collections.abc import Iterator

from proxy.wire.budget import Allowance
from proxy.wire.errors import Malformed, Truncated, in_bytes
from proxy.wire.records.batch import Batch
from proxy.wire.records.kinds import TimestampType
from proxy.wire.records.record import CHUNK, Headers, Raw, int64, with_control
from proxy.wire.varints import read_signed

# Tables by a varint's first byte, because CPython looks a number up in a third of the time that a shift takes. SHORT
# has the value of a one-byte varint that is not negative, otherwise None
SHORT = tuple(byte >> 1 if not byte & 129 else None for byte in range(256))
# the distance from a one-byte length to the end of its value
AHEAD = tuple(None if size is None else 1 + size for size in SHORT)
# the parts of the first and the second byte in the value of a two-byte varint that is not negative
LOW = tuple((byte & 127) >> 1 for byte in range(256))
HIGH = tuple(byte << 6 for byte in range(128))
# the value of a one-byte varint of either sign
ZIGZAG = tuple(byte >> 1 ^ -(byte & 1) for byte in range(128))
# the length -1
NULL = 1
# A smaller timestamp can't wrap by a delta that the loop reads in place.
TAME = 1 << 62
# The most headers of one record, which are all held at once. A header may take 2 bytes here and forty times as much in
# memory, so a limit of bytes alone would not stop a bomb of headers.
MAX_HEADERS = 1 << 20


# A record with more headers begins a chunk, and the allowance pays for it. Records with fewer never make a large chunk.
FEW_HEADERS = 100
# The memory of a header: a pair, its name and its value.
HEADER_COST = 160


class _ManyHeaders(Exception):
    """A record of many headers follows other records; it must begin the next chunk."""


def chunks(pieces: Iterator[bytes], batch: Batch, allowance: Allowance) -> Iterator[list[Raw]]:
    """The records in `pieces`, a few hundred at a time. Records in front of damaged data come before its error.

    `allowance`: pays for records of many headers.

    Errors: Malformed, its offset counted over all pieces; OverBudget; the errors of the iterator `pieces`.
    """
    # the window: plain data from `start` on, as far as it has been unfolded
    data, start = next(pieces, b""), 0
    at, left = 0, batch.count or 0
    while left:
        out: list[Raw] = []
        at, fault = _fill(out, data, at, min(left, CHUNK), batch, allowance)
        if out:
            yield _with_header(out, batch)
        left -= len(out)
        if fault is not None:
            moved = _moved(data, at, pieces)
            if moved is None:
                raise Malformed(fault.reason, offset=start + (at if fault.offset is None else fault.offset))
            data, start, at = moved, start + at, 0
    surplus = len(data) - at + sum(map(len, pieces))
    if surplus:
        raise Malformed(f"{in_bytes(surplus)} behind the last record", offset=start + at)


def _moved(data: bytes, at: int, pieces: Iterator[bytes]) -> bytes | None:
    """The next window: it begins with the record at `at`, and adds at least as many bytes as this window held.

    None if the record was whole already, or if there are no more pieces.
    """
    missing = _missing(data, at)
    if missing <= 0:
        return None
    wanted, more = max(missing, len(data)), []
    for piece in pieces:
        more.append(piece)
        wanted -= len(piece)
        if wanted <= 0:
            break
    return b"".join((data[at:], *more)) if more else None


def _missing(data: bytes, at: int) -> int:
    """The number of missing bytes of the record at `at`; 1 if its length is cut."""
    try:
        size, at = read_signed(32, data, at)
    except Truncated:
        return 1
    except Malformed:
        return 0
    return at + size - len(data)


def _with_header(raw: list[Raw], batch: Batch) -> list[Raw]:
    """The records with their control types and log append time, from the batch's header; extreme timestamps wrap."""
    if batch.last_offset >= TAME and any(one[0] > batch.last_offset for one in raw):
        raise Malformed("an offset beyond the batch's last", offset=0)
    if batch.timestamp_type is TimestampType.LOG_APPEND:
        raw = [(one[0], batch.max_timestamp, *one[2:5], TimestampType.LOG_APPEND, None) for one in raw]
    elif not -TAME < batch.base_timestamp < TAME:
        raw = [(one[0], int64(one[1]), *one[2:]) for one in raw]
    return [with_control(one) for one in raw] if batch.control else raw


def _fill(
    out: list[Raw], data: bytes, at: int, count: int, batch: Batch, allowance: Allowance
) -> tuple[int, Malformed | None]:
    """Adds up to `count` records from `at` on to `out`; returns the offset behind them, and the error of the next one.

    The error is None if the next record has not been read, or has so many headers that it must begin a chunk.
    """
    base_offset, base_timestamp = batch.base_offset or 0, batch.base_timestamp
    append, create = out.append, TimestampType.CREATE
    ahead, short, low, high, zigzag = AHEAD, SHORT, LOW, HIGH, ZIGZAG
    start = at
    try:
        for _ in range(count):
            start = at
            byte = data[at]
            if (step := ahead[byte]) is not None:
                end = at + step
                at += 1
            elif (more := data[at + 1]) < 128 and not byte & 1:
                at += 2
                end = at + low[byte] + high[more]
            else:
                size, at = _length(data, at)
                end = at + size
            # a byte of attributes, which have no meaning yet, then the timestamp
            byte = data[at + 1]
            if byte < 128:
                timestamp = zigzag[byte]
                at += 2
            elif (more := data[at + 2]) < 128 and not byte & 1:
                timestamp = low[byte] + high[more]
                at += 3
            else:
                timestamp, at = read_signed(64, data, at + 1)
                timestamp = int64(base_timestamp + timestamp) - base_timestamp
            byte = data[at]
            if (offset := short[byte]) is not None:
                at += 1
            elif (more := data[at + 1]) < 128 and not byte & 1:
                offset = low[byte] + high[more]
                at += 2
            else:
                offset, at = _length(data, at)
            byte = data[at]
            if (step := ahead[byte]) is not None:
                key: bytes | None = data[at + 1 : (at := at + step)]
            elif byte == NULL:
                key = None
                at += 1
            else:
                key, at = _bytes(data, at)
            byte = data[at]
            if (step := ahead[byte]) is not None:
                value: bytes | None = data[at + 1 : (at := at + step)]
            elif byte == NULL:
                value = None
                at += 1
            elif (more := data[at + 1]) < 128 and not byte & 1:
                value = data[at + 2 : (at := at + 2 + low[byte] + high[more])]
            else:
                value, at = _bytes(data, at)
            headers: Headers = ()
            if data[at]:
                headers, at = _headers(data, at, allowance, bool(out))
            else:
                at += 1
            if at != end:
                raise Malformed(f"a record's length leads to byte {end}, its fields to {at}", offset=start)
            append((base_offset + offset, base_timestamp + timestamp, key, value, headers, create, None))
    except (IndexError, Truncated):
        return start, Malformed("a record goes beyond the end of its batch", offset=start)
    except Malformed as fault:
        return start, fault
    except _ManyHeaders:
        return start, None
    return at, None


def _length(data: bytes, start: int) -> tuple[int, int]:
    value, at = read_signed(32, data, start)
    if value < 0:
        raise Malformed(f"{value} where a number from 0 on must stand", offset=start)
    return value, at


def _bytes(data: bytes, start: int) -> tuple[bytes | None, int]:
    size, at = read_signed(32, data, start)
    if size == -1:
        return None, at
    if not 0 <= size <= len(data) - at:
        raise Malformed(f"a field of {in_bytes(size)}", offset=start)
    return data[at : at + size], at + size


def _headers(data: bytes, start: int, allowance: Allowance, is_behind_others: bool) -> tuple[Headers, int]:
    count, at = _length(data, start)
    if count > MAX_HEADERS:
        raise Malformed(f"a record of {count} headers, at most {MAX_HEADERS} are read", offset=start)
    if count > FEW_HEADERS:
        if is_behind_others:
            raise _ManyHeaders
        allowance.take(count * HEADER_COST)
    headers = []
    for _ in range(count):
        name, at = _name(data, at)
        value, at = _bytes(data, at)
        headers.append((name, value))
    return tuple(headers), at


def _name(data: bytes, start: int) -> tuple[str, int]:
    name, at = _bytes(data, start)
    if name is None:
        raise Malformed("a header without a name", offset=start)
    return name.decode("utf-8", "replace"), at

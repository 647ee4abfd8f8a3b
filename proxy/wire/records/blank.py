"""Batches without their records: which bytes hold keys, values and headers, and how a batch looks without those.

The heads of batches tell offsets, sizes, counts, codecs, times and producers. What follows a head is the records, or a
message's key and value. A *blank* batch has zeros in their place: no real batch looks like that, because no record is
empty, and the checksum in its head is that of other bytes.
"""

from collections.abc import Callable, Generator
from struct import Struct

from proxy.wire.compile.runtime import split_bytes
from proxy.wire.errors import WireError
from proxy.wire.primitives import Buffer
from proxy.wire.records.batch import (
    BATCH_HEAD,
    LOG_OVERHEAD,
    MAGIC_AT,
    SMALLEST_MESSAGE,
    TIMESTAMP_AT,
    Batch,
    header,
)
from proxy.wire.records.kinds import Compression
from proxy.wire.records.reading import verify

# bytes of a batch up to its records, by magic; of a message up to the length of its key
HEADS = {0: TIMESTAMP_AT, 1: TIMESTAMP_AT + 8, 2: BATCH_HEAD.size}
_SMALLEST = {**SMALLEST_MESSAGE, 2: BATCH_HEAD.size}
# the size of a batch with the marker of a transaction's end, as brokers write it: a version, a type and an epoch
_END_MARKER = 78
# offset, size; behind the next four bytes, the magic
_BEGIN = Struct(">qi4xB")

# a walk's state: the piece, the offset in it, its size
State = tuple[Buffer, int, int]


def is_blank(data: Buffer, batch: Batch) -> bool:
    """True if zeros stand in place of the batch's records, or of a message's key and value.

    For batches of a frame from which record data was left out. An empty batch is not blank.
    """
    start = batch.start + HEADS[batch.magic]
    if start >= batch.end or data[start] or bytes(data[start : batch.end]).strip(b"\0"):
        return False
    try:
        verify(data, batch)
    except (WireError, ModuleNotFoundError):
        return True
    # they were zeros from the beginning
    return False


def record_data(
    place: int, length: int, state: State, found: Callable[[int, int], None], *, by_broker: bool
) -> Generator[None, Buffer, State]:
    """Finds the record data in a field of batches that arrives in pieces; tells of each stretch once it has begun.

    A stretch may end far behind the newest piece. Behind a head that nobody can read, all is record data.

    Args:
        place: the offset of the field in its frame, which `found` counts from, too.
        length: of the field.
        by_broker: True in answers: there, the markers of transactions' ends hold no record data.
    Returns the state behind the field.
    """
    buf, at, size = state
    end = place + length
    while end - place > MAGIC_AT:
        head, buf, at, size = yield from _read(MAGIC_AT + 1, buf, at, size)
        _, batch_size, magic = _BEGIN.unpack(head)
        stop = place + LOG_OVERHEAD + batch_size
        if magic not in HEADS or stop - place < _SMALLEST[magic]:
            found(place + len(head), end)
            return buf, at + end - place - len(head), size
        begin = place + HEADS[magic]
        if by_broker and magic == 2 and stop - place == _END_MARKER and stop <= end:
            rest, buf, at, size = yield from _read(BATCH_HEAD.size - len(head), buf, at, size)
            head += rest
            if _is_end_marker(head):
                begin = stop
        if begin < min(stop, end):
            found(begin, min(stop, end))
        at += min(stop, end) - place - len(head)
        place = min(stop, end)
    return buf, at + end - place, size


def _read(count: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, tuple[bytes, Buffer, int, int]]:
    if at + count <= size:
        return bytes(buf[at : at + count]), buf, at + count, size
    found = yield from split_bytes(count, buf, at, size)
    return found


def _is_end_marker(head: bytes) -> bool:
    batch = header(head, 0, _END_MARKER)
    return batch.control and batch.count == 1 and batch.codec is Compression.NONE

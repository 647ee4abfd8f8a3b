"""Batches without their records: which bytes hold keys, values and headers, and how a batch looks without those.

The heads of batches tell offsets, sizes, counts, codecs, times and producers. What follows a head is the records, or a
message's key and value. A *blank* batch has zeros in their place: no real batch looks like that, because no record is
empty, and the checksum in its head is that of other bytes.
"""

from collections.abc import Sequence

from proxy.wire.primitives import Buffer
from proxy.wire.records.batch import BATCH_HEAD, TIMESTAMP_AT, Batch
from proxy.wire.records.reading import is_intact

# bytes of a batch up to its records, by magic; of a message up to the length of its key
HEADS = {0: TIMESTAMP_AT, 1: TIMESTAMP_AT + 8, 2: BATCH_HEAD.size}


def is_blank(data: Buffer, batch: Batch) -> bool:
    """True if zeros stand in place of the batch's records, or of a message's key and value.

    For batches of a frame from which record data was left out. An empty batch is not blank.
    """
    start = batch.start + HEADS[batch.magic]
    if start >= batch.end or data[start] or bytes(data[start : batch.end]).strip(b"\0"):
        return False
    # with a checksum that is right, they were zeros from the beginning
    return not is_intact(data, batch)


def with_blanks(kept: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    """Bytes with zeros where some were left out.

    `spans`: (start, length) in offsets of the result, in order. Errors: ValueError for spans that overlap, or are none.
    """
    ends = (0, *map(sum, spans))
    # before any of them takes memory
    if any(start < end or length < 0 for (start, length), end in zip(spans, ends, strict=False)):
        raise ValueError("spans that don't lie in order")
    pieces: list[bytes] = []
    at = place = 0
    for start, length in spans:
        pieces += (kept[at : at + start - place], bytes(length))
        at, place = at + start - place, start + length
    return b"".join((*pieces, kept[at:]))

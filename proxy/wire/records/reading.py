"""Records of any format out of a buffer: one batch, or all of them.

Offsets of errors count in the buffer that was given. Inside compressed records there is no such offset: the batch's own
is told then, and in words the place in what was unfolded.
"""

from collections.abc import Iterator

from proxy.wire.errors import Malformed, WireError, naming
from proxy.wire.primitives import Buffer
from proxy.wire.records import message_set
from proxy.wire.records.batch import BATCH_CRC_FROM, BATCH_HEAD, NAME, Batch, header, unfolded, whole
from proxy.wire.records.batch_records import chunks
from proxy.wire.records.checksums import crc32c
from proxy.wire.records.compression import DEFAULT_LIMIT, decompress
from proxy.wire.records.kinds import Compression
from proxy.wire.records.record import Raw, Record, as_records


def read(
    buf: Buffer, at: int = 0, end: int | None = None, *, limit: int = DEFAULT_LIMIT, check_crc: bool = True
) -> Iterator[Record]:
    """The records of all whole batches in `buf[at:end]`, control records among them; lazily, in their order.

    Args: limit: bytes that one batch may unfold to; check_crc: False spares about a tenth of the time.
    Errors: Malformed, with the offset, when the damage is reached: records before it have been yielded then.
    ModuleNotFoundError where a codec's package lacks.
    """
    end = len(buf) if end is None else min(end, len(buf))
    return as_records(_all_chunks(buf, at, end, limit, check_crc))


def read_batch(buf: Buffer, batch: Batch, *, limit: int = DEFAULT_LIMIT, check_crc: bool = True) -> Iterator[Record]:
    """The records of one batch that `batches` found in `buf`; otherwise as `read`."""
    return as_records(_chunks(buf, batch, limit, check_crc))


def _all_chunks(buf: Buffer, at: int, end: int, limit: int, check_crc: bool) -> Iterator[list[Raw]]:
    with naming(NAME):
        while (stop := whole(buf, at, end)) is not None:
            batch = header(buf, at, stop)
            if batch.magic < 2 and batch.codec is Compression.NONE:
                run, at = message_set.plain_run(buf, at, end, batch.magic, check_crc)
                if run:
                    yield run
                    continue
            yield from _chunks(buf, batch, limit, check_crc)
            at = stop


def _chunks(buf: Buffer, batch: Batch, limit: int, check_crc: bool) -> Iterator[list[Raw]]:
    if check_crc:
        verify(buf, batch)
    if batch.magic < 2:
        with naming(NAME, batch.magic):
            yield _messages(buf, batch, limit, check_crc)
        return
    try:
        yield from chunks(_payload(buf, batch, limit), batch)
    except WireError as error:
        raise _placed(error, batch, BATCH_HEAD.size) from None


def verify(buf: Buffer, batch: Batch) -> None:
    """The batch's checksum. Errors: Malformed, with the batch's offset."""
    with naming(NAME, batch.magic):
        if batch.magic < 2:
            message_set.check_crc32(buf, batch)
            return
        found = crc32c(memoryview(buf)[batch.start + BATCH_CRC_FROM : batch.end])
        if found != batch.crc:
            raise Malformed(f"CRC-32C {found:08x}, the batch says {batch.crc:08x}", offset=batch.start)


def _payload(buf: Buffer, batch: Batch, limit: int) -> bytes:
    view = memoryview(buf)[batch.start + BATCH_HEAD.size : batch.end]
    # an empty batch that the log cleaner left has nothing to unfold
    if batch.codec is Compression.NONE or not batch.count:
        return bytes(view)
    return decompress(batch.codec, view, limit)


def _messages(buf: Buffer, batch: Batch, limit: int, check_crc: bool) -> list[Raw]:
    raw = message_set.message(buf, batch)
    if batch.codec is Compression.NONE:
        return [raw]
    try:
        return message_set.unwrapped(batch, raw[3], limit, check_crc)
    except WireError as error:
        raise _placed(error, batch, 0) from None


def _placed(error: WireError, batch: Batch, payload_from: int) -> Malformed:
    """An error whose offset counts in the plain records, told for the buffer."""
    if batch.codec is Compression.NONE:
        inside = error.offset or 0
        return Malformed(error.reason, api=NAME, version=batch.magic, offset=batch.start + payload_from + inside)
    return unfolded(error, batch)

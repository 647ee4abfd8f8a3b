"""Reads records of any format from a buffer: the records of one batch, or of all batches.

Offsets of errors count in the given buffer. An error inside compressed records has the batch's offset; its text has
the offset in the unfolded data.
"""

from collections.abc import Iterator
from typing import NamedTuple

from proxy.wire.budget import FREE, Allowance, Budget, of_a_batch
from proxy.wire.errors import Malformed, WireError, naming
from proxy.wire.primitives import Buffer
from proxy.wire.records import message_set
from proxy.wire.records.batch import BATCH_CRC_FROM, BATCH_HEAD, NAME, Batch, header, kind_of, unfolded, whole
from proxy.wire.records.batch_records import chunks
from proxy.wire.records.checksums import crc32c
from proxy.wire.records.compression import DEFAULT_LIMIT, is_as_it_says, unfold
from proxy.wire.records.kinds import Compression
from proxy.wire.records.record import Raw, Record, as_records


def read(
    buf: Buffer,
    at: int = 0,
    end: int | None = None,
    *,
    limit: int = DEFAULT_LIMIT,
    check_crc: bool = True,
    budget: Budget | None = None,
) -> Iterator[Record]:
    """Iterates over the records of all whole batches in `buf[at:end]`, in order, control records included.

    A compressed batch is unfolded only as far as its records are iterated.

    Args: limit: bytes that one batch may unfold to. check_crc: False saves about a tenth of the time. budget: pays for
    all batches together, in place of `limit`.
    Errors: Malformed and OverBudget, with the offset; the records before it come first. ModuleNotFoundError for a
    missing codec package.
    """
    end = len(buf) if end is None else min(end, len(buf))
    return as_records(_all_chunks(buf, at, end, _Options(limit, check_crc, budget)))


def read_batch(
    buf: Buffer,
    batch: Batch,
    *,
    limit: int = DEFAULT_LIMIT,
    check_crc: bool = True,
    budget: Budget | None = None,
) -> Iterator[Record]:
    """The records of one batch that `batches` found in `buf`; otherwise as `read`."""
    return as_records(_chunks(buf, batch, _Options(limit, check_crc, budget)))


class _Options(NamedTuple):
    """The caller's options for reading batches."""

    limit: int
    check_crc: bool
    budget: Budget | None

    @property
    def unfolded(self) -> Allowance:
        """The allowance that pays for unfolding the next batch."""
        return of_a_batch(self.limit) if self.budget is None else self.budget.unfolded

    @property
    def values(self) -> Allowance:
        """The allowance for records of many headers and for wrappers' messages; unlimited without a budget."""
        return FREE if self.budget is None else self.budget.values


def _all_chunks(buf: Buffer, at: int, end: int, options: _Options) -> Iterator[list[Raw]]:
    with naming(NAME):
        while (stop := whole(buf, at, end)) is not None:
            batch = header(buf, at, stop)
            if batch.magic < 2 and batch.codec is Compression.NONE:
                run, at = message_set.plain_run(buf, at, end, batch.magic, options.check_crc)
                if run:
                    yield run
                    continue
            yield from _chunks(buf, batch, options)
            at = stop


def _chunks(buf: Buffer, batch: Batch, options: _Options) -> Iterator[list[Raw]]:
    if options.check_crc:
        verify(buf, batch)
    if batch.magic < 2:
        with naming(NAME, batch.magic):
            yield _messages(buf, batch, options)
        return
    try:
        yield from chunks(_payload(buf, batch, options), batch, options.values)
    except WireError as error:
        raise _placed(error, batch, BATCH_HEAD.size) from None


def verify(buf: Buffer, batch: Batch) -> None:
    """Checks the batch's checksum. Errors: Malformed, with the batch's offset."""
    if batch.magic < 2:
        with naming(NAME, batch.magic):
            message_set.check_crc32(buf, batch)
        return
    found = crc32c(memoryview(buf)[batch.start + BATCH_CRC_FROM : batch.end])
    if found != batch.crc:
        with naming(NAME, batch.magic):
            raise Malformed(f"CRC-32C {found:08x}, the batch says {batch.crc:08x}", offset=batch.start)


def is_intact(buf: Buffer, batch: Batch) -> bool | None:
    """Whether the batch's checksum is right; None if no package here can tell."""
    try:
        verify(buf, batch)
    except WireError:
        return False
    except ModuleNotFoundError:
        return None
    return True


def has_checksum(batch: Buffer, checksum: int) -> bool | None:
    """Whether a batch of magic 2, whole and from its first byte, has this checksum; None if no package can tell."""
    try:
        return crc32c(memoryview(batch)[BATCH_CRC_FROM:]) == checksum
    except ModuleNotFoundError:
        return None


def remark(buf: Buffer, batch: Batch, budget: Budget) -> str:
    """What is wrong with a batch although Kafka's brokers and consumers read it; "" for nothing.

    Unfolds the batch once more. Errors: as of `read_batch`.
    """
    if batch.codec is not Compression.LZ4 or (not batch.count and batch.magic == 2):
        return ""
    view = memoryview(buf)[batch.start + BATCH_HEAD.size : batch.end]
    payload = view if batch.magic == 2 else message_set.message(buf, batch)[3] or b""
    if is_as_it_says(batch.codec, payload, budget.unfolded, magic=batch.magic):
        return ""
    return "the checksum or the size in its lz4 frame is wrong; Kafka reads the records all the same"


def _payload(buf: Buffer, batch: Batch, options: _Options) -> Iterator[bytes]:
    view = memoryview(buf)[batch.start + BATCH_HEAD.size : batch.end]
    # the log cleaner leaves empty batches, which have nothing to unfold
    if batch.codec is Compression.NONE or not batch.count:
        return iter((bytes(view),))
    return unfold(batch.codec, view, options.unfolded)


def _messages(buf: Buffer, batch: Batch, options: _Options) -> list[Raw]:
    raw = message_set.message(buf, batch)
    if batch.codec is Compression.NONE:
        return [raw]
    try:
        return message_set.unwrapped(batch, raw[3], options.unfolded, options.values, options.check_crc)
    except WireError as error:
        raise _placed(error, batch, 0) from None


def _placed(error: WireError, batch: Batch, payload_from: int) -> WireError:
    """The error with an offset in the buffer; the given error's offset counts in the plain records."""
    if batch.codec is Compression.NONE:
        kind, inside = kind_of(error), error.offset or 0
        return kind(error.reason, api=NAME, version=batch.magic, offset=batch.start + payload_from + inside)
    return unfolded(error, batch)

"""Record batches and message sets with hashed keys, values and headers' values, uncompressed.

    batch (magic 2)    keeps all fields of its header but size, codec and checksum; offsets, times and header names of
                       its records stay
    message            (magic 0, 1) keeps its offset, time and attributes; a wrapper becomes the messages in it, with
                       their offsets in the log
    control batch      the marker of a transaction's end stays as it is in an answer; all others are dropped
    dropped            what can't be unfolded within the budget, or read: only its header is kept

A batch of a wrong checksum that can be read is hashed like any other, and gets a right one; `Told` says what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from proxy.wire import records
from proxy.wire.budget import DEFAULT_BUDGET, Allowance, Budget
from proxy.wire.errors import WireError
from proxy.wire.records import DEFAULT_LIMIT, Batch, Record, TimestampType
from proxy.wire.records.batch import MAGIC_AT
from proxy.wire.records.blank import HEADS
from proxy.wire.records.kinds import LOG_APPEND_BIT
from proxy.wire.records.record import Raw, as_records
from proxy.wire.records.walk import MAX_HEADS
from recorder.hashing.hasher import HASH_SIZE, Hasher

# what becomes of a batch
HASHED, KEPT, DROPPED = "hash", "keep", "drop"

# memory of a rewritten record beside the hashes in it: an object of its bytes (33), a pointer, its numbers
_RECORD_COST = 100


class Told(NamedTuple):
    """What a batch was, as it came.

    Attributes:
        rule: what became of it: HASHED, KEPT (the marker of a transaction's end, or a batch of another topic), DROPPED.
        codec: its compression, by the wire's name.
        size: its bytes on the wire, header included.
        is_intact: whether its checksum is that of its bytes; None where no library can tell.
        batches: in how many batches it is now: a wrapper becomes as many as it has messages.
    """

    rule: str
    codec: str
    size: int
    is_intact: bool | None
    batches: int


# the types of these fields where they are a column, as Arrow names them
TOLD_TYPES = {"rule": "string", "codec": "string", "size": "int32", "is_intact": "bool", "batches": "int32"}


class Rewritten(NamedTuple):
    """Batches with hashed values.

    Attributes:
        data: their bytes, without those of dropped ones behind their headers.
        omitted: (start, length) of the bytes that `data` lacks, in offsets of the batches as they would be with them.
        told: what each batch was; a batch that is cut off at the end is none.
    """

    data: bytes
    omitted: list[tuple[int, int]]
    told: list[Told]


class FrameBudget:
    """How much the batches of one frame may unfold to, together: a bomb takes its own part, and no more.

    Memory and work for one frame are limited by `size` and by the number of batches, whatever the frame says.
    """

    def __init__(self, size: int = DEFAULT_BUDGET, batches: int = MAX_HEADS) -> None:
        self.left = size
        self.batches = batches

    def of_a_batch(self) -> Budget:
        """The budget of the next batch."""
        return Budget(min(DEFAULT_LIMIT, self.left))

    def pay(self, budget: Budget) -> None:
        """Takes what a batch has used."""
        self.left -= max(budget.size - allowance.left for allowance in (budget.unfolded, budget.values))


def rewritten(data: bytes, hasher: Hasher | None, budget: FrameBudget, *, by_broker: bool = True) -> Rewritten:
    """The batches in `data` with hashed values.

    Args:
        hasher: None: all batches that hold values are dropped.
        by_broker: False for batches that a client wrote: what claims to be a marker is dropped then.
    Errors: ModuleNotFoundError for a missing library of a codec or checksum.
    """
    made = _Made()
    at = 0
    found = records.batches(data)
    try:
        for batch in islice(found, budget.batches):
            at = batch.end
            _add(made, data, batch, hasher, budget, by_broker)
    except WireError:
        # nothing behind can be told apart, so no byte of it can be told from a value
        made.omit(len(data) - at)
    else:
        made.drop(data[at:])
    budget.batches -= len(made.told)
    return Rewritten(b"".join(made.pieces), made.omitted, made.told)


def told_of(data: bytes, budget: FrameBudget) -> list[Told]:
    """What batches are that stay as they are, up to the first that can't be read."""
    found: list[Told] = []
    with suppress(WireError):
        for batch in islice(records.batches(data), budget.batches):
            size = batch.end - batch.start
            found.append(Told(KEPT, batch.codec.value, size, records.is_intact(data, batch), 1))
    budget.batches -= len(found)
    return found


class _Made:
    """Collects what was made. `size`: of the batches with the omitted bytes."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.omitted: list[tuple[int, int]] = []
        self.told: list[Told] = []
        self.size = 0

    def put(self, data: bytes) -> None:
        self.pieces.append(data)
        self.size += len(data)

    def omit(self, length: int) -> None:
        if length:
            self.omitted.append((self.size, length))
            self.size += length

    def drop(self, batch: bytes) -> None:
        """Puts the header of a batch, which may be cut off, and omits the rest."""
        header = batch[: HEADS.get(batch[MAGIC_AT], 0)] if len(batch) > MAGIC_AT else b""
        self.put(header)
        self.omit(len(batch) - len(header))


def _add(made: _Made, data: bytes, batch: Batch, hasher: Hasher | None, budget: FrameBudget, by_broker: bool) -> None:
    rule, count = HASHED if hasher else DROPPED, 1
    if batch.control:
        rule = KEPT if by_broker and batch.is_end_marker else DROPPED
    whole = data[batch.start : batch.end]
    if hasher is not None and rule is HASHED:
        limits = budget.of_a_batch()
        try:
            hashed, count = _hashed(data, batch, hasher, limits)
            made.put(hashed)
        except WireError:
            rule = DROPPED
        budget.pay(limits)
    if rule is KEPT:
        made.put(whole)
    elif rule is DROPPED:
        made.drop(whole)
    made.told.append(Told(rule, batch.codec.value, len(whole), records.is_intact(data, batch), count))


def _hashed(data: bytes, batch: Batch, hasher: Hasher, limits: Budget) -> tuple[bytes, int]:
    """The bytes of a hashed batch, and the number of batches that they are."""
    if batch.magic == 2:
        # where the broker's time counts for all records, their own times stay in the batch all the same
        own_times = batch._replace(attributes=batch.attributes & ~LOG_APPEND_BIT)
        found = records.read_batch(data, own_times, check_crc=False, budget=limits)
        return records.with_records(batch, _all_hashed(found, hasher, limits.values)), 1
    messages = [*_all_hashed(records.read_batch(data, batch, check_crc=False, budget=limits), hasher, limits.values)]
    return _message_set(messages, batch.magic), len(messages)


def _message_set(messages: list[Record], magic: int) -> bytes:
    kind = messages[0].timestamp_type if magic else TimestampType.CREATE
    return records.write_message_set(messages, magic=magic, timestamp_type=kind)


def _all_hashed(found: Iterable[Record], hasher: Hasher, allowance: Allowance) -> Iterator[Record]:
    return as_records([_fields_hashed(found, hasher, allowance)])


def _fields_hashed(found: Iterable[Record], hasher: Hasher, allowance: Allowance) -> Iterator[Raw]:
    hashed, take, price = hasher.hashed, allowance.take, _RECORD_COST + 2 * HASH_SIZE
    for offset, timestamp, key, value, headers, timestamp_type, control in found:
        take(price)
        if headers:
            take(sum(len(name) for name, _ in headers) * 4 + len(headers) * HASH_SIZE)
            headers = tuple((name, hashed(of_header)) for name, of_header in headers)
        yield offset, timestamp, hashed(key), hashed(value), headers, timestamp_type, control

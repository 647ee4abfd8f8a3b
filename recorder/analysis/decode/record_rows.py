"""Makes the rows of `records`: the records of all batches, decompressed.

The outcome of a record's transaction is found as a consumer finds it, in the same answer:

    read_committed    aborted if the answer lists the transaction as aborted, else committed
    read_uncommitted  by the producer's next marker in the answer; without a marker, records from the last stable
                      offset on are open, and those before are unknown
    Produce request   unknown
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from operator import itemgetter

from proxy.wire import records
from proxy.wire.budget import Budget
from proxy.wire.error_reader import Unread
from proxy.wire.errors import OverBudget, WireError
from proxy.wire.records import Batch, Compression, ControlType, Record
from recorder.facts.batches import HOLDERS, holders
from recorder.facts.frame import BAD_CRC, NO_CODEC, NOT_KEPT, RESPONSE, Frame, is_not_kept, none_if_negative, why
from recorder.facts.rows import Decoder, Group
from recorder.facts.schema import HEADERS, Column
from recorder.facts.topics import PLACE, Place

# records that become rows at once; their bytes are counted after each chunk
AT_ONCE = 1024
# about the bytes that a record takes besides its key and value
OVERHEAD = 200


class Transaction(StrEnum):
    """The outcome of the transaction that a record is part of."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"


_SHARED = (
    *PLACE,
    Column("producer_id", "bigint", "null without idempotence"),
    Column("producer_epoch", "smallint", "null without idempotence"),
    Column("codec", "string", "the codec of its batch"),
    Column("transaction", "string", "`committed`, `aborted`, `open`, `unknown`; null: part of none"),
    Column("timestamp_type", "string", "`create`, `log_append`; `none` in magic 0"),
    Column("control", "string", "what a broker's own record says: `commit`, `abort`, ...; null: user data"),
)
# in the order of a `Record`'s fields, so that a `Record` is a row
_OWN = (
    Column(
        "offset",
        "bigint",
        "its offset in the partition; in a Produce request within the batch, if no answer tells more",
    ),
    Column("timestamp_ms", "bigint", "null for none", is_never_negative=True),
    Column("key", "binary", "null for none"),
    Column("value", "binary", "null: a tombstone"),
    Column("headers", HEADERS, "in their order"),
)
_NOTHING = (None,) * len(_OWN)
# the shared values of a batch that can't be read
_UNKNOWN = (None,) * (len(_SHARED) - len(PLACE))


# (bytes of a partition's batches, one of these batches) -> whether its records are wanted
Wanted = Callable[[bytes, Batch], bool]


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The records in a frame. Errors: Unreadable."""
    return read_some(lambda data, batch: True, frame, budget)


def read_some(wanted: Wanted, frame: Frame, budget: Budget) -> Iterator[Group]:
    """The records of wanted batches. Other batches make a row only if their checksum is wrong. Errors: Unreadable."""
    for place in holders(frame, budget):
        yield from _read_partition(wanted, frame, place)


def _read_partition(wanted: Wanted, frame: Frame, place: Place) -> Iterator[Group]:
    found, error = place.batches
    fates = _fates(frame, place, found)
    for batch, fate in zip(found, fates, strict=True):
        yield from _read_batch(wanted, frame, place, batch, fate)
    if error:
        yield Group((*place.named, *_UNKNOWN), [_NOTHING], why(error, frame))


def _read_batch(wanted: Wanted, frame: Frame, place: Place, batch: Batch, fate: str | None) -> Iterator[Group]:
    producer = none_if_negative(batch.producer_id), none_if_negative(batch.producer_epoch)
    shared = (*place.named, *producer, batch.codec.value, fate, batch.timestamp_type.value)
    if is_not_kept(frame, place.records, batch):
        yield Group((*shared, None), [_NOTHING], NOT_KEPT)
        return
    try:
        records.verify(place.records, batch)
    except WireError:
        yield Group((*shared, None), [_NOTHING], BAD_CRC)
        return
    if not wanted(place.records, batch):
        return
    try:
        # messages inside a wrapper have checksums of their own
        reader = records.read_batch(place.records, batch, check_crc=batch.magic < 2)
        while chunk := [*islice(reader, 1 if batch.control else AT_ONCE)]:
            control = chunk[0].control
            yield Group((*shared, control and control.value), chunk, size=_size(chunk))
    except ModuleNotFoundError:
        yield Group((*shared, None), [_NOTHING], NO_CODEC)
    except WireError as error:
        is_unknown = batch.codec is Compression.UNKNOWN
        reason = Unread.TOO_LARGE if isinstance(error, OverBudget) else NO_CODEC if is_unknown else Unread.MALFORMED
        yield Group((*shared, None), [_NOTHING], str(reason))


def _size(chunk: Sequence[Record]) -> int:
    values = sum(map(len, filter(None, map(itemgetter(3), chunk))))
    return values + sum(map(len, filter(None, map(itemgetter(2), chunk)))) + OVERHEAD * len(chunk)


def _fates(frame: Frame, place: Place, found: Sequence[Batch]) -> list[str | None]:
    """Returns the outcome of each batch's transaction; None for a batch outside transactions."""
    if not any(batch.transactional for batch in found):
        return [None] * len(found)
    if frame.side != RESPONSE:
        return [Transaction.UNKNOWN.value if batch.transactional else None for batch in found]
    listed = place.values.get("aborted_transactions")
    if listed is None:
        return _by_markers(place, found)
    return _by_list(found, listed)


def _by_list(found: Sequence[Batch], listed: Sequence[Mapping[str, int]]) -> list[str | None]:
    """As a consumer does: a listed producer's records are aborted from the first offset on, up to its marker."""
    begun = sorted(((one["first_offset"], one["producer_id"]) for one in listed), reverse=True)
    aborted: set[int] = set()
    fates: list[str | None] = []
    for batch in found:
        while begun and begun[-1][0] <= batch.last_offset:
            aborted.add(begun.pop()[1])
        if not batch.transactional:
            fates.append(None)
            continue
        fates.append((Transaction.ABORTED if batch.producer_id in aborted else Transaction.COMMITTED).value)
        if batch.control:
            aborted.discard(batch.producer_id)
    return fates


def _by_markers(place: Place, found: Sequence[Batch]) -> list[str | None]:
    """Goes from the last batch to the first: a producer's next marker decides."""
    stable = place.values.get("last_stable_offset", -1)
    ends: dict[int, str] = {}
    fates: list[str | None] = []
    for batch in reversed(found):
        if not batch.transactional:
            fates.append(None)
            continue
        if batch.control and (end := _end(place.records, batch)):
            ends[batch.producer_id] = end
        known = ends.get(batch.producer_id)
        is_open = 0 <= stable <= (batch.base_offset or 0)
        fates.append(known or (Transaction.OPEN if is_open else Transaction.UNKNOWN).value)
    return fates[::-1]


_ENDS = {ControlType.COMMIT: Transaction.COMMITTED.value, ControlType.ABORT: Transaction.ABORTED.value}


def _end(data: bytes, batch: Batch) -> str | None:
    try:
        first = next(iter(records.read_batch(data, batch)), None)
    except WireError:
        return None
    return None if first is None or first.control is None else _ENDS.get(first.control)


RECORDS = Decoder("records", "a record, unfolded", HOLDERS, _SHARED, _OWN, read)

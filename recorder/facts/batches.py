"""Makes the rows of `batches`: the headers of the record batches in Produce requests and Fetch and ShareFetch answers.

A message of magic 0 or 1 is a row, too. A batch that is cut off at the end of an answer makes no row. Each batch's
checksum is checked, and some batches are compressed on trial, so that rules on batches need no frame. A sixteenth of
the uncompressed batches is in the sample, with up to 8 KiB of each, compressed by zlib. A batch's checksum decides
whether it is: that is as good as chance, and the same in every run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from proxy.wire import keys, records
from proxy.wire.budget import Budget
from proxy.wire.primitives import Buffer
from proxy.wire.records import Batch, Compression
from recorder.facts.frame import REQUEST, RESPONSE, Frame, is_not_kept, none_if_negative, why
from recorder.facts.rows import Decoder, FrameSelector, Group, Many
from recorder.facts.schema import Column
from recorder.facts.topics import PLACE, Place, places
from recorder.hashing.batches import HASHED, KEPT, Told

if TYPE_CHECKING:
    from recorder.facts.plain_messages import PlainMessages

HOLDERS = (FrameSelector(REQUEST, (keys.PRODUCE,)), FrameSelector(RESPONSE, (keys.FETCH, keys.SHARE_FETCH)))
# one of this many uncompressed batches is in the sample
SAMPLED = 16
_MOST_BYTES = 8 << 10
# zlib's fastest level, with a window of these bytes and tables to match: those of its default take a tenth of a
# millisecond to make ready, several times as long as a kilobyte takes to compress
_LEVEL, _WINDOW_BITS, _MEMORY_LEVEL = 1, 13, 6

_OWN = (
    Column(
        "base_offset",
        "bigint",
        "the offset of its first record; in a Produce request 0, or what the producer wrote, if no answer tells more; "
        "null: unknown",
    ),
    Column("last_offset", "bigint", "the offset of its last record"),
    Column("records", "int", "the number of records; null if only decompressing would tell"),
    Column("bytes", "int", "bytes on the wire, header included"),
    Column("magic", "smallint", "2, or 0 and 1 for messages"),
    Column("codec", "string", "`none`, `gzip`, `snappy`, `lz4`, `zstd`"),
    Column("is_transactional", "boolean", "whether it is part of a transaction"),
    Column("is_control", "boolean", "whether a broker wrote it: the end of a transaction, a change of leader"),
    Column("timestamp_type", "string", "`create`, `log_append`; `none` in magic 0"),
    Column(
        "base_timestamp_ms", "bigint", "the time of its first record, or the delete horizon", is_never_negative=True
    ),
    Column("max_timestamp_ms", "bigint", "the latest time of its records", is_never_negative=True),
    Column("producer_id", "bigint", "null without idempotence", is_never_negative=True),
    Column("producer_epoch", "smallint", "null without idempotence", is_never_negative=True),
    Column(
        "base_sequence", "int", "the sequence of its first record; null without idempotence", is_never_negative=True
    ),
    Column("leader_epoch", "int", "the epoch of the leader that appended it; null in requests", is_never_negative=True),
    Column("crc", "bigint", "the checksum that the header tells: equal batches have equal ones"),
    Column(
        "is_intact",
        "boolean",
        "whether the checksum is that of the bytes; null where no library can tell, and where the records are not kept",
    ),
    Column("sampled_bytes", "int", "how many bytes of the batch were compressed on trial; null outside the sample"),
    Column("folded_bytes", "int", "how many bytes zlib made of them"),
)


_NOT_SAMPLED = None, None
_NAMES = tuple(column.name for column in _OWN)
# what follows from the magic and the attributes of batches, of which real traffic has few
_KINDS: dict[tuple[int, int], tuple[int, str, bool, bool, str]] = {}
_MOST_KINDS = 1024


def holders(frame: Frame, budget: Budget) -> list[Place]:
    """The partitions in a frame that hold records. Errors: Unreadable."""
    return [place for place in places(frame, budget) if place.records]


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The batches in a frame, a row each. Errors: Unreadable."""
    for place in holders(frame, budget):
        found, error = place.batches
        rows = [_row(frame, place.records, batch) for batch in found]
        yield Group(place.named, rows if place.told is None else [*_as_they_were(rows, place.told)])
        if error:
            yield Group(place.named, [(None,) * len(_OWN)], why(error, frame))


def _as_they_were(rows: list[tuple[Any, ...]], told: Sequence[Told]) -> Iterator[tuple[Any, ...]]:
    """The rows of batches whose records were hashed, as the batches arrived: their sizes, codecs, checksums' rightness.

    The checksum itself is that of the hashes: of equal batches it is still equal. A wrapper is one row again.
    """
    at = 0
    for one in told:
        row = dict(zip(_NAMES, rows[at + one.batches - 1], strict=True))
        at += one.batches
        if one.rule != KEPT:
            row |= {"bytes": one.size, "codec": one.codec, "is_intact": one.is_intact}
            row |= {"sampled_bytes": None, "folded_bytes": None}
        if one.rule == HASHED and one.codec != Compression.NONE.value and row["magic"] < 2:
            row |= {"base_offset": None, "records": None}
        yield tuple(row.values())


def _kind(batch: Batch) -> tuple[int, str, bool, bool, str]:
    """Magic, codec, whether it is transactional and a control batch, and its type of timestamps."""
    key = batch.magic, batch.attributes
    found = _KINDS.get(key)
    if found is None:
        found = batch.magic, batch.codec.value, batch.transactional, batch.control, batch.timestamp_type.value
        if len(_KINDS) < _MOST_KINDS:
            _KINDS[key] = found
    return found


def _row(frame: Frame, data: bytes, batch: Batch) -> tuple[Any, ...]:
    is_kept = not is_not_kept(frame, data, batch)
    return (
        batch.base_offset,
        batch.last_offset,
        batch.count,
        batch.end - batch.start,
        *_kind(batch),
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.leader_epoch,
        batch.crc,
        records.is_intact(data, batch) if is_kept else None,
        *(_folded(data, batch) if is_kept else _NOT_SAMPLED),
    )


def _folded(data: bytes, batch: Batch) -> tuple[int | None, int | None]:
    """The bytes of a batch's sample before and after its compression; nulls outside the sample."""
    if batch.control:
        return _NOT_SAMPLED
    return _sampled(data[batch.start : batch.end], batch.crc, batch.codec is Compression.NONE)


def _sampled(batch: Buffer, checksum: int, is_plain: bool) -> tuple[int | None, int | None]:
    """As `_folded`, of a batch of records. `is_plain`: they are not compressed."""
    if checksum % SAMPLED or not is_plain:
        return _NOT_SAMPLED
    sample = batch[:_MOST_BYTES]
    folding = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return len(sample), len(folding.compress(sample)) + len(folding.flush())


def read_many(messages: PlainMessages) -> Many:
    """As `read`, of many plain messages."""
    found = messages.batches
    if found is None or not len(found.of):
        return Many((), ())
    head = found.head
    *kinds, is_plain = messages.by_kind_of_batch(lambda one: (*_kind(one), one.codec is Compression.NONE))
    data, checksums = [*messages.batch_bytes], head["crc"].tolist()
    samples = [_sampled(*one) for one in zip(data, checksums, is_plain.to_pylist(), strict=True)]
    columns = [
        *messages.places_of_batches,
        *(head["base_offset"], head["base_offset"] + head["delta"], head["count"], found.end - found.start),
        *kinds,
        *(head["base_timestamp"], head["max_timestamp"]),
        *(head[name] for name in ("producer_id", "producer_epoch", "base_sequence", "leader_epoch", "crc")),
        [*map(records.has_checksum, data, checksums)],
        *([sample[at] for sample in samples] for at in range(len(_NOT_SAMPLED))),
    ]
    return Many(messages.batch_numbers, columns)


def read_offsets(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The base offset of each partition in a Produce answer. Errors: Unreadable."""
    pairs = ((place, place.values) for place in places(frame, budget))
    yield Group((), [(*at.named, found["error_code"], none_if_negative(found["base_offset"])) for at, found in pairs])


PRODUCED_OFFSETS = Decoder(
    "produced_offsets",
    "a partition in an answer to Produce",
    (FrameSelector(RESPONSE, (keys.PRODUCE,)),),
    (),
    (
        *PLACE,
        Column("error_code", "smallint", "of the partition"),
        Column("base_offset", "bigint", "of the first record produced; null: none"),
    ),
    read_offsets,
)
BATCHES = Decoder(
    "batches", "a record batch, or a message of magic 0 or 1", HOLDERS, PLACE, _OWN, read, read_many=read_many
)

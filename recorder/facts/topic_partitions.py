"""Makes the rows of `topic_partitions`: every partition that a message names, and what the message says of it.

Offsets of -1 mean "none" on the wire, and are null here. Requests have no `error_code`. Kafka 0.7 names partitions only
in requests; its offsets count bytes, so the columns of offsets are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.wire import kafka07
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Unreadable, none_if_negative, opened, why
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column
from recorder.facts.topics import PARTITION_APIS, PLACE, Place, places

_OFFSETS = (
    "fetch_offset",
    "log_start_offset",
    "high_watermark",
    "last_stable_offset",
    "base_offset",
    "committed_offset",
    "offset",
)
_OWN = (
    *PLACE,
    Column("error_code", "smallint", "the answer's code for this partition; null in requests"),
    Column("bytes", "int", "bytes of its record batches; null if the message holds none"),
    Column(
        "records",
        "bigint",
        "records in these batches, without markers of transactions; null if only decompressing would tell",
    ),
    Column("fetch_offset", "bigint", "the first offset asked for"),
    Column("log_start_offset", "bigint", "the partition's first offset"),
    Column("high_watermark", "bigint", "the offset after the last one that consumers see"),
    Column("last_stable_offset", "bigint", "the first offset of an open transaction, else the high watermark"),
    Column("base_offset", "bigint", "the offset of the first record produced"),
    Column("committed_offset", "bigint", "the offset that the group committed"),
    Column("offset", "bigint", "the offset that ListOffsets found, or up to which DeleteRecords deletes"),
    Column(
        "timestamp_ms",
        "bigint",
        "the time that ListOffsets was asked for (-1: the end, -2: the beginning), or that it found",
    ),
    Column("group_id", "string", "the group, if the message names one"),
    Column("transactional_id", "string", "the transactional id, if the message names one"),
    Column("acks", "smallint", "the acks that a Produce request asks for"),
    Column("producer_id", "bigint", "the producer of its first record batch; null without idempotence"),
    Column("producer_epoch", "smallint", "that producer's epoch"),
    Column("base_sequence", "int", "the sequence of that batch's first record: a retry has the same"),
)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The partitions that the frame names. Errors: Unreadable."""
    if frame.dialect == Dialect.KAFKA_07:
        yield Group((), [_row_of_07(part) for part in parts_of_07(frame)])
        return
    values = opened(frame, budget)
    found = places(frame, budget)
    for place in found:
        if error := place.batches.error:
            raise Unreadable(why(error, frame))
    yield Group((), [_row(values, place) for place in found])


def _row(of_frame: Mapping[str, Any], place: Place) -> tuple[Any, ...]:
    values = place.values
    around = (*place.around, values)
    return (
        *place.named,
        place.code,
        *_records(place),
        *(none_if_negative(values.get(name)) for name in _OFFSETS),
        values.get("timestamp"),
        _named(around, "group_id"),
        _named(around, "transactional_id") or of_frame.get("v3_and_below_transactional_id") or None,
        of_frame.get("acks"),
        *_producer(place),
    )


def _producer(place: Place) -> tuple[int | None, ...]:
    """The producer's id and epoch, and the sequence, of the partition's first batch."""
    if not place.records or not place.batches.found:
        return None, None, None
    first = place.batches.found[0]
    return tuple(map(none_if_negative, (first.producer_id, first.producer_epoch, first.base_sequence)))


def _records(place: Place) -> tuple[int | None, int | None]:
    """The bytes and the number of a partition's records. Markers of transactions don't count as records."""
    if "records" not in place.values:
        return None, None
    counts = [0 if batch.control else batch.count for batch in place.batches.found]
    return len(place.records), None if None in counts else sum(count or 0 for count in counts)


def _named(around: tuple[Mapping[str, Any], ...], name: str) -> str | None:
    found: str | None = next((one[name] for one in around if one.get(name)), None)
    return found


def parts_of_07(frame: Frame) -> list[kafka07.Produce | kafka07.Fetch | kafka07.Offsets]:
    """The parts of a Kafka 0.7 request, each about one partition. Errors: Unreadable."""
    try:
        request = kafka07.decode_request(frame.data)
    except WireError as error:
        raise Unreadable(why(error, frame)) from None
    match request:
        case kafka07.MultiProduce(parts) | kafka07.MultiFetch(parts):
            return [*parts]
        case kafka07.Produce() | kafka07.Fetch() | kafka07.Offsets():
            return [request]
    return []


def _row_of_07(part: kafka07.Produce | kafka07.Fetch | kafka07.Offsets) -> tuple[Any, ...]:
    size = len(part.messages) if isinstance(part, kafka07.Produce) else None
    rest = (None,) * (len(_OWN) - 5)
    return part.topic, None, part.partition, None, size, *rest


TOPIC_PARTITIONS = Decoder(
    "topic_partitions",
    "a partition that a frame names",
    (
        FrameSelector(REQUEST, PARTITION_APIS),
        FrameSelector(RESPONSE, PARTITION_APIS),
        FrameSelector(REQUEST, tuple(kafka07.RequestType), Dialect.KAFKA_07.value),
    ),
    (),
    _OWN,
    read,
)

"""Makes the rows of `topic_partitions`: every partition that a message names, and what the message says of it.

Offsets of -1 mean "none" on the wire, and are null here. Requests have no `error_code`. Kafka 0.7 names partitions only
in requests; its offsets count bytes, so the columns of offsets are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.wire import apis, kafka07, keys
from proxy.wire.apis import MessageKind
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.language import Field
from proxy.wire.places import FORGOTTEN
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Unreadable, why
from recorder.facts.rows import Decoder, FrameSelector, Group, Many
from recorder.facts.schema import Column
from recorder.facts.topics import PARTITION_APIS, PLACE, Place, contents, forgotten

if TYPE_CHECKING:
    from recorder.facts.plain_messages import PlainMessages

_OFFSETS = (
    "fetch_offset",
    "log_start_offset",
    "high_watermark",
    "last_stable_offset",
    "base_offset",
    "committed_offset",
    "offset",
)
# -1 stands for none on the wire
_NONE_BELOW_0 = True
_OWN = (
    *PLACE,
    Column("error_code", "smallint", "the answer's code for this partition; null in requests"),
    Column("bytes", "int", "bytes of its record batches; null if the message holds none"),
    Column(
        "records",
        "bigint",
        "records in these batches, without markers of transactions; null if only decompressing would tell",
    ),
    Column("fetch_offset", "bigint", "the first offset asked for", _NONE_BELOW_0),
    Column("log_start_offset", "bigint", "the partition's first offset", _NONE_BELOW_0),
    Column("high_watermark", "bigint", "the offset after the last one that consumers see", _NONE_BELOW_0),
    Column(
        "last_stable_offset",
        "bigint",
        "the first offset of an open transaction, else the high watermark",
        _NONE_BELOW_0,
    ),
    Column("base_offset", "bigint", "the offset of the first record produced", _NONE_BELOW_0),
    Column("committed_offset", "bigint", "the offset that the group committed", _NONE_BELOW_0),
    Column(
        "offset", "bigint", "the offset that ListOffsets found, or up to which DeleteRecords deletes", _NONE_BELOW_0
    ),
    Column(
        "timestamp_ms",
        "bigint",
        "the time that ListOffsets was asked for (-1: the end, -2: the beginning), or that it found",
    ),
    Column("group_id", "string", "the group, if the message names one"),
    Column("transactional_id", "string", "the transactional id, if the message names one"),
    Column("acks", "smallint", "the acks that a Produce request asks for"),
    Column("producer_id", "bigint", "the producer of its first record batch; null without idempotence", _NONE_BELOW_0),
    Column("producer_epoch", "smallint", "that producer's epoch", _NONE_BELOW_0),
    Column("base_sequence", "int", "the sequence of that batch's first record: a retry has the same", _NONE_BELOW_0),
)
# what only facts say of a partition
_FURTHER = (
    Column("leader_epoch", "int", "the leader's epoch, as the message says it", _NONE_BELOW_0),
    Column("leader", "int", "the leader's node id, if an answer corrects the client's", _NONE_BELOW_0),
    Column("isolation_level", "smallint", "of requests: 1 for a reader of committed records; null: no such field"),
    Column("control_offsets", "array<bigint>", "the offsets of the control batches in an answer; null: none"),
    Column("is_forgotten", "boolean", "whether a Fetch takes the partition out of its session"),
)
_EPOCHS = ("current_leader_epoch", "committed_leader_epoch", "leader_epoch")


class _Shape(NamedTuple):
    """What the partitions of a message may have, in any version.

    `offsets`: the names of _OFFSETS; `epoch`: the name of the leader's epoch; "" for those that the message lacks.
    """

    offsets: tuple[str, ...]
    epoch: str
    has_group: bool
    has_transaction: bool


@lru_cache
def _shape(side: MessageKind, api_key: int) -> _Shape:
    message = apis.message(side, api_key)
    names = {*_names(message.fields if message else ())}
    offsets = tuple(name if name in names else "" for name in _OFFSETS)
    has_transaction = not names.isdisjoint(("transactional_id", "v3_and_below_transactional_id"))
    epoch = next((name for name in _EPOCHS if name in names), "")
    return _Shape(offsets, epoch, "group_id" in names, has_transaction)


def _names(fields: Iterable[Field]) -> Iterator[str]:
    for field in fields:
        yield field.name
        yield from _names(field.fields)


def read(frame: Frame, budget: Budget) -> list[Group]:
    """The partitions that the frame names; none of a frame with a batch that can't be read. Errors: Unreadable."""
    if frame.dialect == Dialect.KAFKA_07:
        return [Group((), [_row_of_07(part, len(_OWN)) for part in parts_of_07(frame)])]
    values, found = contents(frame, budget)
    _check_batches(frame, found)
    shape = _shape(frame.side, frame.api_key)
    return [Group((), [_row(values, place, shape) for place in found])]


def read_facts(frame: Frame, budget: Budget) -> Iterator[Group]:
    """All partitions that the frame names, forgotten ones last, as facts have them. Errors: Unreadable."""
    if frame.dialect == Dialect.KAFKA_07:
        yield Group((), [_row_of_07(part, len(PARTITION_FACTS.own)) for part in parts_of_07(frame)])
        return
    values, found = contents(frame, budget)
    isolation, shape = values.get("isolation_level"), _shape(frame.side, frame.api_key)
    rows = [(*_row(values, place, shape), *_further(place, isolation, shape), False) for place in found]
    if frame.api_key == keys.FETCH and values.get(FORGOTTEN):
        gone = forgotten(frame, budget)
        rows += [(*_row(values, place, shape), *_further(place, isolation, shape), True) for place in gone]
    yield Group((), rows)
    _check_batches(frame, found)


def read_many(messages: PlainMessages) -> Many:
    """As `read_facts`, of many plain messages."""
    field, around, shape = messages.of_partition, messages.around_partition, _shape(messages.side, messages.api_key)
    columns = [
        *messages.places,
        field("error_code"),
        *(messages.record_bytes, messages.record_counts),
        *map(field, shape.offsets),
        # plain messages name no time, no group, and no transaction
        *(None, None, None),
        around("acks"),
        *map(messages.of_first_batch, ("producer_id", "producer_epoch", "base_sequence")),
        # no leader stands in them, and no control batch
        *(field(shape.epoch), None, around("isolation_level"), None),
        messages.is_forgotten,
    ]
    return Many(messages.partition_numbers, columns)


def _check_batches(frame: Frame, found: Iterable[Place]) -> None:
    """Raises Unreadable for the first batch that can't be read."""
    for place in found:
        if place.records and (error := place.batches.error):
            raise Unreadable(why(error, frame))


def _further(place: Place, isolation: int | None, shape: _Shape) -> tuple[Any, ...]:
    values = place.values
    leader = values.get("current_leader")
    controls = [one.last_offset for one in place.batches.found if one.control] if place.records else None
    if leader:
        return leader["leader_epoch"], leader["leader_id"], None, controls or None
    return values.get(shape.epoch), None, isolation, controls or None


def _row(of_frame: Mapping[str, Any], place: Place, shape: _Shape) -> tuple[Any, ...]:
    values = place.values
    group = transaction = None
    if shape.has_group or shape.has_transaction:
        around = (*place.around, values)
        group = _named(around, "group_id")
        transaction = _named(around, "transactional_id") or of_frame.get("v3_and_below_transactional_id") or None
    old = values.get("old_style_offsets")
    if old:
        # ListOffsets 0 lists offsets, the latest one first
        values = {**values, "offset": old[0]}
    return (
        *place.named,
        place.code,
        *_records(place),
        *map(values.get, shape.offsets),
        values.get("timestamp"),
        group,
        transaction,
        of_frame.get("acks"),
        *_producer(place),
    )


def _producer(place: Place) -> tuple[int | None, ...]:
    """The producer's id and epoch, and the sequence, of the partition's first batch."""
    if not place.records or not place.batches.found:
        return None, None, None
    first = place.batches.found[0]
    return first.producer_id, first.producer_epoch, first.base_sequence


def _records(place: Place) -> tuple[int | None, int | None]:
    """The bytes and the number of a partition's records. Markers of transactions don't count as records."""
    if "records" not in place.values:
        return None, None
    if not place.records:
        return 0, 0
    found, error = place.batches
    counted = 0
    for batch in found:
        if batch.count is None:
            return place.wire_size, None
        if not batch.control:
            counted += batch.count
    return place.wire_size, None if error else counted


def _named(around: tuple[Mapping[str, Any], ...], name: str) -> str | None:
    for one in around:
        found: str | None = one.get(name)
        if found:
            return found
    return None


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


def _row_of_07(part: kafka07.Produce | kafka07.Fetch | kafka07.Offsets, columns: int) -> tuple[Any, ...]:
    size = len(part.messages) if isinstance(part, kafka07.Produce) else None
    rest = (None,) * (columns - 5)
    return part.topic, None, part.partition, None, size, *rest


_SELECTORS = (
    FrameSelector(REQUEST, PARTITION_APIS),
    FrameSelector(RESPONSE, PARTITION_APIS),
    FrameSelector(REQUEST, tuple(kafka07.RequestType), Dialect.KAFKA_07.value),
)
TOPIC_PARTITIONS = Decoder("topic_partitions", "a partition that a frame names", _SELECTORS, (), _OWN, read)
PARTITION_FACTS = Decoder(
    "partitions",
    "a partition that a frame names",
    _SELECTORS,
    (),
    (*_OWN, *_FURTHER),
    read_facts,
    read_many=read_many,
)

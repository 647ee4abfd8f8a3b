"""Makes the rows of `cloudevents`: the CloudEvents among records, and the clauses of the Kafka binding they break.

Records are read as for the table `records`. Only CloudEvents become rows; most records are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

from proxy.wire.budget import Budget
from proxy.wire.records import Record
from recorder.analysis.decode import record_rows
from recorder.analysis.decode.cloudevents import MANDATORY, OPTIONAL, PARTITION_KEY, Event, event_in, may_hold_events
from recorder.facts.batches import HOLDERS
from recorder.facts.frame import NO_CODEC, Frame
from recorder.facts.rows import Decoder, Group
from recorder.facts.schema import TEXTS, Column
from recorder.facts.topics import PLACE

_NAMED = (*MANDATORY, *OPTIONAL)
# An event's further extensions are left out: a few bytes of JSON take forty times as much memory as texts in a row.
MOST_EXTENSIONS = 1000
_OWN = (
    Column(
        "offset",
        "bigint",
        "the record's offset in the partition; in a Produce request within the batch, if no answer tells more",
    ),
    Column("timestamp_ms", "bigint", "the record's timestamp; null for none", is_never_negative=True),
    Column(
        "mode",
        "string",
        "`binary`; `structured`; `batch`, which Kafka lacks; `incomplete`: as binary, without all mandatory attributes",
    ),
    Column("format", "string", "the format of a structured event, from its content-type: `json`, `avro`, ..."),
    *(Column(name, "string", "the attribute; null: not there, or it can't be read") for name in _NAMED),
    Column("extensions", TEXTS, f"all other attributes, the first {MOST_EXTENSIONS:,} of them"),
    Column("data_bytes", "bigint", "bytes of its data; null for none, and in formats other than JSON"),
    Column("is_tombstone", "boolean", "whether it is a binary event without data: compaction deletes its key"),
    Column("key", "binary", "the record's key; null for none"),
    Column(
        "key_is_partitionkey", "boolean", "whether the key is the attribute `partitionkey`; null without that attribute"
    ),
    Column("violations", "array<string>", "the clauses of the Kafka binding that it breaks"),
    Column("reasons", "array<string>", "how it breaks them: the first reason for each clause"),
)
_NOTHING = (None,) * len(_OWN)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The events in a frame. Errors: Unreadable."""
    for group in record_rows.read_some(may_hold_events, frame, budget):
        place = group.shared[: len(PLACE)]
        if group.unread:
            yield Group(place, [_NOTHING], group.unread)
        else:
            yield _events(place, cast(Sequence[Record], group.rows), group.size)


def _events(place: tuple[Any, ...], found: Sequence[Record], size: int) -> Group:
    try:
        rows = [_row(record, event) for record in found if (event := event_in(record))]
    except ModuleNotFoundError:
        return Group(place, [_NOTHING], NO_CODEC)
    return Group(place, rows, size=size if rows else 0)


def _row(record: Record, event: Event) -> tuple[Any, ...]:
    own = {**event.attributes}
    named = [own.pop(name, None) for name in _NAMED]
    partition_key = own.get(PARTITION_KEY)
    return (
        record.offset,
        record.timestamp,
        event.mode.value,
        event.form,
        *named,
        [*islice(own.items(), MOST_EXTENSIONS)],
        event.data_bytes,
        event.is_tombstone,
        record.key,
        None if partition_key is None else record.key == partition_key.encode(),
        [clause.value for clause in sorted(event.broken)],
        [event.broken[clause] for clause in sorted(event.broken)],
    )


CLOUDEVENTS = Decoder("cloudevents", "a CloudEvent in a record", HOLDERS, PLACE, _OWN, read)

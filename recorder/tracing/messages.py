"""What an exchange says of messages, for its span; and the trace contexts of its records. No OpenTelemetry here.

A producer that is traced puts its context into a header of each record: `traceparent`, and `tracestate` beside it (W3C
Trace Context; the binding to Kafka is OpenTelemetry's). Records that a rule has left out or hashed carry none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from proxy.wire import keys, records
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from recorder.capture import frames as c
from recorder.capture.reader import Row
from recorder.facts.frame import Frame, Unreadable, is_not_kept
from recorder.facts.rows import frame_of
from recorder.facts.topics import Place, places
from recorder.query.evaluation import Element
from recorder.reading.elements import Side, Told, joined, side_of
from recorder.reading.exchanges import Pair

# records of an exchange whose headers are looked at
MAX_RECORDS = 1000
# bytes that reading an exchange's frames may take: the records of a large response, unfolded
BUDGET = 64 << 20
_WANTED = frozenset({"topic", "partition", "group"})
# by API the field that tells where in the log an exchange's first record stands
_OFFSETS = {
    keys.PRODUCE: "base_offset",
    keys.FETCH: "fetch_offset",
    keys.OFFSET_COMMIT: "committed_offset",
    keys.TXN_OFFSET_COMMIT: "committed_offset",
}
_TRACEPARENT, _TRACESTATE = "traceparent", "tracestate"


class TraceContext(NamedTuple):
    """The headers of a record that name a span. They may be anything: a peer wrote them."""

    traceparent: str
    tracestate: str


@dataclass(frozen=True, slots=True)
class Messages:
    """What an exchange says of messages.

    Attributes:
        topic, partition, group: None if it names none, or several.
        offset: of the first record, or what is committed; None unless there is one partition.
        records: how many it carries; None if nobody can tell.
        contexts: those of its records, each once, in their order.
    """

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    offset: int | None = None
    records: int | None = None
    contexts: Sequence[TraceContext] = ()


def messages(pair: Pair, told: Told) -> Messages:
    """What an exchange says of messages. Its rows should hold their bytes. `told`: names of topics' ids."""
    asked, answered = map(_side, (pair.request, pair.response))
    elements = _about(joined(asked, answered, told))
    key = pair.head[c.API_KEY] if pair.head[c.DIALECT] == c.KAFKA else None
    offset = _OFFSETS.get(key) if key is not None and len(elements) == 1 else None
    carrier = pair.request if key == keys.PRODUCE else pair.response if key in (keys.FETCH, keys.SHARE_FETCH) else None
    return Messages(
        topic=_only(elements, "topic"),
        partition=_only(elements, "partition"),
        group=_only(elements, "group"),
        offset=_only(elements, offset) if offset is not None else None,
        records=_count(elements) if carrier is not None and _is_read(asked) and _is_read(answered) else None,
        contexts=[*dict.fromkeys(_contexts(carrier))] if carrier is not None else (),
    )


def _side(row: Row | None) -> Side | None:
    return None if row is None else side_of(row, _WANTED, Budget(BUDGET))


def _is_read(side: Side | None) -> bool:
    return side is None or side.unread is None


def _about(elements: Sequence[Element]) -> list[Element]:
    """The elements that carry records, if some do: a fetch names partitions that have nothing new."""
    return [each for each in elements if _number(each.get("records"))] or [*elements]


def _count(elements: Sequence[Element]) -> int:
    return sum(_number(each.get("records")) for each in elements)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _only(elements: Sequence[Element], name: str) -> Any:
    """The value of a field that all elements with one share; None if there is none, or if there are several."""
    values = {each.get(name) for each in elements} - {None}
    found = values.pop() if len(values) == 1 else None
    return found if isinstance(found, int | str) else None


def _contexts(row: Row) -> Iterator[TraceContext]:
    """The contexts of a frame's records, as far as they can be read."""
    if row[c.FRAME] is None or row[c.OMITTED]:
        return
    frame, budget, left = frame_of(row), Budget(BUDGET), MAX_RECORDS
    with suppress(Unreadable, WireError):
        for place in places(frame, budget):
            for record in _records(place, frame, budget):
                if not left:
                    return
                left -= 1
                if found := _context(record):
                    yield found


def _records(place: Place, frame: Frame, budget: Budget) -> Iterator[records.Record]:
    """The records of a partition that are as their producer sent them. Errors: WireError."""
    for batch, is_hashed in zip(place.batches.found, place.are_hashed, strict=True):
        if not (batch.control or is_hashed or is_not_kept(frame, place.records, batch)):
            yield from records.read_batch(place.records, batch, budget=budget)


def _context(record: records.Record) -> TraceContext | None:
    headers = {name.lower(): value for name, value in record.headers if value is not None}
    parent = headers.get(_TRACEPARENT)
    if parent is None:
        return None
    return TraceContext(parent.decode("latin-1"), headers.get(_TRACESTATE, b"").decode("latin-1"))

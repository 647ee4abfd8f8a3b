"""Reads the steps of transactions: the requests that begin, fill and end one, their answers, and the markers in logs.

A transaction may begin with AddPartitionsToTxn or, from version 12 on, with Produce. A Produce request has a row for
each transactional batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from proxy.wire import keys, records
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from proxy.wire.places import partitions
from recorder.facts.batches import holders
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Values, none_if_negative, opened
from recorder.facts.rows import Decoder, FrameSelector, Group, Many
from recorder.facts.schema import Column
from recorder.facts.topics import PARTITION_APIS, PLACE, named, places

if TYPE_CHECKING:
    from recorder.facts.plain_messages import PlainMessages

_KEYS = (
    keys.PRODUCE,
    keys.INIT_PRODUCER_ID,
    keys.ADD_PARTITIONS_TO_TXN,
    keys.ADD_OFFSETS_TO_TXN,
    keys.END_TXN,
    keys.TXN_OFFSET_COMMIT,
)
_PRODUCER = (
    Column("transactional_id", "string", "the producer's name"),
    Column("producer_id", "bigint", "its number"),
    Column("producer_epoch", "smallint", "its epoch"),
)
_STEP = (
    *PLACE,
    Column("records", "bigint", "produced"),
    Column("bytes", "bigint", "produced"),
    Column("base_sequence", "int", "the sequence of the first record produced"),
    Column("group_id", "string", "the group whose offsets are part of the transaction"),
    Column("is_commit", "boolean", "of EndTxn: false asks to abort"),
    Column("timeout_ms", "int", "of InitProducerId"),
)
_ANSWER = (
    Column("is_refused", "boolean", "nothing of what the request asked for was done"),
    Column("error_code", "smallint", "why; null without an error"),
    Column("answered_producer_id", "bigint", "of InitProducerId and EndTxn 5"),
    Column("answered_producer_epoch", "smallint", "of InitProducerId and EndTxn 5"),
)
_NOWHERE = (None,) * len(PLACE)
# records, bytes, base_sequence, group_id, is_commit, timeout_ms
_NO_FACTS = (None,) * (len(_STEP) - len(PLACE))


def read_steps(frame: Frame, budget: Budget) -> Iterator[Group]:
    """What the request does in a transaction. Errors: Unreadable."""
    if frame.api_key == keys.PRODUCE:
        yield from _produced(frame, budget)
        return
    values = opened(frame, budget)
    if frame.api_key == keys.ADD_PARTITIONS_TO_TXN:
        yield from _added(frame, values)
        return
    yield Group(_producer(values), [*_rows(frame, values)])


def _rows(frame: Frame, values: Values) -> Iterator[tuple[Any, ...]]:
    group = values.get("group_id")
    yield (*_NOWHERE, None, None, None, group, values.get("committed"), values.get("transaction_timeout_ms"))


def _produced(frame: Frame, budget: Budget) -> Iterator[Group]:
    """A row for each transactional batch of a Produce request."""
    values = opened(frame, budget)
    name = values.get("transactional_id")
    for place in holders(frame, budget) if name else ():
        for batch, size in zip(place.batches.found, place.batch_sizes, strict=False):
            if batch.transactional:
                facts = batch.count, size, none_if_negative(batch.base_sequence), None, None, None
                yield Group((name, batch.producer_id, batch.producer_epoch), [(*place.named, *facts)])


def _added(frame: Frame, values: Values) -> Iterator[Group]:
    """The partitions of AddPartitionsToTxn. From version 4 on, brokers send it, for several transactions at once."""
    found = partitions(REQUEST, frame.api_key, values)
    # before version 4 the body is the transaction
    for (*_, transaction), added in groupby(found, attrgetter("around.around")):
        if not transaction.get("verify_only"):
            producer = {key.removeprefix("v3_and_below_"): value for key, value in transaction.items()}
            yield Group(_producer(producer), [(*named(one.around), one.partition, *_NO_FACTS) for one in added])


def _producer(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The producer, as far as the request knows it: InitProducerId asks for the producer's id."""
    return values.get("transactional_id") or None, *_numbers(values)


def _numbers(values: Mapping[str, Any]) -> Iterator[int | None]:
    """The producer's id and epoch."""
    return (none_if_negative(values.get(name)) for name in ("producer_id", "producer_epoch"))


def read_answers(frame: Frame, budget: Budget) -> Iterator[Group]:
    """Whether the step was refused, and the producer's id and epoch in the answer. Errors: Unreadable."""
    values = opened(frame, budget)
    codes = [*_codes(frame, budget)]
    is_refused = bool(codes) and all(codes)
    yield Group((), [(is_refused, next(filter(None, codes), None), *_numbers(values))])


def _codes(frame: Frame, budget: Budget) -> Iterator[int]:
    """The answer's error codes, zeros included."""
    values = opened(frame, budget)
    names_partitions = frame.api_key in PARTITION_APIS
    if "error_code" in values and (values["error_code"] or not names_partitions):
        yield values["error_code"]
    elif names_partitions:
        yield from (place.code or 0 for place in places(frame, budget))


_MARKER = (
    *PLACE,
    Column("producer_id", "bigint", "whose transaction ended"),
    Column("producer_epoch", "smallint", "of the marker: from Kafka 4 on, one above the transaction's"),
    Column("marker", "string", "`commit` or `abort`"),
)


def read_markers(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The markers in an answer to Fetch. Errors: Unreadable."""
    for place in places(frame, budget):
        if not place.records:
            continue
        ends = [batch for batch in place.batches.found if batch.control and batch.transactional]
        if ends:
            rows = [(*place.named, end.producer_id, end.producer_epoch, _end(place.records, end)) for end in ends]
            yield Group((), rows)


def _end(data: bytes, batch: records.Batch) -> str | None:
    # brokers never compress a marker; nothing is unfolded for one that says so
    if batch.codec is not records.Compression.NONE:
        return None
    try:
        first = next(iter(records.read_batch(data, batch)), None)
    except WireError:
        return None
    return None if first is None or first.control is None else first.control.value


_OF_ANSWERS = (None,) * len(_STEP)
_FACT = (
    *_STEP,
    Column("is_refused", "boolean", "of answers: nothing of what the request asked for was done"),
    Column("error_code", "smallint", "of answers: why; null without an error"),
    Column("marker", "string", "of the end of a transaction in a Fetch answer: `commit` or `abort`"),
)
_NO_ANSWER = (None, None, None)


def read_facts(frame: Frame, budget: Budget) -> Iterator[Group]:
    """Steps, answers other than Produce's, and markers, in one shape. Errors: Unreadable."""
    if frame.side == REQUEST:
        for group in read_steps(frame, budget):
            yield group._replace(rows=[(*row, *_NO_ANSWER) for row in group.rows])
    elif frame.api_key == keys.FETCH:
        for _, rows, *_rest in read_markers(frame, budget):
            for *place, producer_id, epoch, marker in rows:
                yield Group((None, producer_id, epoch), [(*place, *_NO_FACTS, None, None, marker)])
    else:
        for _, rows, *_rest in read_answers(frame, budget):
            for is_refused, code, producer_id, epoch in rows:
                yield Group((None, producer_id, epoch), [(*_OF_ANSWERS, is_refused, code, None)])


def read_many(messages: PlainMessages) -> Many:
    """As `read_facts`, of many plain messages: they have no part in a transaction."""
    return Many((), ())


TRANSACTION_FACTS = Decoder(
    "transaction_steps",
    "a step of a transaction, an answer to one (Produce's are in `frames`), or a transaction's end in a log",
    (
        FrameSelector(REQUEST, _KEYS),
        FrameSelector(RESPONSE, tuple(key for key in _KEYS if key != keys.PRODUCE)),
        FrameSelector(RESPONSE, (keys.FETCH,)),
    ),
    _PRODUCER,
    _FACT,
    read_facts,
    read_many=read_many,
)
TRANSACTION_STEPS = Decoder(
    "transaction_steps", "a step of a transaction", (FrameSelector(REQUEST, _KEYS),), _PRODUCER, _STEP, read_steps
)
TRANSACTION_ANSWERS = Decoder(
    "transaction_answers", "an answer to such a step", (FrameSelector(RESPONSE, _KEYS),), (), _ANSWER, read_answers
)
MARKERS = Decoder(
    "markers", "the end of a transaction in a log", (FrameSelector(RESPONSE, (keys.FETCH,)),), (), _MARKER, read_markers
)

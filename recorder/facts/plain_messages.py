"""Produces and Fetches that are plain, many at once: the partitions that they name, and the batches in these.

Most bytes and rows of a capture are theirs. A decoder that has `read_many` makes its rows of them a column at a time.
All other frames are read one by one: those with error codes, tagged fields, forgotten partitions, transactional ids,
control batches, messages of magic 0 and 1, texts that are not ASCII, damage, masks, or records that a rule has left out
or hashed. Both ways make the same rows (tests/recorder/facts/test_plain_messages.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from proxy.wire import apis, keys, places
from proxy.wire.apis import MessageKind
from proxy.wire.compile.layout import Struct, layout
from proxy.wire.dialects import Dialect
from proxy.wire.headers import request_header_version, response_header_version
from proxy.wire.places import FORGOTTEN, Level
from proxy.wire.records.batch import BATCH_FIELDS, BATCH_HEAD, LOG_OVERHEAD, MAGIC_AT, Batch, header
from proxy.wire.records.kinds import CONTROL_BIT
from recorder.facts.alike import is_whole
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.topics import id_text
from recorder.facts.vectors import MAX_ELEMENTS, WIDEST, Array, Column, Mask, Numbers, Spans, Vectors, joined

APIS = (keys.PRODUCE, keys.FETCH)
# fewer frames of a kind are read one by one: numpy's calls take as long for one frame as for a hundred
_FEW = 32
# struct and numpy have the same letters for numbers; each has its usual name by kind and size
_NUMBERS = [f">{np.dtype(letter).str[1:]}" for letter in BATCH_HEAD.format.removeprefix(">")]
_HEADER = np.dtype([*zip(BATCH_FIELDS, _NUMBERS, strict=True)])
assert _HEADER.itemsize == BATCH_HEAD.size <= WIDEST
# where a batch's size begins; bytes of a correlation id
_SIZE_AT, _CORRELATION_ID = 8, 4
_LEAST = MAGIC_AT + 1 - LOG_OVERHEAD


class BatchArrays(NamedTuple):
    """The batches of many partitions. `of`: the number of its partition; `start`, `end`: where it is in the bytes."""

    of: Numbers
    start: Numbers
    end: Numbers
    head: NDArray[Any]

    def taken(self, at: NDArray[Any]) -> BatchArrays:
        """Those at these numbers, or where the mask is true."""
        return BatchArrays(*(column[at] for column in self))


class _Route(NamedTuple):
    """The names of a message's array of topics, of their array of partitions, and of a partition's index."""

    topics: str
    partitions: str
    number: str


class PlainMessages:
    """The plain ones of many messages of one kind.

    Attributes:
        kind: side, dialect, API and version.
        numbers: the numbers of their frames in the Arrow batch, ascending.
        partition_numbers: the same for each partition that they name.
        batches: all batches in these partitions; None if messages of this kind hold none.
    """

    def __init__(
        self, side: MessageKind, api_key: int, version: int, frames: _Frames, read: Vectors, body: dict[str, Column]
    ) -> None:
        self.kind = side, Dialect.KAFKA.value, api_key, version
        self.side, self.api_key = side, api_key
        self._frames, self._body, self._route = frames, body, _route(side, api_key)
        self._topics: Array = body[self._route.topics]
        # without topics there are no columns
        self._parts: Array = self._topics.values.get(self._route.partitions) or joined(np.empty(0, np.int64), [])
        message = self._topics.of[self._parts.of]
        batches = self._read_batches(read, message)
        self._refuse(read, message)
        self._plain = np.flatnonzero(read.is_plain)
        self._kept = np.flatnonzero(read.is_plain[message])
        self.numbers = frames.numbers[self._plain]
        self.partition_numbers = frames.numbers[message[self._kept]]
        self._message_of = np.searchsorted(self._plain, message[self._kept])
        self.batches = batches and _renumbered(batches, self._kept, read.is_plain[message])

    def _refuse(self, read: Vectors, message: Numbers) -> None:
        """Takes away what makes rows that single frames alone make. `message`: that of each partition."""
        body, is_plain = self._body, read.is_plain
        if (forgotten := body.get(FORGOTTEN)) is not None:
            is_plain &= forgotten.counts <= 0
        if (name := body.get("transactional_id")) is not None:
            is_plain &= name.size < 0
        if (code := body.get("error_code")) is not None:
            is_plain &= code == 0
        if (codes := self._parts.values.get("error_code")) is not None:
            is_plain[message[codes != 0]] = False

    def _read_batches(self, read: Vectors, message: Numbers) -> BatchArrays | None:
        """The headers of all batches; messages with odd ones are no longer plain. None: the kind holds no records."""
        held = self._parts.values.get("records")
        if held is None:
            return None
        data, at, end = self._frames.bytes, held.start.copy(), held.start + np.maximum(held.size, 0)
        turns: list[BatchArrays] = []
        here = np.arange(len(end))
        while (here := here[end[here] - at[here] >= LOG_OVERHEAD]).size:
            start, behind = at[here], end[here]
            size = Vectors(data, start + _SIZE_AT, behind).number("i").astype(np.int64)
            stop = start + LOG_OVERHEAD + size
            head = Vectors(data, start, behind).fixed(_HEADER)
            is_whole = stop <= behind
            is_odd = (size < _LEAST) | (is_whole & _is_odd(head, stop - start)) | (len(turns) == MAX_ELEMENTS)
            read.is_plain[message[here[is_odd]]] = False
            found = BatchArrays(here, start, stop, head).taken(is_whole & ~is_odd)
            turns.append(found)
            here = found.of
            at[here] = found.end
        every = BatchArrays(*map(np.concatenate, zip(*turns, strict=True))) if turns else _NO_BATCHES
        every = every._replace(head=every.head.astype(_HEADER.newbyteorder("=")))
        return every.taken(np.argsort(every.of, kind="stable"))

    def of_message(self, name: str) -> Any:
        """A field of the messages; None if the version lacks it."""
        found = self._body.get(name)
        return None if found is None else found[self._plain]

    def of_partition(self, name: str) -> Any:
        """A field of the partitions, or Spans of one; None if the version lacks it."""
        found = self._parts.values.get(name)
        if found is None:
            return None
        return found.taken(self._kept) if isinstance(found, Spans) else found[self._kept]

    def around_partition(self, name: str) -> Any:
        """A field of each partition's message; None if the version lacks it."""
        found = self._body.get(name)
        return None if found is None else found[self._plain][self._message_of]

    @property
    def counts(self) -> Numbers:
        """How many partitions each message names."""
        return np.bincount(self._message_of, minlength=len(self.numbers))

    @property
    def no_codes(self) -> pa.Array:
        """An empty list for each message."""
        return pa.ListArray.from_arrays(np.zeros(len(self.numbers) + 1, np.int32), pa.array([], pa.int16()))

    @property
    def is_forgotten(self) -> Mask:
        """False for each partition."""
        return np.zeros(len(self.partition_numbers), bool)

    @property
    def record_bytes(self) -> Numbers | None:
        """The bytes of each partition's records; None if messages of this kind hold none."""
        return None if self.batches is None else np.maximum(self.of_partition("records").size, 0)

    @property
    def record_counts(self) -> Numbers | None:
        """The number of each partition's records, as its batches tell it; None if messages of this kind hold none."""
        if self.batches is None:
            return None
        counted = np.zeros(len(self.partition_numbers), np.int64)
        np.add.at(counted, self.batches.of, self.batches.head["count"])
        return counted

    def of_first_batch(self, name: str) -> Numbers | None:
        """A field of each partition's first batch, -1 without one; None if messages of this kind hold none."""
        if self.batches is None:
            return None
        partitions, first = np.unique(self.batches.of, return_index=True)
        found = np.full(len(self.partition_numbers), -1, np.int64)
        found[partitions] = self.batches.head[name][first]
        return found

    @property
    def has_records(self) -> Mask:
        """Whether a message holds bytes of records."""
        size = self.record_bytes
        return self._any(size > 0) if size is not None else self._any(self.is_forgotten)

    @property
    def has_more(self) -> Mask:
        """Whether the log has more than a Fetch answer's records: `long_polls.has_more`, for each message."""
        size = self.record_bytes
        if size is None or self.batches is None:
            return self._any(self.is_forgotten)
        of, head, start = self.batches.of, self.batches.head, self.of_partition("records").start
        highest, whole = np.full(len(size), -1, np.int64), np.zeros(len(size), np.int64)
        np.maximum.at(highest, of, head["base_offset"] + head["delta"])
        np.maximum.at(whole, of, self.batches.end - start[of])
        return self._any((size > 0) & ((size > whole) | (highest + 1 < self._readers_end())))

    def _readers_end(self) -> Numbers:
        """`long_polls.readers_end`, of each partition."""
        end: Numbers = self.of_partition("high_watermark")
        stable, aborted = self.of_partition("last_stable_offset"), self._parts.values.get("aborted_transactions")
        if stable is None or aborted is None:
            return end
        found: Numbers = np.where((aborted.counts[self._kept] < 0) | (stable < 0), end, stable)
        return found

    def _any(self, is_so: Mask) -> Mask:
        """Whether it is so of one of a message's partitions."""
        return np.bincount(self._message_of[is_so], minlength=len(self.numbers)) > 0

    def chosen(self, *choices: tuple[Mask, str], otherwise: str) -> pa.Array:
        """For each message the text of the first mask that is true."""
        texts = [text for _, text in choices]
        of = np.select([mask for mask, _ in choices], range(len(choices)), len(choices))
        return pa.array([*texts, otherwise]).take(pa.array(of))

    @cached_property
    def places(self) -> list[Any]:
        """The columns of `topics.PLACE`, of the partitions."""
        topics, of = np.unique(self._parts.of[self._kept], return_inverse=True)
        values = self._topics.values
        return [
            self._texts(values["topic" if "topic" in values else "name"].taken(topics)).take(of)
            if "topic" in values or "name" in values
            else None,
            _ids(values["topic_id"][topics]).take(of) if "topic_id" in values else None,
            self.of_partition(self._route.number),
        ]

    def _texts(self, spans: Spans) -> pa.Array:
        """The texts of ascending spans; null for an empty one."""
        ends = np.column_stack((spans.start, spans.start + spans.size)).ravel().astype(np.int32)
        # the bytes between two texts are a value, too
        every = pa.Array.from_buffers(pa.binary(), max(len(ends) - 1, 0), [None, pa.py_buffer(ends), self._frames.data])
        texts = every.take(pa.array(np.arange(0, len(ends), 2))).cast(pa.string())
        return pc.if_else(pc.equal(pc.binary_length(texts), 0), None, texts)

    @property
    def batch_numbers(self) -> Numbers:
        """The number of each batch's frame."""
        found: Numbers = self.partition_numbers[self._found.of]
        return found

    @property
    def batch_bytes(self) -> Iterator[memoryview]:
        """The bytes of each batch."""
        data = memoryview(self._frames.data)
        spans = zip(self._found.start.tolist(), self._found.end.tolist(), strict=True)
        return (data[start:end] for start, end in spans)

    @property
    def places_of_batches(self) -> list[Any]:
        """The columns of `topics.PLACE`, of the batches."""
        of = self._found.of
        return [None if one is None else one.take(of) for one in self.places]

    def by_kind_of_batch(self, tell: Callable[[Batch], tuple[Any, ...]]) -> list[pa.Array]:
        """Columns of what is told of each batch, and only depends on its attributes."""
        _, first, of = np.unique(self._found.head["attributes"], return_index=True, return_inverse=True)
        data = memoryview(self._frames.data)
        told = [tell(header(data, int(self._found.start[at]), int(self._found.end[at]))) for at in first]
        return [pa.array(column).take(pa.array(of)) for column in zip(*told, strict=True)]

    @property
    def _found(self) -> BatchArrays:
        return _NO_BATCHES if self.batches is None else self.batches


def _is_odd(head: NDArray[Any], size: Numbers) -> Mask:
    """True for a whole batch that is none of magic 2, is broken, or is a control batch."""
    base, delta = head["base_offset"], head["delta"]
    is_broken = (size < BATCH_HEAD.size) | (delta < 0) | (head["count"] < 0) | (base.astype(np.int64) + delta < base)
    is_odd: Mask = is_broken | (head["magic"] != 2) | ((head["attributes"] & CONTROL_BIT) != 0)
    return is_odd


def _renumbered(batches: BatchArrays, kept: Numbers, is_kept: Mask) -> BatchArrays:
    """The batches of the partitions that are kept, whose numbers among these they get."""
    found = batches.taken(is_kept[batches.of])
    return found._replace(of=np.searchsorted(kept, found.of))


def _ids(found: NDArray[Any]) -> pa.Array:
    """Ids of topics as Kafka prints them."""
    distinct, of = np.unique(found, return_inverse=True)
    return pa.array([id_text(one.tobytes()) for one in distinct], pa.string()).take(pa.array(of))


_NO_BATCHES = BatchArrays(*(np.empty(0, np.int64),) * 3, np.empty(0, _HEADER))


@lru_cache
def _route(side: MessageKind, api_key: int) -> _Route:
    """The way to the partitions of a message of APIS. All its versions have the same."""
    of_topics = ((name, one) for name, one in places.body(side, api_key).arrays.items() if name != FORGOTTEN)
    topics, elements = next((name, one) for name, one in of_topics if one.level is Level.TOPIC)
    array, inner = next((name, one) for name, one in elements.arrays.items() if one.level is Level.PARTITION)
    return _Route(topics, array, inner.names[0])


class _Frames(NamedTuple):
    """Frames of one kind. `numbers`: theirs in their Arrow batch; `start`, `end`: where each is in the bytes."""

    data: pa.Buffer
    bytes: NDArray[np.uint8]
    numbers: Numbers
    start: Numbers
    end: Numbers


def plain_messages(batch: Any, has_readers: Callable[[str, str, int, int], bool]) -> Iterator[PlainMessages]:
    """The plain Produces and Fetches of a batch of frames, by kind.

    `batch`: with the columns FACTS and `frame`. `has_readers`: whether those of a kind (KIND) are asked for.
    """
    frame = batch.column("frame")
    data = frame.buffers()[2] if pa.types.is_binary(frame.type) else None
    if data is None or data.size < WIDEST:
        return
    offsets = np.frombuffer(frame.buffers()[1], np.int32)[frame.offset :].astype(np.int64)
    for side, key, version, numbers in _kinds(batch):
        if has_readers(side, Dialect.KAFKA.value, key, version) and apis.known(key, version):
            frames = _Frames(data, np.frombuffer(data, np.uint8), numbers, offsets[numbers], offsets[numbers + 1])
            yield _read(side, key, version, frames)


def _kinds(batch: Any) -> Iterator[tuple[MessageKind, int, int, Numbers]]:
    """Side, key and version of frames that may be plain, with their numbers in the batch."""
    wanted = pc.and_(is_whole(batch), pc.is_in(batch["api_key"], pa.array(APIS, pa.int16())))
    numbers = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
    if len(numbers) < _FEW:
        return
    at = pa.array(numbers)
    key, version = (batch[name].take(at).to_numpy().astype(np.int64) for name in ("api_key", "api_version"))
    is_request = pc.equal(batch["kind"], REQUEST).take(at).to_numpy(zero_copy_only=False)
    kind = key << 32 | (version & 0xFFFF) << 1 | is_request
    for one in np.unique(kind):
        (of_kind,) = np.nonzero(kind == one)
        first = of_kind[0]
        if len(of_kind) >= _FEW:
            yield REQUEST if is_request[first] else RESPONSE, int(key[first]), int(version[first]), numbers[of_kind]


def _read(side: MessageKind, key: int, version: int, frames: _Frames) -> PlainMessages:
    read = Vectors(frames.bytes, frames.start, frames.end)
    if side == REQUEST:
        read.is_plain &= read.number("h") == key
        read.is_plain &= read.number("h") == version
    read.step(_CORRELATION_ID)
    if side == REQUEST:
        size = read.number("h").astype(np.int64)
        read.is_plain &= size >= -1
        read.step(np.maximum(size, 0))
    header = request_header_version(key, version) - 1 if side == REQUEST else response_header_version(key, version)
    if header:
        read.is_plain &= read.number("B") == 0
    return PlainMessages(side, key, version, frames, read, read.struct(_layout(side, key, version)))


@lru_cache
def _layout(side: MessageKind, key: int, version: int) -> Struct:
    message = apis.message(side, key)
    assert message is not None
    return layout(message, version)

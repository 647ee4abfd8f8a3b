"""Finds the record data in a frame that arrives in pieces: keys, values and headers, and texts that may quote them.

The batches' heads are no record data, so a frame without it still tells topics, partitions, offsets, counts and sizes.
Nothing is held back: each piece is judged as it comes. Frames of today's dialect are walked by generated functions,
those of 0.7 by `kafka07.record_data`. A frame may have millions of batches, so behind the first MAX_HEADS of them heads
are only counted, by partition.
"""

from collections.abc import Callable, Generator
from functools import partial
from operator import itemgetter
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from proxy.wire.compile.runtime import split_bytes
from proxy.wire.errors import Malformed, Truncated, WireError
from proxy.wire.primitives import Buffer
from proxy.wire.records.batch import BATCH_HEAD, END_MARKER, LOG_OVERHEAD, MAGIC_AT, SMALLEST_MESSAGE, header
from proxy.wire.records.blank import HEADS
from proxy.wire.texts import check_text_piece, check_topic_length

# batches of a frame whose heads are no record data
MAX_HEADS = 65_536
# partitions whose further batches are counted apart
MAX_COUNTED = 1000
_SMALLEST = {**SMALLEST_MESSAGE, 2: BATCH_HEAD.size}
# stretches of a frame that are compared with those of frames like it, and their bytes: to compare more of them takes as
# long as to read the frame
MAX_PLACES, MAX_JUDGED = 16, 1024
# more than any frame's
_ANY_SIZE = 1 << 40
# offset, size; behind the next four bytes, the magic
_BEGIN = Struct(">qi4xB")
_END_MARKER_SIZE = END_MARKER - LOG_OVERHEAD
_HEAD_SIZE = BATCH_HEAD.size
_COUNT_AT = BATCH_HEAD.size - 4
_SIZE_AT = LOG_OVERHEAD - 4

# (start, stop), from the frame's beginning, its length included
Span = tuple[int, int]
# the state of a generator that walks: the piece, the offset in it, its size
State = tuple[Buffer, int, int]
# a topic's name and id, as far as a frame tells them
Named = tuple[bytes | None, bytes | None]
NO_TOPIC: Named = (None, None)
# (name, id) of a topic, None for what is not told -> NOTHING, TEXTS or ALL of `compile.record_finder`. In 0.7, which
# has no texts, TEXTS is as good as ALL
OfTopic = Callable[[bytes | None, bytes | None], int]
Find = Callable[["RecordWalk"], Generator[None, Buffer, int]]
FindWhole = Callable[..., int]


class RecordWalk:
    """A walk through one frame, its length included.

    Args:
        find: makes the generator that walks: `Codec.find_records`, or one of `kafka07.record_data`.
        of_topic: is asked for each topic.
        head: bytes at the frame's beginning that are never record data.
        by_broker: True for an answer.
        size: bytes of the frame; None: unknown, because it was cut off.
        holds_records: False for a message that holds none and quotes none: it only tells topics, and all of it is kept.

    Attributes:
        base: how many bytes came before the newest piece.
        partition: the partition whose batches come next.
        judged: the offset up to which the message's plain fields were judged: a request's acks, which pairing needs.
        elements: how many elements the message's first array has: a Produce's topics. None: not known yet.
        unreadable_from: the offset from which on nobody can tell what the frame holds. That is where the piece begins
            in which the frame turns out to be no such message. None: all can be told so far.
        counted: (name and id of a topic, partition) -> batches, records and bytes behind the first MAX_HEADS batches.
            Partitions behind the first MAX_COUNTED of them count together, for (NO_TOPIC, -1).
    """

    def __init__(
        self,
        find: Find,
        of_topic: OfTopic,
        *,
        head: int,
        by_broker: bool,
        size: int | None = None,
        holds_records: bool = True,
    ) -> None:
        self.base = self.partition = self.judged = 0
        self.size = _ANY_SIZE if size is None else size
        self.elements: int | None = None
        self.unreadable_from: int | None = None
        self.counted: dict[tuple[Named, int], list[int]] = {}
        self._of_topic, self._topic = of_topic, NO_TOPIC
        self._head, self._by_broker, self._holds_records = head, by_broker, holds_records
        self._heads_left = MAX_HEADS
        self._spans: list[Span] = []
        self._fed = 0
        self._pieces = find(self)
        self._end: int | None = None
        next(self._pieces)

    def feed(self, piece: Buffer) -> list[Span]:
        """The stretches of record data in the next piece, in order. Those behind `unreadable_from` are not told."""
        self.base, self._fed = self._fed, self._fed + len(piece)
        try:
            if self._end is None:
                self._pieces.send(piece)
            if self._end is None and self._fed >= self.size:
                raise Truncated("the message is longer than its frame")
        except StopIteration as stop:
            self._end = stop.value
            self._judge_end(stop.value)
        except WireError:
            self._doubt()
        if not self._holds_records:
            return []
        limit = self._fed if self.unreadable_from is None else self.unreadable_from
        spans = [(max(start, self.base), min(stop, limit)) for start, stop in self._spans]
        # of a stretch that goes on, the rest comes with the next piece
        self._spans = [(start, stop) for start, stop in self._spans if stop > self._fed]
        return [(start, stop) for start, stop in spans if start < stop]

    def _judge_end(self, end: int) -> None:
        """Judges the message's end. Brokers may say more behind it, which nobody can tell; no client does."""
        if end > self.size or (end < self.size < _ANY_SIZE and not self._by_broker):
            self._doubt()
        elif end < self.size:
            # of a broker, or of a frame that was cut off
            self.found(end, self.size)

    def _doubt(self) -> None:
        """Notes that nobody can tell what the newest piece holds, nor what comes behind it."""
        self._end = max(self._head, self.base, self.judged)
        if self._holds_records and self.unreadable_from is None:
            self.unreadable_from = self._end

    # what the generators call

    def topic(self, name: bytes | None, topic_id: bytes | None) -> int:
        """What of this topic's record data is to be found; what follows is the topic's."""
        self._topic = name, topic_id
        return self._of_topic(name, topic_id)

    def found(self, start: int, stop: int) -> None:
        """Takes a stretch of record data, which may end behind the newest piece."""
        if self._spans and self._spans[-1][1] == start:
            start = self._spans.pop()[0]
        self._spans.append((start, stop))

    def batch(self, start: int, stop: int, end: int, head: int, records: int) -> None:
        """Takes a batch, whose record data begins `head` bytes behind its start. `end`: of the field that holds it."""
        if self._heads_left:
            self._heads_left -= 1
            start += head
        else:
            place = (self._topic, self.partition)
            counts = self.counted.setdefault(place if len(self.counted) < MAX_COUNTED else (NO_TOPIC, -1), [0, 0, 0])
            for at, more in enumerate((1, records, stop - start)):
                counts[at] += more
        if start < min(stop, end):
            self.found(start, min(stop, end))

    @property
    def only_counts(self) -> bool:
        """True behind the first MAX_HEADS batches."""
        return not self._heads_left

    def records(self, length: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, State]:
        """Walks through a field of batches; tells of each stretch of record data once it has begun.

        A broker may cut off the last batch. Of one without its magic, what follows offset and size is record data.
        What begins with a head that nobody can read is record data. Errors: Malformed for such a head in a client's
        batches, and where they don't end with the field.
        """
        place = self.base + at
        end = place + length
        while end - place > MAGIC_AT:
            head, buf, at, size = yield from _read(MAGIC_AT + 1, buf, at, size)
            _, batch_size, magic = _BEGIN.unpack(head)
            stop = place + LOG_OVERHEAD + batch_size
            is_batch = magic in HEADS and stop - place >= _SMALLEST[magic]
            if not self._by_broker and (not is_batch or stop > end):
                raise Malformed("bytes that are no batch")
            if not is_batch:
                self.found(place, end)
                return buf, at + end - place - len(head), size
            may_be_marker = self._by_broker and stop - place == END_MARKER and stop <= end
            if magic == 2 and (may_be_marker or self.only_counts) and end - place >= BATCH_HEAD.size:
                rest, buf, at, size = yield from _read(BATCH_HEAD.size - len(head), buf, at, size)
                head += rest
            if not (may_be_marker and _is_end_marker(head)):
                # only counted batches need to be counted
                records = int.from_bytes(head[_COUNT_AT:] or b"\1", "big")
                self.batch(place, stop, end, HEADS[magic], records)
            at += min(stop, end) - place - len(head)
            place = min(stop, end)
        if place < end:
            buf, at, size = yield from self._cut_off(end - place, buf, at, size)
        return buf, at, size

    def _cut_off(self, length: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, State]:
        """Steps over the beginning of a batch that ends before its magic."""
        if not self._by_broker:
            raise Malformed("a batch that is cut off")
        if length < LOG_OVERHEAD:
            self.found(self.base + at, self.base + at + length)
            return buf, at + length, size
        head, buf, at, size = yield from _read(LOG_OVERHEAD, buf, at, size)
        if int.from_bytes(head[-4:], "big", signed=True) < MAGIC_AT + 1 - LOG_OVERHEAD:
            raise Malformed("bytes that are no batch")
        self.found(self.base + at, self.base + at + length - LOG_OVERHEAD)
        return buf, at + length - LOG_OVERHEAD, size

    def text(
        self, length: int, is_topic: bool, buf: Buffer, at: int, size: int
    ) -> Generator[None, Buffer, tuple[bytes, Buffer, int, int]]:
        """Reads a text, or a topic's name. Errors: Malformed at the first piece with bytes that are none."""
        if is_topic:
            check_topic_length(length)
        found = b""
        while True:
            piece = bytes(buf[at : at + length - len(found)])
            check_text_piece(piece, is_topic=is_topic)
            found, at = found + piece, at + len(piece)
            if len(found) == length:
                return found, buf, at, size
            at -= size
            buf = yield
            size = len(buf)


class _NeedsWalk(Exception):
    """The frame is not plain."""


def found_in_whole(find: FindWhole, frame: bytes, of_topic: OfTopic, *, by_broker: bool) -> list[Span] | None:
    """The record data of a whole frame, its length included, as a `RecordWalk` finds them; None: only a walk can tell.

    A walk takes several times as long. It is needed for messages before magic 2, batches in great numbers, markers of
    transactions' ends, and whatever can't be read. `find`: `Codec.find_whole_records`; it learns nothing.
    """
    spans: list[Span] = []
    try:
        end = find(frame, of_topic, partial(_take_span, spans), partial(_take_batches, spans, by_broker))
    except (_NeedsWalk, IndexError, struct_error, WireError):
        return None
    return spans if end == len(frame) and len(spans) <= MAX_HEADS else None


class Alike(NamedTuple):
    """Whole frames of one message and size whose record data are in the same places as those of one of them.

    `judged`: what is read of such a frame to find them. `values`: that of them all. Clients send, and brokers answer,
    the same frame again and again, with other records, offsets and correlation ids.
    """

    judged: Callable[[bytes], object]
    values: object


def alike(find: FindWhole, frame: bytes, of_topic: OfTopic) -> Alike | None:
    """The frames that are like this one, as long as `of_topic` says the same; None if much of them must be compared.

    `find`: `Codec.find_judged_records`. `frame`: one of which `found_in_whole` tells the record data.
    """
    judged: list[Span] = []

    def batches(buf: bytes, at: int, end: int) -> None:
        while end - at > MAGIC_AT:
            judged.extend(((at + _SIZE_AT, at + LOG_OVERHEAD), (at + MAGIC_AT, at + MAGIC_AT + 1)))
            at += LOG_OVERHEAD + _BEGIN.unpack_from(buf, at)[1]

    find(frame, of_topic, lambda _start, _stop: None, batches, lambda start, stop: judged.append((start, stop)))
    places: list[Span] = []
    for start, stop in sorted(judged):
        begin = places.pop()[0] if places and start <= places[-1][1] else start
        places.append((begin, stop))
    if not places or len(places) > MAX_PLACES or sum(stop - start for start, stop in places) > MAX_JUDGED:
        return None
    getter = itemgetter(*(slice(*place) for place in places))
    return Alike(getter, getter(frame))


def _take_span(spans: list[Span], start: int, stop: int) -> None:
    if spans and spans[-1][1] == start:
        start = spans.pop()[0]
    spans.append((start, stop))


def _take_batches(spans: list[Span], by_broker: bool, buf: bytes, at: int, end: int) -> None:
    """Takes the records of a field of batches."""
    if end > len(buf):
        raise _NeedsWalk
    while end - at > MAGIC_AT:
        _, size, magic = _BEGIN.unpack_from(buf, at)
        stop = at + LOG_OVERHEAD + size
        start = at + _HEAD_SIZE
        is_odd = size == _END_MARKER_SIZE if by_broker else stop > end
        if magic != 2 or stop < start or is_odd:
            raise _NeedsWalk
        at = min(end, stop)
        if start < at:
            spans.append((start, at))
    if at < end:
        raise _NeedsWalk


def _read(count: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, tuple[bytes, Buffer, int, int]]:
    if at + count <= size:
        return bytes(buf[at : at + count]), buf, at + count, size
    found = yield from split_bytes(count, buf, at, size)
    return found


def _is_end_marker(head: bytes) -> bool:
    """True for the head of a batch of END_MARKER bytes that holds a marker."""
    return len(head) >= BATCH_HEAD.size and header(head, 0, END_MARKER).is_end_marker


def nothing_known(head: int) -> Find:
    """A walk through frames that nobody can read: nothing is known behind their first `head` bytes."""

    def find(_here: RecordWalk) -> Generator[None, Buffer, int]:
        came = 0
        while came < head:
            came += len((yield))
        raise Malformed("a message of an unknown version")

    return find

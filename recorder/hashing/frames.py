"""Frames that carry records, with hashed values: the batches are rewritten and the lengths around them set right.

A rewrite is a splice: the fields `records` are replaced, each with the length before it, and every other byte stays. No
message has a length around that field, so nothing else changes. Any reader decodes the new frame like any other.
Batches that the tap has dropped stay dropped.

Which fields hold records, and which name their topic, follows from the `.kafka` files. A frame that can't be read is
kept up to its head: nothing behind it can be told from a value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from proxy.wire import catalog, records
from proxy.wire.apis import MessageKind, api_keys, is_flexible, message
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from proxy.wire.headers import request_head, response_head
from proxy.wire.language import Field
from proxy.wire.primitives import uvarint
from recorder.hashing.batches import FrameBudget, Told, rewritten, told_of
from recorder.hashing.hasher import Hasher

# (start, length)
Spans = list[tuple[int, int]]
# whether the records of a topic are hashed, by its name or its id
Chooses = Callable[[str | bytes], bool]

_INT32 = Struct(">i")
# the marks of a field that names a topic
_TOPIC = ("topic_name", "topic_id")


class RewrittenFrame(NamedTuple):
    """A frame with hashed values.

    Attributes:
        data: its bytes, without those that are left out.
        masked: spans, in offsets of the rewritten frame with the bytes that are left out.
        dropped: the spans of batches that are left out, in the same offsets.
        omitted: the span of all that is left out behind the head of a frame that can't be read.
        told: what each of its batches was, in the frame's order; None for a frame that can't be read, and for one of
            so many batches that the last of them were dropped.
    """

    data: bytes
    masked: Spans
    dropped: Spans
    omitted: Spans
    told: list[Told] | None

    @property
    def whole(self) -> bytes:
        """Its bytes with zeros in place of the dropped ones: it then counts as a frame that is kept whole."""
        return records.with_blanks(self.data, self.dropped)


class _Edit(NamedTuple):
    """New bytes for `start` to `end`, of `size` with those that are dropped; `dropped` in offsets of the new bytes."""

    start: int
    end: int
    data: bytes
    dropped: Spans
    size: int


@lru_cache(1)
def holders() -> frozenset[tuple[MessageKind, int]]:
    """The messages that carry records in a field that is no secret, which the tap has masked."""
    kinds: tuple[MessageKind, ...] = ("request", "response")
    return frozenset((kind, key) for kind in kinds for key in api_keys() if _paths(kind, key)[0])


def rewritten_frame(
    kind: MessageKind,
    api_key: int,
    version: int | None,
    frame: bytes,
    chooses: Chooses,
    hasher: Hasher,
    *,
    masked: Iterable[tuple[int, int]] = (),
    dropped: Iterable[tuple[int, int]] = (),
    omitted: Iterable[tuple[int, int]] = (),
) -> RewrittenFrame:
    """A frame of one of `holders`, with hashed values.

    Args:
        frame: its bytes without the length; those that are masked or left out are zeros.
        chooses: topics that it does not choose stay as they are.
        masked, dropped, omitted: spans of the frame. Of one with omitted ones, which can't be read, the head stays.
    Errors: ModuleNotFoundError for a missing library of a codec or checksum.
    """
    masked, dropped, omitted = sorted(masked), sorted(dropped), sorted(omitted)
    body = 0
    try:
        body = _body(kind, api_key, version, frame)
        if not omitted:
            edits, told = _edits(kind, api_key, version, frame, body, chooses, hasher, _Gone([*masked, *dropped]))
            return _spliced(frame, edits, told, masked, dropped)
    except WireError:
        pass
    body = min([body, *(start for start, _ in omitted)])
    of_head = [(start, length) for start, length in masked if start < body]
    return RewrittenFrame(frame[:body], of_head, [], [(body, len(frame) - body)], None)


def _body(kind: MessageKind, api_key: int, version: int | None, frame: bytes) -> int:
    if kind == "request":
        return request_head(frame).body
    # without a version nothing is read but the correlation id
    return 4 if version is None else response_head(frame, api_key, version).body


def _edits(
    kind: MessageKind,
    api_key: int,
    version: int | None,
    frame: bytes,
    body: int,
    chooses: Chooses,
    hasher: Hasher,
    gone: _Gone,
) -> tuple[list[_Edit], list[Told] | None]:
    codec = None if version is None else catalog.codec(kind, api_key, version)
    if codec is None:
        raise WireError("an unknown version")
    holding, naming = _paths(kind, api_key)
    found = codec.project_within((*holding, *naming))(frame, body, Budget().values.take)
    fields = sorted((start, end, value, path in holding) for path in found for value, start, end in found[path])
    budget, edits, told = FrameBudget(), [], list[Told]()
    topic: str | bytes = ""
    for start, end, value, holds_records in fields:
        is_gone = holds_records and gone.touches(start, end)
        if not holds_records:
            topic = value
        elif value and not is_gone and not chooses(topic):
            told += told_of(bytes(value), budget)
        elif value:
            new = rewritten(bytes(value), None if is_gone else hasher, budget, by_broker=kind == "response")
            size = len(new.data) + sum(length for _, length in new.omitted)
            length = _length(api_key, codec.version, size)
            at = len(length)
            edits.append(
                _Edit(start, end, length + new.data, [(at + begin, count) for begin, count in new.omitted], at + size)
            )
            told += new.told
    return edits, told if budget.batches else None


class _Gone:
    """Spans of a frame whose bytes are not there. There may be a million, so none is looked at for each field."""

    def __init__(self, spans: Spans) -> None:
        spans = sorted(spans)
        self._starts = [start for start, _ in spans]
        self._ends = [*accumulate((start + length for start, length in spans), max)]

    def touches(self, start: int, end: int) -> bool:
        """True if a byte from `start` to `end` is not there."""
        before = bisect_left(self._starts, end)
        return before > 0 and self._ends[before - 1] > start


def _length(api_key: int, version: int, size: int) -> bytes:
    """The length in front of records."""
    return uvarint(size + 1) if is_flexible(api_key, version) else _INT32.pack(size)


@lru_cache(1024)
def _paths(kind: MessageKind, api_key: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths of the fields that hold records, and of those that name the topics around them."""
    found = message(kind, api_key)
    fields = [*_fields(found.fields)] if found else []
    holding = tuple(path for path, field in fields if field.type == "records" and "secret" not in field.marks)
    above = {path.rpartition(".")[0].rpartition(".")[0] for path in holding}
    names = (path for path, field in fields if path.rpartition(".")[0] in above and not field.marks.isdisjoint(_TOPIC))
    return holding, tuple(dict.fromkeys(names))


def _fields(fields: Iterable[Field], above: str = "") -> Iterator[tuple[str, Field]]:
    for field in fields:
        yield above + field.name, field
        yield from _fields(field.fields, f"{above}{field.name}.")


def _spliced(
    frame: bytes, edits: list[_Edit], told: list[Told] | None, masked: Spans, dropped: Spans
) -> RewrittenFrame:
    """The frame with its edits, which are in its order. Spans within an edit go with the bytes that it replaces."""
    gaps = iter([*dropped, (len(frame), 0)])
    gap = next(gaps)
    pieces: list[bytes] = []
    new_dropped = _moved(dropped, edits)
    at = grown = 0
    for edit in [*edits, _Edit(len(frame), len(frame), b"", [], 0)]:
        while gap[0] < edit.start:
            pieces.append(frame[at : gap[0]])
            at, gap = sum(gap), next(gaps)
        pieces += (frame[at : edit.start], edit.data)
        new_dropped += [(edit.start + grown + start, length) for start, length in edit.dropped]
        at, grown = edit.end, grown + edit.size - (edit.end - edit.start)
        while gap[0] < edit.end:
            gap = next(gaps)
    return RewrittenFrame(b"".join(pieces), _moved(masked, edits), sorted(new_dropped), [], told)


def _moved(spans: Spans, edits: list[_Edit]) -> Spans:
    """The spans that no edit replaces, in offsets of the new frame."""
    starts = [edit.start for edit in edits]
    grown = [0, *accumulate(edit.size - (edit.end - edit.start) for edit in edits)]
    moved = []
    for start, length in spans:
        before = bisect_left(starts, start + 1)
        if not before or start >= edits[before - 1].end:
            moved.append((start + grown[before], length))
    return moved

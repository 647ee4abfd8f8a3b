"""Decodes recorded and received frames, and remembers the values of small messages by their bytes.

Clients send the same heartbeats, polls and requests again and again, and a target that behaves like the recorded
cluster answers with the recorded bytes. Each such message is decoded once, and what was found in it is found once. All
readers share the remembered values and never change them; code that changes values gets a copy. Records are views of
the frame, so large ones are not copied.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from struct import Struct
from typing import Any

from proxy.wire import Malformed, WireError, codec_of_response, decode_request, records, response_head
from proxy.wire.keys import PRODUCE
from proxy.wire.pieces import Pieces
from proxy.wire.places import ElementKey, Partition
from proxy.wire.primitives import Buffer
from proxy.wire.records import Batch

Values = dict[str, Any]
# Bytes of a small message. Larger ones seldom repeat.
SMALL = 1024
# Requests, and answers, that are remembered: with their values some 20 MB at most.
MOST_MESSAGES = 2048
# types of values that hold others
_HOLDING = frozenset({dict, list})
_KEY_AND_VERSION, _NO_CORRELATION = Struct(">hh").pack, bytes(4)


class SharedValues(Values):
    """Values that all readers of a message share: never changed.

    Attributes:
        partitions: those in it; None: nobody has looked for them (`partitions`).
        errors: likewise, the error codes in it (`requests.layout`).
        lookups: values in it that may have other counterparts, if names of these kinds are the same on both sides
            (`comparison.unchanged`).
    """

    __slots__ = ("errors", "lookups", "partitions")

    def __init__(self, values: Values) -> None:
        super().__init__(values)
        self.partitions: list[Partition] | None = None
        self.errors: Mapping[ElementKey | None, int] | None = None
        self.lookups: tuple[frozenset[Any], Sequence[tuple[Any, Hashable, Hashable]]] | None = None


class RememberedRequest:
    """A request that may come again.

    Attributes:
        values: shared; `copy`: the same for one who changes them.
        written: the version, values and body in which it last left: it is not written anew for equal ones.
    """

    __slots__ = ("_holding", "values", "written")

    def __init__(self, values: SharedValues) -> None:
        self.values = values
        self.written: tuple[int, Values, bytes | Pieces] | None = None
        self._holding: Callable[[], Values] | None = None

    def copy(self) -> Values:
        """The values, for the caller to change."""
        if self._holding is None:
            self._holding = _copies({name: one for name, one in self.values.items() if type(one) in _HOLDING})
        return {**self.values, **self._holding()}


def _copies(values: Values) -> Callable[[], Values]:
    """Makes copies of values that hold others."""
    if not values:
        return dict
    try:
        # reading them from bytes takes a quarter of the time of a walk
        return partial(marshal.loads, marshal.dumps(values))
    except ValueError:
        return partial(_copied, values)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(one) if type(one) in _HOLDING else one for name, one in value.items()}
    return [_copied(one) if type(one) in _HOLDING else one for one in value]


def decoded_request(api_key: int, version: int, frame: bytes) -> Values:
    """The values of a request, for the caller alone. Errors: WireError."""
    found = decode_request(frame, views=True)
    if not isinstance(found, tuple):
        raise Malformed(f"no message has api key {api_key} and version {version}")
    return found[1]


def repeatable(api_key: int, frame: bytes) -> bytes | None:
    """The bytes of a request that may come again: all behind its correlation id. None for a large one, and for Produce.

    Two Produces are never alike: the times in their batches differ.
    """
    return None if len(frame) > SMALL or api_key == PRODUCE else frame[8:]


def without_correlation(api_key: int, version: int, rest: bytes) -> bytes:
    """The frame of a request with all that stands behind its correlation id, which is 0."""
    return _KEY_AND_VERSION(api_key, version) + _NO_CORRELATION + rest


def answer_values(api_key: int, version: int, frame: bytes) -> SharedValues:
    """The values of the answer to a request of that version, shared: not to be changed. Errors: WireError."""
    if len(frame) > SMALL:
        return _decoded_answer(api_key, version, frame)
    return remembered_answer(api_key, version, frame[4:])


@lru_cache(MOST_MESSAGES)
def remembered_request(api_key: int, version: int, rest: bytes) -> RememberedRequest:
    """What is remembered of a request. `rest`: the frame behind its correlation id."""
    return RememberedRequest(
        SharedValues(decoded_request(api_key, version, without_correlation(api_key, version, rest)))
    )


@lru_cache(MOST_MESSAGES)
def remembered_answer(api_key: int, version: int, rest: bytes) -> SharedValues:
    """The values of an answer. `rest`: the frame behind its correlation id."""
    return _decoded_answer(api_key, version, _NO_CORRELATION + rest)


def _decoded_answer(api_key: int, version: int, frame: bytes) -> SharedValues:
    found = codec_of_response(frame, api_key, version)
    if found is None:
        raise Malformed("an answer in an unknown version")
    return SharedValues(found.decode(frame, response_head(frame, api_key, version).body, views=True)[0])


def batches(data: Buffer | None) -> tuple[Batch, ...]:
    """The heads of all batches in `data`. Errors: WireError."""
    if data is None:
        return ()
    return tuple(records.batches(data)) if len(data) > SMALL else remembered_batches(bytes(data))


def record_count(data: Buffer | None) -> int:
    """The number of records of a producer's batches, each of which takes an offset; 0 if they can't be read."""
    try:
        found = batches(data)
        if len(found) == 1 and found[0].count is not None:
            return found[0].count
        return sum(_length(data or b"", batch) for batch in found)
    except WireError:
        return 0


def _length(data: Buffer, batch: Batch) -> int:
    """The number of records of a batch. A compressed message set has to be read for it: not all clients write it."""
    if batch.count is not None:
        return batch.count
    with suppress(WireError):
        return sum(1 for _ in records.read_batch(data, batch))
    return 1


@lru_cache(MOST_MESSAGES)
def remembered_batches(data: bytes) -> tuple[Batch, ...]:
    """The heads of batches in few bytes. Several rooms look at those of one request."""
    return tuple(records.batches(data))

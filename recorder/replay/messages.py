"""Decodes recorded and received frames, and remembers the values of small messages by their bytes.

Clients send the same heartbeats, polls and requests again and again, and a target that behaves like the recorded
cluster answers with the recorded bytes. Each such message is decoded once. All readers share the remembered values and
never change them; code that changes values gets a copy. Records are views of the frame, so large ones are not copied.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from struct import Struct
from typing import Any

from proxy.wire import Malformed, WireError, codec_of_response, decode_request, records, response_head
from proxy.wire.keys import PRODUCE
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


def decoded_request(api_key: int, version: int, frame: bytes) -> Values:
    """The values of a request. Errors: WireError."""
    found = decode_request(frame, views=True)
    if not isinstance(found, tuple):
        raise Malformed(f"no message has api key {api_key} and version {version}")
    return found[1]


def repeatable(api_key: int, frame: bytes) -> bytes | None:
    """The bytes of a request that may come again: all behind its correlation id. None for a large one, and for Produce.

    Two Produces are never alike: the times in their batches differ.
    """
    return None if len(frame) > SMALL or api_key == PRODUCE else bytes(frame[8:])


def mutable_request(api_key: int, version: int, frame: bytes) -> Values:
    """The values of a request, for the caller to change. Errors: WireError."""
    rest = repeatable(api_key, frame)
    if rest is None:
        return decoded_request(api_key, version, frame)
    found: Values = _copied(remembered_request(api_key, version, rest))
    return found


def _copied(value: Any) -> Any:
    """A deep copy of values. Copying takes less time than decoding."""
    if isinstance(value, dict):
        return {name: _copied(one) if type(one) in _HOLDING else one for name, one in value.items()}
    return [_copied(one) if type(one) in _HOLDING else one for one in value]


def request_values(api_key: int, version: int, frame: bytes) -> Values:
    """The values of a request, shared: not to be changed. Errors: WireError."""
    rest = repeatable(api_key, frame)
    return decoded_request(api_key, version, frame) if rest is None else remembered_request(api_key, version, rest)


def answer_values(api_key: int, version: int, frame: bytes) -> Values:
    """The values of the answer to a request of that version, shared: not to be changed. Errors: WireError."""
    if len(frame) > SMALL:
        return _decoded_answer(api_key, version, frame)
    return remembered_answer(api_key, version, bytes(frame[4:]))


@lru_cache(MOST_MESSAGES)
def remembered_request(api_key: int, version: int, rest: bytes) -> Values:
    """The values of a request. `rest`: the frame behind its correlation id."""
    return decoded_request(api_key, version, _KEY_AND_VERSION(api_key, version) + _NO_CORRELATION + rest)


@lru_cache(MOST_MESSAGES)
def remembered_answer(api_key: int, version: int, rest: bytes) -> Values:
    """The values of an answer. `rest`: the frame behind its correlation id."""
    return _decoded_answer(api_key, version, _NO_CORRELATION + rest)


def _decoded_answer(api_key: int, version: int, frame: bytes) -> Values:
    found = codec_of_response(frame, api_key, version)
    if found is None:
        raise Malformed("an answer in an unknown version")
    return found.decode(frame, response_head(frame, api_key, version).body, views=True)[0]


def batches(data: Buffer | None) -> tuple[Batch, ...]:
    """The heads of all batches in `data`. Errors: WireError."""
    if data is None:
        return ()
    return tuple(records.batches(data)) if len(data) > SMALL else remembered_batches(bytes(data))


def record_count(data: Buffer | None) -> int:
    """The number of records of a producer's batches, each of which takes an offset; 0 if they can't be read."""
    with suppress(WireError):
        return sum(_length(data or b"", batch) for batch in batches(data))
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

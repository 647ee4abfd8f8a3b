"""Reads and writes the five requests, and reads heads of requests that are still arriving.

    PRODUCE       0   part of a produce                     never answered
    FETCH         1   part of a fetch                       answered
    MULTIFETCH    2   count int16, count parts of a fetch   answered
    MULTIPRODUCE  3   count int16, count parts of a produce never answered
    OFFSETS       4   topic, partition, time int64 (ms), max_number int32   answered

    part of a produce: topic (int16 length, bytes), partition int32, messages_length int32, messages
    part of a fetch:   topic, partition int32, offset int64, max_size int32

A single request is its type and one part. The page's "request header" is type, topic and partition. All integers are
big-endian. Nothing in a frame names a version or a client, and nothing links a response to its request but the order.
(s): see `proxy.wire.kafka07`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import ClassVar, NamedTuple, TypeVar

from proxy.wire.errors import Malformed, in_bytes, naming
from proxy.wire.kafka07.fields import (
    INT16,
    INT32,
    at_end,
    put,
    put_block,
    put_topic,
    take,
    take_block,
    take_topic,
)
from proxy.wire.primitives import Buffer

# length, type
_START = Struct(">ih")
# a type alone
SHORTEST_REQUEST = INT16.size
# offset, max_size; time, max_number
_OFFSET_AND_SIZE = Struct(">qi")
_TIME_AND_NUMBER = Struct(">qi")

# Values of `Offsets.time` that are no milliseconds since the epoch.
LATEST = -1
EARLIEST = -2
# The partition of a produce that lets the broker choose one at random (s).
ANY_PARTITION = -1


class RequestType(IntEnum):
    """A request's first field."""

    PRODUCE = 0
    FETCH = 1
    MULTIFETCH = 2
    MULTIPRODUCE = 3
    OFFSETS = 4

    @property
    def awaits_response(self) -> bool:
        """True if the broker answers requests of this type."""
        return self not in (RequestType.PRODUCE, RequestType.MULTIPRODUCE)

    @property
    def api(self) -> str:
        """The request's name, distinct from those of later versions' APIs: `0.7/fetch`."""
        return f"0.7/{self.name.lower()}"


@dataclass(frozen=True, slots=True)
class Produce:
    """Append `messages` (as `messages.message_set` makes them) to a partition, or to `ANY_PARTITION`."""

    type: ClassVar = RequestType.PRODUCE
    topic: str
    partition: int
    messages: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """Up to `max_size` bytes of a partition's log from the byte `offset` on, cut wherever they end."""

    type: ClassVar = RequestType.FETCH
    topic: str
    partition: int
    offset: int
    max_size: int


@dataclass(frozen=True, slots=True)
class MultiFetch:
    """Several fetches at once; their answers come in one response, in this order."""

    type: ClassVar = RequestType.MULTIFETCH
    fetches: tuple[Fetch, ...]


@dataclass(frozen=True, slots=True)
class MultiProduce:
    """Several produces at once."""

    type: ClassVar = RequestType.MULTIPRODUCE
    produces: tuple[Produce, ...]


@dataclass(frozen=True, slots=True)
class Offsets:
    """Asks for up to `max_number` offsets where segments of the log begin: those from before `time`, latest first.

    `time`: milliseconds since the epoch, LATEST or EARLIEST. A segment's time is the last change of its file, and the
    time of the log's end is now (s), so the answer is as coarse as the segments.
    """

    type: ClassVar = RequestType.OFFSETS
    topic: str
    partition: int
    time: int
    max_number: int


@dataclass(frozen=True, slots=True)
class UnknownRequest:
    """A request of a type that 0.7 doesn't have: a value, not an error. A 0.7 broker closes the connection."""

    number: int
    body: bytes


Request = Produce | Fetch | MultiFetch | MultiProduce | Offsets
Part = TypeVar("Part", Fetch, Produce)


class RequestHead(NamedTuple):
    """`length`: bytes behind the length; `number`: the type as sent."""

    length: int
    number: int

    @property
    def type(self) -> RequestType | None:
        """The request's type; None for a number that 0.7 doesn't have."""
        return RequestType(self.number) if 0 <= self.number <= RequestType.OFFSETS else None

    @property
    def awaits_response(self) -> bool | None:
        """True if a response will come; None for an unknown type, after which no response can be paired."""
        return None if self.type is None else self.type.awaits_response


def request_head(buf: Buffer, at: int = 0) -> RequestHead | None:
    """The head of the request whose length is at `at`; None while its 6 bytes have not all arrived.

    The next request begins at `at + 4 + length`. Errors: Malformed for a length that can't hold a type; the caller
    limits the length.
    """
    if at + _START.size > len(buf):
        return None
    head = RequestHead(*_START.unpack_from(buf, at))
    if head.length < SHORTEST_REQUEST:
        raise Malformed(f"a length of {in_bytes(head.length)}", api="0.7 request", offset=at)
    return head


def decode_request(frame: Buffer) -> Request | UnknownRequest:
    """A request (the frame without its 4-byte length). Errors: Truncated, Malformed."""
    with naming("0.7 request"):
        (number,) = take(INT16, frame, 0)
    if number not in _READERS:
        return UnknownRequest(number, bytes(frame[INT16.size :]))
    with naming(f"0.7 {RequestType(number).name} request"):
        request, at = _READERS[RequestType(number)](frame, INT16.size)
        at_end(frame, at)
        return request


def encode_request(request: Request | UnknownRequest) -> bytes:
    """The request's frame without its 4-byte length. Errors: Malformed for values that don't fit."""
    if isinstance(request, UnknownRequest):
        with naming("0.7 request"):
            return put(INT16, request.number) + request.body
    with naming(f"0.7 {request.type.name} request"):
        return put(INT16, request.type) + _body(request)


def _body(request: Request) -> bytes:
    match request:
        case Produce():
            return _produce(request)
        case Fetch():
            return _fetch(request)
        case MultiProduce(produces):
            return put(INT16, len(produces)) + b"".join(map(_produce, produces))
        case MultiFetch(fetches):
            return put(INT16, len(fetches)) + b"".join(map(_fetch, fetches))
        case Offsets():
            place = put_topic(request.topic) + put(INT32, request.partition)
            return place + put(_TIME_AND_NUMBER, request.time, request.max_number)


def _produce(part: Produce) -> bytes:
    return put_topic(part.topic) + put(INT32, part.partition) + put_block(INT32, part.messages)


def _fetch(part: Fetch) -> bytes:
    return put_topic(part.topic) + put(INT32, part.partition) + put(_OFFSET_AND_SIZE, part.offset, part.max_size)


def _read_place(buf: Buffer, at: int) -> tuple[str, int, int]:
    """Topic, partition, and the offset behind them."""
    topic, at = take_topic(buf, at)
    (partition,) = take(INT32, buf, at)
    return topic, partition, at + INT32.size


def _read_produce(buf: Buffer, at: int) -> tuple[Produce, int]:
    topic, partition, at = _read_place(buf, at)
    messages, at = take_block(INT32, buf, at)
    return Produce(topic, partition, messages), at


def _read_fetch(buf: Buffer, at: int) -> tuple[Fetch, int]:
    topic, partition, at = _read_place(buf, at)
    offset, max_size = take(_OFFSET_AND_SIZE, buf, at)
    return Fetch(topic, partition, offset, max_size), at + _OFFSET_AND_SIZE.size


def _read_offsets(buf: Buffer, at: int) -> tuple[Offsets, int]:
    topic, partition, at = _read_place(buf, at)
    time, max_number = take(_TIME_AND_NUMBER, buf, at)
    return Offsets(topic, partition, time, max_number), at + _TIME_AND_NUMBER.size


def _read_parts(
    request: Callable[[tuple[Part, ...]], Request],
    read: Callable[[Buffer, int], tuple[Part, int]],
    buf: Buffer,
    at: int,
) -> tuple[Request, int]:
    """A request of several parts, each of which `read` reads."""
    (count,) = take(INT16, buf, at)
    if count < 0:
        raise Malformed(f"{count} parts", offset=at)
    at += INT16.size
    parts = []
    for _ in range(count):
        part, at = read(buf, at)
        parts.append(part)
    return request(tuple(parts)), at


_READERS: dict[int, Callable[[Buffer, int], tuple[Request, int]]] = {
    RequestType.PRODUCE: _read_produce,
    RequestType.FETCH: _read_fetch,
    RequestType.MULTIFETCH: partial(_read_parts, MultiFetch, _read_fetch),
    RequestType.MULTIPRODUCE: partial(_read_parts, MultiProduce, _read_produce),
    RequestType.OFFSETS: _read_offsets,
}

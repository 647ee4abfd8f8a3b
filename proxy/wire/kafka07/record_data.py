"""Finds the record data in frames of 0.7 that arrive in pieces; `records.walk` says how.

The payloads of messages are record data; a message's length, magic, attributes and checksum are not. An answer to a
fetch names no topic: its walk is given those of the request, in the request's order.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from proxy.wire.compile.runtime import split_bytes, split_int
from proxy.wire.errors import Malformed
from proxy.wire.kafka07.messages import HEAD_SIZES
from proxy.wire.kafka07.requests import RequestType
from proxy.wire.primitives import Buffer
from proxy.wire.records.walk import State

# a frame's length and the request's type, or the answer's error code
HEAD = 6
_PARTITION, _FETCH_REST = 4, 16
# longer than any frame, for an answer whose messages end with the frame
_TO_THE_END = 1 << 31


def find_in_request(request_type: RequestType, asked: Callable[[bytes], None]) -> Callable[[Any], Any]:
    """The walk through a request. `asked`: called with the topic of each fetch in it."""

    def find(here: Any) -> Generator[None, Buffer, int]:
        buf = yield
        at, size, count = HEAD, len(buf), 1
        if request_type in (RequestType.MULTIFETCH, RequestType.MULTIPRODUCE):
            count, buf, at, size = yield from split_int(2, buf, at, size)
        for _ in range(count):
            length, buf, at, size = yield from split_int(2, buf, at, size)
            if length < 0:
                raise Malformed("a topic without a name")
            topic, buf, at, size = yield from split_bytes(length, buf, at, size)
            if request_type in (RequestType.PRODUCE, RequestType.MULTIPRODUCE):
                here.partition, buf, at, size = yield from split_int(_PARTITION, buf, at, size)
                length, buf, at, size = yield from split_int(4, buf, at, size)
                buf, at, size = yield from _messages(
                    here, max(length, 0), (buf, at, size), drops=here.topic(topic, None)
                )
            else:
                asked(topic)
                at += _FETCH_REST
        while at > size:
            at -= size
            buf = yield
            size = len(buf)
        return int(here.base + at)

    return find


def find_in_response(request_type: RequestType, topics: Iterable[bytes]) -> Callable[[Any], Any]:
    """The walk through an answer. `topics`: those of the fetches in the request."""

    def find(here: Any) -> Generator[None, Buffer, int]:
        of_parts: Iterator[bytes] = iter(topics)
        buf = yield
        state: State = (buf, HEAD, len(buf))
        if request_type is RequestType.FETCH:
            drops = here.topic(next(of_parts, None), None)
            yield from _messages(here, _TO_THE_END, state, drops=drops)
        while request_type is RequestType.MULTIFETCH:
            length, buf, at, size = yield from split_int(4, *state)
            drops = here.topic(next(of_parts, None), None)
            # the length counts the error code
            state = yield from _messages(here, max(length - 2, 0), (buf, at + 2, size), drops=drops)
        # offsets of a log
        while True:
            yield

    return find


def _messages(here: Any, length: int, state: State, *, drops: int) -> Generator[None, Buffer, State]:
    """Walks through messages: `length` bytes, which may end within a message."""
    buf, at, size = state
    place = here.base + at
    end = place + length
    while drops and end - place > 4:
        message, buf, at, size = yield from split_int(4, buf, at, size)
        magic, buf, at, size = yield from split_bytes(1, buf, at, size)
        head = HEAD_SIZES.get(magic[0])
        stop = place + 4 + message
        if head is None or message < head:
            here.found(place + 5, end)
            return buf, at + end - place - 5, size
        here.batch(place, stop, end, 4 + head, 1)
        at += min(stop, end) - place - 5
        place = min(stop, end)
    return buf, at + end - place, size

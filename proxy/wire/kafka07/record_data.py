"""Finds the record data in frames of 0.7 that arrive in pieces; `records.walk` says how.

The payloads of messages are record data; a message's length, magic, attributes and checksum are not. An answer to a
fetch names no topic: its walk is given those of the request, in the request's order.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from proxy.wire.compile.runtime import split_bytes, split_int
from proxy.wire.errors import Malformed, in_bytes
from proxy.wire.kafka07.messages import HEAD_SIZES
from proxy.wire.kafka07.requests import RequestType
from proxy.wire.primitives import Buffer
from proxy.wire.records.walk import State
from proxy.wire.texts import LONGEST_TOPIC

# a frame's length and the request's type, or the answer's error code
HEAD = 6
_PARTITION, _FETCH_REST = 4, 16


def find_in_request(request_type: RequestType, asked: Callable[[bytes], None]) -> Callable[[Any], Any]:
    """The walk through a request. `asked`: called with the topic of each fetch in it."""

    def find(here: Any) -> Generator[None, Buffer, int]:
        buf = yield
        at, size, count = HEAD, len(buf), 1
        if request_type in (RequestType.MULTIFETCH, RequestType.MULTIPRODUCE):
            count, buf, at, size = yield from split_int(2, buf, at, size)
        for _ in range(count):
            length, buf, at, size = yield from split_int(2, buf, at, size)
            if not 0 <= length <= LONGEST_TOPIC:
                raise Malformed(f"a topic's name of {in_bytes(length)}")
            # topics of 0.7 have any letters
            topic, buf, at, size = yield from here.text(length, False, buf, at, size)
            if request_type in (RequestType.PRODUCE, RequestType.MULTIPRODUCE):
                here.partition, buf, at, size = yield from split_int(_PARTITION, buf, at, size)
                length, buf, at, size = yield from split_int(4, buf, at, size)
                drops = here.topic(topic, None)
                buf, at, size = yield from _messages(here, _within(here, at, length), (buf, at, size), drops=drops)
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
            yield from _messages(here, here.size - HEAD, state, drops=drops)
        while request_type is RequestType.MULTIFETCH and here.base + state[1] < here.size:
            length, buf, at, size = yield from split_int(4, *state)
            drops = here.topic(next(of_parts, None), None)
            # the length counts the error code
            state = yield from _messages(here, _within(here, at + 2, length - 2), (buf, at + 2, size), drops=drops)
        # the answer ends with its frame; what follows in it are offsets of a log
        return int(here.size)

    return find


def _within(here: Any, at: int, length: int) -> int:
    """A length, checked. Errors: Malformed where the frame has no room for it."""
    if not 0 <= length <= here.size - here.base - at:
        raise Malformed(f"messages of {in_bytes(length)}")
    return length


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
            raise Malformed("bytes that are no message")
        here.batch(place, stop, end, 4 + head, 1)
        at += min(stop, end) - place - 5
        place = min(stop, end)
    return buf, at + end - place, size

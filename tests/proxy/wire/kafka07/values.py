"""Generates values of 0.7's requests and responses, and writes them as plain byte strings."""

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import strategies as st

from proxy.wire.errors import WireError
from proxy.wire.kafka07 import (
    Fetch,
    FetchResponse,
    MultiFetch,
    MultiFetchResponse,
    MultiProduce,
    Offsets,
    OffsetsResponse,
    Produce,
    Request,
    Response,
)

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
BLOCKS = st.binary(max_size=60)
TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

FETCHES = st.builds(Fetch, TOPICS, INT32, INT64, INT32)
PRODUCES = st.builds(Produce, TOPICS, INT32, BLOCKS)
MULTI_FETCHES = st.builds(MultiFetch, st.lists(FETCHES, max_size=4).map(tuple))
MULTI_PRODUCES = st.builds(MultiProduce, st.lists(PRODUCES, max_size=4).map(tuple))
OFFSETS = st.builds(Offsets, TOPICS, INT32, INT64, INT32)
REQUESTS = st.one_of(FETCHES, PRODUCES, MULTI_FETCHES, MULTI_PRODUCES, OFFSETS)

FETCH_RESPONSES = st.builds(FetchResponse, INT16, BLOCKS)


@st.composite
def answered(draw: st.DrawFn) -> tuple[Request, Response]:
    """A request and a response to it, without an error or with an error alone."""
    request = draw(st.one_of(FETCHES, MULTI_FETCHES, OFFSETS))
    alone = draw(st.one_of(st.none(), st.none(), INT16.filter(bool)))
    match request:
        case Fetch():
            return request, draw(FETCH_RESPONSES)
        case MultiFetch(fetches):
            size = len(fetches)
            parts = () if alone else tuple(draw(st.lists(FETCH_RESPONSES, min_size=size, max_size=size)))
            return request, MultiFetchResponse(alone or 0, parts)
        case _:
            offsets = None if alone else tuple(draw(st.lists(INT64, max_size=5)))
            return request, OffsetsResponse(alone or 0, offsets)


@contextmanager
def hostile(data: bytes) -> Iterator[None]:
    """In this block, `data` may be refused, but only by the error family, with the message's name and an offset."""
    try:
        yield
    except WireError as fault:
        place = -1 if fault.offset is None else fault.offset
        if fault.api is None or not 0 <= place <= len(data):
            raise AssertionError(f"{fault.api} at {place} of {len(data)} bytes") from fault


def integer(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def sized(block: bytes, size: int) -> bytes:
    return integer(len(block), size) + block


def obvious_request(request: Request) -> bytes:
    match request:
        case Produce(topic, partition, messages):
            return integer(0, 2) + sized(topic.encode(), 2) + integer(partition, 4) + sized(messages, 4)
        case Fetch(topic, partition, offset, size):
            return (
                integer(1, 2) + sized(topic.encode(), 2) + integer(partition, 4) + integer(offset, 8) + integer(size, 4)
            )
        case MultiFetch(fetches):
            parts = [obvious_request(fetch)[2:] for fetch in fetches]
            return integer(2, 2) + integer(len(parts), 2) + b"".join(parts)
        case MultiProduce(produces):
            parts = [obvious_request(produce)[2:] for produce in produces]
            return integer(3, 2) + integer(len(parts), 2) + b"".join(parts)
        case Offsets(topic, partition, time, number):
            return (
                integer(4, 2) + sized(topic.encode(), 2) + integer(partition, 4) + integer(time, 8) + integer(number, 4)
            )


def obvious_response(response: Response) -> bytes:
    error = integer(response.error_code, 2)
    match response:
        case FetchResponse(_, messages):
            return error + messages
        case MultiFetchResponse(_, parts):
            return error + b"".join(sized(obvious_response(part), 4) for part in parts)
        case OffsetsResponse(_, offsets):
            if offsets is None:
                return error
            return error + integer(len(offsets), 4) + b"".join(integer(offset, 8) for offset in offsets)

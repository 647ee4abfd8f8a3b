"""Tests of requests of 0.7 against a writer of plain byte strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.errors import Malformed, Truncated
from proxy.wire.framing import framed
from proxy.wire.kafka07 import (
    Fetch,
    MultiFetch,
    MultiProduce,
    Offsets,
    Produce,
    Request,
    RequestType,
    UnknownRequest,
    decode_request,
    encode_request,
    request_head,
)
from tests.proxy.wire.kafka07.values import INT16, REQUESTS, hostile, integer, obvious_request
from tests.tables import each_row

FETCH = Fetch("clicks", 1, 0, 300_000)
PRODUCE = Produce("clicks", 1, b"messages")


def test_types_have_names_that_no_other_api_has() -> None:
    assert [asked.api for asked in RequestType] == [
        "0.7/produce",
        "0.7/fetch",
        "0.7/multifetch",
        "0.7/multiproduce",
        "0.7/offsets",
    ]


@given(REQUESTS)
def test_requests_are_written_and_read_as_the_page_lays_them_out(request: Request) -> None:
    frame = obvious_request(request)
    assert encode_request(request) == frame
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        assert decode_request(buffer) == request


@given(REQUESTS)
def test_every_prefix_of_a_request_is_truncated(request: Request) -> None:
    frame = obvious_request(request)
    for end in range(len(frame)):
        with pytest.raises(Truncated) as caught:
            decode_request(frame[:end])
        assert caught.value.offset == end
        assert caught.value.api is not None


@given(REQUESTS, st.binary(min_size=1, max_size=3))
def test_bytes_after_a_request_are_malformed(request: Request, more: bytes) -> None:
    frame = obvious_request(request)
    with pytest.raises(Malformed) as caught:
        decode_request(frame + more)
    assert caught.value.offset == len(frame)


@given(st.integers(0, 4), st.binary(max_size=120))
def test_hostile_requests_raise_the_error_family_and_nothing_else(number: int, body: bytes) -> None:
    frame = integer(number, 2) + body
    with hostile(frame):
        assert encode_request(decode_request(frame)) == frame


@given(INT16.filter(lambda number: not 0 <= number <= 4), st.binary(max_size=20))
def test_an_unknown_type_is_a_value(number: int, body: bytes) -> None:
    frame = integer(number, 2) + body
    assert decode_request(frame) == UnknownRequest(number, body)
    assert encode_request(UnknownRequest(number, body)) == frame
    head = request_head(framed(frame))
    assert head is not None
    assert (head.number, head.type, head.awaits_response) == (number, None, None)


@each_row(
    ("request_", "name", "awaits"),
    [
        (PRODUCE, "PRODUCE", False),
        (FETCH, "FETCH", True),
        (MultiFetch((FETCH, FETCH)), "MULTIFETCH", True),
        (MultiProduce((PRODUCE,)), "MULTIPRODUCE", False),
        (Offsets("clicks", 1, -1, 10), "OFFSETS", True),
    ],
)
def test_the_head_says_length_type_and_whether_an_answer_comes(request_: Request, name: str, awaits: bool) -> None:
    frame = obvious_request(request_)
    head = request_head(b"??" + framed(frame), 2)
    assert head is not None
    assert head.type is request_.type is RequestType[name]
    assert (head.length, head.awaits_response) == (len(frame), awaits)


@given(REQUESTS)
def test_a_head_is_there_with_its_sixth_byte(request: Request) -> None:
    data = framed(obvious_request(request))
    heads = [request_head(data[:end]) for end in range(len(data) + 1)]
    assert heads[:6] == [None] * 6
    assert set(heads[6:]) == {(len(data) - 4, request.type)}


@pytest.mark.parametrize("length", [-1, 0, 1])
def test_a_length_without_room_for_a_type_is_malformed(length: int) -> None:
    with pytest.raises(Malformed) as caught:
        request_head(b"?" + integer(length, 4) + b"\0\0", 1)
    assert caught.value.offset == 1


def test_a_negative_count_is_malformed() -> None:
    for number in (2, 3):
        with pytest.raises(Malformed, match="-1 parts"):
            decode_request(integer(number, 2) + b"\xff\xff")


def test_a_count_beyond_the_frame_is_truncated() -> None:
    with pytest.raises(Truncated):
        decode_request(integer(2, 2) + b"\x7f\xff" + obvious_request(FETCH)[2:])


@each_row(
    "request_",
    [
        Fetch("t" * (1 << 15), 0, 0, 0),
        Fetch("t", 1 << 31, 0, 0),
        Fetch("t", 0, 1 << 63, 0),
        MultiFetch((FETCH,) * (1 << 15)),
        Offsets("t", 0, 0, 1 << 31),
        UnknownRequest(1 << 15, b""),
    ],
    ids=["topic", "partition", "offset", "count", "number", "type"],
)
def test_values_that_do_not_fit_are_malformed_and_named(request_: Request | UnknownRequest) -> None:
    with pytest.raises(Malformed) as caught:
        encode_request(request_)
    assert str(caught.value).startswith("0.7 ")

"""Tests of responses of 0.7, read by their requests, against a writer of plain byte strings."""

from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.wire.errors import Malformed, Truncated, WireError
from proxy.wire.framing import framed
from proxy.wire.kafka07 import (
    ErrorCode,
    Fetch,
    FetchResponse,
    MultiFetch,
    MultiFetchResponse,
    MultiProduce,
    Offsets,
    OffsetsResponse,
    Produce,
    Request,
    RequestType,
    Response,
    UnknownRequest,
    decode_response,
    decode_response_to,
    encode_response,
    error_codes,
    error_name,
    response_head,
)
from tests.proxy.wire.kafka07.values import FETCH_RESPONSES, INT16, answered, hostile, integer, obvious_response

FETCH = Fetch("clicks", 1, 0, 300_000)
TWO = MultiFetch((FETCH, FETCH))
OFFSETS = Offsets("clicks", 1, -1, 10)


@given(answered())
def test_responses_are_written_and_read_as_the_page_lays_them_out(exchange: tuple[Request, Response]) -> None:
    request, response = exchange
    frame = obvious_response(response)
    assert encode_response(response) == frame
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        assert decode_response(buffer, request) == response


@given(answered())
def test_the_type_of_its_request_is_enough_to_read_a_response(exchange: tuple[Request, Response]) -> None:
    request, response = exchange
    frame = obvious_response(response)
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        assert decode_response_to(buffer, request.type) == response
    parts = response.parts if isinstance(response, MultiFetchResponse) else ()
    assert error_codes(frame, request.type) == [one.error_code for one in (response, *parts) if one.error_code]


@given(st.binary(max_size=60), st.sampled_from(RequestType))
def test_bytes_that_are_no_response_have_no_error_codes(data: bytes, asked: RequestType) -> None:
    codes = error_codes(data, asked)
    if not asked.awaits_response or len(data) < 2:
        assert codes is None
    elif asked is RequestType.FETCH:
        code = int.from_bytes(data[:2], "big", signed=True)
        assert codes == ([code] if code else [])
    with hostile(data), suppress(ValueError):
        decode_response_to(data, asked)
        assert codes is not None


@given(answered())
def test_every_prefix_of_a_response_is_truncated_or_shorter(exchange: tuple[Request, Response]) -> None:
    """Messages of a FETCH extend to the frame's end, wherever it is; and an error may be alone."""
    request, response = exchange
    frame = obvious_response(response)
    for end in range(len(frame)):
        if end >= 2 and isinstance(request, Fetch):
            assert decode_response(frame[:end], request) == FetchResponse(response.error_code, frame[2:end])
        else:
            with pytest.raises(Truncated) as caught:
                decode_response(frame[:end], request)
            assert caught.value.offset == end


@given(answered(), st.binary(min_size=1, max_size=3))
def test_bytes_after_a_response_are_malformed(exchange: tuple[Request, Response], more: bytes) -> None:
    request, response = exchange
    assume(not isinstance(request, Fetch) and not response.error_code)
    with pytest.raises(Malformed):
        decode_response(obvious_response(response) + more, request)


@given(st.sampled_from([FETCH, TWO, OFFSETS]), st.binary(max_size=120))
def test_hostile_responses_raise_the_error_family_and_nothing_else(request: Request, frame: bytes) -> None:
    with hostile(frame):
        assert encode_response(decode_response(frame, request)) == frame


@given(st.lists(FETCH_RESPONSES, max_size=4))
def test_a_multifetch_has_as_many_parts_as_its_request(parts: list[FetchResponse]) -> None:
    frame = obvious_response(MultiFetchResponse(0, tuple(parts)))
    for count in range(6):
        request = MultiFetch((FETCH,) * count)
        if count == len(parts):
            assert decode_response(frame, request) == MultiFetchResponse(0, tuple(parts))
        else:
            with pytest.raises(Truncated if count > len(parts) else Malformed):
                decode_response(frame, request)


def test_an_error_alone_has_no_body_and_a_good_response_must_have_one() -> None:
    assert decode_response(b"\xff\xff", OFFSETS) == OffsetsResponse(-1, None)
    assert decode_response(b"\0\3", TWO) == MultiFetchResponse(3, ())
    for request in (OFFSETS, TWO):
        with pytest.raises(Truncated):
            decode_response(b"\0\0", request)


def test_an_empty_list_of_offsets_is_decoded() -> None:
    assert decode_response(b"\0\0\0\0\0\0", OFFSETS) == OffsetsResponse(0, ())


@pytest.mark.parametrize(
    ("frame", "request_", "error"),
    [
        (b"\0\0\xff\xff\xff\xff", OFFSETS, Malformed),
        (b"\0\0\x7f\xff\xff\xff" + bytes(8), OFFSETS, Truncated),
        (b"\0\0\0\0\0\1\0" + b"\0\0\0\2\0\0", TWO, Malformed),
        (b"\0\0\xff\xff\xff\xff", TWO, Malformed),
    ],
    ids=["negative count", "huge count", "part without error code", "negative part"],
)
def test_bodies_that_can_not_be(frame: bytes, request_: Request, error: type[WireError]) -> None:
    with pytest.raises(error) as caught:
        decode_response(frame, request_)
    assert caught.value.api == f"0.7 {request_.type.name} response"
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= len(frame)


@pytest.mark.parametrize(
    "request_", [Produce("t", 0, b""), MultiProduce(()), UnknownRequest(9, b"")], ids=lambda one: type(one).__name__
)
def test_a_request_without_a_response_can_not_be_decoded_as_one(request_: Request) -> None:
    with pytest.raises(ValueError, match="has no response"):
        decode_response(b"\0\0", request_)


@given(answered())
def test_a_head_is_there_with_its_sixth_byte(exchange: tuple[Request, Response]) -> None:
    data = framed(obvious_response(exchange[1]))
    heads = [response_head(data[:end]) for end in range(len(data) + 1)]
    assert heads[:6] == [None] * 6
    assert set(heads[6:]) == {(len(data) - 4, exchange[1].error_code)}


@pytest.mark.parametrize("length", [-1, 0, 1])
def test_a_length_without_room_for_an_error_code_is_malformed(length: int) -> None:
    with pytest.raises(Malformed) as caught:
        response_head(b"?" + integer(length, 4) + b"\0\0", 1)
    assert caught.value.offset == 1


def test_error_codes_have_the_pages_names() -> None:
    names = ["UNKNOWN", "NONE", "OFFSET_OUT_OF_RANGE", "INVALID_MESSAGE", "WRONG_PARTITION", "INVALID_FETCH_SIZE"]
    assert [error_name(code) for code in range(-1, 5)] == names
    assert [error_name(code) for code in (-2, 5)] == ["ERROR_-2", "ERROR_5"]
    assert len(ErrorCode) == 6


@given(INT16)
def test_every_error_code_has_a_name(code: int) -> None:
    assert error_name(code)


def test_an_error_code_out_of_range_is_malformed() -> None:
    part = FetchResponse(1 << 15)
    for response in (part, MultiFetchResponse(0, (part,)), OffsetsResponse(1 << 15)):
        with pytest.raises(Malformed, match=r"0\.7 \w+ response"):
            encode_response(response)

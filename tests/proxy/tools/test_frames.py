"""Tests of reading frames from bytes in the forms that people have."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.tools import frames
from proxy.tools.frames import Asked, octets, octets_of
from proxy.tools.kafka07 import request_tree, response_tree
from proxy.tools.tree import Masked, Shown
from proxy.wire import catalog, kafka07
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, METADATA, SASL_AUTHENTICATE
from tests.proxy.wire.kafka07.values import REQUESTS, answered
from tests.strategies import messages

REQUEST = catalog.encode_request(METADATA, 12, 7, "me", {"topics": None})


def told(data: bytes, asked: Asked) -> list[dict[str, Any]]:
    return list(frames.trees(data, asked))


@given(st.binary(max_size=30), st.sampled_from(["{:02x}", "{:02X} ", "\\x{:02x}", "0x{:02x}, ", "{:02x}:", "{:02x}\n"]))
def test_hex_is_read_however_it_is_written(data: bytes, form: str) -> None:
    assert octets("".join(form.format(byte) for byte in data)) == data


@pytest.mark.parametrize(("text", "why"), [("0g", "'g' stands in it"), ("012", "a digit is missing")])
def test_bad_hex_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"no hex: {why}"):
        octets(text)


@given(messages())
def test_the_bytes_of_a_frame_are_never_taken_for_hex(drawn: tuple[catalog.Codec, dict[str, object]]) -> None:
    codec, values = drawn
    encode = catalog.encode_request if codec.message.kind == "request" else None
    if encode is not None:
        assert codec.message.key is not None
        frame = encode(codec.message.key, codec.version, 0x30303030, "00", values)
        assert octets_of(frame) == frame
        assert octets_of(framed(frame)) == framed(frame)
        assert octets_of(frame.hex().encode()) == frame


def test_no_bytes_are_not_a_frame() -> None:
    with pytest.raises(WireError, match="no request's head: 0 bytes"):
        told(octets_of(b""), Asked())


def test_a_frame_may_have_its_length_or_not_and_others_after_it() -> None:
    (bare,) = told(REQUEST, Asked())
    assert bare["body"] == {
        "topics": None,
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
    }
    assert told(framed(REQUEST), Asked()) == [bare]
    assert told(framed(REQUEST) * 3, Asked()) == [bare] * 3


def test_a_head_that_looks_like_a_length_is_still_a_head() -> None:
    """The correlation id equals the number of bytes after it, and so do key and version of a Produce request."""
    body = catalog.encode_response(METADATA, 1, 0, {})[4:]
    frame = len(body).to_bytes(4, "big") + body
    (found,) = told(frame, Asked((METADATA, 1)))
    assert found["correlation_id"] == len(body)
    (found,) = told(framed(frame), Asked((METADATA, 1)))
    assert found["correlation_id"] == len(body)


def test_an_error_tells_the_offset_in_the_frame() -> None:
    with pytest.raises(WireError) as wanted:
        catalog.decode_request(REQUEST[:-1])
    for data in (REQUEST[:-1], framed(REQUEST[:-1])):
        with pytest.raises(WireError) as caught:
            told(data, Asked())
        assert str(caught.value) == str(wanted.value)


@pytest.mark.parametrize("last", [framed(REQUEST)[:-1], framed(REQUEST[:-1]), framed(REQUEST)[:3]])
def test_the_frames_before_a_bad_one_are_yielded_and_the_error_has_its_number(last: bytes) -> None:
    found = frames.trees(framed(REQUEST) * 2 + last, Asked())
    assert next(found) == next(found) == told(REQUEST, Asked())[0]
    with pytest.raises(WireError, match=r"\(frame 3 of 3\)$"):
        next(found)


def test_a_length_too_small_for_any_frame_is_read_as_a_head() -> None:
    (found,) = told(bytes(100), Asked())
    assert (found["api"], found["api_version"]) == ("Produce", 0)


def test_an_unknown_api_or_version_is_shown_with_its_bytes() -> None:
    unknown = b"\x07\xd0" + REQUEST[2:]
    (found,) = told(unknown, Asked())
    assert (found["api"], found["api_key"], found["correlation_id"]) == (None, 2000, 7)
    assert found["why"] == "unknown: the catalog has no such api"
    (found,) = told(b"\0\0\0\7\0rest", Asked((METADATA, 99)))
    assert (found["why"], found["bytes"]) == ("unknown: version 99 of 0-13 known", b"rest")


def test_a_refused_question_for_versions_is_read_as_version_0() -> None:
    (found,) = told(b"\0\0\0\7\0\x23\0\0\0\0", Asked((API_VERSIONS, 4)))
    assert found["body"] == {"error_code": 35, "api_keys": []}
    assert "why" not in found


def test_bytes_after_a_message_are_named() -> None:
    (found,) = told(REQUEST + b"xyz", Asked())
    assert found["why"] == "3 bytes more behind its end: fields may be wrong"


def test_secrets_are_masked_unless_requested() -> None:
    frame = catalog.encode_request(SASL_AUTHENTICATE, 2, 7, "me", {"auth_bytes": b"\0me\0hunter2"})
    assert told(frame, Asked())[0]["body"] == {"auth_bytes": Masked(11)}
    assert told(frame, Asked(shown=Shown(mask=False)))[0]["body"] == {"auth_bytes": b"\0me\0hunter2"}


OLD = Asked(dialect=Dialect.KAFKA_07)


@given(st.lists(REQUESTS, min_size=1, max_size=4))
def test_requests_of_0_7_are_found_after_their_lengths(requests: list[kafka07.Request]) -> None:
    data = [kafka07.encode_request(one) for one in requests]
    found = told(b"".join(map(framed, data)), OLD)
    assert [one["api"] for one in found] == [one.type.api for one in requests]
    assert [one["body"] for one in found] == [request_tree(one, 10) for one in requests]


@given(REQUESTS)
@example(kafka07.Produce("xx", 4, b""))  # topic and partition could be lengths that reach to the end
def test_a_request_of_0_7_needs_no_length(request: kafka07.Request) -> None:
    (found,) = told(kafka07.encode_request(request), OLD)
    assert found["body"] == request_tree(request, 10)


@given(answered())
def test_a_response_of_0_7_is_read_as_one_to_its_request(exchange: tuple[kafka07.Request, kafka07.Response]) -> None:
    request, response = exchange
    asked = Asked(request.type, dialect=Dialect.KAFKA_07)
    frame = kafka07.encode_response(response)
    for found in (told(framed(frame), asked), told(framed(frame) * 2, asked)[1:]):
        assert [one["body"] for one in found] == [response_tree(response, 10)]
        assert [one["api"] for one in found] == [request.type.api]


def test_the_last_frame_of_0_7_may_be_cut() -> None:
    frame = kafka07.encode_request(kafka07.Fetch("t", 0, 0, 9))
    found = frames.trees(framed(frame) + framed(frame)[:-1], OLD)
    assert next(found)["api"] == "0.7/fetch"
    with pytest.raises(WireError, match=r"\(frame 2 of 2\)"):
        next(found)


def test_a_type_that_0_7_does_not_have_is_a_value() -> None:
    (found,) = told(b"\0\x09what", OLD)
    assert (found["why"], found["bytes"], found["api_key"]) == ("unknown: type 9 of 0-4 known", b"what", 9)

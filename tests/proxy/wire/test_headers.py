import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import apis
from proxy.wire.errors import Malformed, Truncated, WireError
from proxy.wire.headers import (
    RequestHead,
    ResponseHead,
    request_head,
    request_header_version,
    response_head,
    response_header_version,
    write_request_head,
    write_response_head,
)
from tests.strategies import EVERY_MESSAGE
from tests.tables import each_row

UNKNOWN = 1000
# api, version: request header, response header
RULES = [
    ("Produce", 8, 1, 0),
    ("Produce", 9, 2, 1),
    ("Metadata", 8, 1, 0),
    ("Metadata", 9, 2, 1),
    ("ApiVersions", 2, 1, 0),
    ("ApiVersions", 3, 2, 0),
    ("ApiVersions", 99, 2, 0),
    ("SaslHandshake", 1, 1, 0),
    ("OffsetDelete", 0, 1, 0),
    ("ControlledShutdown", 0, 0, 0),
    ("ControlledShutdown", 1, 1, 0),
    ("ControlledShutdown", 3, 2, 1),
    ("Fetch", 99, 2, 1),
    ("ShareFetch", 0, 2, 1),
]


@each_row(("name", "version", "request_header", "response_header"), RULES)
def test_header_versions_follow_the_rule(name: str, version: int, request_header: int, response_header: int) -> None:
    key = apis.api_key(name)
    assert key is not None
    assert request_header_version(key, version) == request_header
    assert response_header_version(key, version) == response_header


def test_an_unknown_api_has_the_headers_of_old() -> None:
    assert (request_header_version(UNKNOWN, 5), response_header_version(UNKNOWN, 5)) == (1, 0)


def test_heads_that_are_written_are_read_the_same() -> None:
    for kind, key, version in EVERY_MESSAGE:
        if kind == "request":
            head = write_request_head(key, version, -7, "client")
            client = None if request_header_version(key, version) == 0 else "client"
            assert request_head(head + b"body") == RequestHead(key, version, -7, client, len(head))
        else:
            head = write_response_head(key, version, -7)
            assert response_head(head + b"body", key, version) == ResponseHead(-7, len(head))


def test_the_client_id_keeps_its_two_byte_length_in_header_v2() -> None:
    assert write_request_head(3, 12, 1, "me") == b"\0\x03\0\x0c\0\0\0\x01\0\x02me\0"
    assert write_request_head(3, 12, 1, None) == b"\0\x03\0\x0c\0\0\0\x01\xff\xff\0"
    assert write_request_head(3, 8, 1, "") == b"\0\x03\0\x08\0\0\0\x01\0\0"


def test_tags_of_a_header_are_stepped_over() -> None:
    tags = b"\x01\x05\x03abc"
    head = write_request_head(3, 12, 1, "me")[:-1] + tags
    assert request_head(memoryview(head + b"body")).body == len(head)
    assert response_head(b"\0\0\0\x09" + tags + b"body", 3, 12) == ResponseHead(9, 4 + len(tags))


def test_the_body_of_an_unknown_api_stands_after_the_client_id() -> None:
    frame = write_request_head(UNKNOWN, 3, 5, "me") + b"anything"
    assert request_head(frame) == RequestHead(UNKNOWN, 3, 5, "me", 12)


def test_a_client_id_that_is_not_utf8_is_read_as_a_broker_reads_it() -> None:
    assert request_head(b"\0\x03\0\0\0\0\0\x01\0\x02a\xff").client_id == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("version", [0, 12])
def test_every_prefix_of_a_head_is_truncated(version: int) -> None:
    whole = write_request_head(3, version, 1, "client")
    for size in range(len(whole)):
        with pytest.raises(Truncated):
            request_head(whole[:size])
    whole = write_response_head(3, version, 1)
    for size in range(len(whole)):
        with pytest.raises(Truncated):
            response_head(whole[:size], 3, version)


def test_a_shorter_head_is_enough_for_controlled_shutdown_v0_alone() -> None:
    assert request_head(b"\0\x07\0\0\0\0\0\x01") == RequestHead(7, 0, 1, None, 8)
    assert request_head(b"\0\x07\0\0\0\0\0\x01\0\0\0\x05").body == 8
    for size in range(8):
        with pytest.raises(Truncated):
            request_head(b"\0\x07\0\0\0\0\0\x01"[:size])


def test_a_client_id_of_negative_length_is_malformed() -> None:
    with pytest.raises(Malformed, match="a client id of -2 bytes"):
        request_head(b"\0\x03\0\0\0\0\0\x01\xff\xfe")


def test_heads_that_do_not_fit_are_not_written() -> None:
    with pytest.raises(Malformed):
        write_request_head(3, 0, 1, "x" * 40000)
    with pytest.raises(Malformed, match="a head that doesn't fit"):
        write_request_head(3, 0, 1, b"me")  # type: ignore[arg-type]
    with pytest.raises(Malformed, match="surrogates not allowed"):
        write_request_head(3, 0, 1, "\udc80")
    with pytest.raises(Malformed):
        write_request_head(70000, 0, 1, None)
    with pytest.raises(Malformed):
        write_response_head(3, 0, 1 << 40)


def test_errors_name_the_api_and_the_version_as_soon_as_they_are_known() -> None:
    head = b"\0\x03\0\x0c\0\0\0\x01"
    for frame, offset in ((head, 8), (head + b"\x7f\xff", 10), (head + b"\xff\xfe", 8), (head + b"\0\0\x80", 11)):
        with pytest.raises(WireError) as caught:
            request_head(frame)
        assert (caught.value.api, caught.value.version, caught.value.offset) == ("Metadata", 12, offset)
    for answer in (b"", b"\0\0\0\x01", b"\0\0\0\x01\x80"):
        with pytest.raises(WireError) as caught:
            response_head(answer, 3, 12)
        assert (caught.value.api, caught.value.version, caught.value.offset) == ("Metadata", 12, len(answer))
    with pytest.raises(WireError, match=r"^api 1000 v2 at byte 8: "):
        request_head(b"\x03\xe8\0\x02\0\0\0\x01\xff\xfe")
    with pytest.raises(WireError, match=r"^Metadata v12: a head that doesn't fit"):
        write_response_head(3, 12, 1 << 40)


@given(st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=20), st.sampled_from([0, 9]))
def test_any_correlation_and_client_id_is_read_as_written(number: int, client: str | None, version: int) -> None:
    head = write_request_head(3, version, number, client)
    assert request_head(head) == RequestHead(3, version, number, client, len(head))

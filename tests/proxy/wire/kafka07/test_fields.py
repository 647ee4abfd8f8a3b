"""Tests of fields of 0.7: bad bytes raise only the error family, with the offset."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.errors import Malformed, Truncated
from proxy.wire.kafka07.fields import (
    INT16,
    INT32,
    INT64,
    at_end,
    put,
    put_block,
    put_topic,
    take,
    take_block,
    take_topic,
)

LAYOUTS = [(INT16, 2), (INT32, 4), (INT64, 8)]


@pytest.mark.parametrize(("layout", "size"), LAYOUTS)
def test_integers_are_big_endian_and_signed(layout: Struct, size: int) -> None:
    assert put(layout, -2) == b"\xff" * (size - 1) + b"\xfe"
    assert take(layout, b"?" + b"\xff" * (size - 1) + b"\xfe", 1) == (-2,)


@pytest.mark.parametrize(("layout", "size"), LAYOUTS)
def test_an_integer_that_the_bytes_end_in_is_truncated(layout: Struct, size: int) -> None:
    with pytest.raises(Truncated) as caught:
        take(layout, bytes(size), 1)
    assert caught.value.offset == size


def test_a_number_too_large_is_malformed() -> None:
    with pytest.raises(Malformed):
        put(INT16, 1 << 15)


@given(st.binary(max_size=40), st.binary(max_size=5))
def test_blocks_come_back_with_the_offset_after_them(block: bytes, more: bytes) -> None:
    assert take_block(INT32, b"?" + put_block(INT32, block) + more, 1) == (block, 5 + len(block))


@pytest.mark.parametrize(("data", "error"), [(b"\xff\xff", Malformed), (b"\0\3ab", Truncated), (b"\0", Truncated)])
def test_a_bad_block_raises_the_error_family(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        take_block(INT16, data, 0)


def test_a_block_longer_than_its_length_can_say_is_malformed() -> None:
    with pytest.raises(Malformed):
        put_block(INT16, bytes(1 << 15))


def test_topics_are_utf8() -> None:
    assert put_topic("grüße") == b"\0\7gr\xc3\xbc\xc3\x9fe"
    assert take_topic(b"\0\7gr\xc3\xbc\xc3\x9fe", 0) == ("grüße", 9)


def test_a_topic_that_is_no_utf8_is_malformed() -> None:
    with pytest.raises(Malformed) as caught:
        take_topic(b"??\0\2\xc3(", 2)
    assert caught.value.offset == 4
    with pytest.raises(Malformed):
        put_topic("\udc80")


def test_bytes_after_the_end_are_malformed() -> None:
    at_end(b"abc", 3)
    with pytest.raises(Malformed, match="1 byte behind") as caught:
        at_end(b"abc", 2)
    assert caught.value.offset == 2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.errors import Malformed, Truncated
from proxy.wire.primitives import UVARINT_MAX, TagSpan, read_tags, read_uvarint, uuid_text, uvarint
from tests.tables import each_row

KNOWN = [
    (0, b"\x00"),
    (127, b"\x7f"),
    (128, b"\x80\x01"),
    (300, b"\xac\x02"),
    (16383, b"\xff\x7f"),
    (16384, b"\x80\x80\x01"),
    (UVARINT_MAX, b"\xff\xff\xff\xff\x0f"),
]


@each_row(("value", "data"), KNOWN)
def test_varints_are_written_as_kafka_writes_them(value: int, data: bytes) -> None:
    assert uvarint(value) == data
    assert read_uvarint(data, 0) == (value, len(data))


@given(st.integers(0, UVARINT_MAX), st.integers(0, 5), st.binary(max_size=3))
def test_a_varint_of_any_width_is_read_from_anywhere(value: int, width: int, before: bytes) -> None:
    data = uvarint(value, width)
    assert len(data) >= width
    assert len(data) == max(width, len(uvarint(value)))
    assert read_uvarint(memoryview(before + data + b"\xff"), len(before)) == (value, len(before) + len(data))


def test_a_varint_that_the_bytes_cut_off_is_truncated() -> None:
    for data in (b"", b"\x80", b"\xff\xff\xff\xff"):
        with pytest.raises(Truncated) as caught:
            read_uvarint(data, 0)
        assert caught.value.offset == len(data)


def test_a_varint_has_five_bytes_and_32_bits_at_most() -> None:
    with pytest.raises(Malformed, match="more than 5 bytes"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x00", 0)
    with pytest.raises(Malformed, match="more than 32 bits"):
        read_uvarint(b"\xff\xff\xff\xff\x10", 0)


@pytest.mark.parametrize(("value", "width"), [(-1, 0), (UVARINT_MAX + 1, 0), (1, 6)])
def test_a_value_too_wide_for_a_varint_is_not_written(value: int, width: int) -> None:
    with pytest.raises(Malformed):
        uvarint(value, width)


def test_tags_are_found_with_the_places_of_number_size_and_payload() -> None:
    data = b"\xaa" + b"\x02" + b"\x00\x03abc" + b"\xac\x02\x80\x00" + b"\xbb"
    spans, end = read_tags(data, 1)
    assert spans == [TagSpan(0, 2, 3, 4, 7), TagSpan(300, 7, 9, 11, 11)]
    assert end == 11
    assert data[end:] == b"\xbb"


def test_a_tag_that_goes_beyond_the_end_is_truncated() -> None:
    for data in (b"", b"\x01", b"\x01\x00", b"\x01\x00\x02a"):
        with pytest.raises(Truncated):
            read_tags(data, 0)


def test_ids_are_printed_as_kafka_prints_them() -> None:
    assert uuid_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(b"\xff" * 16) == "_____________________w"

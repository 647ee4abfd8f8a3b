import pytest

from proxy.wire.integers import ENCODINGS, INTEGERS, VARINT_TYPES, Encoding, Integer, limits, widest


def test_a_types_name_says_width_and_encoding() -> None:
    assert INTEGERS["int32"] == (32, Encoding.FIXED)
    assert INTEGERS["varint16"] == (16, Encoding.SIGNED)
    assert INTEGERS["unsigned_varint64"] == (64, Encoding.UNSIGNED)
    assert all(integer.name == name for name, integer in INTEGERS.items())


def test_the_second_form_names_encoding_and_width() -> None:
    assert ENCODINGS["fixed32"].name == "int32"
    assert ENCODINGS["signed64"].name == "varint64"
    assert ENCODINGS["unsigned16"].name == "unsigned_varint16"
    assert len(ENCODINGS) == len(VARINT_TYPES) + 3 == 9


def test_the_longest_value_takes_as_many_groups_of_7_bits_as_the_width_needs() -> None:
    assert [Integer(bits, Encoding.FIXED).max_bytes for bits in (8, 16, 32, 64)] == [1, 2, 4, 8]
    assert [Integer(bits, Encoding.SIGNED).max_bytes for bits in (16, 32, 64)] == [3, 5, 10]


def test_the_widest_of_several_types_is_a_fixed_one() -> None:
    assert widest(["int32", "unsigned_varint32"]) == "int32"
    assert widest(["varint16", "int32", "unsigned_varint64"]) == "int64"


def test_limits_are_those_of_the_width_in_every_encoding() -> None:
    assert limits("int8") == range(-128, 128)
    assert limits("varint16") == limits("unsigned_varint16") == range(-32768, 32768)
    assert limits("uint16") == range(65536)
    with pytest.raises(KeyError):
        limits("string")

"""Tests of varints in all compiled functions, against the slow twin and bytes written here."""

import inspect
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import layout
from proxy.wire.errors import Malformed, Truncated, WireError
from proxy.wire.integers import VARINT_TYPES
from proxy.wire.language import parse
from tests.proxy.wire.interpreter import Reader, Writer
from tests.proxy.wire.test_every_message import damage, fed, pieces, spans_of
from tests.strategies import Values, at_path, field_paths
from tests.sweeps import examples
from tests.tables import each_row

# Each type as a field behind another, as elements, in a struct, in a tag, with a default and null where it may stand;
# types and encodings that change with the version, also between the two kinds of versions.
EACH = "".join(
    f"""
  f_{name}: {name}
  d_{name}: {name}            = -1
  a_{name}: []{name}
  n_{name}: []{name}?
  t_{name}: {name}            v2+  tag {2 * place}  = -1
  u_{name}: []{name}          v2+  tag {2 * place + 1}"""
    for place, name in enumerate(VARINT_TYPES)
)
(MESSAGE,) = parse(
    f"""
AResponse  key 1  versions 0-4  flexible 2+
  before: int32{EACH}
  rows: []
    lag: int32 v0, varint32 v1-2, unsigned_varint64 v3, int64 v4+   = -1
    behind: string?
    nodes: []int32            encoding fixed32 v0-2, unsigned32 v3+
    pair: {{}}?               v1+
      error: int16            encoding signed16 v1-3, fixed16 v4+
  offset: int64               encoding fixed32 v0, fixed64 v1, unsigned64 v2+
"""
)
CODECS = [Codec(MESSAGE, version) for version in MESSAGE.versions]
codecs = each_row("codec", CODECS, ids=str)


@st.composite
def messages(draw: st.DrawFn) -> tuple[Codec, dict[str, Any]]:
    """Draws any version with values."""
    codec = draw(st.sampled_from(CODECS))
    random = draw(st.randoms(use_true_random=False))
    return codec, Values(random).struct(layout(codec.message, codec.version))


@examples(80)
@given(messages())
def test_bytes_are_those_of_the_twin_and_decode_to_the_same(drawn: tuple[Codec, dict[str, Any]]) -> None:
    codec, values = drawn
    data = codec.encode(values)
    assert data == Writer(codec.message, codec.version).write(values)
    assert codec.decode(bytearray(data)) == (values, len(data))
    assert Reader(codec.message, codec.version, data).read() == values


@examples(50)
@given(messages(), st.integers(2, 10))
def test_longer_encodings_than_need_be_are_read_too(drawn: tuple[Codec, dict[str, Any]], width: int) -> None:
    codec, values = drawn
    data = Writer(codec.message, codec.version, width=min(width, 5), eager=True).write(values)
    assert codec.decode(data) == (values, len(data))


@examples(50)
@given(messages(), st.data())
def test_a_projection_finds_value_and_span(drawn: tuple[Codec, dict[str, Any]], data: st.DataObject) -> None:
    codec, values = drawn
    eager = Writer(codec.message, codec.version, eager=True).write(values)
    expected = spans_of(codec, eager)
    path = data.draw(st.sampled_from(field_paths(layout(codec.message, codec.version))))
    assert codec.project((path,))(memoryview(eager), 0) == {path: expected[path]}
    assert [value for value, _, _ in expected[path]] == at_path(values, path)


@codecs
def test_all_paths_at_once_are_projected(codec: Codec) -> None:
    for seed in range(10):
        data = codec.encode(Values(Random(seed)).struct(layout(codec.message, codec.version)))
        paths = tuple(field_paths(layout(codec.message, codec.version)))
        expected = spans_of(codec, data)
        assert codec.project(paths)(data, 0) == {path: expected[path] for path in paths}


@examples(50)
@given(messages(), st.data(), st.randoms(use_true_random=False))
def test_a_walk_takes_any_pieces(drawn: tuple[Codec, dict[str, Any]], data: st.DataObject, random: Random) -> None:
    codec, values = drawn
    encoded = codec.encode(values)
    stop = data.draw(st.sampled_from([slot.name for slot in layout(codec.message, codec.version).slots]))
    ((_, start, _),) = codec.project((stop,))(encoded, 0)[stop]
    assert fed(codec.walk(stop), pieces(encoded, random)) == start
    assert fed(codec.walk(stop), [bytes([byte]) for byte in encoded]) == start


@codecs
def test_every_prefix_is_truncated(codec: Codec) -> None:
    data = codec.encode(Values(Random(codec.version)).struct(layout(codec.message, codec.version)))
    for size in range(len(data)):
        with pytest.raises(Truncated) as caught:
            codec.decode(data[:size])
        assert (caught.value.api, caught.value.version) == ("A", codec.version)
        assert 0 <= (caught.value.offset or 0) <= size


@examples(80)
@given(messages(), st.randoms(use_true_random=False))
def test_damaged_bytes_raise_the_error_family_and_nothing_else(
    drawn: tuple[Codec, dict[str, Any]], random: Random
) -> None:
    codec, values = drawn
    damaged = damage(codec.encode(values), random)
    paths = tuple(field_paths(layout(codec.message, codec.version)))
    for read in (codec.decode, codec.project(paths), lambda data, _: codec.walk("offset").feed(data)):
        with suppress(WireError):
            read(damaged, 0)


def one(type_: str) -> Codec:
    """Draws a message of one such field and an array of them."""
    (message,) = parse(f"ARequest  key 1  versions 0  flexible never\n  a: {type_}\n  b: []{type_}\n")
    return Codec(message, 0)


# type, value, bytes: worked out by hand from the groups.
BYTES = [
    ("unsigned_varint16", 300, b"\xac\x02"),
    ("unsigned_varint16", -1, b"\xff\xff\x03"),
    ("unsigned_varint32", 127, b"\x7f"),
    ("unsigned_varint32", 128, b"\x80\x01"),
    ("unsigned_varint32", -1, b"\xff\xff\xff\xff\x0f"),
    ("unsigned_varint32", -(2**31), b"\x80\x80\x80\x80\x08"),
    ("unsigned_varint64", -1, b"\xff" * 9 + b"\x01"),
    ("unsigned_varint64", 2**63 - 1, b"\xff" * 8 + b"\x7f"),
    ("varint16", -64, b"\x7f"),
    ("varint16", 64, b"\x80\x01"),
    ("varint16", -32768, b"\xff\xff\x03"),
    ("varint32", -1, b"\x01"),
    ("varint32", -65, b"\x81\x01"),
    ("varint32", 2**31 - 1, b"\xfe\xff\xff\xff\x0f"),
    ("varint64", -(2**63), b"\xff" * 9 + b"\x01"),
]


@each_row(("type_", "value", "expected"), BYTES)
def test_a_value_has_these_bytes(type_: str, value: int, expected: bytes) -> None:
    values = {"a": value, "b": [value, 0]}
    assert one(type_).encode(values) == expected + b"\0\0\0\2" + expected + b"\0"
    assert one(type_).decode(one(type_).encode(values))[0] == values


@each_row("type_", VARINT_TYPES)
def test_a_value_that_has_no_room_can_not_be_encoded(type_: str) -> None:
    top = 1 << int(type_[-2:]) - 1
    for bad in (top, -top - 1, 2 * top - 1, 2**70, 1.0, 200.5, "1", None, b"1"):
        for values in ({"a": bad}, {"b": [bad]}, {"b": [1, bad, 1]}):
            with pytest.raises(Malformed, match=r"^A v0: "):
                one(type_).encode(values)


@each_row("type_", VARINT_TYPES)
def test_too_many_bytes_or_bits_are_malformed(type_: str) -> None:
    bits = int(type_[-2:])
    most = {16: 3, 32: 5, 64: 10}[bits]
    long = b"\x80" * most + b"\x00"
    wide = b"\xff" * (most - 1) + bytes([1 << bits % 7])
    for bad in (long, wide):
        for data in (bad + bytes(4), b"\0\0\0\0\1" + bad):
            with pytest.raises(Malformed, match="a varint of more than") as caught:
                one(type_).decode(data)
            assert caught.value.offset == data.index(bad)
    with pytest.raises(Malformed, match=f"more than {most} bytes"):
        one(type_).project(("b",))(long + bytes(4), 0)
    with pytest.raises(Malformed, match=f"more than {most} bytes"):
        fed(one(type_).walk("b"), [bytes([byte]) for byte in long])


def test_arrays_of_any_length_are_read_and_written() -> None:
    for type_ in VARINT_TYPES:
        for count in (0, 1, 33, 127, 128, 5000):
            for element in (-1, 5, 63, 64, 3000):
                values = {"a": 0, "b": [1] * count + [element]}
                assert one(type_).decode(one(type_).encode(values))[0] == values


def test_a_count_without_its_elements_reserves_nothing() -> None:
    for type_ in VARINT_TYPES:
        with pytest.raises(Truncated):
            one(type_).decode(b"\0\x7f\xff\xff\xff\1\2\3")


def test_a_value_of_one_byte_is_read_with_the_fixed_fields_before_it() -> None:
    (message,) = parse("ARequest  key 1  versions 0  flexible never\n  a: int32\n  b: unsigned_varint32\n")
    text = inspect.getsource(Codec(message, 0)._decode)
    assert "a, b = read_iB(buf, at)" in text


def test_both_forms_of_the_language_give_the_same_bytes() -> None:
    head = "ARequest  key 1  versions 0-1  flexible never\n"
    (types,) = parse(head + "  a: int32 v0, unsigned_varint32 v1+\n")
    (encodings,) = parse(head + "  a: int32  encoding fixed32 v0, unsigned32 v1+\n")
    for version, expected in enumerate([b"\0\0\1\x2c", b"\xac\x02"]):
        assert Codec(types, version).encode({"a": 300}) == expected
        assert Codec(encodings, version).encode({"a": 300}) == expected


def test_a_field_that_grew_keeps_its_value_and_refuses_what_had_no_room() -> None:
    (message,) = parse("ARequest  key 1  versions 0-1  flexible never\n  a: int32 v0, int64 v1+  = -1\n")
    assert Codec(message, 0).encode({}) == b"\xff" * 4
    assert Codec(message, 1).encode({}) == b"\xff" * 8
    assert Codec(message, 1).decode(Codec(message, 1).encode({"a": 2**40}))[0] == {"a": 2**40}
    with pytest.raises(Malformed):
        Codec(message, 0).encode({"a": 2**40})

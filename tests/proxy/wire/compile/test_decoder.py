"""What the sweeps over every message don't say: the values of the small cases, and the text that is written."""

import inspect

import pytest

from proxy.wire.catalog import Codec
from proxy.wire.errors import Malformed
from proxy.wire.language import parse
from tests.strategies import must_codec


def codec(text: str, version: int = 0) -> Codec:
    (message,) = parse("ARequest  key 1  versions 0-1  flexible 1+\n" + text)
    return Codec(message, version)


def test_fixed_types_are_python_values() -> None:
    text = "  a: bool\n  b: int8\n  c: uint16\n  d: uint32\n  e: int64\n  f: float64\n  g: uuid\n"
    data = b"\x02" + b"\xff" + b"\xff\xff" + b"\xff" * 4 + b"\xff" * 8 + b"\x3f\xf8" + bytes(6) + b"i" * 16
    expected = {"a": True, "b": -1, "c": 65535, "d": 2**32 - 1, "e": -1, "f": 1.5, "g": b"i" * 16}
    assert codec(text).decode(data) == (expected, len(data))


def test_decoding_begins_anywhere_and_says_where_it_ended() -> None:
    assert codec("  a: int8\n").decode(b"__\x05__", 2) == ({"a": 5}, 3)


def test_any_buffer_gives_bytes() -> None:
    for buf in (b"\0\0\0\3abc", bytearray(b"\0\0\0\3abc"), memoryview(b"\0\0\0\3abc")):
        values, _ = codec("  a: bytes\n").decode(buf)
        assert values == {"a": b"abc"}
        assert type(values["a"]) is bytes


def test_null_and_empty_are_told_apart() -> None:
    text = "  a: string?\n  b: bytes?\n  c: []int8?\n"
    assert codec(text).decode(b"\xff\xff" + b"\xff" * 8)[0] == {"a": None, "b": None, "c": None}
    assert codec(text).decode(bytes(10))[0] == {"a": "", "b": b"", "c": []}
    assert codec(text, 1).decode(b"\0\0\0\0")[0] == {"a": None, "b": None, "c": None}
    assert codec(text, 1).decode(b"\1\1\1\0")[0] == {"a": "", "b": b"", "c": []}


def test_a_struct_may_be_null_also_in_a_tag() -> None:
    text = "  a: {}?\n    x: int8\n  b: {}?  v1+  tag 0  = null\n    y: int8\n"
    assert codec(text, 1).decode(b"\xff\x00")[0] == {"a": None, "b": None}
    assert codec(text, 1).decode(b"\x01\x05\x00" + b"\x01\x00\x03\x01\x06\x00")[0] == {"a": {"x": 5}, "b": {"y": 6}}
    assert codec(text, 1).decode(b"\xff\x01\x00\x01\x00")[0] == {"a": None, "b": None}
    with pytest.raises(Malformed, match="5 before a tagged struct"):
        codec(text, 1).decode(b"\xff\x01\x00\x01\x05")
    values = {"a": {"x": 5}, "b": {"y": 6}}
    assert codec(text, 1).decode(codec(text, 1).encode(values))[0] == values


def test_an_absent_tagged_field_has_a_default_of_its_own() -> None:
    found = must_codec("response", 1, 12)
    data = found.encode({"responses": [{"partitions": [{}, {}]}]})
    one, other = found.decode(data)[0]["responses"][0]["partitions"]
    assert one["current_leader"] == {"leader_id": -1, "leader_epoch": -1}
    assert one["current_leader"] is not other["current_leader"]


def test_arrays_longer_than_what_is_ready_made_are_read() -> None:
    for count in (0, 1, 31, 32, 33, 34, 126, 127, 128, 20000):
        for version in (0, 1):
            found = codec("  a: []int32\n  b: int8\n", version)
            values = {"a": list(range(count)), "b": 7}
            assert found.decode(found.encode(values))[0] == values


def test_the_written_function_is_flat() -> None:
    text = inspect.getsource(must_codec("response", 3, 12)._decode)
    assert text.count("def ") == 1
    assert "error_code_2, partition_index, leader_id, leader_epoch, n = read_hiiiB(buf, at)" in text

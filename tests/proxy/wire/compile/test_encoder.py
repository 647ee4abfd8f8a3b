from array import array
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from types import MappingProxyType
from typing import Any

import pytest

from proxy.wire.catalog import Codec
from proxy.wire.errors import Malformed
from proxy.wire.language import parse
from tests.strategies import must_codec


def codec(text: str, version: int = 0) -> Codec:
    (message,) = parse("ARequest  key 1  versions 0-1  flexible 1+\n" + text)
    return Codec(message, version)


def test_a_missing_field_is_written_with_its_default() -> None:
    text = "  a: int16  = -1\n  b: string\n  c: string?  = null\n  d: []int8\n  e: bool  = true\n"
    assert codec(text).encode({}) == b"\xff\xff" + b"\0\0" + b"\xff\xff" + bytes(4) + b"\1"
    assert codec(text, 1).encode({}) == b"\xff\xff" + b"\1" + b"\0" + b"\1" + b"\1" + b"\0"


def test_a_field_of_another_version_is_left_out() -> None:
    assert codec("  a: int8\n  b: int8  v1+\n").encode({"a": 1, "b": 2}) == b"\1"


def test_an_unknown_name_is_an_error_wherever_it_stands() -> None:
    text = "  rows: []\n    a: int8\n"
    with pytest.raises(Malformed, match=r"A v0: rows\[0\]: unknown fields: b, c"):
        codec(text).encode({"rows": [{"a": 1, "c": 2, "b": 3}]})
    with pytest.raises(Malformed, match="unknown fields: row"):
        codec(text).encode({"row": []})


NESTED = """
  rows: []
    a: int8
    inner: {}
      b: string
      c: []int16
  d: bytes
  e: []  v1+  tag 0
    f: int32
    g: uuid
"""


def test_an_unknown_name_in_the_place_of_a_known_one_is_an_error_at_any_depth() -> None:
    """As many items as the struct has fields are not enough."""
    found = codec(NESTED, 1)
    complete = {"rows": [{"a": 1, "inner": {"b": "", "c": []}}], "d": b"", "e": [{"f": 0, "g": bytes(16)}]}
    for path in every_dict(complete):
        for name in at(complete, path):
            values = deepcopy(complete)
            changed = at(values, path)
            changed["other"] = changed.pop(name)
            with pytest.raises(Malformed, match="unknown fields: other"):
                found.encode(values)


def test_a_struct_without_some_of_its_fields_is_written_as_one_with_their_defaults() -> None:
    found = codec(NESTED, 1)
    complete = {"rows": [{"a": 0, "inner": {"b": "", "c": []}}], "d": b"", "e": [{"f": 0, "g": bytes(16)}]}
    expected = found.encode(complete)
    for path in every_dict(complete):
        for name in at(complete, path).keys() - {"rows", "e"}:
            values = deepcopy(complete)
            del at(values, path)[name]
            assert found.encode(values) == expected


def every_dict(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all dicts in a value."""
    if isinstance(value, dict):
        yield path
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in places:
        yield from every_dict(one, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    return reduce(getitem, path, value)


def test_a_tagged_field_that_holds_its_default_is_not_written() -> None:
    text = "  a: int8  v1+  tag 0  = 3\n  b: []int8  v1+  tag 1\n  c: {}  v1+  tag 2\n    x: int8\n"
    assert codec(text, 1).encode({"a": 3, "b": [], "c": {"x": 0}}) == b"\0"
    assert codec(text, 1).encode({"a": 0, "b": [1], "c": {"x": 1}}) == (b"\3" + b"\0\1\0" + b"\1\2\2\1" + b"\2\2\1\0")


def test_null_in_a_tag_that_may_be_null_is_written() -> None:
    text = "  a: []int8?  v1+  tag 0\n"
    assert codec(text, 1).encode({"a": None}) == b"\1\0\1\0"
    assert codec(text, 1).encode({"a": []}) == b"\0"
    assert codec(text, 1).decode(b"\1\0\1\0")[0] == {"a": None}


def test_values_may_be_any_mapping_and_any_sequence() -> None:
    found = codec("  rows: []\n    a: []int8\n  b: bytes\n")
    plain = found.encode({"rows": [{"a": [1, 2]}], "b": b"xy"})
    other = found.encode(MappingProxyType({"rows": (MappingProxyType({"a": (1, 2)}),), "b": bytearray(b"xy")}))
    assert plain == other


def test_buffers_are_written_byte_for_byte_whatever_their_items_are() -> None:
    """All their bytes in order: wide items, several dimensions, every second item."""
    text = "  a: bytes\n  b: records?\n  c: []bytes\n  d: uuid\n  e: bytes  v1+  tag 0\n"
    wide = array("i", [1, 2, 3, 4])
    for buffer in (wide, memoryview(wide), memoryview(bytes(range(32)))[::2], memoryview(bytes(16)).cast("B", [4, 4])):
        plain = memoryview(buffer).tobytes()
        for version in (0, 1):
            names = "abcde" if version else "abcd"
            tags = {"_tags": {5: buffer}} if version else {}
            values = {name: [buffer] if name == "c" else buffer for name in names} | tags
            expected = {name: [plain] if name == "c" else plain for name in names} | (
                {"_tags": {5: plain}} if tags else {}
            )
            assert codec(text, version).decode(codec(text, version).encode(values))[0] == expected


def test_a_value_that_is_no_buffer_is_refused_as_bytes() -> None:
    released = memoryview(b"abc")
    released.release()
    for value in (3, "abc", [1, 2], released):
        for name, type_ in (("a", "bytes"), ("b", "records"), ("d", "uuid")):
            with pytest.raises(Malformed, match=rf"{name}: {type(value).__name__} is no {type_}"):
                codec("  a: bytes\n  b: records\n  d: uuid\n").encode({name: value})
    with pytest.raises(Malformed, match="an id of 32 bytes, not 16"):
        codec("  d: uuid\n").encode({"d": array("h", range(16))})


def test_a_length_of_127_is_the_first_that_takes_two_bytes() -> None:
    for size, length in [(126, b"\x7f"), (127, b"\x80\x01"), (128, b"\x81\x01")]:
        assert codec("  a: string\n", 1).encode({"a": "x" * size}) == length + b"x" * size + b"\0"
        assert codec("  a: int8\n  b: bytes\n", 1).encode({"b": b"x" * size}) == b"\0" + length + b"x" * size + b"\0"


def test_a_message_without_fields_is_empty_or_has_no_tags() -> None:
    assert must_codec("request", 18, 0).encode({}) == b""
    assert must_codec("request", 16, 3).encode({}) == b"\0"

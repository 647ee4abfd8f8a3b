"""Values as text and as JSON: nothing is lost that was not cut, and what was cut says so. Lines: test_show.py."""

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.plain import as_json, as_lines, readable
from proxy.tools.tree import Masked


@given(st.binary(max_size=40))
def test_bytes_can_be_had_back_from_json(data: bytes) -> None:
    told = json.loads(json.dumps(as_json({"a": [data, memoryview(data)]})))["a"]
    for one in told:
        assert (base64.b64decode(one["base64"]), one["length"]) == (data, len(data))
        assert "text" not in one or one["text"].encode() == data


@given(st.binary(max_size=40), st.integers(0, 50))
def test_what_is_cut_says_so(data: bytes, most: int) -> None:
    told = as_json(data, most)
    assert base64.b64decode(told["base64"]) == data[:most]
    assert told.get("cut", False) == (most < len(data))
    (line,) = as_lines({"a": data}, 0, most)
    assert line.startswith("a: 1 byte" if len(data) == 1 else f"a: {len(data)} bytes")


def test_text_stands_beside_bytes_where_a_person_can_read_it() -> None:
    assert as_json("é".encode()) == {"length": 2, "base64": "w6k=", "text": "é"}
    assert [readable(data) for data in (b"{\n}", b"", b"a\0", b"\xff", "\u202e".encode())] == ["{\n}"] + [None] * 4


def test_json_holds_what_is_masked_as_masked() -> None:
    assert as_json([Masked(3), {1: None}]) == [{"masked": 3}, {"1": None}]


def test_one_byte_is_not_many() -> None:
    assert [*as_lines({"a": b"x", "b": Masked(1)}, 0, 9)] == ["a: 1 byte: 'x'", "b: masked, 1 byte"]

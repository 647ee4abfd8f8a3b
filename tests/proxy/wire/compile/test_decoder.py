"""Tests of decoders beyond the sweeps over all messages: values of small cases, and the generated source."""

import inspect
import itertools
from copy import deepcopy
from typing import Any

import pytest

from proxy.wire.catalog import Codec
from proxy.wire.errors import Malformed, Truncated
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


def test_null_and_empty_are_distinguished() -> None:
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


def test_an_absent_struct_can_not_be_changed_by_its_reader() -> None:
    found = must_codec("response", 1, 12)
    data = found.encode({"responses": [{"partitions": [{}]}]})
    absent = found.decode(data)[0]["responses"][0]["partitions"][0]["current_leader"]
    with pytest.raises(TypeError, match="a copy of it"):
        absent["leader_id"] = 5
    assert found.decode(data)[0]["responses"][0]["partitions"][0]["current_leader"] == absent
    assert absent == {"leader_id": -1, "leader_epoch": -1}


def test_an_absent_array_and_a_struct_with_one_are_new_each_time() -> None:
    found = codec("  a: []int8  v1+  tag 0\n  b: {}  v1+  tag 1\n    c: []int8\n", 1)
    values, _ = found.decode(b"\0")
    values["a"].append(1)
    values["b"]["c"].append(1)
    assert found.decode(b"\0")[0] == {"a": [], "b": {"c": []}}
    wide = codec("".join(f"  f{n}: int8\n" for n in range(9)) + "  a: []int8  v1+  tag 0\n", 1)
    wide.decode(bytes(10))[0]["a"].append(1)
    assert wide.decode(bytes(10))[0]["a"] == []


def test_structs_of_fixed_size_are_read_with_and_without_tags() -> None:
    found = codec("  rows: []\n    a: int8\n    b: int16\n", 1)
    assert "rows_bhx" in inspect.getsource(found._decode)
    for count in (0, 1, 2, 200):
        rows = [{"a": 1, "b": number} for number in range(count)]
        data = found.encode({"rows": rows})
        assert found.decode(data) == ({"rows": rows}, len(data))
        assert found.project(("rows",))(memoryview(data), 0)["rows"] == [(rows, 0, len(data) - 1)]
    tagged = [{"a": 1, "b": 2, "_tags": {0: b""}}, {"a": 0, "b": 0}, {"a": 3, "b": 4, "_tags": {7: b"x", 200: b"y"}}]
    data = found.encode({"rows": tagged})
    assert found.decode(data) == ({"rows": tagged}, len(data))


def test_wide_structs_in_arrays_are_dicts_of_their_own() -> None:
    """Also with equal sizes, texts, nested wide structs or tags; a field's name may be any word."""
    fields = "  wide: []\n    class: int8\n    from: int16\n    a: int32\n    b: int64\n    c: {}\n"
    more = "    d: []int8  v1+  tag 0\n    e: {}  v1+  tag 1\n      x: []int8\n    f: {}  v1+  tag 2\n      y: int8\n"
    inner = "    g: []\n" + "".join(f"      h{n}: int8\n" for n in range(5))
    for c in ("bool", "string"):
        for rest in ("", more, inner, inner + more):
            found = codec(fields.format(c) + rest, 1)
            rows: list[dict[str, Any]] = [
                {"class": n, "from": -n, "a": 2 * n, "b": 3 * n, "c": True if c == "bool" else "c"} for n in range(60)
            ]
            for row in rows if inner in rest else ():
                row["g"] = [{f"h{n}": n for n in range(5)}] * (row["class"] % 3)
            absent = {"d": [], "e": {"x": []}, "f": {"y": 0}} if more in rest else {}
            data = found.encode({"wide": rows})
            values, end = found.decode(data)
            assert (values, end) == ({"wide": [row | absent for row in rows]}, len(data))
            assert {type(one) for one in values["wide"]} == {dict}
            if absent:
                values["wide"][0]["d"].append(1)
                values["wide"][0]["e"]["x"].append(1)
                assert [(one["d"], one["e"]) for one in values["wide"][1:]] == [([], {"x": []})] * 59
                assert found.decode(data)[0]["wide"][0]["d"] == []
            rows[7]["_tags"] = {9: b"nine"}
            assert found.decode(found.encode({"wide": rows}))[0]["wide"][7]["_tags"] == {9: b"nine"}


def test_structs_whose_texts_and_arrays_mostly_are_empty_are_read_where_these_are_not() -> None:
    """The first, the last or one between may differ from the others, whose texts are null or empty."""
    narrow = "  rows: []\n    a: int8\n    text: string?\n"
    wide = narrow + "    b: int16\n    c: int32\n    list: []\n      x: int8\n    list_or_null: []?\n      y: string\n"
    changes: list[dict[str, Any]] = [{"text": "t"}, {"text": ""}, {"text": None}, {"_tags": {3: b"tag"}}]
    lists: list[dict[str, Any]] = [{"list": [{"x": 1}]}, {"list_or_null": [{"y": ""}]}, {"list_or_null": []}]
    for text, more in ((narrow, []), (wide, lists)):
        found = codec(text, 1)
        assert "rows[" in inspect.getsource(found._decode)
        for empty in (None, ""):
            rest = {"b": 2, "c": 3, "list": [], "list_or_null": None} if more else {}
            for count in (0, 1, 4, 5, 40):
                rows: list[dict[str, Any]] = [{"a": n, "text": empty} | deepcopy(rest) for n in range(count)]
                for changed in (None, *itertools.product({0, count // 2, count - 1} if count else (), changes + more)):
                    values = deepcopy(rows)
                    if changed:
                        values[changed[0]] |= changed[1]
                    data = found.encode({"rows": values})
                    assert found.decode(data) == ({"rows": values}, len(data))
                    assert found.project(("rows",))(memoryview(data), 0)["rows"] == [(values, 0, len(data) - 1)]
                    for size in (len(data) // 2, len(data) - 2, len(data) - 1):
                        with pytest.raises(Truncated):
                            found.decode(data[:size])


def test_texts_that_look_like_structs_with_empty_ones_are_texts() -> None:
    """A text of three bytes (length 4) takes the place of two structs with a text of that length."""
    found = codec("  rows: []\n    a: int8\n    text: string?\n", 1)
    rows = [{"a": 1, "text": "\0x\4"}] * 40
    assert found.decode(found.encode({"rows": rows}))[0] == {"rows": rows}


def test_the_empty_arrays_of_structs_are_lists_of_their_own() -> None:
    found = codec("  rows: []\n    a: int32\n    text: string?\n    b: int8\n    list: []\n      x: int8\n", 1)
    data = found.encode({"rows": [{"a": n} for n in range(9)]})
    rows = found.decode(data)[0]["rows"]
    rows[0]["list"].append({"x": 1})
    assert [row["list"] for row in rows[1:]] == [[]] * 8
    assert found.decode(data)[0]["rows"][0]["list"] == []


def test_an_element_keeps_nothing_of_the_one_before() -> None:
    text = "".join(f"    f{n}: int8\n" for n in range(6)) + "    rare: []?\n      x: int8\n    last: int8\n"
    for version in (0, 1):
        found = codec("  rows: []\n" + text, version)
        plain = {f"f{n}": n for n in range(6)} | {"last": 7}
        rows = [plain | {"rare": rare} for rare in ([{"x": 1}], None, [], None, [{"x": 2}], None)]
        assert found.decode(found.encode({"rows": rows}))[0] == {"rows": rows}


def test_structs_of_fixed_size_that_are_cut_short_are_truncated() -> None:
    """Also if the bytes end with one of them."""
    for version in (0, 1):
        found = codec("  rows: []\n    a: int8\n    b: int16\n", version)
        data = found.encode({"rows": [{}] * 5})
        for size in range(len(data)):
            with pytest.raises(Truncated):
                found.decode(data[:size])


def test_an_array_that_usually_is_null_is_read_where_it_is_not() -> None:
    rare = "  rare: []?\n    x: int8\n    y: string\n"
    for version in (0, 1):
        found = codec("".join(f"  f{n}: int8\n" for n in range(6)) + rare + "  last: int8\n  text: string\n", version)
        plain = {f"f{n}": n for n in range(6)}
        for rows in (None, [], [{"x": 1, "y": ""}], [{"x": n % 99, "y": "y" * n} for n in range(200)]):
            values = plain | {"rare": rows, "last": 7, "text": "end"}
            data = found.encode(values)
            assert found.decode(b"_" + data, 1) == (values, 1 + len(data))
            assert found.project(("rare",))(data, 0)["rare"][0][0] == rows
        with pytest.raises(Malformed, match="a length of -2" if version == 0 else "more than 5 bytes"):
            found.decode(bytes(6) + (b"\xff\xff\xff\xfe" if version == 0 else b"\xff" * 6) + bytes(8))


def test_bytes_of_any_length_are_read_in_any_version() -> None:
    for version in (0, 1):
        for text in ("  a: bytes\n", "  a: bytes?\n", "  b: int8\n  a: bytes\n", "  b: int8\n  a: bytes?\n"):
            found = codec(text, version)
            for size in (0, 1, 126, 127, 128, 16382, 16383, 16384, 70000):
                data = found.encode({"a": b"x" * size})
                assert found.decode(data)[0]["a"] == b"x" * size


def test_a_length_of_two_bytes_that_says_null_is_null() -> None:
    assert codec("  a: bytes?\n  b: int8\n", 1).decode(b"\x80\x00\x05\x00")[0] == {"a": None, "b": 5}
    with pytest.raises(Malformed, match="null where"):
        codec("  a: bytes\n  b: int8\n", 1).decode(b"\x80\x00\x05\x00")


def test_arrays_longer_than_what_is_ready_made_are_read() -> None:
    for count in (0, 1, 31, 32, 33, 34, 126, 127, 128, 20000):
        for version in (0, 1):
            found = codec("  a: []int32\n  b: int8\n", version)
            values = {"a": list(range(count)), "b": 7}
            assert found.decode(found.encode(values))[0] == values


def test_the_written_function_is_flat() -> None:
    text = inspect.getsource(must_codec("response", 3, 12)._decode)
    assert text.count("def ") == 1
    assert "node_id, n = read_iB(buf, at)" in text
    assert "partitions_2_items.leader_epoch, n = read_hiiiB(buf, at)" in text

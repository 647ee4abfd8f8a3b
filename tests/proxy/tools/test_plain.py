"""Values as text and as JSON: nothing is lost that was not cut, and what was cut says so. Lines: test_show.py."""

import base64
import json
from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.plain import as_json, as_lines, readable
from proxy.tools.tree import Masked
from proxy.wire import apis
from proxy.wire.language import Field


def every_field(fields: Iterable[Field]) -> Iterator[str]:
    for field in fields:
        yield field.name
        yield from every_field(field.fields)


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


def test_errors_have_their_names_behind_their_codes() -> None:
    values = {"error_code": 6, "topics": [{"topic_error_code": 3, "error_code": 0, "more": 1}], "error_message": None}
    told = as_json(values)
    assert list(told) == ["error_code", "error_name", "topics", "error_message"]
    assert told["error_name"] == "NOT_LEADER_OR_FOLLOWER"
    topic = {"topic_error_code": 3, "topic_error_name": "UNKNOWN_TOPIC_OR_PARTITION", "error_code": 0, "more": 1}
    assert told["topics"] == [topic]
    assert as_json({"error_code": 9999})["error_name"] == "ERROR_9999"


def test_no_field_of_kafkas_is_called_as_an_errors_name() -> None:
    for key in apis.api_keys():
        message = apis.message("response", key)
        assert message is not None
        assert not [name for name in every_field(message.fields) if name.endswith("error_name")]


def test_text_that_could_be_taken_for_something_else_stands_between_quotes() -> None:
    texts = ["null", "masked", "", " a", "'a'", "a b"]
    lines = [line for text in texts for line in as_lines({"t": text}, 0, 9)]
    assert lines == ["t: 'null'", "t: 'masked'", "t: ''", "t: ' a'", "t: '\\'a\\''", "t: a b"]


def test_names_and_texts_are_printable() -> None:
    tree = {"na\nme": "a\x1b\\", "raw": b"\\n", "rows": [{"\u202e": 1}], "bare": ["\x9b"]}
    assert [*as_lines(tree, 0, 9)] == [
        "na\\nme: a\\u001b\\\\",
        "raw: 2 bytes: '\\\\n'",
        "rows:",
        "  - \\u202e: 1",
        "bare: [\\u009b]",
    ]


def test_an_array_may_hold_structs_beside_others() -> None:
    assert [*as_lines({"a": [{"b": 1}, "c", None]}, 0, 9)] == ["a:", "  - b: 1", "  - c", "  - null"]


def test_one_byte_is_not_many() -> None:
    assert [*as_lines({"a": b"x", "b": Masked(1)}, 0, 9)] == ["a: 1 byte: 'x'", "b: masked, 1 byte"]

"""Tests of trees as JSON: the text of `json` itself, up to the budget."""

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.json_text import pieces
from proxy.tools.tree import Masked
from proxy.wire.budget import Budget

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False)
TREES = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=5), one, max_size=4)
)


def written(tree: Any, size: int = 1 << 30, **how: int | None) -> str:
    return "".join(pieces(tree, Budget(size).text, **how))


def read(tree: Any, size: int = 1 << 30, **how: int | None) -> Any:
    return json.loads(written(tree, size, **how))


@given(TREES, st.sampled_from([None, 0, 2]))
def test_json_values_are_written_as_json_dumps_does(tree: Any, indent: int | None) -> None:
    text = written(tree, indent=indent)
    assert json.loads(text) == tree
    if text.isascii():
        assert text == json.dumps(tree, indent=indent).replace("\x7f", "\\u007f")


@given(st.binary(max_size=40))
def test_bytes_in_json_can_be_decoded_from_base64(data: bytes) -> None:
    for one in read({"a": [data, memoryview(data)]})["a"]:
        assert (base64.b64decode(one["base64"]), one["length"]) == (data, len(data))
        assert "text" not in one or one["text"].encode() == data


@given(st.binary(max_size=40), st.integers(0, 50))
def test_cut_bytes_are_marked_as_cut(data: bytes, most: int) -> None:
    told = read(data, most=most)
    assert base64.b64decode(told["base64"]) == data[:most]
    assert told.get("cut", False) == (most < len(data))


def test_text_stands_beside_bytes_where_a_person_can_read_it() -> None:
    assert read("é".encode()) == {"length": 2, "base64": "w6k=", "text": "é"}
    assert "text" not in read(b"a\0")


def test_long_bytes_are_written_in_parts() -> None:
    data = "é".encode() * 200_000
    told = read(data)
    assert base64.b64decode(told["base64"]) == told["text"].encode() == data
    assert max(map(len, pieces(data, Budget().text))) < len(data)


def test_errors_have_their_names_after_their_codes() -> None:
    values = {"error_code": 6, "topics": [{"topic_error_code": 3, "error_code": 0, "more": 1}], "error_message": None}
    told = read(values)
    assert list(told) == ["error_code", "error_name", "topics", "error_message"]
    assert told["error_name"] == "NOT_LEADER_OR_FOLLOWER"
    topic = {"topic_error_code": 3, "topic_error_name": "UNKNOWN_TOPIC_OR_PARTITION", "error_code": 0, "more": 1}
    assert told["topics"] == [topic]
    assert read({"error_code": 9999})["error_name"] == "ERROR_9999"


def test_masked_values_stay_masked_and_keys_become_text() -> None:
    assert read([Masked(3), Masked(None), {1: None}]) == [{"masked": 3}, {"masked": None}, {"1": None}]


@given(TREES, st.integers(0, 200))
def test_text_cut_by_the_budget_is_valid_json_and_a_prefix_of_the_tree(tree: Any, most: int) -> None:
    outer = {"tree": tree, "more": "x" * 200}
    for indent in (None, 2):
        text = written(outer, most, indent=indent)
        assert begins(json.loads(text), outer)
        # brackets, separators, and the lines of closing brackets are not counted
        nested = [line for line in text.splitlines() if line.strip(" ,") in ("{}", "[]", "}", "]")]
        assert len(text) - sum(map(len, nested)) <= most + 4 * (text.count(",") + text.count("{") + text.count("[") + 1)


def begins(part: Any, whole: Any) -> bool:
    if part == whole:
        return True
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(begins(part[name], whole[name]) for name in part) and list(part) == list(whole)[: len(part)]
    if isinstance(part, list) and isinstance(whole, list):
        return all(map(begins, part, whole)) and len(part) <= len(whole)
    return False


def test_bytes_that_are_too_long_are_not_begun() -> None:
    budget = Budget(1000)
    told = json.loads("".join(pieces({"a": b"x" * 100, "b": b"y" * 10_000, "c": 1}, budget.text)))
    assert told["a"]["length"] == 100
    assert told["b"] == {"length": 10_000}
    assert "c" not in told
    assert budget.used_up == ["printing"]


def test_indents_count_towards_the_budget() -> None:
    tree: Any = None
    for _ in range(50):
        tree = [tree] * 2 if tree is None else [tree]
    text = written(tree, 2000, indent=2)
    assert len(text) < 5000
    assert json.loads(text)


def test_a_text_that_grows_by_its_escapes_ends_where_the_budget_does() -> None:
    told = read({"a": b"\n" * 1000 + b"\x7f"}, 10_000)
    assert "text" not in told["a"]
    assert set(read({"a": b"\n" * 100_000}, 140_000)["a"]["text"]) <= {"\n"}

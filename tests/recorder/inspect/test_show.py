"""Tests of trees of values as lines, and of bytes as a dump."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.tools.body import Body
from proxy.tools.tree import Masked
from proxy.wire.budget import DEFAULT_BUDGET, Budget
from recorder.inspect.show import Form, as_text, as_tree, hex_dump

Make = Callable[..., dict[str, Any]]
EMPTY = ("node", "principal", "note", "latency_ns", "omitted", "masked")


def text() -> Form:
    return Form("text", most=4, records=10, budget=Budget(DEFAULT_BUDGET))


def shown(row: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """Returns the body's lines."""
    full = {**dict.fromkeys(EMPTY), **row}
    return list(as_text(full, Body(values), text()))[3:]


def test_values_of_every_sort_have_their_line(make_request: Make) -> None:
    values = {"nothing": None, "yes": True, "text": "t", "blank": " ", "numbers": [1, 2], "none": [], "raw": b"abcdef"}
    values["coded"] = b"\xff\xfe\0\1\2"
    assert shown(make_request(0, 1, 0, 3, 12), values) == [
        "  nothing: null",
        "  yes: true",
        "  text: t",
        "  blank: ' '",
        "  numbers: [1, 2]",
        "  none: []",
        "  raw: 6 bytes: 'abcd' ...",
        "  coded: 5 bytes: ff fe 00 01 ...",
    ]


def test_structs_are_indented_and_their_arrays_dashed(make_request: Make) -> None:
    values = {"one": {"a": 1}, "many": [{"a": 1, "b": {"c": 2}}, {"error_code": 3}, {}]}
    assert shown(make_request(0, 1, 0, 3, 12), values) == [
        "  one:",
        "    a: 1",
        "  many:",
        "    - a: 1",
        "      b:",
        "        c: 2",
        "    - error_code: 3 UNKNOWN_TOPIC_OR_PARTITION",
        "    - {}",
    ]


def test_masked_values_are_words_not_bytes(make_request: Make) -> None:
    row = make_request(0, 1, 0, 3, 12)
    assert shown(row, {"a": Masked(5), "b": Masked(None)}) == ["  a: masked, 5 bytes", "  b: masked"]
    assert as_tree(row, Body({"a": Masked(5)}), text())["body"] == {"a": Masked(5)}


def test_a_frame_that_the_proxy_made_is_shown_as_such(make_response: Make) -> None:
    row = {**dict.fromkeys(EMPTY), **make_response(0, 1, 1, 18, 3, made_by="proxy", node=None)}
    first, second, *_ = as_text(row, Body(None), text())
    assert first.endswith("ApiVersions response version 3 (made by the proxy)")
    assert second.endswith("node unknown")


def test_json_leaves_out_the_bytes_and_what_is_null(make_request: Make) -> None:
    told = as_tree(make_request(0, 1, 0, 3, 12, note=None), Body(None, "because"), text())
    assert told["why"] == "because"
    assert not {"frame", "note"} & told.keys()


def test_a_dump_stars_what_was_masked_and_cuts_what_is_long() -> None:
    assert list(hex_dump(b"ab\0\0ef", [{"start": 2, "length": 2}], 5)) == [
        "00000000  61 62 ** ** 65                                   ab**e",
        "... 1 byte more",
    ]


def test_a_response_that_breaks_off_shows_its_errors_and_how_to_see_its_bytes(make_response: Make) -> None:
    whole = make_response(0, 1, 1, 18, 0, values={"error_code": 35, "api_keys": []})
    frame = whole["frame"] + b"left over"
    row = {**dict.fromkeys(EMPTY), **whole, "frame": frame}
    broken = Body(None, "can't be decoded: why")
    assert list(as_text(row, broken, text()))[3:] == [
        "  errors: UNSUPPORTED_VERSION (normal)",
        "  (can't be decoded: why)",
        "  its bytes: --hex",
    ]
    assert as_tree(row, broken, text())["errors"] == {"UNSUPPORTED_VERSION": 1}


def test_a_frame_without_bytes_offers_none(make_response: Make) -> None:
    row = {**dict.fromkeys(EMPTY), **make_response(0, 1, 1, 18, 0), "frame": None}
    assert list(as_text(row, Body(None, "gone"), text()))[3:] == ["  errors: not kept", "  (gone)"]

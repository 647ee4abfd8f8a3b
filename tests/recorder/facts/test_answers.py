"""Tests of the responses that Python decodes, and of the cache for small ones."""

from __future__ import annotations

from typing import Any

from proxy.wire import apis, catalog
from proxy.wire.error_reader import error_paths
from recorder.facts.answers import answers, fixed, selectors
from tests.recorder.facts.frames import own, response


def test_each_answer_with_codes_is_read_one_way() -> None:
    by_python = {(key, version) for one in selectors() for key in one.api_keys or () for version in one.versions or ()}
    known = {(key, version) for key in apis.api_keys() for version in apis.versions(key) if error_paths(key, version)}
    assert by_python | {*fixed()} == known
    assert not by_python & {*fixed()}


def test_a_fixed_offset_holds_the_error_code() -> None:
    for (key, version), places in fixed().items():
        frame = catalog.encode_response(key, version, 1, {"error_code": 0x1234})
        assert places.code is not None
        assert frame[places.code : places.code + 2] == b"\x12\x34", (key, version)
        assert places.tags is None or frame[places.tags] == 0


def test_small_answers_that_differ_in_their_correlation_ids_alone_are_alike() -> None:
    """Responses with another version, code or body differ."""
    found: list[dict[str, Any]] = []
    for version, code in ((9, 0), (9, 6), (9, 0), (8, 6)):
        partitions = [{"index": 0, "error_code": code}]
        row = response(0, version, {"responses": [{"name": "t", "partition_responses": partitions}]})
        found += own(answers(), row | {"frame": bytes([len(found)]) + row["frame"][1:]})
    assert [row["error_codes"] for row in found] == [[], [6], [], [6]]

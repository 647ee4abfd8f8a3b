"""Tests of a response's errors: error codes, or the reason why they are unknown, never one for the other."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire import catalog
from proxy.wire.error_reader import Unread
from proxy.wire.keys import FETCH, METADATA
from proxy.wire.long_polls import Wait
from recorder.facts.response_errors import ResponseErrors, response_errors, row_errors
from tests.tables import each_row

FAILED = catalog.encode_response(METADATA, 12, 1, {"topics": [{"error_code": 3, "name": "t", "partitions": []}] * 2})


def row(frame: bytes | None = FAILED, **other: Any) -> dict[str, Any]:
    facts = {"frame": frame, "dialect": "kafka", "api_key": METADATA, "api_version": 12}
    return facts | {"masked": None, "omitted": None, "note": None} | other


def test_every_error_counts_as_often_as_it_stands_there() -> None:
    assert row_errors(row()) == ResponseErrors([3, 3])


def test_a_response_without_errors_is_distinguished_from_an_unread_one() -> None:
    fine = catalog.encode_response(METADATA, 12, 1, {"topics": []})
    assert row_errors(row(fine)) == ResponseErrors([])


@each_row(
    ("other", "why"),
    [
        ({"frame": None}, Unread.OMITTED),
        ({"omitted": [{"start": 4, "length": 9}]}, Unread.OMITTED),
        ({"masked": [{"start": 4, "length": 20}]}, Unread.MASKED),
        ({"api_version": 999}, Unread.UNKNOWN_VERSION),
        ({"api_key": None}, Unread.UNKNOWN_VERSION),
        ({"frame": FAILED[:20]}, Unread.MALFORMED),
        ({"frame": FAILED[:20], "note": "cut: 12 bytes never came"}, Unread.CUT),
        ({"dialect": "kafka-0.7", "api_key": 0, "api_version": None}, Unread.UNKNOWN_VERSION),
    ],
    ids=range(8),
)
def test_an_unread_response_has_its_reason(other: dict[str, Any], why: Unread) -> None:
    assert row_errors(row(**other)) == ResponseErrors([], why)


def test_a_cut_response_whose_errors_had_come_is_read() -> None:
    assert row_errors(row(FAILED[:-1] + b"", note="cut: 1 byte never came")).codes == [3, 3]


@pytest.mark.parametrize("other", [{"frame": None}, {"frame": b"\0"}, {"api_version": 999}], ids=range(3))
def test_a_long_poll_that_is_not_read_may_have_waited(other: dict[str, Any]) -> None:
    assert row_errors(row(api_key=FETCH) | other).wait is Wait.INCLUDES_WAIT


def test_a_fetch_of_0_7_never_waits() -> None:
    found = response_errors(
        b"\0\1", dialect="kafka-0.7", api_key=FETCH, api_version=None, masked_from=None, is_cut=False
    )
    assert found == ResponseErrors([1])


def test_errors_of_0_7_have_their_present_numbers() -> None:
    frame = b"\0\0" + b"\0\0\0\2\0\3" + b"\0\0\0\2\0\1" + b"\0\0\0\2\0\3"
    assert row_errors(row(frame, dialect="kafka-0.7", api_key=2, api_version=None)).codes == [3, 1, 3]

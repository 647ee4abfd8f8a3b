"""Tests of finding error codes in responses; masked bytes never pass for an error code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import catalog, kafka07
from proxy.wire.budget import Budget
from proxy.wire.compile.costs import SPAN
from proxy.wire.dialects import Dialect
from proxy.wire.error_paths import Unread, apis_with_errors, error_codes, error_paths
from proxy.wire.kafka07.responses import CODE_COST
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CONFIGS, FETCH, METADATA, SASL_AUTHENTICATE


def fetch_response(*codes: int, records: bytes = b"", top: int = 0) -> bytes:
    partitions = [{"partition_index": i, "error_code": code, "records": records} for i, code in enumerate(codes)]
    responses = [{"topic": "orders", "partitions": partitions}]
    return catalog.encode_response(FETCH, 12, 1, {"error_code": top, "responses": responses})


def test_every_error_code_of_a_response_is_found_at_any_depth() -> None:
    assert error_paths(METADATA, 13) == ("topics.error_code", "topics.partitions.error_code", "error_code")
    assert error_paths(METADATA, 0) == ("topics.error_code", "topics.partitions.error_code")


def test_an_api_or_version_that_the_catalog_lacks_has_no_paths() -> None:
    assert error_paths(METADATA, 999) == ()
    assert error_paths(30_000, 0) == ()
    assert error_codes(b"\0\0\0\1", 30_000, 0) is Unread.UNKNOWN_VERSION


@pytest.mark.parametrize(
    ("asked", "frame", "codes"),
    [
        (1, b"\0\1", [1]),
        (1, b"\0\0messages", []),
        (2, b"\0\0" + b"\0\0\0\2\0\3" + b"\0\0\0\3\0\0m" + b"\0\0\0\2\0\3", [3, 3]),
        (4, b"\xff\xff", [-1]),
        (4, b"\0\0\0\0\0\1", Unread.MALFORMED),
        (0, b"\0\1", Unread.UNKNOWN_VERSION),
        (5, b"\0\1", Unread.UNKNOWN_VERSION),
        (-1, b"\0\1", Unread.UNKNOWN_VERSION),
    ],
)
def test_responses_of_0_7_have_theirs_too(asked: int, frame: bytes, codes: list[int] | Unread) -> None:
    assert error_codes(memoryview(frame), asked, None, dialect="kafka-0.7") == codes
    assert apis_with_errors(Dialect.KAFKA_07) == [1, 2, 4]


def test_errors_are_unread_without_a_version() -> None:
    assert error_codes(fetch_response(3), FETCH, None) is Unread.UNKNOWN_VERSION


def test_nearly_every_api_can_answer_with_an_error() -> None:
    assert {FETCH, METADATA, API_VERSIONS, SASL_AUTHENTICATE} <= set(apis_with_errors())


@given(codes=st.lists(st.integers(-1, 136), max_size=20), top=st.integers(-1, 136), records=st.binary(max_size=300))
def test_codes_are_those_of_a_full_decode_without_the_zeros(codes: list[int], top: int, records: bytes) -> None:
    frame = fetch_response(*codes, records=records, top=top)
    _, body = catalog.decode_response(frame, FETCH, 12)
    decoded = [partition["error_code"] for topic in body["responses"] for partition in topic["partitions"]]
    assert decoded == codes
    assert sorted(error_codes(frame, FETCH, 12)) == sorted(code for code in [top, *codes] if code)


def test_a_code_counts_as_often_as_it_stands_there() -> None:
    assert error_codes(fetch_response(6, 0, 6), FETCH, 12) == [6, 6]


def test_a_memoryview_serves_as_well_as_bytes() -> None:
    assert error_codes(memoryview(fetch_response(1)), FETCH, 12) == [1]


@pytest.mark.parametrize("size", [0, 3, 4, 10, 20])
def test_a_response_that_ends_early_tells_nothing(size: int) -> None:
    assert error_codes(fetch_response(6, records=b"x" * 50)[:size], FETCH, 12) is Unread.MALFORMED


def test_a_refusal_in_the_oldest_layout_is_read_whatever_version_was_asked() -> None:
    # Kafka answers a too new ApiVersions request with error 35 and a body of version 0
    refusal = catalog.encode_response(API_VERSIONS, 0, 1, {"error_code": 35, "api_keys": []})
    assert error_codes(refusal, API_VERSIONS, 4) == [35]


def test_codes_beside_masked_values_still_count() -> None:
    results = [{"error_code": 40, "configs": [{"name": "k", "value": "secret"}]}, {"error_code": 29}]
    frame = catalog.encode_response(DESCRIBE_CONFIGS, 4, 1, {"results": results})
    masked_from = frame.index(b"secret")
    blanked = frame.replace(b"secret", bytes(6))
    assert error_codes(blanked, DESCRIBE_CONFIGS, 4, masked_from=masked_from) == [40, 29]


@pytest.mark.parametrize("version", [0, 2])
def test_a_response_masked_whole_does_not_pass_for_one_without_errors(version: int) -> None:
    frame = catalog.encode_response(SASL_AUTHENTICATE, version, 1, {"error_code": 58})
    masked = frame[:4] + bytes(len(frame) - 4)
    assert error_codes(masked, SASL_AUTHENTICATE, version, masked_from=4) is Unread.MASKED


def test_codes_are_charged_before_they_are_kept() -> None:
    frame = catalog.encode_response(42, 2, 7, {"results": [{"group_id": "", "error_code": 69}] * 1000})
    assert error_codes(frame, 42, 2) == [69] * 1000
    assert error_codes(frame, 42, 2, budget=Budget(500 * SPAN)) is Unread.OVER_BUDGET
    old = kafka07.encode_response(kafka07.MultiFetchResponse(0, (kafka07.FetchResponse(1),) * 1000))
    fetch = int(kafka07.RequestType.MULTIFETCH)
    assert error_codes(old, fetch, None, dialect=Dialect.KAFKA_07) == [1] * 1000
    little = Budget(500 * CODE_COST)
    assert error_codes(old, fetch, None, dialect=Dialect.KAFKA_07, budget=little) is Unread.OVER_BUDGET

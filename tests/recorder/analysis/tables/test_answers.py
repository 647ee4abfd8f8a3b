"""Tests of the bodies that Python decodes, and of the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy import wire
from proxy.wire import catalog, records
from proxy.wire.error_reader import error_codes
from recorder.analysis.bodies import Captured
from recorder.analysis.tables.answers import answers, answers_without_bodies
from recorder.facts.answers import fixed

pytestmark = pytest.mark.real
Build = Callable[..., Any]
FETCH = {"api_key": 1, "api": "Fetch", "api_version": 12}


def metadata_response(*codes: int) -> bytes:
    topics = [{"error_code": code, "name": f"topic-{i}", "partitions": []} for i, code in enumerate(codes)]
    return catalog.encode_response(3, 12, 1, {"topics": topics})


def fetch_response(code: int, records: bytes) -> bytes:
    partitions = [{"partition_index": 0, "error_code": code, "records": records}]
    return catalog.encode_response(1, 12, 1, {"responses": [{"topic": "t", "partitions": partitions}]})


def unread(found: Captured) -> dict[int, tuple[list[int] | None, str | None]]:
    return {row.exchange: (row.error_codes, row.unread) for row in answers(found).collect()}


def codes(found: Captured) -> dict[int, list[int] | None]:
    return {row.exchange: row.error_codes for row in answers(found).collect()}


def test_each_response_gives_its_codes_and_requests_give_none(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    rows = [request_row(0, frame=b"anything"), response_row(0, metadata_response(3, 0, 3))]
    rows.append(response_row(1, metadata_response(0)))
    assert codes(captured(*rows)) == {0: [3, 3], 1: []}


def test_responses_of_0_7_give_their_codes(captured: Build, response_row: Build) -> None:
    old = {"dialect": "kafka-0.7", "api_version": None}
    multi = b"\0\0" + b"\0\0\0\2\0\3" + b"\0\0\0\3\0\0m" + b"\0\0\0\2\0\3"
    rows = [
        response_row(0, b"\0\1", api_key=1, api="0.7/fetch", **old),
        response_row(1, multi, api_key=2, api="0.7/multifetch", **old),
        response_row(2, b"\0\0\0", api_key=4, api="0.7/offsets", **old),
        response_row(3, metadata_response(5)),
    ]
    assert codes(captured(*rows)) == {0: [1], 1: [3, 3], 2: None, 3: [5]}


def test_codes_after_lengths_of_more_than_seven_bits_are_read(captured: Build, response_row: Build) -> None:
    """Python gets a body in Arrow's memory, whose bytes count as signed by default."""
    lengths = [0, 1, 126, 127, 128, 200, 16_383, 20_000]
    partitions = [{"partition_index": n, "error_code": n, "records": bytes(n)} for n in lengths]
    frame = catalog.encode_response(1, 12, 1, {"responses": [{"topic": "t" * 150, "partitions": partitions}]})
    assert codes(captured(response_row(0, frame, **FETCH))) == {0: lengths[1:]}


def test_bodies_that_cannot_be_read_give_null_and_stop_nothing(captured: Build, response_row: Build) -> None:
    frame = metadata_response(3)
    masked = frame[:4] + bytes(len(frame) - 4)
    rows = [
        response_row(0, b"\1\2"),
        response_row(1, masked, masked=[{"start": 4, "length": len(frame) - 4}]),
        response_row(2, frame, api_version=999),
        response_row(3, frame),
    ]
    assert codes(captured(*rows)) == {0: None, 1: None, 2: None, 3: [3]}


def test_a_response_has_error_codes_or_a_reason_why_they_are_unknown(captured: Build, response_row: Build) -> None:
    frame = metadata_response(3)
    rows = [
        response_row(0, frame),
        response_row(1, metadata_response(0)),
        response_row(2, frame[:4], size=len(frame), omitted=[{"start": 4, "length": len(frame) - 4}]),
        response_row(3, frame[:4] + bytes(9), masked=[{"start": 4, "length": 9}]),
        response_row(4, frame[:-5], note="cut: 5 bytes never came"),
        response_row(5, frame[:-5]),
        response_row(6, frame, api_version=999),
        response_row(7, frame, api_key=30_000, api=None, note="unknown_api"),
        response_row(8, metadata_response(*range(100))),
        response_row(9, None),
    ]
    assert unread(captured(*rows, largest=200)) == {
        0: ([3], None),
        1: ([], None),
        2: (None, "omitted"),
        3: (None, "masked"),
        4: (None, "cut"),
        5: (None, "malformed"),
        6: (None, "unknown_version"),
        7: (None, "unknown_version"),
        8: (None, "too_large"),
        9: (None, "omitted"),
    }


def test_a_request_is_no_answer(captured: Build, request_row: Build) -> None:
    assert unread(captured(request_row(0))) == {}


def test_a_code_at_a_fixed_offset_is_the_one_that_the_wire_reads(captured: Build, response_row: Build) -> None:
    """Takes each api and version whose only code has a fixed position, with and without error and throttle time."""
    rows, wanted, waits = [], {}, {}
    for number, ((key, version), places) in enumerate(sorted(fixed().items()) * 2):
        code = (0, -1, 27, 32_767)[number % 4]
        wait = {} if places.throttle is None else {"throttle_time_ms": (-1) ** number * number * 70_001}
        frame = catalog.encode_response(key, version, number, {"error_code": code} | wait)
        rows.append(response_row(number, frame, api_key=key, api=wire.api_name(key), api_version=version))
        wanted[number], waits[number] = error_codes(frame, key, version), wait.get("throttle_time_ms")
    found = answers(captured(*rows)).collect()
    assert {row.exchange: row.error_codes for row in found} == wanted
    assert {row.exchange: row.throttle_ms for row in found} == waits
    assert any(waits.values())
    assert [-1] in wanted.values()


def test_a_missing_code_at_a_fixed_offset_has_its_reason(captured: Build, response_row: Build) -> None:
    heartbeat = {"api_key": 12, "api": "Heartbeat", "api_version": 4}
    frame = catalog.encode_response(12, 4, 1, {"error_code": 27})
    rows = [
        response_row(0, frame, **heartbeat),
        response_row(1, frame[:10], **heartbeat),
        response_row(2, frame[:10], note="cut: 2 bytes never came", **heartbeat),
        response_row(3, frame, masked=[{"start": 4, "length": 8}], **heartbeat),
        response_row(4, frame, masked=[{"start": 11, "length": 1}], **heartbeat),
        response_row(5, frame[:4], size=12, omitted=[{"start": 4, "length": 8}], **heartbeat),
        response_row(6, frame[:4] + b"\1" + frame[5:], **heartbeat),
        response_row(7, frame, **heartbeat | {"api_version": 99}),
        response_row(8, frame, **heartbeat | {"api_key": -5}),
    ]
    reasons = [None, "malformed", "cut", "masked", None, "omitted", "malformed", "unknown_version", "unknown_version"]
    found = unread(captured(*rows))
    assert {number: reason for number, (_, reason) in found.items()} == dict(enumerate(reasons))
    assert found[0][0] == found[4][0] == [27]


def test_a_long_poll_tells_whether_data_was_there(captured: Build, response_row: Build) -> None:
    batch = records.write_batch([records.Record(5, value=b"v")])

    def fetched(**partition: Any) -> bytes:
        return catalog.encode_response(1, 12, 1, {"responses": [{"topic": "t", "partitions": [partition]}]})

    rows = [
        response_row(0, fetched(records=batch, high_watermark=9), **FETCH),
        response_row(1, fetched(records=batch, high_watermark=6), **FETCH),
        response_row(2, fetched(), **FETCH),
        response_row(3, fetched(error_code=6), **FETCH),
        response_row(4, fetched()[:4], size=99, omitted=[{"start": 4, "length": 95}], **FETCH),
        response_row(5, b"\0\0\0\1", api_key=14, api="SyncGroup", api_version=3),
        response_row(6, b"\0\1", dialect="kafka-0.7", api_key=1, api="0.7/fetch", api_version=None),
        response_row(7, metadata_response(0)),
        response_row(8, catalog.encode_response(14, 3, 1, {}), api_key=14, api="SyncGroup", api_version=3),
    ]
    capture = captured(*rows)
    waits = {row.exchange: row.wait for row in answers(capture).collect()}
    told = ["full", "tail", "empty", "error", "includes_wait", "includes_wait", None, None, "members"]
    assert waits == dict(enumerate(told))
    undecoded = {row.exchange: row.wait for row in answers_without_bodies(capture).collect()}
    assert undecoded == dict(enumerate(["includes_wait"] * 6 + [None] * 2 + ["includes_wait"]))


def test_bodies_larger_than_a_batch_arrive_whole_and_each_once(captured: Build, response_row: Build) -> None:
    # 40 MiB of bodies: more than a batch's 16 MiB, and one body that is larger than a batch
    sizes = [1 << 20] * 20 + [20 << 20]
    rows = [response_row(i, fetch_response(i + 1, bytes(size)), **FETCH) for i, size in enumerate(sizes)]
    assert codes(captured(*rows, row_group_size=8)) == {i: [i + 1] for i in range(21)}

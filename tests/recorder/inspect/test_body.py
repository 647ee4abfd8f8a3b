"""Tests of a frame's bytes as values: omitted bytes never appear as a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.tools.body import Body
from proxy.tools.tree import Masked
from proxy.wire import kafka07, records
from proxy.wire.keys import API_VERSIONS, METADATA, PRODUCE, SASL_AUTHENTICATE
from recorder.inspect.body import body, needs_request
from tests.proxy.wire.kafka07.clients import built

Make = Callable[..., dict[str, Any]]
TOPIC_ID = bytes(range(16))


def as_read(row: dict[str, Any], **other: Any) -> dict[str, Any]:
    """Returns the row as a reader yields it, with every column."""
    return {"masked": None, "omitted": None, "dropped": None, "records": None, **row, **other}


def test_uuids_and_unknown_tags_are_readable(make_response: Make) -> None:
    values = {"topics": [{"name": "t", "topic_id": TOPIC_ID, "partitions": []}], "_tags": {77: b"new"}}
    found = body(as_read(make_response(0, 1, 1, METADATA, 12, values=values))).values
    assert found is not None
    assert found["topics"][0]["topic_id"] == "AAECAwQFBgcICQoLDA0ODw"  # the form that kafka-topics prints
    assert found["_tags"] == {77: b"new"}


def test_a_masked_value_is_named_and_its_neighbours_are_read(make_response: Make) -> None:
    row = make_response(0, 1, 1, SASL_AUTHENTICATE, 2, values={"auth_bytes": b"secret", "session_lifetime_ms": 9})
    start = row["frame"].index(b"secret")
    spans = [{"start": start, "length": 6}]
    found = body(as_read(row, frame=row["frame"].replace(b"secret", bytes(6)), masked=spans)).values
    assert found is not None
    assert (found["auth_bytes"], found["session_lifetime_ms"]) == (Masked(6), 9)


def test_an_empty_secret_is_shown_as_empty(make_response: Make) -> None:
    row = as_read(make_response(0, 1, 1, SASL_AUTHENTICATE, 2), masked=[{"start": 10, "length": 1}])
    found = body(row).values
    assert found is not None
    assert found["auth_bytes"] == b""


def test_without_masked_spans_a_secret_was_kept_and_is_shown(make_response: Make) -> None:
    found = body(as_read(make_response(0, 1, 1, SASL_AUTHENTICATE, 2, values={"auth_bytes": b"x"}))).values
    assert found is not None
    assert found["auth_bytes"] == b"x"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"masked": [{"start": 4, "length": 20}]}, "masked whole: it may hold a secret"),
        ({"omitted": [{"start": 9, "length": 3}]}, "part of it was left out of the capture"),
        ({"frame": None}, "part of it was left out of the capture"),
        ({"frame": b"\0\0\0\1"}, "can't be decoded: "),
        ({"kind": "bytes"}, "no frame of Kafka's: bytes"),
        ({"api_version": 999}, "api 3 version 999 is not in the catalog"),
        ({"api_key": None, "api": None}, "api unknown can't be decoded"),
        ({"dialect": "kafka-0.7", "api_key": 1, "frame": b"\1"}, "can't be decoded: "),
        ({"dialect": "kafka-0.7", "api_key": 0, "api": "0.7/produce"}, "can't be decoded: "),
        ({"dialect": "kafka-0.7", "api_key": 9, "api": None}, "can't be decoded: "),
        ({"dialect": "kafka-9", "api": "9/fetch"}, "9/fetch can't be decoded"),
    ],
)
def test_a_body_that_can_not_be_decoded_has_its_reason(make_response: Make, other: dict[str, Any], why: str) -> None:
    found = body(as_read(make_response(0, 1, 1, METADATA, 12), **other))
    assert found.values is None
    assert found.why.startswith(why)


def test_a_refused_question_for_versions_is_read_as_version_0(make_response: Make) -> None:
    row = make_response(0, 1, 1, API_VERSIONS, 4)
    found = body(as_read(row, frame=b"\0\0\0\7\0\x23\0\0\0\0"))
    assert (found.values, found.why) == ({"error_code": 35, "api_keys": []}, "")


def test_bytes_after_a_message_are_reported(make_response: Make) -> None:
    row = make_response(0, 1, 1, METADATA, 12)
    found = body(as_read(row, frame=row["frame"] + b"xyz"))
    assert found.values is not None
    assert found.why == "3 bytes more behind its end: fields may be wrong"


def test_frames_of_0_7_are_read_by_its_own_codec(make_request: Make, make_response: Make) -> None:
    old = {"dialect": "kafka-0.7", "api_version": None, "correlation_id": None}
    asked = as_read(make_request(0, 1, 0, METADATA, 12), **old, api_key=4, frame=built("brod", "EARLIEST")[4:])
    assert body(asked) == Body({"topic": "clicks", "partition": 0, "time": -2, "max_number": 1})
    told = as_read(make_response(0, 1, 1, METADATA, 12), **old, api_key=4, frame=b"\0\0\0\0\0\1" + bytes(7) + b"\5")
    assert body(told) == Body({"error_code": 0, "offsets": [5]})
    unknown = as_read(make_request(0, 1, 0, METADATA, 12), **old, api_key=9, frame=b"\0\x09what")
    assert body(unknown) == Body({"type": 9, "bytes": b"what"})


def test_only_fetch_responses_of_0_7_need_their_request(make_request: Make, make_response: Make) -> None:
    old = {"dialect": "kafka-0.7", "api_version": None}
    told = {key: needs_request(as_read(make_response(0, 1, 1, METADATA, 12), **old, api_key=key)) for key in range(10)}
    assert [key for key, needed in told.items() if needed] == [1, 2]
    assert not needs_request(as_read(make_request(0, 1, 1, METADATA, 12), **old, api_key=1))
    assert not needs_request(as_read(make_response(0, 1, 1, METADATA, 12), **old, api_key=1, exchange=None))
    assert not needs_request(as_read(make_response(0, 1, 1, 1, 4)))


@pytest.mark.parametrize("lost", [{"frame": None}, {"omitted": [{"start": 6, "length": 9}]}, {"frame": b"\0\1\0"}])
def test_without_the_request_messages_of_0_7_have_their_place_in_the_stretch(
    make_request: Make, make_response: Make, lost: dict[str, Any]
) -> None:
    old = {"dialect": "kafka-0.7", "api_version": None, "api_key": 1}
    fetch = kafka07.encode_request(kafka07.Fetch("t", 0, 12, 99))
    asked = as_read(make_request(0, 1, 0, METADATA, 12), **old, frame=fetch)
    told = as_read(make_response(0, 1, 1, METADATA, 12), **old, frame=b"\0\0" + kafka07.messages.message(b"v"))
    for request, name, place in ((asked, "offset", 12), (asked | lost, "at", 0), (None, "at", 0)):
        values = body(told, request_row=request).values
        assert values is not None
        assert values["messages"][0][name] == place


def test_the_requested_number_of_records_is_opened(make_request: Make) -> None:
    batch = records.write_batch([records.Record(0, 5, b"k", b"v"), records.Record(1, 6)])
    values = {"topic_data": [{"name": "t", "partition_data": [{"records": batch}]}]}
    for most, more in ((0, 2), (1, 1), (9, None)):
        found = body(as_read(make_request(0, 1, 0, PRODUCE, 9, values=values)), most).values
        assert found is not None
        (told,) = found["topic_data"][0]["partition_data"][0]["records"]
        assert (len(told["records"]), told.get("more_records")) == (min(most, 2), more)

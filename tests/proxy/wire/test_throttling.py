"""Tests of finding a response's throttle time where the decoder finds it."""

from __future__ import annotations

import pytest

from proxy.wire import apis, catalog
from proxy.wire.throttling import throttle_ms

EVERY = [(key, version) for key in apis.api_keys() for version in apis.versions(key)]


def test_every_version_that_has_the_field_gives_its_value() -> None:
    """The decoder gives the same value."""
    for key, version in EVERY:
        codec = catalog.codec("response", key, version)
        assert codec is not None
        has_field = any(one.name == "throttle_time_ms" and version in one.versions for one in codec.message.fields)
        frame = catalog.encode_response(key, version, 1, {"throttle_time_ms": 70_001} if has_field else {})
        assert throttle_ms(frame, key, version) == (70_001 if has_field else None), (key, version)


@pytest.mark.parametrize("version", [8, 13])
def test_a_produce_answers_throttle_time_follows_its_topics(version: int) -> None:
    topic = {"name": "t", "topic_id": bytes(range(16)), "partition_responses": [{"index": 0, "base_offset": 7}]}
    told = {"responses": [topic], "throttle_time_ms": 250}
    assert throttle_ms(catalog.encode_response(0, version, 1, told), 0, version) == 250


def test_tags_after_the_throttle_time_do_not_change_it() -> None:
    node = {"node_id": 1, "host": "h", "port": 1}
    frame = catalog.encode_response(0, 10, 1, {"throttle_time_ms": 250, "node_endpoints": [node]})
    assert throttle_ms(frame, 0, 10) == 250


def test_tags_in_the_header_are_stepped_over() -> None:
    """Kafka defines none."""
    frame = catalog.encode_response(1, 12, 1, {"throttle_time_ms": 250})
    assert throttle_ms(frame[:4] + b"\1\7\1x" + frame[5:], 1, 12) == 250


def test_a_cut_response_has_no_throttle_time() -> None:
    frame = catalog.encode_response(1, 12, 1, {"throttle_time_ms": 250})
    assert [throttle_ms(frame[:size], 1, 12) for size in range(9)] == [None] * 9
    assert throttle_ms(b"", 0, 9) is None

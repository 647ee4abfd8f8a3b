"""Tests of the versions at which a response's meaning changes, not only its fields."""

from __future__ import annotations

import pytest

from proxy.wire.keys import DESCRIBE_CONFIGS, END_TXN, FIND_COORDINATOR, LEAVE_GROUP, LIST_OFFSETS, OFFSET_FETCH
from recorder.replay.versions.choosing import (
    response,
)
from tests.recorder.replay.crossing import NO_TOPICS, through
from tests.strategies import must_codec, values_of


def test_the_producers_pair_of_a_newer_end_of_a_transaction_is_not_made_up() -> None:
    told = response(END_TXN, 4, 5, {"throttle_time_ms": 0, "error_code": 0}, NO_TOPICS)
    assert (told["producer_id"], told["producer_epoch"]) == (-1, -1)


@pytest.mark.parametrize(
    ("key", "below", "above"), [(OFFSET_FETCH, 5, 9), (FIND_COORDINATOR, 2, 6), (LEAVE_GROUP, 1, 5)]
)
def test_more_or_fewer_answers_than_parts_are_no_harm(key: int, below: int, above: int) -> None:
    asked = values_of(must_codec("request", key, above), 1)
    for count in range(5):
        told = response(key, below, above, [{}] * count, NO_TOPICS, asked)
        assert through(must_codec("response", key, above), told) == told


def test_a_list_of_offsets_and_a_single_offset_are_converted_into_each_other() -> None:
    old = {"topics": [{"partitions": [{"old_style_offsets": [7, 3]}, {"old_style_offsets": []}]}]}
    told = response(LIST_OFFSETS, 0, 1, old, NO_TOPICS)
    assert [one["offset"] for one in told["topics"][0]["partitions"]] == [7, -1]
    new = {"topics": [{"partitions": [{"offset": 7}, {"offset": -1}]}]}
    told = response(LIST_OFFSETS, 5, 0, new, NO_TOPICS)
    assert [one["old_style_offsets"] for one in told["topics"][0]["partitions"]] == [[7], []]


def test_default_flags_and_sources_of_configs_are_converted_into_each_other() -> None:
    configs = [{"name": "a", "is_default": True}, {"name": "b", "is_default": False}]
    for resource, own in ((2, 1), (4, 4), (8, 0)):
        old = {"results": [{"resource_type": resource, "configs": configs}]}
        told = response(DESCRIBE_CONFIGS, 0, 1, old, NO_TOPICS)
        assert [one["config_source"] for one in told["results"][0]["configs"]] == [5, own]
    new = {"results": [{"configs": [{"config_source": 5}, {"config_source": 1}]}]}
    told = response(DESCRIBE_CONFIGS, 4, 0, new, NO_TOPICS)
    assert [one["is_default"] for one in told["results"][0]["configs"]] == [True, False]

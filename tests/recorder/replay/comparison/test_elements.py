"""Tests of matching elements of arrays by their names."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Any

import pytest

from recorder.replay.comparison.elements import element_name, matched
from recorder.replay.requests.fields import ways


def test_topics_are_met_by_name_and_where_there_is_none_by_id() -> None:
    recorded: list[dict[str, Any]] = [{"name": "a", "topic_id": b"1"}, {"name": None, "topic_id": b"2"}]
    target: list[dict[str, Any]] = [{"name": None, "topic_id": b"2"}, {"name": "a", "topic_id": b"other"}]
    assert matched(3, "topics", recorded, target).pairs == [(recorded[0], target[1]), (recorded[1], target[0])]


def test_an_elements_name_is_looked_up_in_the_targets_terms() -> None:
    recorded, target = [{"topic_id": b"r"}, {"topic_id": b"?"}], [{"topic_id": b"t"}]
    terms: dict[Hashable, tuple[bytes]] = {(b"r",): (b"t",)}
    found = matched(1, "responses", recorded, target, lambda element, fields, name: terms.get(name))
    assert found.pairs == [(recorded[0], target[0])]
    assert found.unknown == [recorded[1]]
    assert not found.only_recorded
    assert not found.only_target


def test_elements_of_one_name_meet_in_the_order_in_which_they_stand() -> None:
    recorded = [{"partition_index": 1, "error_code": code} for code in (0, 6, 3)]
    target = [{"partition_index": 1, "error_code": code} for code in (10, 16)]
    found = matched(8, "topics.partitions", recorded, target)
    assert found.pairs == list(zip(recorded, target, strict=False))
    assert found.only_recorded == recorded[2:]


def test_results_that_nothing_names_are_met_by_place() -> None:
    recorded, target = [{"error_code": 0}, {"error_code": 1}], [{"error_code": 5}]
    found = matched(30, "results", recorded, target)
    assert found.pairs == [(recorded[0], target[0])]
    assert found.only_recorded == [recorded[1]]


def test_a_client_quota_is_met_by_its_whole_entity() -> None:
    user = [{"entity_type": "user", "entity_name": "u"}, {"entity_type": "client-id", "entity_name": None}]
    recorded = [{"entity": user, "values": []}, {"entity": user[:1], "values": []}]
    target = [{"entity": user[:1], "values": []}, {"entity": user[::-1], "values": []}]
    assert matched(48, "entries", recorded, target).pairs == [(recorded[0], target[1]), (recorded[1], target[0])]


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_elements_meet_those_of_their_names(seed: int) -> None:
    recorded = [{"resource_type": number % 3, "resource_name": str(number // 3)} for number in range(20)]
    target = random.Random(seed).sample(recorded, 20)
    assert all(one == other for one, other in matched(32, "results", recorded, target).pairs)


def test_a_members_name_is_its_id_and_of_a_static_one_its_instance_too() -> None:
    leaving = {"member_id": "", "group_instance_id": "i", "error_code": 0}
    assert element_name(ways(13, "members"), leaving) == ("", "i")
    assert element_name(ways(11, "members"), {"member_id": "m", "group_instance_id": None}) == ("m",)

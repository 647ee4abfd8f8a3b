"""Tests of each pair of versions of each API: what a change of version keeps, and what it refuses."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import apis
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.keys import END_TXN, FETCH, LIST_CONFIG_RESOURCES, METADATA, PRODUCE, TXN_OFFSET_COMMIT
from recorder.replay.plan import Values
from recorder.replay.versions.choosing import (
    newest_of_transactions_v1,
    request,
    response,
    version_to_send,
)
from tests.proxy.wire.sweeping import every_shape
from tests.recorder.replay.crossing import (
    EVERY_TOPIC,
    LAID_OUT_ANEW,
    NEVER_UP,
    NO_ID,
    NO_TOPICS,
    Bijection,
    crosses,
    every_api,
    produced,
    sent,
    through,
)
from tests.strategies import must_codec, values_of


def shared(values: Any, struct: Struct, other: Struct) -> Any:
    """Returns the values with defaults for all that the other version can't hold; topics keep their names."""
    theirs = {slot.name: slot for slot in other}
    return {slot.name: _shared(values[slot.name], slot, theirs.get(slot.name)) for slot in struct}


def _shared(value: Any, slot: Slot, other: Slot | None) -> Any:
    if other is None:
        return value if slot.field.marks & {"topic_name"} and not slot.array and slot.type == "string" else slot.default
    if value is None:
        return None if other.nullable else slot.default
    if slot.struct and other.struct:
        inner = value if slot.array else [value]
        found = [shared(one, slot.struct, other.struct) for one in inner]
        return found if slot.array else found[0]
    return value


def tame(key: int, version: int, other: int, seed: int) -> Values:
    """Returns values of one version that the other one can hold; records are real ones."""
    codec = must_codec("request", key, version)
    mine, theirs = (layout(codec.message, one) for one in (version, other))
    values: Values = shared(values_of(codec, seed, tame=True), mine, theirs)
    if key == PRODUCE:
        values |= {"transactional_id": None} if version > 2 else {}
        for topic in values["topic_data"]:
            for place, partition in enumerate(topic["partition_data"]):
                partition["records"] = produced(version, place)
    if key == METADATA and version > 0:
        values["topics"] = [asked_for(topic) for topic in values["topics"] or ()] or None
    if key == LIST_CONFIG_RESOURCES and other == 0:
        values["resource_types"] = [16]
    return values


def asked_for(topic: Values) -> Values:
    """Asks by name, even if an id is possible."""
    return topic | {"name": topic["name"] or "t"} | ({"topic_id": NO_ID} if "topic_id" in topic else {})


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_the_highest_shared_version_up_to_the_recorded_one_else_the_lowest_above(
    low: int, high: int, mine: int
) -> None:
    """Fetch has versions 0 to 18."""
    offered = range(low, high + 1)
    both = [version for version in range(19) if version in offered]
    below = [version for version in both if version <= mine]
    assert version_to_send(FETCH, mine, offered) == (below[-1] if below else both[0] if both else None)


def test_a_node_without_the_api_has_no_version() -> None:
    assert version_to_send(FETCH, 3, None) is None
    assert version_to_send(FETCH, 3, range(0)) is None
    assert version_to_send(2000, 3, range(4)) is None


def test_nothing_newer_than_the_newest_is_chosen() -> None:
    assert version_to_send(FETCH, 12, range(4, 19), newest=7) == 7
    assert version_to_send(FETCH, 3, range(8, 19), newest=7) is None


def test_brokers_of_4_announce_produce_0_to_2_and_refuse_them() -> None:
    assert version_to_send(PRODUCE, 2, range(14)) == version_to_send(PRODUCE, 0, range(13)) == 3
    assert version_to_send(PRODUCE, 2, range(12)) == 2, "those of 3.9 take them"


def test_topics_are_never_requested_in_a_version_that_may_create_them() -> None:
    assert version_to_send(METADATA, 1, range(14)) == 4
    assert version_to_send(METADATA, 1, range(4)) is None


@every_shape
def test_a_request_in_its_own_version_is_itself(key: int) -> None:
    for version in apis.versions(key):
        values = values_of(must_codec("request", key, version), 1)
        assert request(key, version, version, values, NO_TOPICS) is values


@pytest.mark.real
@every_api
def test_down_and_up_again_is_identity_when_nothing_was_dropped(key: int) -> None:
    topics = Bijection().topics
    for low, high in combinations(apis.versions(key), 2):
        if crosses(key, low, high, LAID_OUT_ANEW | NEVER_UP):
            continue
        for seed in range(2):
            values = tame(key, low, high, seed)
            above = sent(key, low, high, values, topics)
            if crosses(key, low, high, {(PRODUCE, 2)}):
                continue  # never goes down again
            below = sent(key, high, low, above, topics)
            assert below == through(must_codec("request", key, low), values), (low, high)
            assert sent(key, low, high, below, topics) == above, (low, high)


@every_api
def test_any_values_become_a_request_of_the_chosen_version_or_are_withheld(key: int) -> None:
    topics = Bijection().topics
    for recorded, chosen in permutations(apis.versions(key), 2):
        codec = must_codec("request", key, chosen)
        found = request(key, recorded, chosen, values_of(must_codec("request", key, recorded), chosen), topics)
        for one in found if isinstance(found, list) else [found] if isinstance(found, dict) else []:
            through(codec, one)


@every_shape
def test_nothing_is_changed_in_place(key: int) -> None:
    for recorded, chosen in permutations(apis.versions(key), 2):
        codec = must_codec("request", key, recorded)
        values = values_of(codec, 1)
        request(key, recorded, chosen, values, EVERY_TOPIC)
        assert values == values_of(codec, 1)


@pytest.mark.real
@every_api
def test_any_answer_becomes_one_of_the_recorded_version_with_all_its_fields(key: int) -> None:
    topics = Bijection().topics
    for chosen, recorded in permutations(apis.versions(key), 2):
        values = values_of(must_codec("response", key, chosen), recorded)
        asked = values_of(must_codec("request", key, recorded), chosen)
        found = response(key, chosen, recorded, values, topics, asked)
        assert through(must_codec("response", key, recorded), found) == found
        partial = response(key, chosen, recorded, {}, NO_TOPICS)
        assert through(must_codec("response", key, recorded), partial) == partial


@every_shape
def test_an_answer_of_the_recorded_version_is_itself(key: int) -> None:
    for version in apis.versions(key):
        values = values_of(must_codec("response", key, version), 1)
        assert response(key, version, version, values, NO_TOPICS) is values


def test_transactional_requests_go_below_transactions_v2() -> None:
    assert sent(PRODUCE, 13, 11, {"transactional_id": "tx", "topic_data": []})["transactional_id"] == "tx"
    for key, first in ((PRODUCE, 12), (TXN_OFFSET_COMMIT, 5), (END_TXN, 5)):
        assert newest_of_transactions_v1(key) == first - 1
    assert newest_of_transactions_v1(FETCH) is None

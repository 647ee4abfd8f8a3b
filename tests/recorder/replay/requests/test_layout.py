"""Tests of finding topics, partitions and groups in any message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy import wire
from proxy.wire.error_reader import error_paths
from proxy.wire.keys import (
    CREATE_ACLS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DESCRIBE_CONFIGS,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SHARE_FETCH,
)
from proxy.wire.places import WHOLE, Level, body
from recorder.replay.messages import SharedValues
from recorder.replay.plan import Values
from recorder.replay.requests.layout import divided, errors, narrowed
from tests.recorder.replay.targets import Shape, shapes, wanted
from tests.strategies import at_path, must_codec, values_of
from tests.tables import each_row


@each_row("api_key", wire.api_keys())
def test_any_answer_with_an_error_has_errors_and_one_without_has_none(api_key: int) -> None:
    for version in wire.versions(api_key):
        codec = must_codec("response", api_key, version)
        paths = [path for path in error_paths(api_key, version) if not path.endswith("topic_config_error_code")]
        for seed in range(3):
            values = values_of(codec, seed)
            codes = {code for path in paths for code in at_path(values, path)} - {0}
            assert set(errors(api_key, values).values()) <= codes
            assert bool(errors(api_key, values)) == bool(codes)
            # those of an answer that comes again are found once
            shared = SharedValues(values)
            assert [errors(api_key, shared) for _ in range(2)] == [errors(api_key, values)] * 2


@given(shapes, wanted)
def test_errors_are_those_of_each_partition(shape: Shape, partitions: list[tuple[str, list[int]]]) -> None:
    values = shape.request(partitions)
    assert errors(shape.api_key, shape.answer(values, 6)) == dict.fromkeys(shape.named(values), 6)
    assert errors(shape.api_key, shape.answer(values)) == {}


def test_errors_are_of_partitions_of_topics_of_groups_and_of_the_whole() -> None:
    assert errors(FETCH, {"error_code": 70, "responses": []}) == {None: 70}
    assert errors(JOIN_GROUP, {"error_code": 79, "members": []}) == {None: 79}
    assert errors(CREATE_TOPICS, {"topics": [{"name": "a", "error_code": 36}]}) == {("a", WHOLE): 36}
    assert errors(DELETE_GROUPS, {"results": [{"group_id": "g", "error_code": 69}]}) == {("g", WHOLE): 69}
    results = [{"resource_type": 2, "resource_name": "a", "error_code": 3}]
    assert errors(DESCRIBE_CONFIGS, {"results": results}) == {None: 3}
    assert errors(FIND_COORDINATOR, {"coordinators": [{"key": "g", "error_code": 15}]}) == {None: 15}


def test_an_element_that_nothing_names_counts_for_the_whole_and_its_first_code_counts() -> None:
    assert errors(CREATE_ACLS, {"results": [{"error_code": 0}, {"error_code": 54}, {"error_code": 31}]}) == {None: 54}
    partition = {"partition_index": 1, "error_code": 0, "acknowledge_error_code": 121}
    responses = [{"topic_id": b"i" * 16, "partitions": [partition]}]
    assert errors(SHARE_FETCH, {"error_code": 0, "responses": responses}) == {(b"i" * 16, 1): 121}


def test_a_topic_is_called_by_its_name_where_it_has_one() -> None:
    topics: list[Values] = [
        {"name": name, "topic_id": b"i" * 16, "error_code": 3, "partitions": []} for name in ("a", None)
    ]
    assert errors(METADATA, {"topics": topics}) == {("a", WHOLE): 3, (b"i" * 16, WHOLE): 3}


def test_settings_that_could_not_be_read_are_no_refusal() -> None:
    topics = [{"name": "a", "error_code": 0, "topic_config_error_code": 29}]
    assert errors(CREATE_TOPICS, {"topics": topics}) == {}


@given(shapes, wanted, st.sets(st.integers(0, 3)))
def test_a_request_is_narrowed_to_the_partitions_that_are_wanted(
    shape: Shape, partitions: list[tuple[str, list[int]]], indexes: set[int]
) -> None:
    values = shape.request(partitions)
    chosen = frozenset(where for where in shape.named(values) if where[1] in indexes)
    found = narrowed(shape.api_key, values, chosen)
    assert shape.named(found) == [where for where in shape.named(values) if where in chosen]
    assert found["beside"] == values["beside"]
    assert all(topic[shape.partitions] for topic in found[shape.topics])


def test_coordinators_requests_are_narrowed_too() -> None:
    topics = [{"name": name, "partitions": [{"partition_index": p} for p in range(2)]} for name in "ab"]
    found = narrowed(OFFSET_COMMIT, {"group_id": "g", "topics": topics}, {("b", 1)})
    assert found == {"group_id": "g", "topics": [{"name": "b", "partitions": [{"partition_index": 1}]}]}
    groups = [{"group_id": g, "topics": [{"name": "a", "partition_indexes": [0, 1]}]} for g in "gh"]
    assert narrowed(OFFSET_FETCH, {"groups": groups}, {("h", WHOLE)}) == {"groups": groups[1:]}


def test_elements_named_as_a_whole_are_kept_whole() -> None:
    topics = [{"name": name, "assignments": [{"partition_index": 0, "broker_ids": [1]}]} for name in "ab"]
    assert narrowed(CREATE_TOPICS, {"topics": topics}, {("b", WHOLE)}) == {"topics": topics[1:]}
    assert narrowed(DELETE_GROUPS, {"groups_names": ["g", "h"]}, {("h", WHOLE)}) == {"groups_names": ["h"]}


@given(shapes, wanted, st.integers(1, 3))
def test_the_parts_of_a_divided_request_hold_each_element_once(
    shape: Shape, partitions: list[tuple[str, list[int]]], homes: int
) -> None:
    values = shape.request(partitions)
    found = divided(shape.api_key, values, Level.PARTITION, lambda _, index: index % homes)
    assert sorted(where for share in found.values() for where in shape.named(share)) == sorted(shape.named(values))
    assert all(index % homes == home for home, share in found.items() for _, index in shape.named(share))


def test_a_request_that_names_nothing_is_not_divided() -> None:
    assert divided(PRODUCE, {"topic_data": []}, Level.PARTITION, lambda _, index: index) == {}


def test_no_error_is_found_in_an_unknown_api() -> None:
    assert body("request", 3000).arrays == {}
    assert errors(3000, {"error_code": 3}) == {}

"""Tests of where messages name topics and partitions: compared with projections, which read the bytes."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import pytest

from proxy.wire import catalog
from proxy.wire.apis import MessageKind, versions
from proxy.wire.keys import (
    DELETE_RECORDS,
    DELETE_TOPICS,
    FETCH,
    HEARTBEAT,
    METADATA,
    OFFSET_FETCH,
    PRODUCE,
    SHARE_GROUP_DESCRIBE,
)
from proxy.wire.places import FORGOTTEN, Level, at, is_marked, leave_out, named, partitions, topics
from tests.strategies import EVERY_MESSAGE, at_path, must_codec, values_of
from tests.sweeps import is_thorough
from tests.tables import each_row

ID = b"i" * 16
MESSAGES = sorted({(kind, key) for kind, key, _ in EVERY_MESSAGE})


# a page's cursor; in old requests between brokers, structs that name a topic and its partition at once
NO_ELEMENTS = (
    "cursor",
    "next_cursor",
    "ungrouped_partition_states",
    "ungrouped_partitions",
    "partition_errors",
    "remaining_partitions",
)


def projected(kind: MessageKind, key: int, version: int, body: bytes, mark: str) -> list[Any]:
    """Returns the values of the fields with that mark, as a projection reads them from the bytes."""
    paths = tuple(path for path in catalog.marked(kind, key, version, mark) if path.split(".")[0] not in NO_ELEMENTS)
    spans = must_codec(kind, key, version).project(paths)(body, 0) if paths else {}
    found = (value for path in paths for value, _, _ in spans[path])
    return [*chain.from_iterable(value if isinstance(value, list) else [value] for value in found)]


@each_row(("kind", "key"), MESSAGES)
def test_partitions_are_those_whose_indexes_stand_in_the_bytes(kind: MessageKind, key: int) -> None:
    for version in versions(key):
        codec = must_codec(kind, key, version)
        for seed in range(3 if is_thorough() else 1):
            body = codec.encode(values_of(codec, seed))
            values = codec.decode(body)[0]
            found = [*partitions(kind, key, values), *partitions(kind, key, values, forgotten=True)]
            assert sorted(each.partition for each in found) == sorted(projected(kind, key, version, body, "partition"))


@each_row(("kind", "key"), MESSAGES)
def test_each_topic_with_an_id_in_the_bytes_is_found(kind: MessageKind, key: int) -> None:
    for version in versions(key):
        codec = must_codec(kind, key, version)
        for seed in range(3 if is_thorough() else 1):
            body = codec.encode(values_of(codec, seed))
            values = codec.decode(body)[0]
            found = {each.topic_id for each in topics(kind, key, values)}
            found |= {topic.get("topic_id") for topic in values.get(FORGOTTEN) or ()}
            assert found - {None} == set(projected(kind, key, version, body, "topic_id"))


def test_a_partition_has_its_topics_name_or_else_its_id_its_struct_and_its_error() -> None:
    partition = {"index": 4, "error_code": 6}
    named = {"responses": [{"name": "a", "partition_responses": [partition]}]}
    by_id = {"responses": [{"topic_id": ID, "partition_responses": [partition]}]}
    assert [each[:4] for each in partitions("response", PRODUCE, named)] == [("a", 4, partition, 6)]
    (found,) = partitions("response", PRODUCE, by_id)
    assert (found.topic, found.around.name, found.around.topic_id, found.around.around) == (ID, None, ID, (by_id,))


def test_bare_indexes_and_the_groups_around_them_are_found() -> None:
    group = {"group_id": "g", "topics": [{"name": "a", "partition_indexes": [0, 3]}]}
    found = partitions("request", OFFSET_FETCH, {"groups": [group]})
    assert [(each.topic, each.partition) for each in found] == [("a", 0), ("a", 3)]
    assert {each.around.around[-1]["group_id"] for each in found} == {"g"}
    assert partitions("request", OFFSET_FETCH, {"groups": None}) == []


def test_bare_names_are_topics() -> None:
    found = topics("request", DELETE_TOPICS, {"topic_names": ["a", "b"]})
    assert [(each.key, each.values) for each in found] == [("a", {}), ("b", {})]


def test_forgotten_partitions_are_apart() -> None:
    forgotten = [{"topic": "a", "partitions": [7]}]
    asked = {"topics": [{"topic": "a", "partitions": [{"partition": 1}]}], FORGOTTEN: forgotten}
    assert [each.partition for each in partitions("request", FETCH, asked)] == [1]
    assert [each.partition for each in partitions("request", FETCH, asked, forgotten=True)] == [7]


def test_partitions_that_are_left_out_take_empty_topics_with_them() -> None:
    values = {"topics": [{"name": name, "partitions": [{"partition_index": p} for p in range(2)]} for name in "ab"]}
    assert leave_out("request", DELETE_RECORDS, values, lambda each: each.topic == "a" or each.partition == 0)
    assert values == {"topics": [{"name": "b", "partitions": [{"partition_index": 1}]}]}
    assert not leave_out("request", DELETE_RECORDS, values, lambda each: True)
    assert leave_out("request", DELETE_RECORDS, {"topics": []}, lambda each: True)


def test_elements_are_found_by_their_path_in_arrays_and_structs() -> None:
    found = at("response", METADATA, "topics.partitions")
    assert found is not None
    assert (found.level, found.names, found.codes) == (Level.PARTITION, ("partition_index",), ("error_code",))
    assert at("response", SHARE_GROUP_DESCRIBE, "groups.members.assignment.topic_partitions") is not None
    assert at("response", METADATA, "topics.nothing") is None
    assert at("response", METADATA, "nothing.partitions") is None


@pytest.mark.parametrize("mark", ["group_id", "transactional_id", "producer_id", "member_id", "topic_name"])
def test_the_values_of_a_mark_are_those_of_all_its_fields(mark: str) -> None:
    for kind, key, version in EVERY_MESSAGE:
        if paths := catalog.marked(kind, key, version, mark):
            values = values_of(must_codec(kind, key, version), mark)
            flat = [value for path in paths for value in at_path(values, path)]
            wanted = [one for value in flat for one in (value if isinstance(value, list) else [value])]
            found = named(kind, key, values, mark)
            assert Counter(found) == Counter(one for one in wanted if one is not None), (kind, key, version)


def test_a_message_has_a_mark_if_a_field_of_some_version_has_it() -> None:
    assert is_marked("request", HEARTBEAT, "group_id")
    assert not is_marked("request", HEARTBEAT, "topic_name")
    assert is_marked("response", METADATA, "topic_id")
    assert not is_marked("response", 2000, "topic_name")

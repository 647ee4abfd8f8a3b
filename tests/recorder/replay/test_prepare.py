"""Tests of a replay's queries to its target before it starts, and of its findings."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.apis import api_name
from proxy.wire.keys import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
)
from recorder.replay.cluster import Cluster
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.prepare import MOST_NAMED, Preparation, Prepared, listed
from recorder.replay.survey import survey
from tests.recorder.replay.simple import LIST_VERSION, PRODUCE_VERSION, list_answer, produce
from tests.recorder.replay.simple import listed as listing_of
from tests.recorder.replay.simulation import EVERYTHING, Recording

Values = dict[str, Any]
COMMIT = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": []}
JOIN = {"group_id": "g", "session_timeout_ms": 1, "member_id": "", "protocol_type": "consumer", "protocols": []}

# the target's topic that holds groups
GROUPS: Values = {"error_code": 0, "name": "__consumer_offsets", "partitions": []}


def prepared(recording: Recording, committed: int, options: Options | None = None) -> Prepared:
    """Prepares with a target whose groups have this offset (-1: none)."""
    options, cluster = options or Options(), Cluster()
    found = survey(recording.happenings, lambda _: True, lambda _: None)
    names = Names(options.prefix, found.topic_ids, cluster)
    preparation = Preparation(found, names, cluster, options, may_write=False)
    partition = {"partition_index": 0, "committed_offset": committed, "error_code": 0}
    answers: dict[int, Values] = {
        METADATA: {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "topics": [GROUPS]},
        DESCRIBE_GROUPS: {"groups": []},
        OFFSET_FETCH: {"topics": [{"name": "t", "partitions": [partition]}]},
    }
    script, answer = preparation.run(), None
    try:
        while True:
            made = script.send(answer)
            answer = None if made is None else answers[made.api_key]
    except StopIteration:
        return preparation.findings


def committing() -> Recording:
    recording = Recording()
    recording.asks(0, 1, OFFSET_COMMIT, 5, COMMIT)
    return recording


@pytest.mark.parametrize(
    ("committed", "prefix", "named"),
    [(5, "", ["g"]), (0, "p-", ["p-g"]), (-1, "", [])],
    ids=["offsets", "offsets of the prefixed group", "no offsets"],
)
def test_groups_whose_offsets_are_overwritten_are_named(committed: int, prefix: str, named: list[str]) -> None:
    assert prepared(committing(), committed, Options(prefix=prefix)).overwritten == named


def test_a_group_that_commits_nothing_overwrites_nothing() -> None:
    recording = Recording()
    recording.asks(0, 1, JOIN_GROUP, 2, JOIN | {"rebalance_timeout_ms": 1})
    assert prepared(recording, committed=5).overwritten == []


@pytest.mark.parametrize(
    ("key", "first", "end", "prefix", "filled"),
    [
        (PRODUCE, 3, 5, "", ["a"]),
        (PRODUCE, 3, 5, "p-", ["p-a"]),
        (PRODUCE, 5, 5, "", []),
        (LIST_OFFSETS, 3, 5, "", []),
    ],
    ids=["records", "records of the prefixed topic", "only deleted records", "nothing is produced"],
)
def test_topics_that_have_records_before_the_replay_produces_to_them_are_named(
    key: int, first: int, end: int, prefix: str, filled: list[str]
) -> None:
    recording = listing()
    if key == PRODUCE:
        recording.asks(9, 1, PRODUCE, PRODUCE_VERSION, produce(topic="a"))
    found, _ = scripted(
        recording,
        Options(prefix=prefix),
        Metadata=topic(2, name=f"{prefix}a"),
        # the earliest offsets are asked for first
        ListOffsets=lambda number: list_answer(1, first if number == 2 else end, topic=f"{prefix}a"),
    )
    assert found.filled == filled
    assert [note.partition(":")[0] for note in found.notes] == [
        f"the target already has records in 1 topic ({name})" for name in filled
    ]
    assert all(("another --prefix" in note) == bool(prefix) for note in found.notes)


def test_names_are_counted_and_listed_as_far_as_they_fit_a_sentence() -> None:
    assert listed("group", ["b", "a"]) == "2 groups (a, b)"
    assert listed("group", ["a"]) == "1 group (a)"
    many = listed("topic", [f"{number:03}" for number in range(MOST_NAMED + 5)])
    assert many.startswith("25 topics (000, 001,")
    assert many.endswith(", 019 and 5 more)")


# a scripted target: its refusals, one by one


def scripted(
    recording: Recording, options: Options | None = None, *, may_write: bool = True, **answers: Any
) -> tuple[Prepared, list[int]]:
    """Prepares with a target that responds like this (by API name); returns the findings and the requests' keys."""
    options, cluster = options or Options(), Cluster(offered={1: EVERYTHING})
    found = survey(recording.happenings, lambda _: True, lambda _: None)
    names = Names(options.prefix, found.topic_ids, cluster)
    preparation = Preparation(found, names, cluster, options, may_write=may_write)
    broker = {"node_id": 1, "host": "h", "port": 1}
    asked: list[int] = []
    told = {"Metadata": {"brokers": [broker], "cluster_id": "target", "topics": []}} | answers
    script, answer = preparation.run(), None
    try:
        while True:
            made = script.send(answer)
            asked += [made.api_key] if made is not None else []
            found_answer = None if made is None else told.get(str(api_name(made.api_key)))
            answer = found_answer(len(asked)) if callable(found_answer) else found_answer
    except StopIteration:
        return preparation.findings, asked


def topic(count: int, name: str = "a") -> Values:
    partitions = [{"error_code": 0, "partition_index": index, "leader_id": 1} for index in range(count)]
    topics = [{"error_code": 0, "name": name, "topic_id": bytes(16), "partitions": partitions}] if count else []
    return {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "cluster_id": "target", "topics": topics}


def listing() -> Recording:
    recording = Recording()
    recording.exchanges(0, 1, LIST_OFFSETS, LIST_VERSION, listing_of(1), list_answer(1))
    return recording


def transactional() -> Recording:
    recording = Recording()
    recording.asks(0, 1, INIT_PRODUCER_ID, 4, {"transactional_id": "t", "transaction_timeout_ms": 1})
    return recording


def test_a_topic_that_is_missing_is_refused() -> None:
    found, asked = scripted(listing(), Metadata=topic(0))
    assert found.refusals == [
        "the target lacks 1 topic (a: 2 partitions): right would be to make them, or --create-topics"
    ]
    assert CREATE_TOPICS not in asked


def test_partitions_that_are_missing_are_refused() -> None:
    found, asked = scripted(listing(), Metadata=topic(1))
    assert found.refusals == [
        "the target lacks partitions of 1 topic (a: 1 of 2): right would be to add them, or --create-topics"
    ]
    assert CREATE_PARTITIONS not in asked


def test_a_dry_run_makes_no_topic() -> None:
    found, asked = scripted(listing(), Options(create_topics=True), may_write=False, Metadata=topic(0))
    assert not found.refusals
    assert not {CREATE_TOPICS, CREATE_PARTITIONS} & {*asked}


@pytest.mark.parametrize(("before", "key"), [(0, CREATE_TOPICS), (1, CREATE_PARTITIONS)], ids=["topic", "partition"])
def test_missing_topics_are_created_with_create_topics(before: int, key: int) -> None:
    answer = {"name": "a", "error_code": 0}
    found, asked = scripted(
        listing(),
        Options(create_topics=True),
        Metadata=lambda number: topic(before if number < 4 else 2),
        CreateTopics={"topics": [answer]},
        CreatePartitions={"results": [answer]},
    )
    assert not found.refusals
    assert key in asked
    # the replay must not delete a topic that existed before
    assert found.created == (["a"] if before == 0 else [])


def test_a_topic_that_can_not_be_made_is_refused_after_some_tries() -> None:
    found, _ = scripted(listing(), Options(create_topics=True), Metadata=topic(0))
    assert len(found.refusals) == 1


def test_a_refused_target_gets_no_topics() -> None:
    _, asked = scripted(listing(), Options(create_topics=True, nodes={1: 9}), Metadata=topic(0))
    assert CREATE_TOPICS not in asked


@pytest.mark.parametrize(
    ("options", "is_refused"),
    [(Options(), True), (Options(fence=True), False), (Options(prefix="p-"), False)],
    ids=["plain", "fence", "prefix"],
)
def test_a_group_with_members_is_refused(options: Options, is_refused: bool) -> None:
    groups = {"groups": [{"group_id": "g", "error_code": 0, "group_state": "Stable", "members": [{}]}]}
    found, _ = scripted(committing(), options, DescribeGroups=groups)
    assert bool(found.refusals) is is_refused
    assert all("group g has members" in sentence for sentence in found.refusals)


@pytest.mark.parametrize(
    ("options", "code", "is_refused"),
    [(Options(), 0, True), (Options(), 105, False), (Options(fence=True), 0, False), (Options(prefix="p-"), 0, False)],
    ids=["known", "unknown", "fence", "prefix"],
)
def test_a_known_transactional_id_is_refused(options: Options, code: int, is_refused: bool) -> None:
    states = {"transaction_states": [{"transactional_id": "t", "error_code": code}]}
    found, _ = scripted(transactional(), options, DescribeTransactions=states)
    assert bool(found.refusals) is is_refused
    assert all("the target knows 1 transactional id (t)" in sentence for sentence in found.refusals)


def test_a_target_that_answers_nothing_is_asked_no_more_than_once_each() -> None:
    found, asked = scripted(transactional(), Metadata=None)
    assert len(asked) == len({*asked})
    assert not found.created

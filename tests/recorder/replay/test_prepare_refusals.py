"""Tests of the targets that a replay refuses before it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.wire import versions
from proxy.wire.catalog import must
from proxy.wire.keys import (
    CONSUMER_GROUP_DESCRIBE,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
)
from recorder.replay.cluster import Cluster
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.plan import MadeRequest, ToNode, Values
from recorder.replay.prepare import Preparation, Prepared
from recorder.replay.survey import NameUse, Survey
from tests.recorder.replay.simulation import one_node

NO_GROUP = 69
GROUP_AUTHORIZATION_FAILED = 30
DESCRIBES = (DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE)


def prepared(
    survey: Survey, answer: Callable[[MadeRequest], Values | None], *, cluster: Cluster | None = None, **options: Any
) -> Prepared:
    cluster = cluster or one_node(("there", 1))
    preparation = Preparation(survey, Names("", {}, cluster), cluster, Options(**options), may_write=True)
    script = preparation.run()
    told: Values | None = None
    try:
        while True:
            made = script.send(told)
            told = None if made is None else answer(made)
    except StopIteration:
        return preparation.findings


def using(*topics: str, created: tuple[str, ...] = ()) -> Survey:
    return Survey(used={name: NameUse(1) for name in topics}, created={*created})


def test_topics_that_the_recording_makes_and_kafkas_own_need_not_be_there() -> None:
    asked: list[MadeRequest] = []

    def answer(made: MadeRequest) -> None:
        asked.append(made)

    found = prepared(using("there", "__cluster_metadata", "made", created=("made",)), answer)
    assert not found.refusals
    assert [made.values["topics"] for made in asked if made.api_key == METADATA] == [[{"name": "there"}]]
    assert CREATE_TOPICS not in {made.api_key for made in asked}


def test_all_other_topics_that_are_lacking_are_refused_in_a_sentence() -> None:
    survey = using("there", "lacking", "too", "short")
    survey.topics = {"too": 3, "short": 4}
    assert prepared(survey, lambda made: None, cluster=one_node(("there", 1), ("short", 2))).refusals == [
        "the target lacks 2 topics (lacking: 1 partition, too: 3 partitions): right would be to make them, "
        "or --create-topics",
        "the target lacks partitions of 1 topic (short: 2 of 4): right would be to add them, or --create-topics",
    ]


def test_the_targets_error_for_a_topic_that_it_does_not_create_is_reported() -> None:
    refused = {"topics": [{"name": "lacking", "error_code": 44, "error_message": "no\x1b"}]}
    found = prepared(
        using("there", "lacking"), lambda made: refused if made.api_key == CREATE_TOPICS else None, create_topics=True
    )
    assert found.refusals == ["the target does not make topic lacking: POLICY_VIOLATION (no\\u001b)"]
    assert not found.created


def test_the_targets_error_for_partitions_that_it_does_not_add_is_reported() -> None:
    survey = using("there")
    survey.topics = {"there": 3}
    asked: list[MadeRequest] = []

    def answer(made: MadeRequest) -> Values | None:
        if made.api_key != CREATE_PARTITIONS:
            return None
        asked.append(made)
        return {"results": [{"name": "there", "error_code": 37, "error_message": None}]}

    found = prepared(survey, answer, create_topics=True)
    # brokers refuse an empty list of assignments
    assert [made.values["topics"] for made in asked] == [[{"name": "there", "count": 3, "assignments": None}]]
    assert found.refusals == ["the target does not give more partitions to topic there: INVALID_PARTITIONS"]


def test_the_ends_of_all_logs_of_a_node_are_one_question_each() -> None:
    asked: list[MadeRequest] = []
    cluster = one_node(("there", 40), ("too", 2))
    cluster.nodes[2] = ("127.0.0.1", 9093)
    cluster.leaders |= {("there", index): 2 for index in range(20)}

    def answer(made: MadeRequest) -> Values | None:
        asked.append(made)
        if made.api_key != LIST_OFFSETS:
            return None
        topics = [
            {"name": topic["name"], "partitions": [_end_of(topic["name"], each) for each in topic["partitions"]]}
            for topic in made.values["topics"]
        ]
        return {"topics": topics}

    found = prepared(using("there", "too"), answer, cluster=cluster)
    questions = [made.to for made in asked if made.api_key == LIST_OFFSETS]
    assert sorted(questions) == [ToNode(1), ToNode(1), ToNode(2), ToNode(2)]
    # partition 3 has no offset
    assert found.starts == {where: 0 for where in cluster.leaders if where != ("there", 3)}
    assert found.ends == {(name, at): 100 + at for name, at in cluster.leaders if (name, at) != ("there", 3)}


def _end_of(name: str, asked: Values) -> Values:
    index = asked["partition_index"]
    is_lost = (name, index) == ("there", 3)
    offset = 0 if asked["timestamp"] == -2 else 100 + index
    return {"partition_index": index, "error_code": 3 if is_lost else 0, "offset": -1 if is_lost else offset}


def test_the_log_of_a_topic_that_will_be_made_begins_at_0() -> None:
    survey = using("made", created=("made",))
    survey.first_offsets = {("made", 2): 7}
    found = prepared(survey, lambda made: None)
    assert (found.starts, found.ends) == ({("made", 2): 0}, {("made", 2): 0})


def groups(kind: int | None, members: list[Values]) -> Callable[[MadeRequest], Values | None]:
    """A target that has the group as this kind."""

    def answer(made: MadeRequest) -> Values | None:
        if made.api_key == OFFSET_FETCH:
            return {"error_code": 0, "topics": []}
        if made.api_key not in DESCRIBES:
            return None
        is_there = made.api_key == kind
        state = "Stable" if is_there else "Dead"
        told = members if is_there else []
        return {"groups": [{"error_code": 0 if is_there else NO_GROUP, "group_state": state, "members": told}]}

    return answer


def playing() -> Survey:
    return Survey(groups={"g": NameUse(1, is_written=True)})


def test_a_group_of_any_kind_that_has_members_is_refused() -> None:
    for kind in DESCRIBES:
        (refused,) = prepared(playing(), groups(kind, [{}])).refusals
        assert refused.startswith("group g has members on the target")
        assert not prepared(playing(), groups(kind, [{}]), fence=True).refusals


def test_a_group_that_the_target_does_not_have_is_the_replays() -> None:
    assert prepared(playing(), groups(None, [])).absent_groups == {"g"}
    assert prepared(playing(), groups(DESCRIBE_GROUPS, [])).absent_groups == set()


def test_logs_are_requested_once_their_leaders_are_known() -> None:
    asked: list[MadeRequest] = []

    def answer(made: MadeRequest) -> None:
        asked.append(made)

    prepared(using("there"), answer)
    assert [made.api_key for made in asked] == [METADATA, LIST_OFFSETS, LIST_OFFSETS]


def test_a_share_group_whose_beginning_is_overwritten_is_named() -> None:
    survey = playing()
    survey.first_acquired = {"g": {("there", 0): 3}}
    assert prepared(survey, groups(SHARE_GROUP_DESCRIBE, [])).overwritten == ["g"]
    assert prepared(survey, groups(None, [])).overwritten == []


def test_a_group_missing_from_the_targets_answer_is_refused() -> None:
    def denied(made: MadeRequest) -> Values | None:
        told = [{"error_code": GROUP_AUTHORIZATION_FAILED, "group_state": "", "members": []}]
        return {"groups": told} if made.api_key in DESCRIBES else None

    for answer in (denied, lambda made: None):
        (refused,) = prepared(playing(), answer).refusals
        assert refused.startswith("the target does not say whether group g has members")
        assert not prepared(playing(), answer, fence=True).refusals


def test_every_topic_that_is_not_kafkas_own_must_be_there_however_its_name_begins() -> None:
    (refused,) = prepared(using("there", "__debezium-heartbeat.db"), lambda made: None).refusals
    assert refused.startswith("the target lacks 1 topic (__debezium-heartbeat.db: 1 partition)")


def test_every_question_about_groups_can_be_written() -> None:
    asked: list[MadeRequest] = []

    def answer(made: MadeRequest) -> Values | None:
        asked.append(made)
        return groups(None, [])(made)

    prepared(playing(), answer)
    assert {*DESCRIBES} <= {made.api_key for made in asked}
    for made in asked:
        must("request", made.api_key, versions(made.api_key)[-1]).encode(made.values)

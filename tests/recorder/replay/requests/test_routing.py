"""Tests of routing: each part of a request goes to its node, and the responses are merged into one."""

from __future__ import annotations

import copy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import wire
from proxy.wire.keys import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DESCRIBE_CONFIGS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_GROUPS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
)
from recorder.replay.cluster import GROUP, TRANSACTION, Cluster
from recorder.replay.plan import AskFirst, Reason, ToNode, Values, Withheld
from recorder.replay.requests.apis import ROWS, Destination
from recorder.replay.requests.nodes import Nodes
from recorder.replay.requests.routing import Part, joined_answer, parts, with_homes
from tests.recorder.replay.targets import SHAPES, Shape, asked, cluster, shapes, topic_id, wanted
from tests.strategies import must_codec, values_of
from tests.tables import each_row

THREE = Nodes([1, 2, 3], {})


def routed(api_key: int, values: Values, target: Cluster, *, node: int | None = 1, nodes: Nodes = THREE) -> list[Part]:
    found = parts(asked(api_key, 0, node), values, target, nodes)
    assert isinstance(found, list)
    return found


def needed(api_key: int, values: Values, target: Cluster, *, awaits: bool = True) -> AskFirst:
    found = parts(asked(api_key, 0, awaits=awaits), values, target, THREE)
    assert isinstance(found, AskFirst)
    return found


def test_each_api_that_goes_to_leaders_has_a_shape_here() -> None:
    leaders = {api_key for api_key, row in ROWS.items() if row.destination is Destination.LEADER}
    assert leaders == {shape.api_key for shape in SHAPES}


# by leader


@given(shapes, wanted, st.integers(1, 4))
def test_each_partition_goes_to_its_leader_once(
    shape: Shape, partitions: list[tuple[str, list[int]]], size: int
) -> None:
    target, values = cluster(size), shape.request(partitions)
    found = routed(shape.api_key, values, target)
    assert len({part.node for part in found}) == len(found)
    assert sorted(where for part in found for where in shape.named(part.values)) == sorted(shape.named(values))
    for part in found:
        assert {10 + partition % size for _, partition in shape.named(part.values)} == {part.node}
        assert part.values["beside"] == "the same everywhere"


@given(shapes, wanted, st.integers(1, 4))
def test_a_split_request_stays_as_it_was(shape: Shape, partitions: list[tuple[str, list[int]]], size: int) -> None:
    values = shape.request(partitions)
    before = copy.deepcopy(values)
    routed(shape.api_key, values, cluster(size))
    assert values == before


@given(shapes, wanted, st.integers(2, 4), st.randoms(use_true_random=False))
def test_joined_answers_have_each_partition_once_in_the_order_of_the_request(
    shape: Shape, partitions: list[tuple[str, list[int]]], size: int, random: Random
) -> None:
    values = shape.request(partitions)
    answers = [shape.answer(part.values, part.node) for part in routed(shape.api_key, values, cluster(size))]
    random.shuffle(answers)
    answer = joined_answer(shape.api_key, values, answers)
    if len(answers) > 1:
        assert shape.answers(answer) == shape.named(values)
    assert sorted(shape.answers(answer)) == sorted(shape.named(values))
    assert answer["throttle_time_ms"] == max(each["throttle_time_ms"] for each in answers)


@given(shapes, wanted)
def test_split_and_join_are_identity_on_one_node(shape: Shape, partitions: list[tuple[str, list[int]]]) -> None:
    values = shape.request(partitions)
    [part] = routed(shape.api_key, values, cluster(1))
    answer = shape.answer(values)
    assert part.values is values
    assert joined_answer(shape.api_key, values, [answer]) is answer


@each_row("api_key", wire.api_keys())
def test_any_answers_can_be_joined_and_written(api_key: int) -> None:
    for version in wire.versions(api_key):
        codec = must_codec("response", api_key, version)
        values = values_of(must_codec("request", api_key, version), 1)
        answers = [values_of(codec, seed) for seed in range(3)]
        assert codec.encode(joined_answer(api_key, values, answers))


def test_the_joined_answer_has_the_first_error_and_the_nodes_of_all_answers() -> None:
    nodes = [{"node_id": id_, "host": "h", "port": 1} for id_ in (1, 2)]
    answers = [{"error_code": code, "responses": [], "node_endpoints": nodes[code // 70 :]} for code in (0, 70, 71)]
    answer = joined_answer(FETCH, {"topics": []}, answers)
    assert answer["error_code"] == 70
    assert sorted(node["node_id"] for node in answer["node_endpoints"]) == [1, 2]


def test_a_partition_that_is_queried_again_is_there_once_with_its_last_answer() -> None:
    def answer(code: int) -> Values:
        return {"responses": [{"name": "a", "partition_responses": [{"index": 0, "error_code": code}]}]}

    values = {"topic_data": [{"name": "a", "partition_data": [{"index": 0}]}]}
    assert joined_answer(PRODUCE, values, [answer(6), answer(0)]) == answer(0)


def test_a_group_whose_partitions_are_partly_queried_again_keeps_the_others() -> None:
    def answer(*codes: tuple[int, int]) -> Values:
        partitions = [{"partition_index": index, "error_code": code} for index, code in codes]
        return {"groups": [{"group_id": "g", "error_code": 0, "topics": [{"name": "a", "partitions": partitions}]}]}

    values = {"groups": [{"group_id": "g", "topics": [{"name": "a", "partition_indexes": [0, 1, 2]}]}]}
    again = [answer((0, 0), (1, 88), (2, 88)), answer((1, 0), (2, 88)), answer((2, 0))]
    assert joined_answer(OFFSET_FETCH, values, again) == answer((0, 0), (1, 0), (2, 0))


def test_a_topic_requested_again_has_its_last_answer() -> None:
    answers = [{"topics": [{"name": "a", "error_code": code, "configs": None}]} for code in (41, 0)]
    assert joined_answer(CREATE_TOPICS, {"topics": [{"name": "a"}]}, answers) == answers[1]


def test_forgotten_partitions_of_a_fetch_go_to_their_leaders() -> None:
    forgotten = [{"topic_id": topic_id("a"), "partitions": [0, 1]}]
    found = routed(FETCH, {"topics": [], "forgotten_topics_data": forgotten}, cluster(2))
    assert [(part.node, part.values["forgotten_topics_data"][0]["partitions"]) for part in found] == [
        (10, [0]),
        (11, [1]),
    ]


def test_a_fetch_that_names_nothing_goes_to_the_mapped_node() -> None:
    [part] = routed(FETCH, {"topics": [], "forgotten_topics_data": []}, cluster(3), node=2)
    assert part.node == 11


def test_a_topic_that_nothing_is_known_of_is_asked_about_first_and_then_its_leader_takes_it() -> None:
    target, values = cluster(2), {"topics": [{"topic": "new", "partitions": [{"partition": 1}]}]}
    [made] = needed(FETCH, values, target).made
    assert (made.api_key, made.to) == (METADATA, ToNode())
    assert made.values == {"topics": [{"name": "new"}], "allow_auto_topic_creation": False}
    partitions = [{"partition_index": p, "leader_id": 10 + p} for p in range(2)]
    topic = {"name": "new", "error_code": 0, "topic_id": bytes(16), "partitions": partitions}
    made.done({"brokers": [], "topics": [topic]})
    assert [part.node for part in routed(FETCH, values, target)] == [11]


def test_a_topic_that_the_target_lacks_goes_to_the_mapped_node() -> None:
    target, values = cluster(2), {"topics": [{"topic": "gone", "partitions": [{"partition": 0}]}]}
    [made] = needed(FETCH, values, target).made
    made.done({"brokers": [], "topics": [{"name": "gone", "error_code": 3, "partitions": []}]})
    assert [part.node for part in routed(FETCH, values, target, node=2)] == [11]


def test_nothing_is_learnt_from_an_answer_that_never_came() -> None:
    values = {"topics": [{"topic": "new", "partitions": [{"partition": 1}]}]}
    target = cluster(2)
    [made] = needed(FETCH, values, target).made
    made.done(None)
    assert needed(FETCH, values, target)


@pytest.mark.parametrize("partition", [99, 0], ids=["not there", "without a leader"])
def test_a_partition_without_a_leader_goes_to_the_mapped_node(partition: int) -> None:
    target = cluster(3, leaders={("a", 0): -1})
    values = {"topics": [{"topic": "a", "partitions": [{"partition": partition}]}]}
    assert [part.node for part in routed(FETCH, values, target, node=3)] == [12]


def test_records_without_acknowledgements_wait_for_a_leader() -> None:
    target = cluster(3, leaders={("a", 0): -1})
    values = {"topic_data": [{"name": "a", "partition_data": [{"index": 0}]}]}
    assert needed(PRODUCE, values, target, awaits=False)


# by coordinator


def test_a_groups_request_goes_to_its_coordinator_which_is_looked_up_first() -> None:
    target, values = cluster(3), {"group_id": "g", "topics": []}
    [made] = needed(OFFSET_COMMIT, values, target).made
    assert (made.api_key, made.to) == (FIND_COORDINATOR, ToNode())
    assert made.values == {"key": "g", "key_type": GROUP, "coordinator_keys": ["g"]}
    made.done({"coordinators": [{"key": "g", "node_id": 12, "host": "h", "port": 1, "error_code": 0}]})
    assert routed(OFFSET_COMMIT, values, target) == [Part(12, values)]


def test_a_group_of_an_unknown_coordinator_goes_to_the_mapped_node() -> None:
    target, values = cluster(3), {"group_id": "g", "topics": []}
    [made] = needed(OFFSET_COMMIT, values, target).made
    made.done({"coordinators": [{"key": "g", "node_id": -1, "host": "", "port": -1, "error_code": 30}]})
    assert routed(OFFSET_COMMIT, values, target, node=1) == [Part(10, values)]


def test_groups_of_several_coordinators_are_split_and_each_unknown_one_is_looked_up() -> None:
    target = cluster(3)
    target.coordinators = {(GROUP, "g"): 12, (GROUP, "h"): 10}
    found = routed(DELETE_GROUPS, {"groups_names": ["g", "h"]}, target)
    assert found == [Part(12, {"groups_names": ["g"]}), Part(10, {"groups_names": ["h"]})]
    unknown = needed(DELETE_GROUPS, {"groups_names": ["g", "x", "y"]}, target).made
    assert [made.values["key"] for made in unknown] == ["x", "y"]


def test_a_groups_offsets_stay_together_though_its_topics_have_other_leaders() -> None:
    target = cluster(3)
    target.coordinators = {(GROUP, "g"): 12, (GROUP, "h"): 11}
    groups = [{"group_id": g, "topics": [{"name": "a", "partition_indexes": [0, 1]}]} for g in "gh"]
    found = routed(OFFSET_FETCH, {"groups": groups}, target)
    assert [(part.node, part.values["groups"]) for part in found] == [(12, groups[:1]), (11, groups[1:])]


def test_a_request_without_a_group_goes_to_the_mapped_node() -> None:
    assert [part.node for part in routed(OFFSET_COMMIT, {"group_id": ""}, cluster(3), node=3)] == [12]


def test_a_transactions_requests_go_to_its_coordinator_and_a_plain_producers_to_the_mapped_node() -> None:
    target = cluster(3)
    target.coordinators = {(TRANSACTION, "t"): 11, (GROUP, "t"): 12}
    assert [part.node for part in routed(END_TXN, {"transactional_id": "t"}, target)] == [11]
    assert [part.node for part in routed(INIT_PRODUCER_ID, {"transactional_id": "t"}, target)] == [11]
    assert [part.node for part in routed(INIT_PRODUCER_ID, {"transactional_id": None}, target)] == [10]
    assert [part.node for part in routed(DESCRIBE_TRANSACTIONS, {"transactional_ids": ["t"]}, target)] == [11]


# controller, united and mapped nodes


def test_changes_of_topics_go_to_the_controller_or_else_to_the_mapped_node() -> None:
    target = cluster(3)
    target.controller = 12
    values: Values = {"topics": []}
    assert [part.node for part in routed(CREATE_TOPICS, values, target)] == [12]
    target.controller = -1
    assert [part.node for part in routed(CREATE_TOPICS, values, target, node=2)] == [11]


def test_a_query_of_a_nodes_own_state_goes_to_all_its_stand_ins() -> None:
    found = routed(LIST_GROUPS, {}, cluster(3), node=1, nodes=Nodes([1], {}))
    assert [part.node for part in found] == [10, 11, 12]
    answers = [{"error_code": 0, "throttle_time_ms": 0, "groups": [{"group_id": g}]} for g in "gh"]
    assert joined_answer(LIST_GROUPS, {}, answers)["groups"] == [{"group_id": "g"}, {"group_id": "h"}]


def test_settings_of_brokers_are_asked_of_the_nodes_that_stand_for_them_under_their_ids() -> None:
    resources = [
        {"resource_type": 4, "resource_name": "2"},
        {"resource_type": 2, "resource_name": "a"},
        {"resource_type": 4, "resource_name": ""},
        {"resource_type": 8, "resource_name": "3"},
    ]
    found = routed(DESCRIBE_CONFIGS, {"resources": resources}, cluster(3), node=1)
    assert {part.node: part.values["resources"] for part in found} == {
        11: [{"resource_type": 4, "resource_name": "11"}],
        10: resources[1:3],
        12: [{"resource_type": 8, "resource_name": "12"}],
    }


def test_settings_of_two_brokers_that_one_node_stands_for_are_asked_once() -> None:
    resources = [{"resource_type": 4, "resource_name": name} for name in "12"]
    [part] = routed(DESCRIBE_CONFIGS, {"resources": resources}, cluster(1))
    assert part.values["resources"] == [{"resource_type": 4, "resource_name": "10"}]


@pytest.mark.parametrize("name", ["²", "9" * 40, "-1", "1_0"], ids=["digit", "long", "negative", "underscore"])
def test_a_brokers_name_that_is_no_id_is_no_node(name: str) -> None:
    resources = [{"resource_type": 4, "resource_name": name}]
    assert routed(DESCRIBE_CONFIGS, {"resources": resources}, cluster(2)) == [Part(10, {"resources": resources})]


def test_a_chosen_node_that_the_target_lacks_takes_nothing() -> None:
    nodes = Nodes([1, 2], {1: 99})
    assert parts(asked(METADATA, 4, 1), {}, cluster(2), nodes) == Withheld(Reason.NO_NODE, "node 1")
    resources = [{"resource_type": 4, "resource_name": "1"}]
    found = parts(asked(DESCRIBE_CONFIGS, 1, 2), {"resources": resources}, cluster(2), nodes)
    assert found == Withheld(Reason.NO_NODE, "node 1")


# replicas


def test_replication_factors_sink_to_the_number_of_nodes() -> None:
    topics: list[Values] = [
        {"name": str(factor), "replication_factor": factor, "assignments": []} for factor in (3, 1, -1)
    ]
    [part] = routed(CREATE_TOPICS, {"topics": topics}, cluster(2))
    assert [topic["replication_factor"] for topic in part.values["topics"]] == [2, 1, -1]


@given(st.lists(st.permutations([1, 2, 3]).map(lambda ids: ids[:2]), min_size=1), st.integers(1, 4))
def test_replicas_are_the_targets_without_repeats_and_as_many_for_each_partition(
    recorded: list[list[int]], size: int
) -> None:
    target = cluster(size)
    assignments = [{"partition_index": p, "broker_ids": ids} for p, ids in enumerate(recorded)]
    topics = [{"name": "a", "replication_factor": -1, "assignments": assignments}]
    values = {"topics": topics}
    [part] = routed(CREATE_TOPICS, values, target)
    found = [each["broker_ids"] for each in part.values["topics"][0]["assignments"]]
    assert {len(ids) for ids in found} == {min(2, size)}
    for ids, before in zip(found, recorded, strict=True):
        assert len(set(ids)) == len(ids)
        assert set(ids) <= target.nodes.keys()
        assert ids[0] == THREE.stand_ins(before[0], target)[0]
    assert values["topics"][0]["assignments"] == assignments


def test_new_partitions_and_reassignments_name_the_targets_nodes_and_a_cancelled_one_none() -> None:
    grown = {"topics": [{"name": "a", "count": 2, "assignments": [{"broker_ids": [3, 1]}]}]}
    [part] = routed(CREATE_PARTITIONS, grown, cluster(3))
    assert part.values["topics"][0]["assignments"] == [{"broker_ids": [12, 10]}]
    moved = {"topics": [{"name": "a", "partitions": [{"replicas": [2]}, {"replicas": None}]}]}
    [part] = routed(ALTER_PARTITION_REASSIGNMENTS, moved, cluster(3))
    assert part.values["topics"][0]["partitions"] == [{"replicas": [11]}, {"replicas": None}]


def test_nodes_with_a_session_get_a_request_besides_the_named_leaders() -> None:
    named = {"topics": [{"topic": "a"}], "forgotten_topics_data": []}
    empty: Values = {"topics": [], "forgotten_topics_data": []}
    assert with_homes([Part(1, named), Part(2, empty)], [3, 2]) == [Part(1, named), Part(2, empty), Part(3, empty)]
    assert with_homes([Part(1, empty)], [2]) == [Part(2, empty)]

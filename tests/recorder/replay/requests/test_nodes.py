"""Tests of mapping one cluster's nodes to another's, for any two sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.cluster import Cluster
from recorder.replay.requests.nodes import Nodes
from tests.recorder.replay.targets import cluster

sizes = st.integers(1, 7)


@given(sizes, sizes)
def test_every_node_of_the_target_stands_for_a_recorded_one_and_each_recorded_one_has_a_stand_in(
    r: int, t: int
) -> None:
    nodes, target = Nodes(range(r), {}), cluster(t)
    found = [nodes.stand_ins(node, target) for node in range(r)]
    assert all(found)
    assert {node for each in found for node in each} == target.nodes.keys()


@given(sizes)
def test_nodes_of_clusters_of_one_size_are_paired_by_rank(size: int) -> None:
    nodes = Nodes([7 * i for i in range(size)], {})
    assert [nodes.stand_ins(7 * i, cluster(size)) for i in range(size)] == [(10 + i,) for i in range(size)]


def test_three_recorded_nodes_map_to_two_by_rank_modulo_two() -> None:
    assert [Nodes([1, 2, 3], {}).stand_ins(node, cluster(2)) for node in (1, 2, 3)] == [(10,), (11,), (10,)]


def test_every_second_of_five_target_nodes_stands_for_one_of_two_recorded_nodes() -> None:
    assert [Nodes([1, 2], {}).stand_ins(node, cluster(5)) for node in (1, 2)] == [(10, 12, 14), (11, 13)]


def test_a_chosen_node_stands_for_the_recorded_one_alone() -> None:
    nodes = Nodes([1, 2], {1: 14, 2: 99})
    assert nodes.stand_ins(1, cluster(5)) == (14,)
    assert nodes.stand_ins(2, cluster(5)) == ()


def test_a_node_that_the_recording_does_not_know_has_the_targets_first() -> None:
    assert Nodes([1], {}).stand_ins(None, cluster(3)) == (10,)
    assert Nodes([1], {}).stand_ins(None, Cluster()) == ()


def test_a_replica_on_an_unknown_node_is_unchanged() -> None:
    assert Nodes([1], {}).replicas([1, 77], cluster(3)) == [10, 77]

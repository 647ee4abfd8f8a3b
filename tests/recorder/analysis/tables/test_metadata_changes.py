"""Tests of the states of partitions and nodes: each once, in order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recorder.analysis.tables.metadata_changes import METADATA_CHANGES, metadata_changes
from tests.recorder.analysis.by_hand import Row
from tests.recorder.facts.frames import response

pytestmark = pytest.mark.real
Build = Callable[..., Any]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def told(request_row: Build) -> Build:
    """The row of a Metadata response that arrived at that second."""

    def made(second: int, leader: int, epoch: int, isr: list[int], version: int = 9, **other: Any) -> dict[str, Any]:
        partition = {"partition_index": 0, "leader_id": leader, "leader_epoch": epoch, "isr_nodes": isr}
        partition |= {"replica_nodes": [1, 2]}
        values = {"cluster_id": "c", "topics": [{"name": "t", "partitions": [partition]}], **other}
        at = {"at": NOON + timedelta(seconds=second), "sequence": second}
        row: Row = request_row(0)
        return row | response(3, version, values) | at

    return made


def states(captured: Build, *rows: Any) -> list[tuple[Any, ...]]:
    found = metadata_changes(captured(*rows)).filter("partition is not null").orderBy("leader_epoch", "at").collect()
    return [(row.leader, row.isr, row.was_leader, row.was_isr, row.is_first) for row in found]


def test_a_repeated_state_is_no_change(captured: Build, told: Build) -> None:
    rows = [told(0, 1, 5, [1, 2]), told(1, 1, 5, [2, 1]), told(2, 1, 5, [1]), told(3, 1, 5, [1])]
    assert states(captured, *rows) == [(1, [1, 2], None, None, True), (1, [1], 1, [1, 2], False)]


def test_a_broker_that_is_behind_makes_no_change(captured: Build, told: Build) -> None:
    """The response arrives later, but has an older epoch."""
    rows = [told(0, 1, 5, [1, 2]), told(1, 2, 6, [2]), told(2, 1, 5, [1, 2])]
    assert states(captured, *rows) == [(1, [1, 2], None, None, True), (2, [2], 1, [1, 2], False)]


def test_a_partition_without_a_leader_has_none(captured: Build, told: Build) -> None:
    rows = [told(0, 1, 5, [1]), told(1, -1, 6, [1])]
    assert states(captured, *rows)[1] == (None, [1], 1, [1], False)


def test_before_epochs_time_tells(captured: Build, told: Build) -> None:
    rows = [told(0, 1, 0, [1], 5), told(1, 2, 0, [2], 5), told(2, 1, 0, [1], 5)]
    found = states(captured, *rows)
    assert [(leader, was) for leader, _, was, _, _ in found] == [(1, None), (2, 1), (1, 2)]


def test_a_node_that_moves_is_a_change(captured: Build, told: Build) -> None:
    nodes = [{"node_id": 1, "host": host, "port": 9092} for host in ("a", "a", "b")]
    rows = [told(second, 1, 5, [1], brokers=[node]) for second, node in enumerate(nodes)]
    found = metadata_changes(captured(*rows))
    assert found.columns == METADATA_CHANGES.names
    moved = found.filter("told_node is not null").orderBy("at").collect()
    assert [(row.told_node, row.host, row.is_first) for row in moved] == [(1, "a", True), (1, "b", False)]


def leaders(found: Any) -> list[tuple[Any, ...]]:
    rows = found.filter("partition is not null").orderBy("leader_epoch", "at").collect()
    return [(row.leader, row.asker, row.was_leader, row.is_first) for row in rows]


def test_leaders_that_differ_by_client_within_an_epoch_are_told_as_that_and_are_no_changes(
    captured: Build, told: Build
) -> None:
    rows = [
        told(second, 1 + second % 2, 5, [1, 2]) | {"client_id": "ab"[second % 2], "client": "10.0.0.1:5"}
        for second in range(6)
    ]
    found = metadata_changes(captured(*rows, told(9, 2, 6, [1, 2]) | {"client_id": "a", "client": "10.0.0.1:5"}))
    assert leaders(found) == [
        (1, None, None, True),
        (2, "b at 10.0.0.1", 1, True),
        (2, None, 1, False),
    ]


def test_clients_whose_answers_have_no_epoch_and_differ_make_one_change_at_most(captured: Build, told: Build) -> None:
    rows = [told(second, 1 + second % 2, 0, [1, 2], 5) | {"client_id": "ab"[second % 2]} for second in range(6)]
    assert len(states(captured, *rows)) == 2


def test_an_answer_without_an_epoch_or_offline_nodes_belongs_to_the_epoch_before_it(
    captured: Build, told: Build
) -> None:
    rows = [told(0, 1, 5, [1, 2]), told(1, 1, 0, [1, 2], 4), told(2, 1, 5, [1, 2]), told(3, 2, 6, [1, 2])]
    found = metadata_changes(captured(*rows, told(4, 2, 0, [1, 2], 4)))
    assert leaders(found) == [(1, None, None, True), (2, None, 1, False)]


def test_an_answer_without_the_topics_id_is_about_the_topic_of_its_name(captured: Build, told: Build) -> None:
    rows = [told(0, 1, 5, [1, 2], 9), with_id(told, 1, 1, 5), told(2, 1, 5, [1, 2], 9), with_id(told, 3, 2, 6)]
    found = metadata_changes(captured(*rows, told(4, 2, 6, [1, 2], 9)))
    assert leaders(found) == [(1, None, None, True), (2, None, 1, False)]


def test_a_topic_that_is_made_anew_has_a_first_state_again_also_where_its_id_is_missing(
    captured: Build, told: Build
) -> None:
    rows = [with_id(told, 0, 1, 5), with_id(told, 1, 2, 0, 8), told(2, 2, 0, [1, 2], 9)]
    assert leaders(metadata_changes(captured(*rows))) == [(2, None, None, True), (1, None, None, True)]


def test_a_node_has_an_address_for_each_cluster_of_the_settings_before_one_cluster(
    captured: Build, told: Build
) -> None:
    rows = [
        told(second, 1, 5, [1], brokers=[{"node_id": 1, "host": host, "port": 9092}]) | {"cluster": cluster}
        for second, (cluster, host) in enumerate([("in", "a"), ("out", "b")] * 3 + [("out", "c")])
    ]
    found = metadata_changes(captured(*rows))
    nodes = found.filter("told_node is not null").orderBy("at").collect()
    assert [(row.host, row.asker, row.was_address) for row in nodes] == [
        ("a", "in", None),
        ("b", "out", None),
        ("c", "out", "b:9092"),
    ]
    assert leaders(found) == [(1, None, None, True)]


def with_id(told: Build, second: int, leader: int, epoch: int, id_byte: int = 7) -> dict[str, Any]:
    """A response whose topic has a name and an id."""
    partition = {"partition_index": 0, "leader_id": leader, "leader_epoch": epoch, "isr_nodes": [1, 2]}
    topic = {"name": "t", "topic_id": bytes([id_byte] * 16), "partitions": [partition | {"replica_nodes": [1, 2]}]}
    row: dict[str, Any] = told(second, leader, epoch, [1, 2], 12, topics=[topic])
    return row

"""Tests of the union of what a group's members have to read."""

from __future__ import annotations

from recorder.replay.comparison.unions import AssignmentUnions, Differing, assignment_parts, together

ONE = {"topic_partitions": [{"topic_id": b"1", "topic_name": "t", "partitions": [0, 1]}]}
OTHER = {"topic_partitions": [{"topic_id": b"1", "topic_name": "t", "partitions": [2]}]}


def test_an_assignment_gives_partitions_by_topic() -> None:
    assert assignment_parts(ONE) == {("t", 0), ("t", 1)}
    assert assignment_parts(None) == frozenset()
    assert assignment_parts({"topic_partitions": [{"topic_id": b"1", "partitions": [7]}]}) == {(b"1", 7)}


def test_tasks_are_given_by_role_and_subtopology() -> None:
    tasks = [{"subtopology_id": "s", "partitions": [0]}]
    found = assignment_parts({"active_tasks": tasks, "standby_tasks": None, "warmup_tasks": tasks})
    assert found == {("active_tasks", "s", 0), ("warmup_tasks", "s", 0)}


def test_members_have_together_what_each_of_them_has() -> None:
    assert together([{"assignment": ONE}, {"assignment": OTHER}, {"assignment": None}], "assignment") == {
        ("t", 0),
        ("t", 1),
        ("t", 2),
    }


def test_partitions_may_go_to_other_members_than_in_the_recording() -> None:
    unions = AssignmentUnions()
    unions.add_recorded("g", assignment_parts(ONE))
    unions.add_recorded("g", assignment_parts(OTHER))
    unions.add_replayed("g", assignment_parts(ONE) | assignment_parts(OTHER))
    assert list(unions.differing()) == []


def test_a_partition_without_a_reader_is_reported_with_its_group() -> None:
    unions = AssignmentUnions()
    unions.add_recorded("g", assignment_parts(ONE))
    unions.add_replayed("g", assignment_parts(OTHER))
    assert list(unions.differing()) == [Differing("g", assignment_parts(ONE), assignment_parts(OTHER))]

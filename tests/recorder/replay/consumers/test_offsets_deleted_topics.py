"""Tests of mapping offsets when a topic is deleted: nothing of its log is remembered, nor learned afterwards."""

from __future__ import annotations

from proxy.wire.keys import OFFSET_COMMIT, OFFSET_FETCH
from tests.recorder.replay.consumers.offset_exchanges import (
    A0,
    asked,
    at_target,
    batch,
    commit,
    committed,
    committed_by_transaction,
    fetch,
    offset_fetch,
    offsets,
    play,
    produced,
)
from tests.recorder.replay.simulated import exchange


def test_no_offset_of_a_deleted_topic_is_remembered() -> None:
    found = offsets(start=3)
    produced(found, 1, 10, 5000, count=3)
    each = commit(2, 12, OFFSET_COMMIT)
    values = each.decoded()
    found.request(each, values, 0)
    found.answered(each, values, committed(0, "p-a"), 0)
    found.forget_topic("other")
    assert found.expected("a", 0, 10) == 5000
    assert found.committed("g", "a", 0, 12) == 5002
    found.forget_topic("a")
    # as recorded, within no bounds of the earlier log
    assert found.expected("a", 0, 0) == 0
    assert found.expected("a", 0, 9000) == 9000
    assert found.committed("g", "a", 0, 12) == 12


def test_in_a_deleted_topic_no_consumer_has_a_position() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(batch(100, 3)))
    found.forget_topic("other")
    assert asked(found, fetch(2, 105)) == 103
    found.forget_topic("a")
    assert asked(found, fetch(3, 105)) == 105


def test_a_fetch_in_flight_while_its_topic_is_deleted_moves_no_consumer() -> None:
    found, each = offsets(), fetch(1, 100, batch(100, 5))
    asked(found, each)
    found.forget_topic("a")
    assert found.consumer(each.origin, A0) is not None
    found.answered(each, each.decoded(), at_target(None, code=3, high=-1), 0)
    assert asked(found, fetch(2, 105)) == 105


def test_a_fetch_in_flight_while_its_topic_is_deleted_tells_nothing_of_the_new_log() -> None:
    found, each = offsets(), fetch(1, 100)
    asked(found, each)
    found.forget_topic("a")
    found.answered(each, each.decoded(), at_target(None, high=700, start=600), 0)
    assert found.expected("a", 0, 0) == 0
    assert found.expected("a", 0, 5000) == 5000


def test_a_produce_in_flight_while_its_topic_is_deleted_tells_nothing_of_the_new_log() -> None:
    found = offsets()
    produced(found, 1, 10, 500, count=3, forgets="a")
    assert found.expected("a", 0, 10) == 10
    assert found.expected("a", 0, 5000) == 5000


def test_a_commit_in_flight_while_its_topic_is_deleted_is_not_remembered() -> None:
    found, each = offsets(), commit(1, 12, OFFSET_COMMIT)
    produced(found, 2, 10, 500, count=3)
    values = each.decoded()
    found.request(each, values, 0)
    found.forget_topic("a")
    found.answered(each, values, committed(0, "p-a"), 0)
    assert found.committed("g", "a", 0, 12) == 12


def test_a_transactions_offsets_in_a_deleted_topic_are_not_waited_for() -> None:
    found = offsets()
    committed_by_transaction(found, 1, 10)
    found.forget_topic("a")
    each = exchange(2, OFFSET_FETCH, 3, {"group_id": "g", "topics": None}, offset_fetch(3, 10))
    assert found.answered(each, each.decoded(), offset_fetch(3, -1, topic="p-a"), 0) is None


def test_a_commit_in_a_topic_that_was_written_before_its_deletion_is_within_the_new_log() -> None:
    found = offsets()
    produced(found, 1, 10, 500, count=3)
    found.forget_topic("a")
    play(found, fetch(2, 0), at_target(None, high=0))
    values = commit(3, 10, OFFSET_COMMIT).decoded()
    found.request(commit(3, 10, OFFSET_COMMIT), values, 0)
    assert values["topics"][0]["partitions"][0]["committed_offset"] == 0

"""Tests of mapping a consumer's offsets: where its Fetches continue on the target."""

from __future__ import annotations

from tests.recorder.replay.consumers.offset_exchanges import (
    A0,
    TWO,
    asked,
    at_target,
    batch,
    fetch,
    offsets,
    play,
    produced,
    writing,
)


def test_a_fetch_that_continues_where_the_recorded_answer_ended_continues_where_the_targets_did() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(batch(100, 3)))
    assert asked(found, fetch(2, 105)) == 103


def test_behind_an_answer_without_records_or_with_an_error_a_consumer_is_where_it_was() -> None:
    found = offsets()
    play(found, fetch(1, 100, None, code=6), at_target(batch(100, 3)))
    assert asked(found, fetch(2, 100)) == 103
    play(found, fetch(2, 100, batch(100, 9)), at_target(None, code=6))
    assert asked(found, fetch(3, 109)) == 103


def test_a_batch_that_is_cut_at_the_end_of_an_answer_is_still_to_be_read() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5) + batch(105, 5)[:-3]), at_target(batch(100, 5) + batch(105, 9)[:40]))
    assert asked(found, fetch(2, 105)) == 105


def test_behind_an_answer_whose_bytes_are_missing_the_next_fetch_continues() -> None:
    found = offsets()
    cut = fetch(1, 100, batch(100, 5))
    cut.answer_frame = None
    play(found, cut, at_target(batch(100, 3)))
    assert asked(found, fetch(2, 777)) == 103


def test_an_answer_that_never_came_moves_no_consumer() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(batch(100, 3)))
    play(found, fetch(2, 105, answered=False), at_target(batch(103, 3)))
    assert asked(found, fetch(3, 105)) == 103


def test_a_consumer_that_connects_anew_continues() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(batch(100, 3)))
    assert asked(found, fetch(2, 105, connection=2)) == 103
    assert asked(found, fetch(3, 105, connection=3, peer=TWO)) == 105


def test_consumers_that_connect_anew_at_one_offset_at_once_go_on_where_the_target_has_each_of_them() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(batch(100, 9)))
    play(found, fetch(2, 100, batch(100, 5), connection=2), at_target(batch(100, 7)))
    assert {asked(found, fetch(3, 105, connection=3)), asked(found, fetch(4, 105, connection=4))} == {107, 109}
    assert asked(found, fetch(5, 105, connection=5)) == 105


def test_a_consumer_that_begins_where_one_ended_does_not_read_beside_it() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(batch(100, 9)))
    polls = fetch(2, 105)
    assert asked(found, polls) == 109
    assert asked(found, fetch(3, 105, connection=2)) == 105
    found.lost(polls, None)
    assert asked(found, fetch(4, 105, connection=3)) == 109


def test_two_connections_of_one_peer_that_read_one_partition_are_two_consumers() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(batch(100, 3)))
    play(found, fetch(2, 200, batch(200, 5), connection=2), at_target(batch(200, 1)))
    assert asked(found, fetch(3, 105)) == 103
    assert asked(found, fetch(4, 205, connection=2)) == 201
    assert asked(found, fetch(5, 205)) == 205


def test_a_consumer_whose_offset_is_out_of_range_on_the_target_alone_begins_anew() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(None, code=1))
    assert asked(found, fetch(2, 105)) == 105


def test_a_consumer_begins_with_the_log_where_another_producers_records_came_first() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 2, count=2)
    assert asked(found, fetch(2, 0)) == 0


def test_a_consumer_begins_before_offsets_that_a_produce_in_flight_may_have_taken() -> None:
    found = offsets(end=0)
    produced(found, 1, 0, 0, count=2)
    overtakes = writing(found, 2, 4, batch(0, 1))
    produced(found, 3, 2, 3, count=2)
    begins = fetch(4, 2, connection=2)
    assert asked(found, begins) == 2
    # what stands there may be from before the consumer's first record
    assert found.begins_at(begins.origin, A0) == 3
    found.lost(overtakes, None)
    assert asked(found, fetch(5, 2, connection=3)) == 3

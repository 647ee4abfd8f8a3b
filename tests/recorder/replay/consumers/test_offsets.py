"""Tests of mapping recorded offsets to the target's: each rule alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from proxy.wire.keys import DELETE_RECORDS, FETCH, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, PRODUCE, TXN_OFFSET_COMMIT
from proxy.wire.pieces import LARGE, Pieces
from proxy.wire.records import Record, read, write_batch
from recorder.replay.cluster import Cluster
from recorder.replay.consumers.offsets import EARLIEST, LATEST, Offsets
from recorder.replay.consumers.pending import MOST_TRIES
from recorder.replay.plan import Exchange, Peer, Reason, Resend, Values, Withheld
from tests.recorder.replay.simulated import TOPIC_IDS, exchange, names

A0 = ("a", 0)
ONE, TWO = Peer("host", "one"), Peer("host", "two")


def offsets(
    start: int = 0, end: int = 1000, first: Mapping[tuple[str, int], int] | None = None, shift_ms: int = 0
) -> Offsets:
    return Offsets(names("p-", Cluster()), {A0: start}, {A0: end}, first, shift_ms)


def batch(base: int, count: int, value: bytes = b"v") -> bytes:
    return write_batch([Record(base + each, 5, None, value) for each in range(count)])


def fetch(
    number: int,
    offset: int,
    data: bytes | None = None,
    *,
    code: int = 0,
    connection: int = 1,
    peer: Peer = ONE,
    answered: bool = True,
) -> Exchange:
    """A recorded Fetch of a-0."""
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    values = {"max_wait_ms": 1, "min_bytes": 1, "isolation_level": 0, "session_id": 0, "session_epoch": -1}
    values |= {"topics": [{"topic": "a", "partitions": [partition]}], "forgotten_topics_data": [], "rack_id": ""}
    answer = told(data, code=code) if answered else None
    return exchange(number, FETCH, 11, values, answer, connection=connection, peer=peer)


def told(data: bytes | None, *, code: int = 0, high: int = 5000, start: int = -1, topic: str = "a") -> Values:
    """A response to a Fetch of a-0."""
    partition = {"partition_index": 0, "error_code": code, "high_watermark": high, "log_start_offset": start}
    partition |= {"last_stable_offset": -1, "aborted_transactions": None, "preferred_read_replica": -1, "records": data}
    responses = [{"topic": topic, "partitions": [partition]}]
    return {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": responses}


def asked(found: Offsets, each: Exchange) -> int:
    """Returns the offset in the target's request."""
    values = each.decoded()
    assert found.request(each, values, 0) is None
    return int(values["topics"][0]["partitions"][0]["fetch_offset"])


def play(found: Offsets, each: Exchange, answer: Values) -> int:
    """Plays a Fetch with a response of the target; returns the offset in the target's request."""
    offset = asked(found, each)
    found.answered(each, each.decoded(), answer, 0)
    return offset


def at_target(data: bytes | None, **more: int) -> Values:
    return told(data, topic="p-a", **more)


def produced(
    found: Offsets,
    number: int,
    recorded: int,
    target: int,
    count: int = 1,
    *,
    in_pieces: bool = False,
    forgets: str = "",
    transaction: str | None = None,
) -> None:
    """Both clusters accepted a Produce.

    `in_pieces`: its batch was changed, and is too large to be copied. `forgets`: a topic that is deleted meanwhile.
    """
    data = batch(0, count, bytes(LARGE)) if in_pieces else batch(0, count)
    entry = {"index": 0, "records": data}
    values = {
        "transactional_id": transaction,
        "acks": 1,
        "timeout_ms": 1,
        "topic_data": [{"name": "a", "partition_data": [entry]}],
    }

    def answer(topic: str, base: int) -> Values:
        partition = {"index": 0, "error_code": 0, "base_offset": base, "log_append_time_ms": -1, "log_start_offset": 0}
        return {"throttle_time_ms": 0, "responses": [{"name": topic, "partition_responses": [partition]}]}

    each = exchange(number, PRODUCE, 7, values, answer("a", recorded))
    assert found.request(each, each.decoded(), 0) is None
    found.forget_topic(forgets)
    sent = each.decoded()
    sent["topic_data"][0]["name"] = "p-a"
    if in_pieces:
        sent["topic_data"][0]["partition_data"][0]["records"] = Pieces([data[:61], data[61:]])
    found.answered(each, sent, answer("p-a", target), 0)


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in-pieces"])
def test_behind_a_produce_the_targets_log_is_as_long_as_its_records(in_pieces: bool) -> None:
    found = offsets()
    produced(found, 1, 10, 5000, count=3, in_pieces=in_pieces)
    assert found.expected("a", 0, 999) == 5003


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


def test_two_connections_of_one_peer_that_read_one_partition_are_two_consumers() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(batch(100, 3)))
    play(found, fetch(2, 200, batch(200, 5), connection=2), at_target(batch(200, 1)))
    assert asked(found, fetch(3, 105)) == 103
    assert asked(found, fetch(4, 205, connection=2)) == 201
    assert asked(found, fetch(5, 205)) == 205


def test_a_seek_moves_by_the_difference_of_the_nearest_produce_at_or_below() -> None:
    found = offsets()
    produced(found, 1, 500, 600)
    produced(found, 2, 510, 650)
    for recorded, target in ((500, 600), (505, 605), (510, 650), (520, 660), (400, 500)):
        assert asked(found, fetch(9, recorded)) == target


def test_the_first_pair_is_the_first_recorded_base_offset_and_the_end_of_the_targets_log() -> None:
    found = offsets(end=1000, first={A0: 500})
    assert asked(found, fetch(1, 500)) == 1000
    assert asked(found, fetch(2, 400)) == 900


def test_without_a_pair_an_offset_stays_within_the_targets_log() -> None:
    found = offsets(start=50, end=70)
    assert [asked(found, fetch(1, offset)) for offset in (10, 60, 500)] == [50, 60, 70]


def test_answers_widen_and_narrow_the_known_range_of_the_log() -> None:
    found = offsets(start=0, end=10)
    play(found, fetch(1, 3, None), at_target(None, high=20))
    assert asked(found, fetch(2, 50)) == 20
    listed = {"topics": [{"name": "p-a", "partitions": [partition(-1)]}]}
    each = exchange(3, LIST_OFFSETS, 1, listing(-1), None)
    answer = {"topics": [{"name": "p-a", "partitions": [{"partition_index": 0, "error_code": 0, "offset": 30}]}]}
    found.answered(each, listed, answer, 0)
    assert asked(found, fetch(4, 50)) == 30
    deleted = {
        "topics": [{"name": "p-a", "partitions": [{"partition_index": 0, "low_watermark": 25, "error_code": 0}]}]
    }
    found.answered(exchange(5, DELETE_RECORDS, 1, {"topics": [], "timeout_ms": 1}, None), {}, deleted, 0)
    assert asked(found, fetch(6, 5)) == 25


def test_an_offset_that_the_recording_found_out_of_range_is_not_brought_within_it() -> None:
    found = offsets(start=50, end=70)
    produced(found, 1, 100, 60)
    assert asked(found, fetch(2, 500, None, code=1)) == 460
    assert asked(found, fetch(3, 500, None)) == 70


def test_an_offset_that_the_recording_found_out_of_range_is_so_too_where_producers_stand_in_another_order() -> None:
    found = offsets(end=0)
    produced(found, 1, 10, 502, count=2)
    produced(found, 2, 12, 500, count=2)
    assert play(found, fetch(3, 14), at_target(None, high=504)) == 504
    assert asked(found, fetch(4, 20, code=1)) > 504


def test_a_consumer_whose_offset_is_out_of_range_on_the_target_alone_begins_anew() -> None:
    found = offsets()
    play(found, fetch(1, 100, batch(100, 5)), at_target(None, code=1))
    assert asked(found, fetch(2, 105)) == 105


def partition(timestamp: int) -> Values:
    return {"partition_index": 0, "timestamp": timestamp}


def listing(timestamp: int) -> Values:
    return {"replica_id": -1, "topics": [{"name": "a", "partitions": [partition(timestamp)]}]}


def lists(found: Offsets, number: int, timestamp: int, recorded: int) -> Exchange:
    """Sends a ListOffsets of a-0; the recorded response has this offset."""
    answer = {"topics": [{"name": "a", "partitions": [at_offset(recorded)]}]}
    each = exchange(number, LIST_OFFSETS, 1, listing(timestamp), answer)
    assert found.request(each, each.decoded(), 0) is None
    return each


def listed(found: Offsets, each: Exchange, target: int) -> int:
    """The target's response has an offset; returns the one that was expected."""
    values = each.decoded()
    values["topics"][0]["name"] = "p-a"
    found.answered(each, values, {"topics": [{"name": "p-a", "partitions": [at_offset(target)]}]}, 0)
    (recorded,) = (part["offset"] for part in each.answer["topics"][0]["partitions"]) if each.answer else (-1,)
    return found.listed("a", 0, recorded)


def at_offset(offset: int) -> Values:
    return {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": offset}


def test_a_log_may_have_more_records_than_the_recorded_one_had_when_its_end_was_requested() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 0, count=10)
    each = lists(found, 2, LATEST, 10)
    produced(found, 3, 10, 10, count=5)
    assert listed(found, each, 15) == 15


def test_a_record_on_its_way_when_the_end_was_requested_may_be_behind_it() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 0, count=10)
    each = lists(found, 2, LATEST, 15)
    produced(found, 3, 10, 10, count=5)
    assert listed(found, each, 10) == 10


def test_a_log_that_lost_a_record_before_its_requested_end_differs() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 0, count=10)
    assert listed(found, lists(found, 2, LATEST, 10), 9) == 10


@pytest.mark.parametrize("target", [0, 100])
def test_a_log_may_begin_with_records_that_were_there_before_the_replay(target: int) -> None:
    found = offsets(end=100, first={A0: 0})
    produced(found, 1, 0, 102)
    assert listed(found, lists(found, 2, EARLIEST, 0), target) == target


def test_the_time_of_a_record_has_one_offset() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 0, count=10)
    assert listed(found, lists(found, 2, 1000, 4), 5) == 4


def test_a_consumer_begins_with_the_log_where_another_producers_records_came_first() -> None:
    found = offsets(end=0, first={A0: 0})
    produced(found, 1, 0, 2, count=2)
    assert asked(found, fetch(2, 0)) == 0


@pytest.mark.parametrize(("recorded", "target"), [(1000, 1500), (0, 500), (-1, -1), (-2, -2)], ids=str)
def test_times_move_and_special_ones_stay(recorded: int, target: int) -> None:
    each = exchange(1, LIST_OFFSETS, 1, listing(recorded), None)
    values = each.decoded()
    offsets(shift_ms=500).request(each, values, 0)
    assert values["topics"][0]["partitions"][0]["timestamp"] == target


@pytest.mark.parametrize("shift_ms", [0, 500])
def test_the_times_of_records_move_as_those_that_are_asked_for(shift_ms: int) -> None:
    entry = {"index": 0, "records": batch(0, 2)}
    topic = {"name": "a", "partition_data": [entry]}
    each = exchange(1, PRODUCE, 7, {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": [topic]}, None)
    values = each.decoded()
    offsets(shift_ms=shift_ms).request(each, values, 0)
    data = bytes(values["topic_data"][0]["partition_data"][0]["records"])
    assert [record.timestamp for record in read(data)] == [5 + shift_ms] * 2


def commit(number: int, offset: int, api_key: int) -> Exchange:
    """A recorded OffsetCommit or TxnOffsetCommit of a-0."""
    entry = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
    values = {"group_id": "g", "topics": [{"name": "a", "partitions": [entry]}]}
    if api_key == TXN_OFFSET_COMMIT:
        values |= {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
    else:
        values |= {"generation_id_or_member_epoch": 1, "member_id": "m", "retention_time_ms": -1}
    return exchange(number, api_key, 2, values, committed(0))


def committed(code: int, topic: str = "a") -> Values:
    found = [{"name": topic, "partitions": [{"partition_index": 0, "error_code": code}]}]
    return {"throttle_time_ms": 0, "topics": found}


@pytest.mark.parametrize("api_key", [OFFSET_COMMIT, TXN_OFFSET_COMMIT])
def test_a_committed_offset_is_mapped_and_expected_as_committed(api_key: int) -> None:
    found = offsets()
    produced(found, 1, 500, 600)
    each = commit(2, 510, api_key)
    values = each.decoded()
    found.request(each, values, 0)
    assert values["topics"][0]["partitions"][0]["committed_offset"] == 610
    found.answered(each, values, committed(0, "p-a"), 0)
    produced(found, 3, 510, 700)
    assert found.committed("g", "a", 0, 510) == 610
    assert found.committed("h", "a", 0, 510) == 700
    assert found.committed("g", "a", 0, -1) == -1


def delete(offset: int, topic: str = "a") -> Exchange:
    values = {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}], "timeout_ms": 1}
    return exchange(9, DELETE_RECORDS, 1, values, None)


def test_records_are_deleted_up_to_where_the_target_has_them() -> None:
    found = offsets()
    produced(found, 1, 500, 600)
    for recorded, target in ((510, 610), (-1, -1)):
        values = delete(recorded).decoded()
        assert found.request(delete(recorded), values, 0) is None
        assert values["topics"][0]["partitions"][0]["offset"] == target


def test_records_whose_retries_may_still_come_are_not_deleted() -> None:
    found = Offsets(names("p-", Cluster()), {A0: 0}, {A0: 1000}, unretried=lambda place, at_ns: 603)
    produced(found, 1, 500, 600)
    for recorded, target in ((502, 602), (510, 603)):
        values = delete(recorded).decoded()
        assert found.request(delete(recorded), values, 0) is None
        assert values["topics"][0]["partitions"][0]["offset"] == target


def test_deleting_records_of_which_no_produce_is_known_is_withheld() -> None:
    found = offsets()
    each = delete(5)
    assert found.request(each, each.decoded(), 0) == Withheld(Reason.NO_OFFSET)
    assert [(left.topic, left.partition, left.reason) for left in each.dropped] == [("a", 0, Reason.NO_OFFSET)]


def test_topics_by_id_are_the_same_topics() -> None:
    found = offsets()
    produced(found, 1, 500, 600)
    entry = {"partition": 0, "fetch_offset": 505, "partition_max_bytes": 9}
    values = {"max_wait_ms": 1, "min_bytes": 1, "isolation_level": 0, "session_id": 0, "forgotten_topics_data": []}
    values |= {"topics": [{"topic_id": TOPIC_IDS["a"], "partitions": [entry]}], "rack_id": ""}
    assert asked(found, exchange(2, FETCH, 13, values, None)) == 605


@pytest.mark.parametrize("api_key", [OFFSET_COMMIT, TXN_OFFSET_COMMIT], ids=["alone", "in a transaction"])
def test_an_offset_after_records_that_are_still_on_their_way_is_committed_as_it_is(api_key: int) -> None:
    on_its_way, elsewhere = offsets(end=0, first={A0: 0}), offsets(end=0)
    for found, wanted in ((on_its_way, 10), (elsewhere, 0)):
        values = commit(1, 10, api_key).decoded()
        assert found.request(commit(1, 10, api_key), values, 0) is None
        assert values["topics"][0]["partitions"][0]["committed_offset"] == wanted
    written = offsets(end=0)
    produces = exchange(1, PRODUCE, 7, unanswered_produce(), None, awaits=False)
    assert written.request(produces, produces.decoded(), 0) is None
    values = commit(2, 10, api_key).decoded()
    assert written.request(commit(2, 10, api_key), values, 0) is None
    assert values["topics"][0]["partitions"][0]["committed_offset"] == 10


def unanswered_produce() -> Values:
    entry = {"index": 0, "records": batch(0, 10)}
    topics = [{"name": "a", "partition_data": [entry]}]
    return {"transactional_id": None, "acks": 0, "timeout_ms": 1, "topic_data": topics}


@pytest.mark.parametrize(("transaction", "expected"), [("t", 500), (None, 501)])
def test_a_commit_or_a_fetch_behind_a_marker_leaves_out_no_record_where_the_target_has_the_marker_before(
    transaction: str | None, expected: int
) -> None:
    found = offsets(end=0)
    # the marker is behind both on the recorded cluster, and between them on the target
    produced(found, 1, 10, 497, transaction=transaction)
    produced(found, 2, 11, 499)
    values = commit(3, 13, OFFSET_COMMIT).decoded()
    found.request(commit(3, 13, OFFSET_COMMIT), values, 0)
    assert values["topics"][0]["partitions"][0]["committed_offset"] == expected
    # another record is on its way, and the target has it already
    play(found, fetch(4, 10, peer=TWO), at_target(None, high=501))
    assert asked(found, fetch(5, 13)) == expected


def committed_by_transaction(found: Offsets, number: int, offset: int) -> None:
    """Both clusters accepted a TxnOffsetCommit of the group g."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    values = {"transactional_id": "t", "group_id": "g", "producer_id": 1, "producer_epoch": 0}
    values |= {"topics": [{"name": "a", "partitions": [partition]}]}

    def answer(topic: str) -> Values:
        return {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "error_code": 0}]}]}

    each = exchange(number, TXN_OFFSET_COMMIT, 0, values, {"throttle_time_ms": 0} | answer("a"))
    assert found.request(each, each.decoded(), 0) is None
    found.answered(each, each.decoded(), answer("p-a"), 0)


def offset_fetch(version: int, offset: int, *, topic: str = "a", group: str = "g") -> Values:
    """A response to OffsetFetch."""
    partition = {"partition_index": 0, "committed_offset": offset, "metadata": "", "error_code": 0}
    topics = [{"name": topic, "partitions": [partition]}]
    if version < 8:
        return {"error_code": 0, "topics": topics}
    return {"throttle_time_ms": 0, "groups": [{"group_id": group, "topics": topics, "error_code": 0}]}


@pytest.mark.parametrize("version", [3, 8], ids=["one group", "groups"])
def test_offsets_of_a_transaction_are_requested_again_until_the_target_shows_them(version: int) -> None:
    found = offsets()
    committed_by_transaction(found, 1, 10)
    asks = {"groups": [{"group_id": "g", "topics": None}]} if version >= 8 else {"group_id": "g", "topics": None}
    each = exchange(2, OFFSET_FETCH, version, asks, offset_fetch(version, 10))
    early, shown = (offset_fetch(version, at, topic="p-a", group="p-g") for at in (-1, 10))
    assert isinstance(found.answered(each, each.decoded(), early, 0), Resend)
    assert found.answered(each, each.decoded(), shown, 0) is None
    assert found.answered(each, each.decoded(), early, 0) is None


def test_a_target_that_never_shows_the_offsets_of_a_transaction_is_compared_as_it_is() -> None:
    found = offsets()
    committed_by_transaction(found, 1, 10)
    each = exchange(2, OFFSET_FETCH, 3, {"group_id": "g", "topics": None}, offset_fetch(3, 10))
    early = offset_fetch(3, -1, topic="p-a")
    answers = [found.answered(each, each.decoded(), early, 0) for _ in range(MOST_TRIES + 1)]
    assert answers == [Resend()] * MOST_TRIES + [None]
    before = exchange(3, OFFSET_FETCH, 3, {"group_id": "g", "topics": None}, offset_fetch(3, -1))
    assert found.answered(before, before.decoded(), early, 0) is None

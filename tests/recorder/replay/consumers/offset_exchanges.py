"""Exchanges of a-0 that name offsets, for tests of mapping these: Fetches, Produces and commits."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.wire.keys import FETCH, PRODUCE, TXN_OFFSET_COMMIT
from proxy.wire.pieces import LARGE, Pieces
from proxy.wire.records import Record, write_batch
from recorder.replay.cluster import Cluster
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.plan import Exchange, Peer, Values
from tests.recorder.replay.simulated import exchange, names

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
    values: Values = {"max_wait_ms": 1, "min_bytes": 1, "isolation_level": 0, "session_id": 0, "session_epoch": -1}
    values |= {"topics": [{"topic": "a", "partitions": [partition]}], "forgotten_topics_data": [], "rack_id": ""}
    answer = told(data, code=code) if answered else None
    return exchange(number, FETCH, 11, values, answer, connection=connection, peer=peer)


def told(data: bytes | None, *, code: int = 0, high: int = 5000, start: int = -1, topic: str = "a") -> Values:
    """A response to a Fetch of a-0."""
    partition: Values = {"partition_index": 0, "error_code": code, "high_watermark": high, "log_start_offset": start}
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
    each = writing(found, number, recorded, data, transaction)
    found.forget_topic(forgets)
    sent = each.decoded()
    sent["topic_data"][0]["name"] = "p-a"
    if in_pieces:
        sent["topic_data"][0]["partition_data"][0]["records"] = Pieces([data[:61], data[61:]])
    found.answered(each, sent, _based("p-a", target), 0)


def writing(found: Offsets, number: int, recorded: int, data: bytes, transaction: str | None = None) -> Exchange:
    """A Produce that the recorded cluster accepted, and that is in flight to the target."""
    values = produce_values(data) | {"transactional_id": transaction}
    each = exchange(number, PRODUCE, 7, values, _based("a", recorded))
    assert found.request(each, each.decoded(), 0) is None
    return each


def produce_values(data: bytes) -> Values:
    topics = [{"name": "a", "partition_data": [{"index": 0, "records": data}]}]
    return {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": topics}


def _based(topic: str, base: int) -> Values:
    partition = {"index": 0, "error_code": 0, "base_offset": base, "log_append_time_ms": -1, "log_start_offset": 0}
    return {"throttle_time_ms": 0, "responses": [{"name": topic, "partition_responses": [partition]}]}


def partition(timestamp: int) -> Values:
    return {"partition_index": 0, "timestamp": timestamp}


def listing(timestamp: int) -> Values:
    return {"replica_id": -1, "topics": [{"name": "a", "partitions": [partition(timestamp)]}]}


def commit(number: int, offset: int, api_key: int) -> Exchange:
    """A recorded OffsetCommit or TxnOffsetCommit of a-0."""
    entry = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
    values: Values = {"group_id": "g", "topics": [{"name": "a", "partitions": [entry]}]}
    if api_key == TXN_OFFSET_COMMIT:
        values |= {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
    else:
        values |= {"generation_id_or_member_epoch": 1, "member_id": "m", "retention_time_ms": -1}
    return exchange(number, api_key, 2, values, committed(0))


def committed(code: int, topic: str = "a") -> Values:
    found = [{"name": topic, "partitions": [{"partition_index": 0, "error_code": code}]}]
    return {"throttle_time_ms": 0, "topics": found}


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

"""Tests of what a request depends on and what depends on it: each rule of `order` alone."""

from typing import Any

import pytest

from proxy.wire import encode_request, encode_response, records
from proxy.wire.keys import (
    ADD_PARTITIONS_TO_TXN,
    ALTER_SHARE_GROUP_OFFSETS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_TRANSACTIONS,
    ELECT_LEADERS,
    END_TXN,
    FETCH,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_DESCRIBE,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from recorder.replay.plan import Exchange, Origin, Peer
from recorder.replay.requests.order import Keys, keys, keys_of_answer
from tests.tables import each_row

TOPIC_ID = bytes(range(16))


def _keys(key: int, version: int, values: dict[str, Any], connection: int = 1) -> Keys:
    frame = encode_request(key, version, correlation_id=1, client_id="app", values=values)
    exchange = Exchange(Origin("s", connection, 0), key, version, frame, 0, 0, Peer("h", "app"))
    return keys(exchange, lambda name: "orders" if name == TOPIC_ID else name if isinstance(name, str) else None)


def _waits(later: Keys, earlier: Keys) -> bool:
    return bool({*later.waits_for} & {*earlier.blocks})


def _produce(topic: str = "orders", partition: int = 0, producer: int = -1, **other: Any) -> Keys:
    data = records.with_producer(records.write_batch([records.Record(0, value=b"v")]), producer, 0, 0)
    partitions = [{"index": partition, "records": data}]
    values = {"topic_data": [{"name": topic, "partition_data": partitions}], "acks": -1, "timeout_ms": 1}
    return _keys(PRODUCE, 9, values | other.pop("values", {}), other.pop("connection", 1))


def test_requests_of_a_connection_wait_for_each_other() -> None:
    one, two, other = (_keys(METADATA, 12, {"topics": None}, connection) for connection in (1, 1, 2))
    assert _waits(two, one)
    assert not _waits(other, one)


def test_requests_of_a_group_wait_for_each_other_on_any_connection() -> None:
    join = _keys(JOIN_GROUP, 5, {"group_id": "g"}, 1)
    beat, other = (_keys(HEARTBEAT, 4, {"group_id": group}, 2) for group in ("g", "h"))
    assert _waits(beat, join)
    assert not _waits(other, join)


@each_row(
    "key, version", [(HEARTBEAT, 4), (OFFSET_COMMIT, 7), (TXN_OFFSET_COMMIT, 3), (JOIN_GROUP, 5), (LEAVE_GROUP, 2)]
)
def test_a_member_waits_for_its_own_sync_on_any_connection(key: int, version: int) -> None:
    sync = _keys(SYNC_GROUP, 5, {"group_id": "g", "member_id": "m"}, 1)
    for member, waits in (("m", True), ("other", False), ("", False)):
        assert _waits(_keys(key, version, {"group_id": "g", "member_id": member}, 2), sync) is waits
    assert not _waits(_keys(key, version, {"group_id": "h", "member_id": "m"}, 2), sync)


def test_requests_on_other_connections_do_not_wait_for_a_sync() -> None:
    sync, join = _keys(SYNC_GROUP, 5, {"group_id": "g"}, 1), _keys(JOIN_GROUP, 5, {"group_id": "g"}, 2)
    assert not _waits(_keys(HEARTBEAT, 4, {"group_id": "g"}, 2), sync)
    assert _waits(sync, join)
    assert _waits(_keys(HEARTBEAT, 4, {"group_id": "g"}, 1), sync)


def test_membership_requests_keep_their_order_of_leaving_and_commits_leave_behind_them() -> None:
    assert _keys(JOIN_GROUP, 5, {"group_id": "g"}).member_of == "g"
    assert _keys(HEARTBEAT, 4, {"group_id": "g"}).member_of is None
    assert _keys(OFFSET_COMMIT, 8, {"group_id": "g", "topics": []}).commits_to == "g"
    assert _keys(HEARTBEAT, 4, {"group_id": "g"}).commits_to is None


def test_produces_of_one_producer_wait_only_in_one_partition() -> None:
    first = _produce(partition=0, producer=7, connection=1)
    assert _waits(_produce(partition=0, producer=7, connection=2), first)
    assert not _waits(_produce(partition=1, producer=7, connection=2), first)


def test_a_produce_waits_for_its_producer_id_and_ending_waits_for_it() -> None:
    produce = _produce(producer=7, connection=2)
    ends = _keys(END_TXN, 3, {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0}, 1)
    assert _waits(produce, ends)
    assert _waits(ends, produce)


def test_a_transaction_is_known_by_its_transactional_id_too() -> None:
    init = _keys(INIT_PRODUCER_ID, 3, {"transactional_id": "t", "transaction_timeout_ms": 1}, 1)
    produce = _produce(producer=7, connection=2, values={"transactional_id": "t"})
    commit = _keys(TXN_OFFSET_COMMIT, 3, {"transactional_id": "t", "group_id": "g", "producer_id": 7}, 3)
    assert _waits(produce, init)
    assert _waits(commit, init)


def test_partitions_join_a_transaction_after_its_beginning_and_before_its_data() -> None:
    init = _keys(INIT_PRODUCER_ID, 0, {"transactional_id": "t", "transaction_timeout_ms": 1}, 1)
    quoted = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0, "topics": []}
    joins = _keys(ADD_PARTITIONS_TO_TXN, 0, {f"v3_and_below_{name}": value for name, value in quoted.items()}, 2)
    assert _waits(joins, init)
    assert _waits(_produce(producer=7, connection=3), joins)


def test_a_transaction_is_described_after_what_it_did() -> None:
    ends = _keys(END_TXN, 3, {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0}, 1)
    describes = _keys(DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["t"]}, 2)
    assert _waits(describes, ends)
    assert _waits(ends, describes)
    assert not _waits(describes, _keys(END_TXN, 3, {"transactional_id": "u", "producer_id": 8}, 1))


@each_row(
    ("key", "version", "topic", "partition"),
    [
        (FETCH, 11, "topic", "partition"),
        (LIST_OFFSETS, 5, "name", "partition_index"),
        (OFFSET_COMMIT, 8, "name", "partition_index"),
        (TXN_OFFSET_COMMIT, 3, "name", "partition_index"),
        (OFFSET_FOR_LEADER_EPOCH, 3, "topic", "partition"),
    ],
    ids=["Fetch", "ListOffsets", "OffsetCommit", "TxnOffsetCommit", "OffsetForLeaderEpoch"],
)
def test_a_query_of_a_partition_waits_for_its_produces_and_delays_none(
    key: int, version: int, topic: str, partition: str
) -> None:
    values: dict[str, Any] = {"topics": [{topic: "orders", "partitions": [{partition: 0}]}]}
    if key in (OFFSET_COMMIT, TXN_OFFSET_COMMIT):
        values["group_id"] = "g"
    looks = _keys(key, version, values, 2)
    assert _waits(looks, _produce(connection=1))
    assert not _waits(looks, _produce(partition=1, connection=1))
    assert not _waits(_produce(connection=1), looks)


def test_a_read_of_committed_data_waits_for_transactions_ends() -> None:
    ends = _keys(END_TXN, 3, {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0}, 1)
    committed = _keys(OFFSET_FETCH, 5, {"group_id": "g", "topics": None}, 2)
    stable, last = (_keys(LIST_OFFSETS, 5, {"isolation_level": level, "topics": []}, 2) for level in (1, 0))
    assert _waits(committed, ends)
    assert _waits(stable, ends)
    assert not _waits(last, ends)
    assert not _waits(ends, committed)


def test_an_init_without_a_transactional_id_delays_no_other() -> None:
    one, two = (_keys(INIT_PRODUCER_ID, 3, {"transactional_id": None}, connection) for connection in (1, 2))
    assert not _waits(two, one)


def test_an_answer_tells_the_producer_id_that_it_gave() -> None:
    exchange = Exchange(Origin("s", 1, 0), INIT_PRODUCER_ID, 3, b"", 0, 0, Peer("h", "app"))
    assert keys_of_answer(exchange) == []
    exchange.take_answer(5, encode_response(INIT_PRODUCER_ID, 3, 1, {"producer_id": 7}))
    assert {*keys_of_answer(exchange)} & {*_produce(producer=7, connection=2).waits_for}


def test_deleted_records_wait_for_those_produced() -> None:
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 5}]}]
    delete = _keys(DELETE_RECORDS, 1, {"topics": topics}, 2)
    assert _waits(delete, _produce(connection=1))
    assert not _waits(delete, _produce(partition=1, connection=1))


def test_a_topic_is_one_whether_it_is_named_or_quoted_by_its_id() -> None:
    by_id = _keys(PRODUCE, 13, {"topic_data": [{"topic_id": TOPIC_ID, "partition_data": [{"index": 0}]}]}, 2)
    assert _waits(by_id, _produce(connection=1))


def test_a_request_that_names_a_topic_waits_for_its_creation() -> None:
    made = _keys(CREATE_TOPICS, 5, {"topics": [{"name": "orders"}, {"name": "other"}]}, 1)
    fetch = _keys(FETCH, 11, {"topics": [{"topic": "orders", "partitions": []}]}, 2)
    assert _waits(_produce(connection=2), made)
    assert _waits(fetch, made)
    assert not _waits(_produce(topic="third", connection=2), made)


def test_a_topic_is_deleted_after_what_used_it() -> None:
    deletes = _keys(DELETE_TOPICS, 3, {"topic_names": ["orders"]}, 2)
    assert _waits(deletes, _produce(connection=1))
    assert not _waits(_produce(connection=1), _produce(partition=1, connection=2))


def test_a_request_that_can_not_be_read_waits_for_its_connection_alone() -> None:
    exchange = Exchange(Origin("s", 1, 0), METADATA, 12, b"\x00", 0, 0, Peer("h", None))
    assert keys(exchange, lambda _: None).waits_for == [("connection", "s", 1)]


def test_records_are_deleted_after_what_read_them() -> None:
    delete = _keys(DELETE_RECORDS, 1, {"topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]}, 2)
    of_orders = ({"topics": [{"topic": "orders", "partitions": [{"partition": index}]}]} for index in (0, 1))
    fetch, other = (_keys(FETCH, 11, values, 1) for values in of_orders)
    assert _waits(delete, fetch)
    assert not _waits(delete, other)


@each_row(
    ("key", "version", "values"),
    [
        (DESCRIBE_CONFIGS, 4, {"resources": [{"resource_type": 2, "resource_name": "orders"}]}),
        (INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [{"resource_type": 2, "resource_name": "orders"}]}),
        (DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": "orders"}]}),
        (DESCRIBE_LOG_DIRS, 4, {"topics": [{"topic": "orders"}]}),
        (ELECT_LEADERS, 2, {"topic_partitions": [{"topic": "orders", "partitions": [0]}]}),
        (LIST_PARTITION_REASSIGNMENTS, 0, {"topics": [{"name": "orders", "partition_indexes": [0]}]}),
        (LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None}),
        (METADATA, 12, {"topics": None}),
        (ADD_PARTITIONS_TO_TXN, 3, {"v3_and_below_topics": [{"name": "orders", "partitions": [0]}]}),
        (ADD_PARTITIONS_TO_TXN, 4, {"transactions": [{"topics": [{"name": "orders", "partitions": [0]}]}]}),
        # also in a later heartbeat, which no longer names what its member subscribes to
        (CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": "g", "member_id": "m", "subscribed_topic_names": None}),
        (SHARE_GROUP_HEARTBEAT, 1, {"group_id": "g", "member_id": "m", "subscribed_topic_names": None}),
        (STREAMS_GROUP_HEARTBEAT, 0, {"group_id": "g", "member_id": "m", "topology": None}),
    ],
    ids=[
        *("settings", "changed settings", "partitions", "logs", "leaders", "moves", "all moves", "all topics"),
        *("transaction", "transactions", "newer group", "share group", "streams group"),
    ],
)
def test_a_query_of_a_topic_comes_after_its_creation_and_before_its_deletion(
    key: int, version: int, values: dict[str, Any]
) -> None:
    looks = _keys(key, version, values, 1)
    assert _waits(looks, _keys(CREATE_TOPICS, 5, {"topics": [{"name": "orders"}]}, 2))
    assert _waits(_keys(DELETE_TOPICS, 3, {"topic_names": ["orders"]}, 2), looks)


def test_settings_are_read_after_what_changed_them() -> None:
    topic, broker = ({"resources": [{"resource_type": kind, "resource_name": "1"}]} for kind in (2, 4))
    changed = _keys(INCREMENTAL_ALTER_CONFIGS, 1, topic, 1)
    assert _waits(_keys(DESCRIBE_CONFIGS, 4, topic, 2), changed)
    assert not _waits(_keys(DESCRIBE_CONFIGS, 4, broker, 2), changed)


@each_row(
    ("key", "version", "values"),
    [
        (DESCRIBE_GROUPS, 5, {"groups": ["g"]}),
        (CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["g"]}),
        (SHARE_GROUP_DESCRIBE, 1, {"group_ids": ["g"]}),
        (DESCRIBE_SHARE_GROUP_OFFSETS, 0, {"groups": [{"group_id": "g"}]}),
        (SHARE_FETCH, 1, {"group_id": "g"}),
        (SHARE_ACKNOWLEDGE, 1, {"group_id": "g"}),
    ],
    ids=["classic", "consumers", "shares", "offsets", "fetch", "acknowledge"],
)
def test_a_query_of_a_group_comes_after_its_members_requests(key: int, version: int, values: dict[str, Any]) -> None:
    looks, joins = _keys(key, version, values, 2), _keys(SHARE_GROUP_HEARTBEAT, 1, {"group_id": "g"}, 1)
    assert _waits(looks, joins)
    assert not _waits(joins, looks)


def test_a_share_group_is_described_after_what_it_acknowledged() -> None:
    described = _keys(DESCRIBE_SHARE_GROUP_OFFSETS, 0, {"groups": [{"group_id": "g"}]}, 2)
    acknowledge = _keys(SHARE_ACKNOWLEDGE, 1, {"group_id": "g"}, 1)
    assert _waits(described, acknowledge)
    # members don't wait for other members' polls
    assert not _waits(_keys(SHARE_FETCH, 1, {"group_id": "g"}, 2), acknowledge)


@pytest.mark.parametrize("key", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
def test_records_are_acknowledged_behind_what_wrote_them(key: int) -> None:
    one = {"first_offset": 5, "last_offset": 5, "acknowledge_types": [1]}
    partitions = [{"partition_index": 0, "acknowledgement_batches": [one]}, {"partition_index": 1}]
    acknowledges = _keys(key, 1, {"group_id": "g", "topics": [{"topic_id": TOPIC_ID, "partitions": partitions}]}, 2)
    assert _waits(acknowledges, _produce(connection=1))
    assert not _waits(acknowledges, _produce(partition=1, connection=1))
    assert not _waits(_produce(connection=1), acknowledges)


@pytest.mark.parametrize("key", [ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS])
def test_requests_that_show_where_a_share_group_begins_wait_for_its_changes(key: int) -> None:
    changes = _keys(key, 0, {"group_id": "g", "topics": [{"topic_name": "orders"}]}, connection=2)
    joins = _keys(SHARE_GROUP_HEARTBEAT, 1, {"group_id": "g", "member_id": "m", "member_epoch": 0})
    told = {"groups": [{"group_id": "g", "topics": [{"topic_name": "orders", "partitions": [0]}]}]}
    describes = _keys(DESCRIBE_SHARE_GROUP_OFFSETS, 0, told)
    another = _keys(SHARE_GROUP_HEARTBEAT, 1, {"group_id": "h", "member_id": "m", "member_epoch": 0})
    made = _keys(CREATE_TOPICS, 7, {"topics": [{"name": "orders"}], "timeout_ms": 1}, connection=3)
    for later, earlier in (
        (joins, changes),
        (describes, changes),
        (changes, joins),
        (changes, made),
        (describes, made),
    ):
        assert _waits(later, earlier)
    assert not _waits(another, changes)

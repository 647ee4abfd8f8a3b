"""Tests that each partition in a message is found, by api and version."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire import api_name, catalog, kafka07, keys, records, uuid_text, versions
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.records import ControlType
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from recorder.facts.topics import PARTITION_APIS
from tests.recorder.facts.frames import own, request, response
from tests.tables import each_row

ID = bytes(range(16))
BATCH = records.write_batch([records.Record(7, value=b"a"), records.Record(8, value=b"b")])


def test_a_produce_request_tells_bytes_and_records() -> None:
    values = {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 3, "records": BATCH}]}]}
    (row,) = own(TOPIC_PARTITIONS, request(0, 9, values))
    assert row == {"topic": "t", "partition": 3, "bytes": len(BATCH), "records": 2, "acks": -1}


def test_markers_of_transactions_are_bytes_but_no_records() -> None:
    """Otherwise, more records would be read from a topic than were written to it."""
    marker = records.end_marker_batch(
        ControlType.COMMIT, offset=2, timestamp=0, producer_id=1, producer_epoch=0, coordinator_epoch=0
    )
    partition = {"partition_index": 0, "records": BATCH + marker}
    (row,) = own(TOPIC_PARTITIONS, response(1, 12, {"responses": [{"topic": "t", "partitions": [partition]}]}))
    assert (row["bytes"], row["records"]) == (len(BATCH) + len(marker), 2)


def test_a_topic_without_a_name_is_shown_by_its_id() -> None:
    values = {"topics": [{"topic_id": ID, "partitions": [{"partition": 1, "fetch_offset": 5}]}]}
    (row,) = own(TOPIC_PARTITIONS, request(1, 13, values))
    assert row == {"topic_id": uuid_text(ID), "partition": 1, "fetch_offset": 5}


def test_offsets_of_minus_one_are_null_and_error_codes_are_not() -> None:
    partition = {"partition_index": 0, "error_code": -1, "high_watermark": -1, "last_stable_offset": 4, "records": b""}
    values = {"responses": [{"topic": "t", "partitions": [partition]}]}
    (row,) = own(TOPIC_PARTITIONS, response(1, 11, values))
    told = {"topic": "t", "partition": 0, "error_code": -1, "last_stable_offset": 4, "bytes": 0, "records": 0}
    assert row == told


@pytest.mark.parametrize("version", [0, 7, 8, 9], ids=["v0", "v7", "v8", "v9"])
def test_the_group_is_a_column_wherever_the_version_has_it(version: int) -> None:
    topic = {"name": "t", "partition_indexes": [2]}
    values = {"group_id": "g", "topics": [topic], "groups": [{"group_id": "g", "topics": [topic]}]}
    assert own(TOPIC_PARTITIONS, request(9, version, values)) == [{"topic": "t", "partition": 2, "group_id": "g"}]


@pytest.mark.parametrize("version", [3, 4], ids=["one", "several"])
def test_the_transaction_is_a_column_wherever_the_version_has_it(version: int) -> None:
    topics = [{"name": "t", "partitions": [0, 1]}]
    values = {
        "transactions": [{"transactional_id": "x", "topics": topics}],
        "v3_and_below_transactional_id": "x",
        "v3_and_below_topics": topics,
    }
    found = own(TOPIC_PARTITIONS, request(24, version, values))
    assert [(row["partition"], row["transactional_id"]) for row in found] == [(0, "x"), (1, "x")]


def test_kafka_0_7_names_its_partitions_in_requests() -> None:
    frame = kafka07.encode_request(kafka07.MultiFetch((kafka07.Fetch("t", 2, 0, 9), kafka07.Fetch("u", 0, 7, 9))))
    row = request(1, 12, {}, dialect="kafka-0.7", api_key=2, api_version=None, api="0.7/multifetch")
    found = own(TOPIC_PARTITIONS, row | {"frame": frame, "size": len(frame), "stored": len(frame)})
    assert found == [{"topic": "t", "partition": 2}, {"topic": "u", "partition": 0}]


@each_row("side", ["request", "response"])
@each_row("key", PARTITION_APIS, ids=api_name)
def test_the_partition_of_every_api_and_version_is_found(side: Any, key: int) -> None:
    """Every array of the message has one element, so there is one partition, with a topic or its id."""
    for version in versions(key):
        codec = catalog.must(side, key, version)
        values = _filled(layout(codec.message, version))
        make = request if side == "request" else response
        found = own(TOPIC_PARTITIONS, make(key, version, values))
        assert found, version
        for row in found:
            assert row["partition"] == 5, version
            assert ("topic" in row) or ("topic_id" in row), version
            assert "unread" not in row


def _filled(struct: Struct) -> dict[str, Any]:
    """Returns a message with a value in every field that names a partition, and one element in every array."""
    values = {slot.name: _value(slot) for slot in struct}
    return {name: value for name, value in values.items() if value is not None}


def _value(slot: Slot) -> Any:
    one: Any = None
    if slot.struct is not None:
        one = _filled(slot.struct)
    elif "partition" in slot.name or slot.name == "index":
        one = 5
    elif slot.name == "topic_id":
        one = ID
    elif slot.name in ("name", "topic", "topic_name"):
        one = "t"
    return [one] if slot.array and one is not None else one


def test_the_apis_that_clients_read_and_write_by_name_partitions() -> None:
    assert {*PARTITION_APIS} >= {keys.PRODUCE, keys.FETCH, keys.OFFSET_COMMIT, keys.SHARE_FETCH}

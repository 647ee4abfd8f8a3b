"""Tests of user data of Kafka Streams' assignor, as kafka-streams 4.3.1 writes it in each version.

No broker has that jar, so its bytes are here in hex.
"""

from typing import Any

from proxy.wire import embedded
from proxy.wire.embedded import Embedded, decode_field, encode_blob, expand
from tests.tables import each_row

SUBSCRIPTIONS = {
    1: ("000000010000000000000001000000000000000200000001000000030000000400000000"),
    2: ("00000002000000000000000100000000000000020000000100000003000000040000000000000003683a31"),
    3: ("000000030000000b000000000000000100000000000000020000000100000003000000040000000000000003683a31"),
    4: ("000000040000000b000000000000000100000000000000020000000100000003000000040000000000000003683a31"),
    5: ("000000050000000b000000000000000100000000000000020000000100000003000000040000000000000003683a31"),
    6: ("000000060000000b000000000000000100000000000000020000000100000003000000040000000000000003683a31"),
    7: (
        "000000070000000b0000000000000001000000000000000200000003683a31000000010000000500000001000000060000000000000007"
    ),
    8: (
        "000000080000000b0000000000000001000000000000000200000003683a310000000100000005000000010000000600"
        "0000000000000709"
    ),
    9: (
        "000000090000000b0000000000000001000000000000000200000003683a310000000100000005000000010000000600"
        "00000000000007090000000a"
    ),
    10: (
        "0000000a0000000b0000000000000001000000000000000200000003683a310000000100000005000000060000000000"
        "000007ffff090000000a"
    ),
    11: (
        "0000000b0000000b0000000000000001000000000000000200000003683a310000000100000005000000060000000000"
        "00000700026e74090000000a00000001000000016b0000000176"
    ),
}
ASSIGNMENTS = {
    1: ("0000000100000002000000010000000200000001000000030000000100000005000000040000000100017400000004"),
    2: (
        "000000020000000200000001000000020000000100000003000000010000000500000004000000010001740000000400"
        "000001000168000000500000000100017400000004"
    ),
    3: (
        "000000030000000b00000002000000010000000200000001000000030000000100000005000000040000000100017400"
        "00000400000001000168000000500000000100017400000004"
    ),
    4: (
        "000000040000000b00000002000000010000000200000001000000030000000100000005000000040000000100017400"
        "0000040000000100016800000050000000010001740000000400000006"
    ),
    5: (
        "000000050000000b00000002000000010000000200000001000000030000000100000005000000040000000100017400"
        "0000040000000100000000000174000000010001680000005000000001000000000000000400000006"
    ),
    6: (
        "000000060000000b00000002000000010000000200000001000000030000000100000005000000040000000100017400"
        "000004000000010000000000017400000001000168000000500000000100000000000000040000000100016700000051"
        "00000001000000000000000400000006"
    ),
    7: (
        "000000070000000b00000002000000010000000200000001000000030000000100000005000000040000000100017400"
        "000004000000010000000000017400000001000168000000500000000100000000000000040000000100016700000051"
        "000000010000000000000004000000060000000000000063"
    ),
    8: (
        "000000080000000b00000002000000010000000200000001000000030000000100000005000000040000000100017400"
        "000004000000010000000000017400000001000168000000500000000100000000000000040000000100016700000051"
        "000000010000000000000004000000060000000000000063"
    ),
    9: (
        "000000090000000b00000002000000010000000200000001000000030000000100000005000000040000000100017400"
        "000004000000010000000000017400000001000168000000500000000100000000000000040000000100016700000051"
        "000000010000000000000004000000060000000000000063"
    ),
    10: (
        "0000000a0000000b00000002000000010000000200000000000000010000000300000002006e00740000000100000005"
        "000000040000000000000001000174000000040000000100000000000174000000010001680000005000000001000000"
        "00000000040000000100016700000051000000010000000000000004000000060000000000000063"
    ),
    11: (
        "0000000b0000000b00000002000000010000000200000000000000010000000300000002006e00740000000100000005"
        "000000040000000000000001000174000000040000000100000000000174000000010001680000005000000001000000"
        "00000000040000000100016700000051000000010000000000000004000000060000000000000063"
    ),
}

TASK = {"topic_group_id": 5, "partition": 6, "offset_sum": 7}
ON_T = [{"topic": "t", "partition": 4}]
BY_INDEX = [{"topic_index": 0, "partition": 4}]


def only(values: dict[str, tuple[range, Any]], version: int) -> dict[str, Any]:
    """Returns the values that this version has."""
    return {name: value for name, (versions, value) in values.items() if version in versions}


def subscribed(version: int) -> dict[str, Any]:
    old = {"topic_group_id": 5, "partition_to_offset_sum": [{"partition": 6, "offset_sum": 7}]}
    new = TASK | {"named_topology": "nt" if version == 11 else None}
    return only(
        {
            "version": (range(1, 12), version),
            "latest_supported_version": (range(3, 12), 11),
            "process_id": (range(1, 12), bytes(7) + b"\x01" + bytes(7) + b"\x02"),
            "prev_tasks": (range(1, 7), [{"topic_group_id": 3, "partition": 4}]),
            "standby_tasks": (range(1, 7), []),
            "user_end_point": (range(2, 12), b"h:1"),
            "task_offset_sums": (range(7, 12), [old if version < 10 else new]),
            "unique_field": (range(8, 12), 9),
            "error_code": (range(9, 12), 10),
            "client_tags": (range(11, 12), [{"key": b"k", "value": b"v"}]),
        },
        version,
    )


def task(version: int, group: int, partition: int, topology: str = "") -> dict[str, Any]:
    named = {"named_topology": [ord(letter) for letter in topology]} if version >= 10 else {}
    return {"topic_group_id": group, "partition": partition} | named


def assigned(version: int) -> dict[str, Any]:
    return only(
        {
            "version": (range(1, 12), version),
            "commonly_supported_version": (range(3, 12), 11),
            "active_tasks": (range(1, 12), [task(version, 1, 2), task(version, 1, 3, "nt")]),
            "standby_tasks": (range(1, 12), [{"task": task(version, 5, 4), "partitions": ON_T}]),
            "partitions_by_host": (range(2, 5), [{"host": "h", "port": 80, "partitions": ON_T}]),
            "topics": (range(5, 12), [{"index": 0, "topic": "t"}]),
            "active_by_host": (range(5, 12), [{"host": "h", "port": 80, "partitions": BY_INDEX}]),
            "standby_by_host": (range(6, 12), [{"host": "g", "port": 81, "partitions": BY_INDEX}]),
            "error_code": (range(4, 12), 6),
            "next_rebalance_ms": (range(7, 12), 99),
        },
        version,
    )


@each_row("version", range(1, 12))
def test_subscriptions_of_kafka_streams_are_read_and_written(version: int) -> None:
    data, codec = bytes.fromhex(SUBSCRIPTIONS[version]), embedded.codec("SubscriptionInfoData", version)
    assert codec
    found = decode_field("ConsumerProtocolSubscription", "user_data", data, protocol="stream")
    assert found == Embedded("SubscriptionInfoData", version, subscribed(version))
    assert codec.encode(subscribed(version)) == data


@each_row("version", range(1, 12))
def test_assignments_of_kafka_streams_are_read_and_written(version: int) -> None:
    data, codec = bytes.fromhex(ASSIGNMENTS[version]), embedded.codec("AssignmentInfo", version)
    assert codec
    found = decode_field("ConsumerProtocolAssignment", "user_data", data, protocol="stream")
    assert found == Embedded("AssignmentInfo", version, assigned(version))
    assert codec.encode(assigned(version)) == data


def test_user_data_of_streams_is_shown_within_its_blob() -> None:
    data = bytes.fromhex(ASSIGNMENTS[11])
    blob = encode_blob("ConsumerProtocolAssignment", 0, {"assigned_partitions": [], "user_data": data})
    values = {"protocol_type": "consumer", "protocol_name": "stream", "assignment": blob}
    shown = expand("response", 14, values)["assignment"]["values"]["user_data"]
    assert shown == {"message": "AssignmentInfo", "version": 11, "values": assigned(11)}

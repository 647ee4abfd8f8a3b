"""Exchanges to show: rows as a capture's readers make them, paired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.wire import records
from proxy.wire.keys import END_TXN, FETCH, HEARTBEAT, OFFSET_COMMIT, PRODUCE, TXN_OFFSET_COMMIT
from recorder.capture import frames as c
from recorder.capture.reader import ALL, Row
from recorder.page.recent import Recent
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair, pairs
from tests.recorder.small_capture import request, response

VERSIONS = {FETCH: 11, HEARTBEAT: 4, OFFSET_COMMIT: 8, PRODUCE: 9, TXN_OFFSET_COMMIT: 3, END_TXN: 3}
SESSION = "20261121T120000Z-abc"
Values = Mapping[str, Any]


def rows_of(
    number: int,
    key: int,
    asked: Values,
    told: Values | None,
    *,
    connection: int = 1,
    second: float | None = None,
    **head: Any,
) -> Iterator[Row]:
    """The rows of an exchange, a second after the one before unless `second` says otherwise."""
    second = number if second is None else second
    shared = {c.EXCHANGE: number, c.CLUSTER: "main", c.LISTENER: "127.0.0.1:9092", **head}
    found = [request(second, connection, 2 * number, key, VERSIONS[key], values=asked, **shared)]
    if told is not None:
        found.append(response(second + 0.002, connection, 2 * number + 1, key, VERSIONS[key], values=told, **shared))
    for row in found:
        yield dict.fromkeys(ALL) | row


def exchange(number: int, key: int, asked: Values, told: Values | None, **head: Any) -> Pair:
    """An exchange, with its bodies."""
    (found,) = pairs(rows_of(number, key, asked, told, **head), with_bodies=True)
    return found


def heartbeat(number: int, group: str = "g", code: int = 0, **head: Any) -> Pair:
    return exchange(number, HEARTBEAT, {"group_id": group, "member_id": "m"}, {"error_code": code}, **head)


def produce(
    number: int,
    topic: str = "orders",
    *,
    code: int = 0,
    base: int = 0,
    value: bytes = b"v",
    key: bytes = b"k",
    **head: Any,
) -> Pair:
    """A record that is produced to partition 0."""
    batch = records.write_batch([records.Record(0, 1000, key, value)])
    asked = {"acks": -1, "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]}
    partition = {"index": 0, "error_code": code, "base_offset": base}
    return exchange(
        number, PRODUCE, asked, {"responses": [{"name": topic, "partition_responses": [partition]}]}, **head
    )


def commit(number: int, group: str, topic: str, offset: int, *, transaction: str | None = None, **head: Any) -> Pair:
    """A commit of partition 0; `transaction`: the transactional id that it is made with."""
    partition = {"partition_index": 0, "committed_offset": offset}
    asked = {"group_id": group, "topics": [{"name": topic, "partitions": [partition]}]}
    told = {"topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}
    if transaction is None:
        return exchange(number, OFFSET_COMMIT, asked, told, **head)
    return exchange(number, TXN_OFFSET_COMMIT, asked | {"transactional_id": transaction}, told, **head)


def end(number: int, transaction: str, *, committed: bool) -> Pair:
    return exchange(number, END_TXN, {"transactional_id": transaction, "committed": committed}, {})


def fetch(number: int, topic: str, high_watermark: int, **head: Any) -> Pair:
    asked = {"max_wait_ms": 500, "topics": [{"topic": topic, "partitions": [{"partition": 0}]}]}
    partition = {"partition_index": 0, "high_watermark": high_watermark}
    return exchange(number, FETCH, asked, {"responses": [{"topic": topic, "partitions": [partition]}]}, **head)


def recent(*found: Pair, most_bytes: int = 1 << 30, **how: Any) -> Recent:
    """What keeps exchanges, with these in it."""
    kept = Recent(Told(), most_bytes=most_bytes, **how)
    for pair in found:
        kept.take(pair)
    return kept

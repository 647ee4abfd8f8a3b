"""Tests of a capture's tables against Kafka's own tools and clients, without traffic."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message, Producer, TopicPartition

from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.harness import PROGRAM, compact, proxied
from tests.clients.workloads import CODECS, confluent, exactly_once, fresh

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(1200)]
PARTITIONS = 3
# the names of `kafka-transactions` for the states of a transaction
STATES = {"committed": "CompleteCommit", "aborted": "CompleteAbort", None: "Ongoing"}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
KINDS = ("committed", "aborted")
Row = dict[str, Any]


@dataclass
class Seen:
    """A capture, the tools' output without traffic, and the records that consumers read before."""

    capture: Path
    topic: str
    transactions: dict[str, Row] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    partitions: dict[int, tuple[int, list[int], list[int]]] = field(default_factory=dict)
    read: dict[str, set[tuple[Any, ...]]] = field(default_factory=dict)

    def table(self, name: str) -> list[Row]:
        """Returns all rows of a table."""
        out = self.capture.parent / "tables" / name
        command = [*PROGRAM, "analyze", str(self.capture), "--table", name, "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        rows: list[Row] = pq.read_table(out).to_pylist()
        return rows

    @cached_property
    def records(self) -> list[Row]:
        """Returns the topic's records in responses."""
        return [row for row in self.table("records") if row["topic"] == self.topic and row["side"] == "response"]


@pytest.fixture(scope="module")
def seen(kafka_three: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("tables")
    with proxied(kafka_three, folder) as proxy:
        found = worked(kafka_three, proxy.bootstrap, proxy.capture)
    compact(proxy.capture)
    return found


def worked(cluster: KafkaCluster, bootstrap: str, capture: Path) -> Seen:
    """Runs all traffic, then the tools; returns what they found. No producer runs afterwards."""
    exactly_once.java_copies(cluster, bootstrap)
    found = Seen(capture, confluent.create_topic(bootstrap, "rest", PARTITIONS))
    held = writes(bootstrap, found.topic)
    found.read = {level: reads(bootstrap, found.topic, level) for level in (COMMITTED, UNCOMMITTED)}
    asks(cluster, found)
    held.abort_transaction(PATIENCE)
    return found


def writes(bootstrap: str, topic: str) -> Producer:
    """Writes records of all codecs with keys, headers and tombstones, in committed and aborted transactions or in none.

    The returned producer has an open transaction.
    """
    for codec in CODECS:
        plain = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        fill(plain, topic, f"plain {codec}")
        inside = transactional(bootstrap, codec)
        for kind in KINDS:
            inside.begin_transaction()
            fill(inside, topic, f"{kind} {codec}")
            end = inside.commit_transaction if kind == "committed" else inside.abort_transaction
            end(PATIENCE)
    # the open transaction comes after all others, because read-committed consumers stop there
    held = transactional(bootstrap, "none")
    held.begin_transaction()
    held.produce(fresh_topic(bootstrap), b"held", partition=0)
    assert held.flush(PATIENCE) == 0
    return held


def fresh_topic(bootstrap: str) -> str:
    return confluent.create_topic(bootstrap, "held", 1)


def transactional(bootstrap: str, codec: str) -> Producer:
    settings = {"transactional.id": fresh("rest"), "compression.type": codec, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": bootstrap} | settings)
    producer.init_transactions(PATIENCE)
    return producer


def fill(producer: Producer, topic: str, label: str) -> None:
    """Sends some records to each partition: a tombstone, one without a key, headers with and without a value."""
    for partition in range(PARTITIONS):
        for number in range(8):
            value = None if number == 3 else f"{label} {number} ".encode() * 20
            headers: list[tuple[str, str | bytes | None]] = (
                [("name", label.encode()), ("nothing", None)] if number % 2 else []
            )
            producer.produce(topic, value, None if number == 5 else b"key %d" % number, partition, headers=headers)
    assert producer.flush(PATIENCE) == 0


def reads(bootstrap: str, topic: str, level: str) -> set[tuple[Any, ...]]:
    """Returns all records for a consumer of this isolation level."""
    places = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    with closing(confluent.consumer(bootstrap, **{"isolation.level": level, "enable.partition.eof": True})) as reader:
        reader.assign(places)
        got, ended = [], set()

        def is_read() -> bool:
            for message in reader.consume(500, 0.2):
                if message.error() is None:
                    got.append(of_message(message))
                else:
                    ended.add(message.partition())
            return len(ended) == PARTITIONS

        wait_for(is_read, f"the end of {topic}")
    assert len(set(got)) == len(got)
    return set(got)


def of_message(message: Message) -> tuple[Any, ...]:
    headers = tuple(confluent.headers_of(message))
    return message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(), headers


def of_row(row: Row) -> tuple[Any, ...]:
    headers = tuple((one["name"], one["value"]) for one in row["headers"])
    return row["partition"], row["offset"], row["timestamp_ms"], row["key"], row["value"], headers


def asks(cluster: KafkaCluster, found: Seen) -> None:
    """Asks Kafka's tools, directly at the brokers."""
    at = ["--bootstrap-server", cluster.bootstrap]
    for name in lines(cluster.console("kafka-transactions", *at, "list").stdout, "TransactionalId"):
        told = cluster.console("kafka-transactions", *at, "describe", "--transactional-id", name).stdout
        (found.transactions[name],) = lines(told, "TransactionalId").values()
    offsets = cluster.console("kafka-get-offsets", *at, "--topic", found.topic).stdout
    found.ends = {int(number): int(end) for _, number, end in (line.split(":") for line in offsets.split())}
    described = cluster.console("kafka-topics", *at, "--describe", "--topic", found.topic).stdout
    for line in described.splitlines():
        row = dict(part.split(": ", 1) for part in line.strip().split("\t") if ": " in part)
        if "Partition" in row:
            replicas, in_sync = ([*map(int, row[name].split(","))] for name in ("Replicas", "Isr"))
            found.partitions[int(row["Partition"])] = int(row["Leader"]), replicas, in_sync


def lines(text: str, key: str) -> dict[str, Row]:
    """Returns the rows of a tool's table, by one of its columns."""
    head, *rows = [line.split("\t") for line in text.splitlines() if "\t" in line]
    named = [dict(zip(map(str.strip, head), map(str.strip, row), strict=True)) for row in rows]
    return {row[key]: row for row in named}


def test_records_are_those_that_consumers_read_and_the_aborted_ones_are_marked(seen: Seen) -> None:
    data = [row for row in seen.records if row["control"] is None]
    assert {row["unread"] for row in data} == {None}
    assert {row["codec"] for row in data} == {*CODECS}
    assert {of_row(row) for row in data} == seen.read[UNCOMMITTED]
    kept = {of_row(row) for row in data if row["transaction"] != "aborted"}
    assert kept - seen.read[COMMITTED] == set()
    assert {of_row(row) for row in data if row["transaction"] == "aborted"} == seen.read[UNCOMMITTED] - seen.read[
        COMMITTED
    ]
    assert len(seen.read[UNCOMMITTED]) == 3 * len(CODECS) * PARTITIONS * 8


def test_the_last_transaction_of_each_producer_is_what_the_coordinator_says(seen: Seen) -> None:
    last: dict[str, Row] = {}
    for row in sorted(seen.table("transactions"), key=lambda row: row["begun_at"]):
        last[row["transactional_id"]] = row
    told = {name: seen.transactions[name] for name in last}
    assert {name: row["producer_id"] for name, row in last.items()} == {
        name: int(row["ProducerId"]) for name, row in told.items()
    }
    # the open transaction was aborted afterwards
    states = {row["TransactionState"] for row in told.values()}
    assert {"CompleteCommit", "CompleteAbort", "Ongoing"} <= states
    wrong = {name: (row, told[name]) for name, row in last.items() if not agrees(row, told[name])}
    assert wrong == {}


def agrees(row: Row, told: Mapping[str, str]) -> bool:
    """True if a transaction is as the coordinator has it."""
    if told["TransactionState"] == "Ongoing":
        # the transaction ended after the tools had run
        is_there = row["partitions"] == len(told["TopicPartitions"].split(",")) and row["outcome"] == "aborted"
        return bool(is_there and row["producer_epoch"] == int(told["ProducerEpoch"]))
    # from Kafka 4 on, the coordinator increases the epoch at each end
    epochs = (row["producer_epoch"], row["producer_epoch"] + 1)
    return told["TransactionState"] == STATES[row["outcome"]] and int(told["ProducerEpoch"]) in epochs


def test_ends_are_those_of_the_logs(seen: Seen) -> None:
    ends: dict[int, int] = {}
    for row in seen.table("topic_partitions"):
        if row["topic"] == seen.topic and row["high_watermark"] is not None and row["side"] == "response":
            ends[row["partition"]] = max(row["high_watermark"], ends.get(row["partition"], 0))
    assert ends == seen.ends


def test_leaders_and_replicas_are_those_of_the_cluster(seen: Seen) -> None:
    states: dict[int, tuple[int, list[int], list[int]]] = {}
    for row in sorted(seen.table("metadata_changes"), key=lambda row: row["at"]):
        if row["topic"] == seen.topic and row["partition"] is not None:
            states[row["partition"]] = (row["leader"], row["replicas"], row["isr"])
    in_sync = {number: (leader, replicas, sorted(isr)) for number, (leader, replicas, isr) in seen.partitions.items()}
    assert states == in_sync


def test_each_batch_is_delivered_once_and_later_than_it_was_produced(seen: Seen) -> None:
    """Its offsets are those of the consumers' records, without holes except for the brokers' markers."""
    found = [row for row in seen.table("deliveries") if row["topic"] == seen.topic]
    assert all(row["delivery_ms"] > 0 for row in found)
    ours = sorted(
        (row["partition"], offset)
        for row in found
        for offset in range(row["base_offset"], row["base_offset"] + row["records"])
    )
    assert ours == sorted(message[:2] for message in seen.read[UNCOMMITTED])

"""Copies from topic to topic in transactions: the reads commit with the writes, or neither does.

Each partition of the source has `EACH` records, each with a value of its own. After every copy there is a plain record:
read-committed consumers get it when all transactions before it have ended, so nothing can come after it.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.brokers.jars import class_path, java
from tests.brokers.kafka import JVM, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads import confluent, fresh
from tests.clients.workloads.programs import at_once

COPY = Path(__file__).parents[2] / "java" / "Copy.java"
PARTITIONS, EACH = 2, 200
IN_A_TRANSACTION = 20
# `Copy`'s exit code after it was told to die
DIED = 9
END = b"nothing after this"


def java_copies(cluster: KafkaCluster, bootstrap: str) -> None:
    """A program that aborts, dies within a transaction and starts again; and the one of Kafka's system tests."""
    source, own, kafkas = (confluent.create_topic(bootstrap, name, PARTITIONS) for name in ("source", "own", "kafkas"))
    wanted = fill(bootstrap, source)
    program = [java(), *JVM, "-cp", class_path(), str(COPY), bootstrap, source, own, str(PARTITIONS)]
    copy = [*program, fresh("copy"), fresh("copy"), str(EACH)]
    at_once([[*copy, str(EACH // 2 + 7)]], code=DIED)
    at_once([[*copy, "-1"], _kafkas_copy(cluster, bootstrap, source, kafkas)])
    check_copied(bootstrap, own, wanted)
    check_copied(bootstrap, kafkas, wanted)


def confluent_copies(bootstrap: str) -> None:
    """A group's only member aborts, and is fenced by a second producer within a transaction, which finishes."""
    source, copy = (confluent.create_topic(bootstrap, name, PARTITIONS) for name in ("source", "copy"))
    wanted = fill(bootstrap, source)
    group, transactions = fresh("copy"), fresh("copy")
    with closing(_copying_member(bootstrap, source, group)) as member:
        first = transactional(bootstrap, transactions)
        _copy_some(member, first, copy, stop_after=EACH)
        first.begin_transaction()
        first.produce(copy, b"never seen", partition=0)
        assert first.flush(PATIENCE) == 0
        second = transactional(bootstrap, transactions)
        assert _is_fenced(first)
        _copy_some(member, second, copy, stop_after=PARTITIONS * EACH)
    check_copied(bootstrap, copy, wanted)


def fill(bootstrap: str, topic: str) -> list[list[bytes]]:
    """Writes the values of each partition."""
    values = [f"{number}".encode() for number in range(PARTITIONS * EACH)]
    confluent.produce(bootstrap, topic, values, partitions=PARTITIONS)
    return [values[partition::PARTITIONS] for partition in range(PARTITIONS)]


def check_copied(bootstrap: str, topic: str, wanted: Sequence[Sequence[bytes]]) -> None:
    """A read-committed consumer must get each record once and in order."""
    confluent.produce(bootstrap, topic, [END] * PARTITIONS, partitions=PARTITIONS)
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    with closing(confluent.consumer(bootstrap, **settings)) as reader:
        reader.subscribe([topic])

        def is_at_the_end() -> bool:
            for message in reader.consume(500, 0.1):
                value = confluent.value_of(message)
                found[confluent.place_of(message).partition].append(value)
            return all(values and values[-1] == END for values in found)

        wait_for(is_at_the_end, f"the end of {topic}")
    assert found == [[*values, END] for values in wanted]


def _kafkas_copy(cluster: KafkaCluster, bootstrap: str, source: str, copy: str) -> list[str]:
    """Kafka's program aborts one transaction of three, at random."""
    what = ["--broker-list", bootstrap, "--input-topic", source, "--input-partition", "0", "--output-topic", copy]
    how = ["--transactional-id", fresh("copy"), "--consumer-group", fresh("copy"), "--group-mode"]
    often = ["--transaction-size", str(IN_A_TRANSACTION), "--enable-random-aborts", "--use-group-metadata"]
    return cluster.console_command("kafka-transactional-message-copier", *what, *how, *often)


def _copying_member(bootstrap: str, topic: str, group: str) -> Consumer:
    settings: dict[str, Any] = {"group.id": group, "group.protocol": "consumer", "isolation.level": "read_committed"}
    member = confluent.consumer(bootstrap, **{"auto.offset.reset": "earliest"} | settings)
    member.subscribe([topic])
    return member


def transactional(bootstrap: str, transactions: str) -> Producer:
    """A producer that may begin transactions."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactions, "log_level": 2})
    producer.init_transactions(PATIENCE)
    return producer


def _is_fenced(producer: Producer) -> bool:
    """True if another producer has fenced it. The error is not kept, because it would keep the producer alive."""
    try:
        producer.commit_transaction(PATIENCE)
    except KafkaException as error:
        return bool(error.args[0].fatal())
    return False


def _copy_some(member: Consumer, producer: Producer, copy: str, *, stop_after: int) -> None:
    """Copies until all copies together have so many records; every third transaction is aborted and begun again."""
    number = 0

    def copy_once() -> bool:
        nonlocal number
        if messages := member.consume(IN_A_TRANSACTION, 0.2):
            number += 1
            _transaction(member, producer, copy, messages, in_vain=number % 3 == 0)
        return sum(where.offset for where in _positions(member)) >= stop_after

    wait_for(copy_once, f"{stop_after} records to be copied")


def _transaction(member: Consumer, producer: Producer, copy: str, messages: list[Message], *, in_vain: bool) -> None:
    before: dict[int, TopicPartition] = {}
    producer.begin_transaction()
    for message in messages:
        value, where = confluent.value_of(message), confluent.place_of(message)
        before.setdefault(where.partition, where)
        producer.produce(copy, value, partition=where.partition)
    producer.send_offsets_to_transaction(_positions(member), member.consumer_group_metadata(), PATIENCE)
    if in_vain:
        producer.abort_transaction(PATIENCE)
        for where in before.values():
            member.seek(where)
    else:
        producer.commit_transaction(PATIENCE)


def _positions(member: Consumer) -> list[TopicPartition]:
    """Returns the next offsets of the partitions that it has read."""
    return [where for where in member.position(member.assignment()) if where.offset >= 0]

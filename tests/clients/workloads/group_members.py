"""Group members in threads of their own, offsets in transactions, and what Kafka's own tool says of all groups."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE
from tests.clients.workloads import confluent, fresh


class Member:
    """A consumer that polls in a thread of its own until it must leave; it commits what it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str = "classic", *, most: int = 10**9) -> None:
        settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        self._consumer: Consumer = confluent.consumer(bootstrap, **settings)
        self._consumer.subscribe([topic])
        # (partition, offset) of the records that it has read and committed
        self.read: set[tuple[int | None, int | None]] = set()
        self._most = most
        self._ends = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def leave(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.is_set():
            for message in self._consumer.consume(1, 0.2):
                assert message.error() is None
                if len(self.read) < self._most:
                    self._consumer.commit(message=message, asynchronous=False)
                self.read.add((message.partition(), message.offset()))
        self._consumer.close()


def have_read(group: Iterable[Member], count: int) -> bool:
    return len(set().union(*(one.read for one in group))) == count


@contextmanager
def member(*arguments: Any, **settings: Any) -> Iterator[Member]:
    one = Member(*arguments, **settings)
    try:
        yield one
    finally:
        one.leave()


def copies_exactly_once(bootstrap: str, group: str, topic: str) -> None:
    """Sends offsets in a transaction that is committed, and others in one that is aborted."""
    reader = confluent.consumer(bootstrap, **{"group.id": group})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": fresh("transaction")})
    producer.init_transactions(PATIENCE)
    for offset, finish in ((7, producer.commit_transaction), (9, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, b"copy", partition=0)
        offsets = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), PATIENCE)
        finish(PATIENCE)
    reader.close()


def described(cluster: KafkaCluster, what: str) -> list[dict[str, str]]:
    """Returns the output of Kafka's tool on all groups, asked directly."""
    where = ["--bootstrap-server", cluster.bootstrap, "--describe", "--all-groups", what]
    lines = cluster.console("kafka-consumer-groups", *where).stdout.splitlines()
    rows, names = [], []
    for line in lines:
        if line.startswith("GROUP "):
            names = line.split()
        elif names and line.strip():
            rows.append(dict(zip(names, line.split(), strict=False)))
    return rows

"""More consumers than their broker has slots for fetch sessions; and as many with a broker that has enough."""

from __future__ import annotations

from functools import partial

from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.clients.workloads.misuse import Client, Work

TOPICS = {"watched": 1}
# Kafka gives each of its eight caches an eighth of the slots
SLOTS = 8
SETTINGS = {"max.incremental.fetch.session.cache.slots": SLOTS}
READERS = 12


def clients(cluster: KafkaCluster) -> list[Client]:
    """Who writes, and who reads: all by kafka-python, but for one Java consumer."""
    by_kafka_python = [partial(reads_by_kafka_python, number=number) for number in range(1, READERS)]
    return [writes, partial(reads_by_java, cluster=cluster), *by_kafka_python]


def writes(work: Work) -> None:
    producer = Producer(work.settings("writer", **{"linger.ms": 0}))
    while work.goes_on(0.2):
        producer.produce("watched", b"value")
        producer.flush(30)


def reads_by_kafka_python(work: Work, number: int) -> None:
    consumer = KafkaConsumer(bootstrap_servers=work.bootstrap, client_id=f"reader of python, {number}")
    consumer.assign([TopicPartition("watched", 0)])
    while work.goes_on(0):
        consumer.poll(500)
    consumer.close()


def reads_by_java(work: Work, cluster: KafkaCluster) -> None:
    where = ["--bootstrap-server", work.bootstrap, "--topic", "watched", "--partition", "0", "--offset", "latest"]
    command = ["kafka-console-consumer", *where, "--command-property", "client.id=reader of java"]
    child = children.spawn(cluster.console_command(*command))
    while work.goes_on(1):
        assert child.poll() is None
    children.stop(child)

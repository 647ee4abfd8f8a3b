"""Clients of a cluster whose brokers all advertise the same address; and of one whose brokers have one each.

The clients are correct: the brokers' `advertised.listeners` is corrected.
"""

from __future__ import annotations

from functools import partial

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from tests.clients.workloads.misuse import Client, Work

# a partition for each of three nodes, which lead one each
TOPICS = {"routed": 3}
SENDER = "sender"
# The groups of each library. Three partitions keep the offsets of all groups, by a hash of their names: so each node
# coordinates one group of each library.
CONFLUENT_GROUPS, PYTHON_GROUPS = ("north", "west", "south"), ("east", "billing", "stock")


def sends_to_each_leader(work: Work) -> None:
    producer, number = Producer(work.settings(SENDER, **{"linger.ms": 0})), 0
    while work.goes_on(0.2):
        producer.produce("routed", b"value", partition=number % TOPICS["routed"])
        producer.poll(0)
        number += 1
    # what no leader took is not waited for
    producer.purge()


def reads_by_confluent_kafka(work: Work, group: str) -> None:
    consumer = Consumer(work.settings(group, **{"group.id": group}))
    consumer.subscribe(["routed"])
    while work.goes_on(0):
        consumer.poll(0.5)
    consumer.close()


def reads_by_kafka_python(work: Work, group: str) -> None:
    consumer = KafkaConsumer("routed", bootstrap_servers=work.bootstrap, client_id=group, group_id=group)
    while work.goes_on(0):
        consumer.poll(500)
    consumer.close()


CLIENTS: list[Client] = [
    sends_to_each_leader,
    *(partial(reads_by_confluent_kafka, group=group) for group in CONFLUENT_GROUPS),
    *(partial(reads_by_kafka_python, group=group) for group in PYTHON_GROUPS),
]

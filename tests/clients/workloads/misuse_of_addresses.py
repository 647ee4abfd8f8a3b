"""Clients of a cluster whose brokers advertise one and the same address; and of one whose brokers have one each.

The clients do nothing wrong: it is the brokers' `advertised.listeners` that is mended.
"""

from __future__ import annotations

from functools import partial

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from tests.clients.workloads.misuse import Client, Work

# a partition for each of three nodes, which lead one each
TOPICS = {"routed": 3}
# groups whose offsets three partitions keep: each node coordinates one group
GROUPS = ("north", "south", "west")


def sends_to_each_leader(work: Work) -> None:
    producer, number = Producer(work.settings("sender", **{"linger.ms": 0})), 0
    while work.goes_on(0.2):
        producer.produce("routed", b"value", partition=number % TOPICS["routed"])
        producer.poll(0)
        number += 1
    producer.purge()


def reads_with_confluent_kafka(work: Work, group: str) -> None:
    consumer = Consumer(work.settings(f"confluent {group}", **{"group.id": f"{group}"}))
    consumer.subscribe(["routed"])
    while work.goes_on(0):
        consumer.poll(0.5)
    consumer.close()


def reads_with_kafka_python(work: Work, group: str) -> None:
    own = {"bootstrap_servers": work.bootstrap, "client_id": f"python {group}", "group_id": group}
    consumer = KafkaConsumer("routed", **own)
    while work.goes_on(0):
        consumer.poll(500)
    consumer.close()


CLIENTS: list[Client] = [
    sends_to_each_leader,
    *(partial(reads, group=group) for reads in (reads_with_confluent_kafka, reads_with_kafka_python) for group in GROUPS),
]

"""Producers with short timeouts before a broker that pauses again and again, and corrected ones."""

from __future__ import annotations

import signal
import time
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.brokers.kafka import Node
from tests.clients.workloads.misuse import Client, Work

TOPICS = {"urgent": 1}
# a broker is still for so long in each window of the rules, so often; producers without patience wait half of that
STILL_SECONDS, EVERY_SECONDS, TIMES = 2.0, 5.0, 5
IMPATIENT_MS = 1000
PRODUCERS = 5


def stands_still(node: Node, first: float) -> None:
    """Stops the broker's process for a while, again and again, `first` seconds from now on."""
    assert node.child
    time.sleep(first)
    for _ in range(TIMES):
        node.child.send_signal(signal.SIGSTOP)
        try:
            time.sleep(STILL_SECONDS)
        finally:
            node.child.send_signal(signal.SIGCONT)
        time.sleep(EVERY_SECONDS - STILL_SECONDS)


def sends_again_soon(work: Work) -> None:
    _sends(work, {"socket.timeout.ms": IMPATIENT_MS, "request.timeout.ms": IMPATIENT_MS, "enable.idempotence": False})


def waits(work: Work) -> None:
    _sends(work, {"enable.idempotence": True})


def _sends(work: Work, own: dict[str, object]) -> None:
    """One record at a time: what is sent again is the same batch."""
    producer, name, number = Producer(work.settings("urgent", **own)), uuid4().hex, 0
    while work.goes_on(0.1):
        producer.produce("urgent", f"{name} {number}", partition=0)
        producer.flush(30)
        number += 1


def reads(work: Work) -> None:
    """Shows what stands in the log."""
    consumer = Consumer(work.settings("reader", **{"group.id": "reader", "enable.auto.commit": False}))
    consumer.assign([TopicPartition("urgent", 0, OFFSET_BEGINNING)])
    while work.goes_on(0):
        consumer.poll(0.5)
    consumer.close()


WITHOUT_PATIENCE: list[Client] = [*[sends_again_soon] * PRODUCERS, reads]
WITH_PATIENCE: list[Client] = [*[waits] * PRODUCERS, reads]

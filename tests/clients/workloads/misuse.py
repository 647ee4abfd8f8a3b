"""Clients that misbehave for a while, and corrected ones, each in a thread: from confluent-kafka, else kafka-python.

Each does one thing that a rule of `recorder.analysis.findings` looks for. None depends on the machine's speed: they
wait between their steps, and their thresholds (THRESHOLDS) are far below what they reach.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

PARTITIONS = 6
# of the rules whose thresholds are rates: a loaded machine is slow
THRESHOLDS = {
    "churn": 0.3,
    "metadata_storm": 0.3,
    "short_lived_producers": 0.2,
    "small_batches": 12.0,
    "unknown_topic": 0.3,
    "empty_fetches": 0.9,
}


# no codec makes it smaller
NOISE = random.Random(1).randbytes(1 << 20)


class Work(NamedTuple):
    """A cluster, and until when to go on (monotonic)."""

    bootstrap: str
    until: float

    def goes_on(self, pause: float) -> bool:
        """Waits; False when the time is over."""
        time.sleep(pause)
        return time.monotonic() < self.until

    def settings(self, client_id: str, **own: Any) -> dict[str, Any]:
        """The settings of a client."""
        return {"bootstrap.servers": self.bootstrap, "client.id": client_id} | own


def producer_for_each_message(work: Work) -> None:
    while work.goes_on(0.2):
        producer = Producer(work.settings("brief", **{"enable.idempotence": True}))
        producer.produce("plain", b"value")
        producer.flush(30)


def one_producer(work: Work) -> None:
    producer = Producer(work.settings("brief", **{"enable.idempotence": True, "linger.ms": 50}))
    while work.goes_on(0.2):
        producer.produce("plain", b"value")
        producer.poll(0)
    producer.flush(30)


def asks_all_the_time(work: Work) -> None:
    admin = AdminClient(work.settings("curious"))
    while work.goes_on(0.2):
        admin.list_topics(timeout=30)


def asks_once(work: Work) -> None:
    admin = AdminClient(work.settings("curious"))
    admin.list_topics(timeout=30)
    while work.goes_on(1):
        pass


def asks_for_a_topic_that_is_not_there(work: Work) -> None:
    # a consumer's question makes no topic
    consumer = Consumer(work.settings("typo", **{"group.id": "typo"}))
    while work.goes_on(0.2):
        consumer.list_topics("ordesr", timeout=30)
    consumer.close()


def asks_for_one_that_is(work: Work) -> None:
    admin = AdminClient(work.settings("typo"))
    admin.list_topics("plain", timeout=30)
    while work.goes_on(1):
        pass


def polls_for_nothing(work: Work) -> None:
    _polls(work, {"fetch.wait.max.ms": 1})


def waits_for_something(work: Work) -> None:
    _polls(work, {"fetch.wait.max.ms": 500})


def _polls(work: Work, own: dict[str, object]) -> None:
    consumer = Consumer(work.settings("hasty", **{"group.id": "hasty", "auto.offset.reset": "earliest"} | own))
    consumer.subscribe(["empty"])
    while work.goes_on(0):
        consumer.poll(0.5)
    consumer.close()


def sends_one_by_one(work: Work) -> None:
    producer = Producer(work.settings("chatty"))
    while work.goes_on(0.02):
        producer.produce("spread", b"v")
        producer.flush(30)


def sends_batches(work: Work) -> None:
    producer = Producer(work.settings("chatty", **{"linger.ms": 1000, "sticky.partitioning.linger.ms": 1000}))
    while work.goes_on(0.02):
        for _ in range(20):
            producer.produce("spread", NOISE[:200])
        producer.poll(0)
    producer.flush(30)


def sends_to_one_partition(work: Work) -> None:
    _keyed(work, lambda number: 3 if number % 20 else number // 20 % PARTITIONS)


def sends_to_all_partitions(work: Work) -> None:
    _keyed(work, lambda number: number % PARTITIONS)


def _keyed(work: Work, partition: Callable[[int], int]) -> None:
    producer, number = Producer(work.settings("keyed", **{"linger.ms": 0})), 0
    while work.goes_on(0.05):
        producer.produce("keyed", NOISE[:20_000], partition=partition(number))
        producer.flush(30)
        number += 1


def hardly_acknowledges(work: Work) -> None:
    _acknowledged(work, 1)


def acknowledges(work: Work) -> None:
    _acknowledged(work, -1)


def _acknowledged(work: Work, acks: int) -> None:
    careful = Producer(work.settings("careful", acks=-1))
    other = Producer(work.settings("careless", acks=acks))
    while work.goes_on(0.1):
        for producer in (careful, careful, other):
            producer.produce("paid", NOISE[:3000])
            producer.flush(30)


def relies_on_the_leader(work: Work) -> None:
    _is_the_only_writer(work, 1)


def relies_on_all_replicas(work: Work) -> None:
    _is_the_only_writer(work, -1)


def _is_the_only_writer(work: Work, acks: int) -> None:
    producer = Producer(work.settings("trusting", acks=acks))
    while work.goes_on(0.2):
        producer.produce("trusted", NOISE[:3000])
        producer.flush(30)


def sends_too_much(work: Work) -> None:
    _sends(work, 5000)


def sends_what_fits(work: Work) -> None:
    _sends(work, 500)


def _sends(work: Work, size: int) -> None:
    producer = Producer(work.settings("greedy"))
    while work.goes_on(0.1):
        producer.produce("narrow", NOISE[:size])
        producer.flush(30)


def sends_in_bursts(work: Work) -> None:
    """Two megabytes at once, every half second."""
    producer = Producer(work.settings("burst"))
    while work.goes_on(0.5):
        for _ in range(40):
            producer.produce("plain", NOISE[:50_000])
        producer.flush(30)


def sends_a_large_record(work: Work) -> None:
    _sends_once(work, 950_000)


def sends_a_small_record(work: Work) -> None:
    _sends_once(work, 9500)


def _sends_once(work: Work, size: int) -> None:
    producer = Producer(work.settings("painter"))
    while work.goes_on(5):
        producer.produce("pictures", NOISE[:size])
        producer.flush(30)


def pins_a_version(work: Work) -> None:
    """It asks for the versions, and sends those of Kafka 0.10 all the same, which Kafka 4 does not offer."""
    _pinned(work, {"api_version": (0, 10)})


def pins_none(work: Work) -> None:
    _pinned(work, {})


def _pinned(work: Work, own: dict[str, object]) -> None:
    settings = {"bootstrap_servers": work.bootstrap, "client_id": "pinned", "group_id": "pinned"}
    consumer = KafkaConsumer("plain", **settings, **own)
    while work.goes_on(0):
        consumer.poll(500)
    consumer.close()


Client = Callable[[Work], None]
# the rules that each client is found by; and the same client mended, which none finds
CLIENTS: tuple[tuple[tuple[str, ...], Client, Client], ...] = (
    (("short_lived_producers", "churn"), producer_for_each_message, one_producer),
    (("metadata_storm",), asks_all_the_time, asks_once),
    (("unknown_topic",), asks_for_a_topic_that_is_not_there, asks_for_one_that_is),
    (("empty_fetches",), polls_for_nothing, waits_for_something),
    (("small_batches",), sends_one_by_one, sends_batches),
    (("hot_partition",), sends_to_one_partition, sends_to_all_partitions),
    (("unsafe",), hardly_acknowledges, acknowledges),
    (("leader_acks",), relies_on_the_leader, relies_on_all_replicas),
    (("errors",), sends_too_much, sends_what_fits),
    (("large",), sends_a_large_record, sends_a_small_record),
    (("unoffered_version", "cut_off"), pins_a_version, pins_none),
)


# topics, and the partitions of each
TOPICS = dict.fromkeys(("plain", "empty", "spread", "keyed", "paid", "pictures", "narrow", "trusted"), PARTITIONS)
_CONFIGS = {name: {"max.message.bytes": "2000"} for name in ("narrow", "counted")}


def create_topics(bootstrap: str, topics: Mapping[str, int]) -> None:
    """The topics that all of them use."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = [NewTopic(name, partitions, config=_CONFIGS.get(name, {})) for name, partitions in topics.items()]
    for future in admin.create_topics(made).values():
        try:
            future.result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def run(bootstrap: str, clients: list[Client], seconds: float) -> None:
    """All of them at once, for so long. Raises what one of them raised."""
    work = Work(bootstrap, time.monotonic() + seconds)
    with ThreadPoolExecutor(len(clients)) as pool:
        for running in [pool.submit(client, work) for client in clients]:
            running.result()

"""Clients that misuse logs, transactions and quotas for a while, and corrected ones, as in `misuse`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.brokers import children
from tests.clients.workloads.misuse import NOISE, Client, Work

# topics, and the partitions of each
TOPICS = dict.fromkeys(
    ("again", "short", "accounts", "future", "slow", "worn", "lopsided", "afresh", "past", "counted"), 1
) | {
    "verbose": 6,
    "level": 6,
}
# of the rules whose thresholds are times
THRESHOLDS = {"open_transactions": 30_000, "re_reads": 0.2}
# records that are read again and again
FEW = 20
# a client with a quota, in bytes a second
SLOWED, QUOTA = "slowed", 20_000
# A producer (kafka-python) in a process of its own, told how many bits of each batch flip behind the checksum's making.
WORN = """
import sys, time
from contextlib import suppress
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.record.default_records import DefaultRecordBatchBuilder

build, bits = DefaultRecordBatchBuilder.build, int(sys.argv[2])

def worn(batch):
    data = build(batch)
    data[-1] ^= bits
    return data

DefaultRecordBatchBuilder.build = worn
settings = {"client_id": "worn", "enable_idempotence": False, "retry_backoff_ms": 200}
producer = KafkaProducer(bootstrap_servers=sys.argv[1], **settings, request_timeout_ms=5000, delivery_timeout_ms=6000)
while True:
    time.sleep(0.3)
    with suppress(KafkaError):
        producer.send("worn", b"value").get(10)
"""


def sends_without_compression(work: Work) -> None:
    _verbose(work, "none")


def compresses(work: Work) -> None:
    _verbose(work, "zstd")


def _verbose(work: Work, codec: str) -> None:
    producer = Producer(work.settings("verbose", **{"compression.type": codec, "linger.ms": 50}))
    event = json.dumps([{"level": "info", "message": "request was served", "status": 200}] * 400).encode()
    while work.goes_on(0.05):
        producer.produce("verbose", event)
        producer.poll(0)
    producer.flush(30)


def begins_anew_all_the_time(work: Work) -> None:
    _reads(work, is_anew=True)


def reads_on(work: Work) -> None:
    _reads(work, is_anew=False)


def _reads(work: Work, *, is_anew: bool) -> None:
    producer = Producer(work.settings("filler", **{"linger.ms": 0}))
    consumer = Consumer(work.settings("forgetful", **{"group.id": "forgetful", "enable.auto.commit": False}))
    consumer.assign([TopicPartition("again", 0, OFFSET_BEGINNING)])
    while work.goes_on(0.05):
        producer.produce("again", NOISE[:500])
        producer.flush(30)
        if consumer.poll(0.5) and is_anew:
            consumer.seek(TopicPartition("again", 0, 0))
    consumer.close()


def connects_anew_all_the_time(work: Work) -> None:
    _fills_once(work)
    while work.goes_on(0.2):
        _reads_all_of_it(_reader(work))


def stays_connected(work: Work) -> None:
    _fills_once(work)
    reader = _reader(work)
    while work.goes_on(0.2):
        reader.poll(0.5)
    reader.close()


def _fills_once(work: Work) -> None:
    producer = Producer(work.settings("filler", **{"linger.ms": 0}))
    for _ in range(FEW):
        producer.produce("afresh", NOISE[:500])
        producer.flush(30)


def _reader(work: Work) -> Consumer:
    reader = Consumer(work.settings("afresh", **{"group.id": "afresh", "enable.auto.commit": False}))
    reader.assign([TopicPartition("afresh", 0, OFFSET_BEGINNING)])
    return reader


def _reads_all_of_it(reader: Consumer) -> None:
    left = FEW
    while left:
        left -= len(reader.consume(left, 1))
    reader.close()


def reads_what_was_deleted(work: Work) -> None:
    _after_a_deletion(work, 0)


def reads_before_the_deletion(work: Work) -> None:
    _after_a_deletion(work, 8)


def _after_a_deletion(work: Work, position: int) -> None:
    """Ten records, of which eight are deleted; then a consumer comes."""
    producer, admin = Producer(work.settings("short")), AdminClient(work.settings("cleaner"))
    for _ in range(10):
        producer.produce("short", b"value", partition=0)
        producer.flush(30)
    for future in admin.delete_records([TopicPartition("short", 0, 8)]).values():
        future.result(60)
    settings = {"group.id": "late", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(work.settings("late", **settings))
    consumer.assign([TopicPartition("short", 0, position)])
    while work.goes_on(0):
        consumer.poll(0.5)
    consumer.close()


def leaves_a_transaction_open(work: Work) -> None:
    with _transaction(work, "held") as producer:
        producer.produce("accounts", b"value")
        producer.flush(30)
        while work.goes_on(1):
            pass


def ends_its_transactions(work: Work) -> None:
    producer = _transactional(work, "held")
    while work.goes_on(1):
        producer.begin_transaction()
        producer.produce("accounts", b"value")
        producer.commit_transaction(30)


def _transactional(work: Work, name: str) -> Producer:
    settings = {"transactional.id": name, "transaction.timeout.ms": 120_000}
    producer = Producer(work.settings(name, **settings))
    producer.init_transactions(60)
    return producer


@contextmanager
def _transaction(work: Work, name: str) -> Iterator[Producer]:
    producer = _transactional(work, name)
    producer.begin_transaction()
    yield producer
    producer.commit_transaction(30)


def shares_a_transactional_id(work: Work) -> None:
    _two_instances(work, ("twin", "twin"))


def has_an_id_for_each_instance(work: Work) -> None:
    _two_instances(work, ("twin-1", "twin-2"))


def _two_instances(work: Work, names: tuple[str, str]) -> None:
    producers = [_transactional(work, name) for name in names]
    for producer in producers:
        # the first one is told that it was replaced
        with suppress(KafkaException):
            producer.begin_transaction()
            producer.produce("accounts", b"value")
            producer.commit_transaction(30)
    while work.goes_on(1):
        pass


def lives_in_the_future(work: Work) -> None:
    _stamps(work, 600)


def lives_today(work: Work) -> None:
    _stamps(work, 0)


def counts_seconds(work: Work) -> None:
    _stamps_once_a_second(work, 1)


def counts_milliseconds(work: Work) -> None:
    _stamps_once_a_second(work, 1000)


def _stamps_once_a_second(work: Work, units: int) -> None:
    producer = Producer(work.settings("historian", **{"linger.ms": 0}))
    while work.goes_on(1):
        producer.produce("past", b"value", timestamp=int(time.time() * units))
        producer.flush(30)


def _stamps(work: Work, ahead: int) -> None:
    producer = Producer(work.settings("prophet", **{"linger.ms": 0}))
    while work.goes_on(0.1):
        producer.produce("future", b"value", timestamp=int((time.time() + ahead) * 1000))
        producer.flush(30)


def flips_a_bit(work: Work) -> None:
    _worn(work, 1)


def flips_none(work: Work) -> None:
    _worn(work, 0)


def _worn(work: Work, bits: int) -> None:
    child = children.spawn([sys.executable, "-c", WORN, work.bootstrap, str(bits)])
    while work.goes_on(1):
        assert child.poll() is None
    child.kill()
    child.wait()


def exceeds_its_quota(work: Work) -> None:
    _slowed(work, 4 * QUOTA)


def keeps_to_its_quota(work: Work) -> None:
    _slowed(work, QUOTA // 20)


def _slowed(work: Work, bytes_a_second: int) -> None:
    producer = Producer(work.settings(SLOWED, **{"linger.ms": 0}))
    while work.goes_on(0.05):
        producer.produce("slow", NOISE[: bytes_a_second // 20])
        producer.flush(30)


def sends_to_one_node(work: Work) -> None:
    _loads(work, "lopsided", 1)


def sends_to_all_nodes(work: Work) -> None:
    _loads(work, "level", TOPICS["level"])


def _loads(work: Work, topic: str, partitions: int) -> None:
    """400 kB a second; looks often for what has changed."""
    producer, number = Producer(work.settings("loader", **{"topic.metadata.refresh.interval.ms": 2000})), 0
    while work.goes_on(0.05):
        producer.produce(topic, NOISE[:20_000], partition=number % partitions)
        producer.flush(30)
        number += 1


def counts_what_was_refused(work: Work) -> None:
    """Behind a record that its topic refuses, aiokafka goes on counting as if the record were in the log."""
    asyncio.run(_counts(work, max_request_size=1 << 20))


def keeps_to_the_topics_limit(work: Work) -> None:
    """It refuses the record itself, before it counts it."""
    asyncio.run(_counts(work, max_request_size=1000))


async def _counts(work: Work, max_request_size: int) -> None:
    own = {"client_id": "counting", "enable_idempotence": True, "max_request_size": max_request_size}
    sizes = [100, 100, 5000]
    async with AIOKafkaProducer(bootstrap_servers=work.bootstrap, **own) as producer:
        while time.monotonic() < work.until:
            with suppress(AIOKafkaError):
                await producer.send_and_wait("counted", NOISE[: sizes.pop(0) if sizes else 100], partition=0)
            await asyncio.sleep(0.5)


# the rules that each client is found by; and the same client mended, which none finds
CLIENTS: tuple[tuple[tuple[str, ...], Client, Client], ...] = (
    (("uncompressed",), sends_without_compression, compresses),
    (("re_reads",), begins_anew_all_the_time, reads_on),
    (("re_reads",), connects_anew_all_the_time, stays_connected),
    (("times_in_seconds",), counts_seconds, counts_milliseconds),
    (("expired",), reads_what_was_deleted, reads_before_the_deletion),
    (("open_transactions",), leaves_a_transaction_open, ends_its_transactions),
    (("fenced",), shares_a_transactional_id, has_an_id_for_each_instance),
    (("clock",), lives_in_the_future, lives_today),
    (("throttled",), exceeds_its_quota, keeps_to_its_quota),
    (("bad_crc", "retriable_errors"), flips_a_bit, flips_none),
    (("sequence_gaps",), counts_what_was_refused, keeps_to_the_topics_limit),
)

"""kafka-python."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

from tests.brokers.metadata import ask_metadata
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads import (
    ASKS_SOON,
    CODECS_AND_ACKS,
    LARGE_BYTES,
    LARGEST_REQUEST,
    PARTITIONS,
    fresh,
    values,
)

# as kafka-python spells them
CODEC = {"none": None, "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
ACK = {"all": "all", "1": 1, "0": 0}


def produces_and_consumes(bootstrap: str) -> None:
    """Every codec with every acks; each record is read again."""
    topic = _create_topic(bootstrap, "python", partitions=PARTITIONS)
    wanted = set()
    for codec, acks in CODECS_AND_ACKS:
        sent = values(f"{codec} {acks}", 20)
        settings = {"compression_type": CODEC[codec], "acks": ACK[acks], "enable_idempotence": False}
        _produce(bootstrap, topic, sent, partitions=PARTITIONS, **settings)
        wanted.update(sent)
    assert set(_consume(bootstrap, topic, len(wanted))) == wanted


def rebalances_a_group(bootstrap: str) -> None:
    """One member has all partitions, a second one takes half of them, leaves, and the first has all again."""
    topic, group = _create_topic(bootstrap, "rebalance", partitions=4), fresh("group")
    settings = {"bootstrap_servers": bootstrap, "group_id": group, "heartbeat_interval_ms": 300}
    member = partial(KafkaConsumer, topic, **settings, **ASKS_SOON)
    first, second = member(), member()
    _poll_until([first], lambda: len(first.assignment()) == 4)
    _poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
    second.close()
    _poll_until([first], lambda: len(first.assignment()) == 4)
    where = TopicPartition(topic, 0)
    first.commit({where: OffsetAndMetadata(0, "", -1)})
    assert first.committed(where) == 0
    first.close()


def keeps_its_transactions(bootstrap: str) -> None:
    """Committed records and the offsets sent with them are seen; aborted records are not."""
    topic, group = _create_topic(bootstrap, "transactions"), fresh("group")
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=fresh("transaction"))
    producer.init_transactions()
    producer.begin_transaction()
    for value in values("kept", 10):
        producer.send(topic, value)
    producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(10, "", -1)}, group)
    producer.commit_transaction()
    producer.begin_transaction()
    for value in values("aborted", 10):
        producer.send(topic, value)
    producer.flush(PATIENCE)
    producer.abort_transaction()
    producer.close()
    _produce(bootstrap, topic, [b"last"], enable_idempotence=True)
    seen = _consume(bootstrap, topic, 11, isolation_level="read_committed")
    assert seen == [*values("kept", 10), b"last"]
    reader = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group)
    assert reader.committed(TopicPartition(topic, 0)) == 10
    reader.close()


def administers(bootstrap: str) -> None:
    """Topics, configurations, quorum, log folders, offsets and groups: made, described, changed and deleted."""
    topic, group = _create_topic(bootstrap, "admin"), fresh("group")
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert admin.describe_cluster()["brokers"]
        admin.create_partitions({topic: NewPartitions(3)})
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "3600000"})])
        assert admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        assert admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")])
        _produce(bootstrap, topic, values("admin", 9))
        _consume(bootstrap, topic, 9, group_id=group)
        assert admin.list_groups()
        assert admin.describe_groups([group])
        assert admin.describe_topics([topic])
        assert admin.describe_topic_partitions([topic])
        assert admin.describe_metadata_quorum()
        assert admin.describe_log_dirs()
        assert admin.describe_features()
        admin.list_transactions()
        admin.delete_records({TopicPartition(topic, 0): 0})
        admin.delete_groups([group])
        admin.delete_topics([topic])
    finally:
        admin.close()


def moves_a_large_record(bootstrap: str) -> None:
    config: dict[str, Any] = {"max.message.bytes": str(LARGEST_REQUEST)}
    topic = _create_topic(bootstrap, "large", **config)
    record = bytes(range(256)) * (LARGE_BYTES // 256)
    _produce(bootstrap, topic, [record], max_request_size=LARGEST_REQUEST)
    limits = {"fetch_max_bytes": LARGEST_REQUEST, "max_partition_fetch_bytes": LARGEST_REQUEST}
    (seen,) = _consume(bootstrap, topic, 1, **limits)
    assert seen == record


def _create_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    """A fresh topic that each broker knows: a group's leader that hears of none assigns nothing, and may stay so."""
    topic, admin = fresh(name), KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])
        for broker in admin.describe_cluster()["brokers"]:
            wait_for(partial(_knows, broker, topic, partitions), f"{broker} to know {topic}")
    finally:
        admin.close()
    return topic


def _knows(broker: dict[str, Any], topic: str, partitions: int) -> bool:
    leaders = ask_metadata(broker["host"], broker["port"], [topic]).leaders.values()
    return len(leaders) == partitions and min(leaders) >= 0


def _produce(bootstrap: str, topic: str, sent: Iterable[bytes], partitions: int = 1, **settings: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    promises = [producer.send(topic, value, partition=n % partitions) for n, value in enumerate(sent)]
    producer.flush(PATIENCE)
    for promise in promises:
        promise.get(PATIENCE)
    producer.close()


def _consume(bootstrap: str, topic: str, count: int, **settings: Any) -> list[bytes]:
    settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": PATIENCE * 1000} | ASKS_SOON | settings
    reader = KafkaConsumer(topic, bootstrap_servers=bootstrap, **settings)
    seen = [message.value for message in islice(reader, count)]
    reader.close()
    assert len(seen) == count
    return seen


def _poll_until(consumers: list[KafkaConsumer], reached: Callable[[], bool]) -> None:
    deadline = monotonic() + PATIENCE
    while not reached():
        assert monotonic() < deadline, [each.assignment() for each in consumers]
        for each in consumers:
            each.poll(timeout_ms=50)

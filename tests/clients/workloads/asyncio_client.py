"""aiokafka."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.brokers.waiting import PATIENCE
from tests.clients.workloads import CODECS_AND_ACKS, LARGE_BYTES, LARGEST_REQUEST, PARTITIONS, fresh, values

# aiokafka's spelling
CODEC = {"none": None, "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
ACK = {"all": "all", "1": 1, "0": 0}


def produces_and_consumes(bootstrap: str) -> None:
    """Every codec with every acks; each record is read again."""
    asyncio.run(_bounded(_produces_and_consumes(bootstrap)))


def rebalances_a_group(bootstrap: str) -> None:
    """One member has all partitions, a second one takes half of them, leaves, and the first has all again."""
    asyncio.run(_bounded(_rebalances_a_group(bootstrap)))


def keeps_its_transactions(bootstrap: str) -> None:
    """Committed records and the offsets sent with them are seen; aborted records are not."""
    asyncio.run(_bounded(_keeps_its_transactions(bootstrap)))


def administers(bootstrap: str) -> None:
    """Topics, configurations and groups: made, described, changed and deleted."""
    asyncio.run(_bounded(_administers(bootstrap)))


def moves_a_large_record(bootstrap: str) -> None:
    asyncio.run(_bounded(_moves_a_large_record(bootstrap)))


async def _bounded(work: Awaitable[None]) -> None:
    async with asyncio.timeout(2 * PATIENCE):
        await work


async def _produces_and_consumes(bootstrap: str) -> None:
    topic = await _create_topic(bootstrap, "aio", partitions=PARTITIONS)
    wanted = set()
    for codec, acks in CODECS_AND_ACKS:
        sent = values(f"{codec} {acks}", 20)
        settings = {"compression_type": CODEC[codec], "acks": ACK[acks]}
        await _produce(bootstrap, topic, sent, partitions=PARTITIONS, **settings)
        wanted.update(sent)
    assert set(await _consume(bootstrap, topic, len(wanted))) == wanted


async def _rebalances_a_group(bootstrap: str) -> None:
    topic, group = await _create_topic(bootstrap, "rebalance", partitions=4), fresh("group")
    member = partial(AIOKafkaConsumer, topic, bootstrap_servers=bootstrap, group_id=group, heartbeat_interval_ms=300)
    first, second = member(), member()
    await first.start()
    await _until(lambda: len(first.assignment()) == 4)
    await second.start()
    await _until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    await second.stop()
    await _until(lambda: len(first.assignment()) == 4)
    where = TopicPartition(topic, 0)
    await first.commit({where: 0})
    assert await first.committed(where) == 0
    await first.stop()


async def _keeps_its_transactions(bootstrap: str) -> None:
    topic, group = await _create_topic(bootstrap, "transactions"), fresh("group")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=fresh("transaction")) as producer:
        async with producer.transaction():
            for value in values("kept", 10):
                await producer.send(topic, value)
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 10}, group)
        await producer.begin_transaction()
        for value in values("aborted", 10):
            await producer.send(topic, value)
        await producer.flush()
        await producer.abort_transaction()
    await _produce(bootstrap, topic, [b"last"], enable_idempotence=True)
    seen = await _consume(bootstrap, topic, 11, isolation_level="read_committed")
    assert seen == [*values("kept", 10), b"last"]
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group) as reader:
        assert await reader.committed(TopicPartition(topic, 0)) == 10


async def _administers(bootstrap: str) -> None:
    topic, group = await _create_topic(bootstrap, "admin"), fresh("group")
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        assert (await admin.describe_cluster())["brokers"]
        await admin.create_partitions({topic: NewPartitions(3)})
        resource = partial(ConfigResource, ConfigResourceType.TOPIC, topic)
        await admin.alter_configs([resource({"retention.ms": "3600000"})])
        assert await admin.describe_configs([resource()])
        await _produce(bootstrap, topic, values("admin", 9))
        await _consume(bootstrap, topic, 9, group_id=group)
        assert group in {name for name, _ in await admin.list_consumer_groups()}
        assert await admin.describe_consumer_groups([group])
        await admin.list_consumer_group_offsets(group)
        assert topic in await admin.list_topics()
        await admin.delete_topics([topic])
    finally:
        await admin.close()


async def _moves_a_large_record(bootstrap: str) -> None:
    config: dict[str, Any] = {"max.message.bytes": str(LARGEST_REQUEST)}
    topic = await _create_topic(bootstrap, "large", **config)
    record = bytes(range(256)) * (LARGE_BYTES // 256)
    await _produce(bootstrap, topic, [record], max_request_size=LARGEST_REQUEST)
    (seen,) = await _consume(
        bootstrap, topic, 1, fetch_max_bytes=LARGEST_REQUEST, max_partition_fetch_bytes=LARGEST_REQUEST
    )
    assert seen == record


async def _create_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    topic, admin = fresh(name), AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])
    finally:
        await admin.close()
    return topic


async def _produce(bootstrap: str, topic: str, sent: Iterable[bytes], partitions: int = 1, **settings: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        turns = enumerate(sent)
        await asyncio.gather(*[await producer.send(topic, value, partition=n % partitions) for n, value in turns])


async def _consume(bootstrap: str, topic: str, count: int, **settings: Any) -> list[bytes]:
    settings = {"auto_offset_reset": "earliest"} | settings
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **settings) as reader:
        return [(await reader.getone()).value for _ in range(count)]


async def _until(reached: Callable[[], bool]) -> None:
    while not reached():
        await asyncio.sleep(0.05)

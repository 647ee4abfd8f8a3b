"""librdkafka, by way of confluent-kafka."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads import CODECS_AND_ACKS, LARGE_BYTES, LARGEST_REQUEST, PARTITIONS, fresh, values


def produces_and_consumes(bootstrap: str) -> None:
    """Every codec with every acks; each record is read again."""
    topic = create_topic(bootstrap, "confluent", partitions=PARTITIONS)
    wanted = set()
    for codec, acks in CODECS_AND_ACKS:
        sent = values(f"{codec} {acks}", 20)
        settings = {"compression.type": codec, "acks": acks, "linger.ms": 5}
        produce(bootstrap, topic, sent, partitions=PARTITIONS, **settings)
        wanted.update(sent)
    assert set(consume(bootstrap, topic, len(wanted))) == wanted


def rebalances_a_group(bootstrap: str, protocol: str) -> None:
    """One member has all partitions, a second one takes half of them, leaves, and the first has all again."""
    topic, group = create_topic(bootstrap, "rebalance", partitions=4), fresh("group")
    produce(bootstrap, topic, values("rebalance", 40))
    settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    settings |= {"heartbeat.interval.ms": 500} if protocol == "classic" else {}  # else the broker decides
    first, second = consumer(bootstrap, **settings), consumer(bootstrap, **settings)
    first.subscribe([topic])
    _poll_until([first], lambda: len(first.assignment()) == 4)
    second.subscribe([topic])
    _poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
    second.close()
    _poll_until([first], lambda: len(first.assignment()) == 4)
    first.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert first.committed([TopicPartition(topic, 0)], timeout=PATIENCE)[0].offset == 5
    first.close()


def keeps_its_transactions(bootstrap: str) -> None:
    """Committed records and the offsets sent with them are seen; aborted records are not."""
    topic, group = create_topic(bootstrap, "transactions"), fresh("group")
    producer = Producer(_settings(bootstrap) | {"transactional.id": fresh("transaction")})
    producer.init_transactions(PATIENCE)
    reader = consumer(bootstrap, **{"group.id": group})
    for label, finish in (("kept", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        for value in values(label, 10):
            producer.produce(topic, value)
        offsets = [TopicPartition(topic, 0, 10)]
        if label == "kept":
            producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), PATIENCE)
        finish(PATIENCE)
    produce(bootstrap, topic, [b"last"], **{"enable.idempotence": True})
    seen = consume(bootstrap, topic, 11, **{"isolation.level": "read_committed"})
    assert seen == [*values("kept", 10), b"last"]
    assert reader.committed([TopicPartition(topic, 0)], timeout=PATIENCE)[0].offset == 10
    reader.close()


def lives_on(bootstrap: str, protocol: str, in_the_middle: Callable[[], None]) -> None:
    """A member, a producer and a transaction live through a moment; then another consumer reads all of the topic.

    20 records and 10 of the transaction are written before that moment, and as many after it.
    """
    topic, group = create_topic(bootstrap, "mid-life"), fresh("group")
    idempotent = Producer(_settings(bootstrap) | {"enable.idempotence": True})
    transactional = Producer(_settings(bootstrap) | {"transactional.id": fresh("transaction")})
    transactional.init_transactions(PATIENCE)
    settings: dict[str, Any] = {"group.protocol": protocol, "auto.offset.reset": "earliest"}
    settings |= {"heartbeat.interval.ms": 500} if protocol == "classic" else {}  # else the broker decides
    member = consumer(bootstrap, **settings, **{"group.id": group, "isolation.level": "read_uncommitted"})
    member.subscribe([topic])

    def write(label: str) -> None:
        for producer, number in ((idempotent, 20), (transactional, 10)):
            for value in values(label, number):
                producer.produce(topic, value)
            assert producer.flush(PATIENCE) == 0

    def read_by_member(count: int) -> None:
        for _ in range(count):
            message = member.poll(PATIENCE)
            assert message is not None
            assert message.error() is None
        member.commit(asynchronous=False)

    transactional.begin_transaction()
    write("before")
    read_by_member(30)
    in_the_middle()
    write("after")
    read_by_member(30)
    transactional.commit_transaction(PATIENCE)
    assert len(consume(bootstrap, topic, 60, **settings)) == 60
    member.close()


def welcomes_a_newcomer(bootstrap: str, in_the_middle: Callable[[], None]) -> None:
    """A member without records lives through a moment; then a second one joins, both read and commit, the first leaves.

    Their timeouts are those of kafkajs, longer than what a replay at `max` waits.
    """
    topic, group = create_topic(bootstrap, "newcomer", partitions=4), fresh("group")
    settings: dict[str, Any] = {"group.id": group, "auto.offset.reset": "earliest", "heartbeat.interval.ms": 3000}
    settings |= {"session.timeout.ms": 30_000, "max.poll.interval.ms": 60_000}
    older, newcomer = consumer(bootstrap, **settings), consumer(bootstrap, **settings)
    producer = Producer(_settings(bootstrap) | {"enable.idempotence": True})

    def write_and_read(label: str, *members: Consumer) -> None:
        for partition in range(4):
            for value in values(f"{label} {partition}", 5):
                producer.produce(topic, value, partition=partition)
        assert producer.flush(PATIENCE) == 0
        ends = [TopicPartition(topic, partition) for partition in range(4)]
        done = [member.get_watermark_offsets(end, PATIENCE)[1] for member in members[:1] for end in ends]

        def is_read() -> bool:
            places = [place for member in members for place in member.position(member.assignment())]
            return sum(max(place.offset, 0) for place in places) == sum(done)

        _poll_until([*members], is_read)
        for member in members:
            member.commit(asynchronous=False)

    older.subscribe([topic])
    _poll_until([older], lambda: len(older.assignment()) == 4)
    in_the_middle()
    write_and_read("alone", older)
    newcomer.subscribe([topic])
    _poll_until([older, newcomer], lambda: len(older.assignment()) == len(newcomer.assignment()) == 2)
    write_and_read("together", older, newcomer)
    older.close()
    _poll_until([newcomer], lambda: len(newcomer.assignment()) == 4)
    write_and_read("without the older one", newcomer)
    newcomer.close()


def administers(bootstrap: str) -> None:
    """Topics, configurations, offsets, records and groups: made, described, changed and deleted."""
    admin = AdminClient(_settings(bootstrap))
    topic, group = create_topic(bootstrap, "admin"), fresh("group")
    assert _done(admin.describe_cluster()).nodes
    _all_done(admin.create_partitions([NewPartitions(topic, 3)]))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET))
    _all_done(admin.incremental_alter_configs([resource]))
    wait_for(lambda: _retention(admin, topic) == "3600000", "the changed setting to reach the broker that is asked")
    (broker,) = _all_done(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert "advertised.listeners" in broker
    produce(bootstrap, topic, values("admin", 9))
    consume(bootstrap, topic, 9, **{"group.id": group, "enable.auto.commit": True})
    where = TopicPartition(topic, 0)
    (latest,) = _all_done(admin.list_offsets({where: OffsetSpec.latest()}))
    _all_done(admin.delete_records([TopicPartition(topic, 0, latest.offset)]))
    _all_done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    assert group in {listed.group_id for listed in _done(admin.list_consumer_groups()).valid}
    _all_done(admin.describe_consumer_groups([group]))
    _all_done(admin.delete_consumer_groups([group]))
    _all_done(admin.delete_topics([topic]))


def _retention(admin: AdminClient, topic: str) -> str:
    (described,) = _all_done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return str(described["retention.ms"].value)


def moves_a_large_record(bootstrap: str) -> None:
    config: dict[str, Any] = {"max.message.bytes": str(LARGEST_REQUEST)}
    topic = create_topic(bootstrap, "large", **config)
    record = bytes(range(256)) * (LARGE_BYTES // 256)
    producing: dict[str, Any] = {"message.max.bytes": LARGEST_REQUEST, "compression.type": "none"}
    produce(bootstrap, topic, [record], **producing)
    limits = {"fetch.max.bytes": LARGEST_REQUEST, "message.max.bytes": LARGEST_REQUEST}
    (seen,) = consume(bootstrap, topic, 1, **limits, **{"max.partition.fetch.bytes": LARGEST_REQUEST})
    assert seen == record


def uses_many_topics(bootstrap: str, count: int = 200) -> None:
    """Metadata of many topics at once, and a record in each."""
    admin, prefix = AdminClient(_settings(bootstrap)), fresh("many")
    topics = [f"{prefix}-{number}" for number in range(count)]
    _all_done(admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]))
    try:
        producer = Producer(_settings(bootstrap))
        for topic in topics:
            producer.produce(topic, topic.encode())
        assert producer.flush(PATIENCE) == 0
        assert set(topics) <= admin.list_topics(timeout=PATIENCE).topics.keys()
        reader = consumer(bootstrap)
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
        assert sorted(read(reader, count)) == sorted(topic.encode() for topic in topics)
    finally:
        _all_done(admin.delete_topics(topics))


def create_topic(bootstrap: str, name: str, partitions: int = 1, replicas: int = -1, **config: str) -> str:
    """Creates a topic; returns its name. Brokers may learn of it a moment later."""
    topic = fresh(name)
    create_named_topic(bootstrap, topic, partitions, replicas, **config)
    return topic


def create_named_topic(bootstrap: str, topic: str, partitions: int = 1, replicas: int = -1, **config: str) -> None:
    admin = AdminClient(_settings(bootstrap))
    try:
        _all_done(admin.create_topics([NewTopic(topic, partitions, replicas, config=config)]))
    except KafkaException as error:
        # names are new: it was made by a request whose answer came so late that librdkafka sent another one
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def produce(bootstrap: str, topic: str, sent: Iterable[bytes], partitions: int = 1, **settings: Any) -> None:
    """Send the values, to that many partitions in turn, and wait for all acknowledgements."""
    producer, failed = Producer(_settings(bootstrap) | settings), list[object]()

    def delivered(error: object, _: object) -> None:
        if error:
            failed.append(error)

    for number, value in enumerate(sent):
        partition = number % partitions
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(PATIENCE) == 0
    assert not failed


def consumer(bootstrap: str, **settings: Any) -> Consumer:
    return Consumer(_settings(bootstrap) | {"group.id": fresh("group"), "enable.auto.commit": False} | settings)


def value_of(message: Message) -> bytes:
    """The value of a record that was read: no error, and not null."""
    assert message.error() is None, message.error()
    value = message.value()
    assert value is not None
    return value


def headers_of(message: Message) -> list[tuple[str, str | bytes | None]]:
    """The headers of a record that was read."""
    headers = message.headers() or []
    assert isinstance(headers, list)
    return headers


def place_of(message: Message) -> TopicPartition:
    """Where a record that was read stands in its log."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return TopicPartition(topic, partition, offset)


def consume(bootstrap: str, topic: str, count: int, **settings: Any) -> list[bytes]:
    """The topic's first `count` values."""
    reader = consumer(bootstrap, **{"auto.offset.reset": "earliest"} | settings)
    reader.subscribe([topic])
    return read(reader, count)


def read(reader: Consumer, count: int) -> list[bytes]:
    """Reads the next `count` values of the subscription or assignment, and closes the reader."""
    seen: list[bytes] = []
    deadline = time.monotonic() + PATIENCE
    while len(seen) < count:
        assert time.monotonic() < deadline, f"{len(seen)} of {count} records after {PATIENCE} s"
        if message := reader.poll(1):
            seen.append(value_of(message))
    reader.close()
    return seen


def _poll_until(consumers: list[Consumer], reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, [len(each.assignment()) for each in consumers]
        for each in consumers:
            each.poll(0.05)


def _settings(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": 2}


def _done(future: Any) -> Any:
    return future.result(PATIENCE)


def _all_done(futures: dict[Any, Any]) -> list[Any]:
    return [_done(future) for future in futures.values()]

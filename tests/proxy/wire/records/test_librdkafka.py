"""Tests against librdkafka (2.16): its producer's records are read here, and its consumer reads ours.

Batches of magic 2 pass through librdkafka's own mock cluster, whose brokers check their headers. The message sets
that it still writes for old brokers go to a broker made for them.
"""

import socket

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from proxy import wire
from proxy.wire.keys import FETCH, PRODUCE
from proxy.wire.records import (
    Compression,
    Record,
    TimestampType,
    batches,
    partial,
    read,
    with_base_offset,
    write_batch,
    write_message_set,
)
from tests.brokers.mock import MockCluster
from tests.proxy.wire.records.one_broker import TOPIC, one_broker
from tests.proxy.wire.records.samples import BATCH_CODECS, MESSAGE_CODECS, plain_records

SECONDS = 30
PRODUCE_VERSION, FETCH_VERSION = 8, 11
RECORDS = plain_records(80)
BARE = [record._replace(headers=()) for record in RECORDS]
every_batch_codec = pytest.mark.parametrize("codec", BATCH_CODECS)
every_set = pytest.mark.parametrize(
    ("magic", "codec"), [(magic, codec) for magic in (0, 1) for codec in MESSAGE_CODECS]
)


def produce(bootstrap: str, topic: str, codec: Compression, records: list[Record]) -> None:
    """Produces with librdkafka, to partition 0, in one batch: only the flush sends it, however slow the machine is.

    A batch of a record or two would not be compressed, as that would make it larger.
    """
    failed = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec.value, "linger.ms": 60_000, "log_level": 0}
    )
    for record in records:
        producer.produce(
            topic,
            partition=0,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=record.timestamp,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(SECONDS) == 0
    assert failed == []


def consume(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Consumes with librdkafka, from offset 0 of partition 0, with verified checksums."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "check.crcs": True,
            # a consumer without a group waits this long for one when it closes
            "session.timeout.ms": 10,
            "heartbeat.interval.ms": 5,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, timeout=SECONDS)
    consumer.close()
    assert [message.error() for message in found] == [None] * count
    return found


def told(message: Message) -> tuple[object, ...]:
    headers = tuple(message.headers() or ())
    return message.offset(), message.timestamp()[1], message.key(), message.value(), headers


def exchange(bootstrap: str, topic: str, key: int, version: int, values: dict[str, object]) -> dict[str, object]:
    """Sends one request to the leader of partition 0, with the project's own codec."""
    metadata = Producer({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(topic, timeout=SECONDS)
    leader = metadata.brokers[metadata.topics[topic].partitions[0].leader]
    frame = wire.encode_request(key, version, correlation_id=1, client_id="test", values=values)
    with socket.create_connection((leader.host, leader.port), timeout=SECONDS) as connection:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        with connection.makefile("rb") as answers:
            answer = answers.read(int.from_bytes(answers.read(4), "big"))
    decoded = wire.decode_response(answer, key, version)
    assert isinstance(decoded, tuple)
    return decoded[1]


def fetch(bootstrap: str, topic: str, offset: int = 0) -> bytes:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    values = {"max_wait_ms": 1000, "min_bytes": 1, "topics": [{"topic": topic, "partitions": [partition]}]}
    found: dict[str, list[dict[str, list[dict[str, bytes]]]]] = exchange(  # type: ignore[assignment]
        bootstrap, topic, FETCH, FETCH_VERSION, values
    )
    return bytes(found["responses"][0]["partitions"][0]["records"])


def fetch_all(bootstrap: str, topic: str, count: int) -> bytes:
    """Fetches so many records. The mock cluster returns one batch at a time; on a busy machine there are several."""
    data = b""
    while (offset := max((batch.last_offset + 1 for batch in batches(data)), default=0)) < count:
        more = fetch(bootstrap, topic, offset)
        assert more
        data += more
    return data


@every_batch_codec
def test_we_read_librdkafkas_batches_from_a_fetch(codec: Compression, mock_three: MockCluster) -> None:
    topic = f"theirs-{codec.value}"
    produce(mock_three.bootstrap, topic, codec, RECORDS)
    data = fetch_all(mock_three.bootstrap, topic, len(RECORDS))
    assert partial(data) == 0
    assert {batch.magic for batch in batches(data)} == {2}
    # librdkafka leaves a batch as it is that compression would not shrink: one of few records, on a busy machine
    assert {batch.codec for batch in batches(data)} - {Compression.NONE} == {codec} - {Compression.NONE}
    assert list(read(data)) == RECORDS


@every_batch_codec
def test_librdkafka_reads_our_batches(codec: Compression, mock_three: MockCluster) -> None:
    topic = f"ours-{codec.value}"
    data = write_batch(RECORDS, codec=codec)
    partition = {"index": 0, "records": data}
    values = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": [partition]}]}
    answer = exchange(mock_three.bootstrap, topic, PRODUCE, PRODUCE_VERSION, values)
    assert "'error_code': 0" in str(answer)
    assert [told(message) for message in consume(mock_three.bootstrap, topic, len(RECORDS))] == [
        record[:5] for record in RECORDS
    ]
    # the broker set its offset and epoch, and left the rest unchanged
    kept = fetch(mock_three.bootstrap, topic)
    (batch,) = batches(kept)
    assert kept == with_base_offset(data, 0, batch.leader_epoch)


@every_set
def test_we_read_librdkafkas_message_sets(magic: int, codec: Compression) -> None:
    with one_broker(magic) as broker:
        produce(f"127.0.0.1:{broker.port}", TOPIC, codec, BARE)
    data = b"".join(broker.produced)
    assert {(batch.magic, batch.codec) for batch in batches(data)} == {(magic, codec)}
    found = list(read(data))
    assert [one[2:4] for one in found] == [record[2:4] for record in BARE]
    kind = TimestampType.CREATE if magic else TimestampType.NONE
    expected = [(record.timestamp if magic else -1, kind) for record in BARE]
    assert [(one.timestamp, one.timestamp_type) for one in found] == expected
    # one request, or several on a busy machine
    assert [one.offset for one in found if one.offset == 0] == [0] * len(broker.produced)


@every_set
def test_librdkafka_reads_our_message_sets(magic: int, codec: Compression) -> None:
    with one_broker(magic, write_message_set(BARE, magic=magic, codec=codec)) as broker:
        found = consume(f"127.0.0.1:{broker.port}", TOPIC, len(BARE))
    assert [(one.offset(), one.key(), one.value()) for one in found] == [
        (record.offset, record.key, record.value) for record in BARE
    ]
    if magic:
        assert [one.timestamp()[1] for one in found] == [record.timestamp for record in BARE]


def test_librdkafka_reads_successive_formats() -> None:
    count = len(BARE)
    served = write_message_set(BARE, magic=0, codec=Compression.GZIP)
    served += write_message_set(
        [record._replace(offset=record.offset + count) for record in BARE], codec=Compression.SNAPPY
    )
    served += write_batch([record._replace(offset=record.offset + 2 * count) for record in BARE], codec=Compression.LZ4)
    with one_broker(2, served) as broker:
        found = consume(f"127.0.0.1:{broker.port}", TOPIC, 3 * count)
    assert [one.offset() for one in found] == [one.offset for one in read(served)] == list(range(3 * count))
    assert [one.value() for one in found] == [one.value for one in read(served)]

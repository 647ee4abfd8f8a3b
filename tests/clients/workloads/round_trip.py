"""The least work, for a broker of any age: records with each codec, to a topic that the broker creates, and back.

Each function takes a bootstrap address, the broker's release and the codecs. It asserts that its client reads what it
wrote, as a group's member if the broker has groups, and returns the values. Brokers store offsets since 0.8.2.
"""

import asyncio
import subprocess
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from kafka import KafkaConsumer, KafkaProducer

from tests.brokers.jars import RELEASES, class_path, java
from tests.brokers.kafka import JVM
from tests.brokers.waiting import PATIENCE
from tests.brokers.zookeeper import ZookeeperCluster
from tests.clients.workloads import confluent, fresh, values
from tests.java.jvm import class_path as clients_class_path

ROUND_TRIP = Path(__file__).parents[2] / "java" / "RoundTrip.java"
# enough for a compressed set of messages, and for one behind it
EACH = 5
FIRST_THAT_TELLS_ITS_VERSIONS = (0, 10)


def kafka_clients(
    of: str, bootstrap: str, codecs: Sequence[str], *, config: Path | None = None, jvm_options: Sequence[str] = ()
) -> set[bytes]:
    """Kafka's own Java clients of that release, 0.9 or newer: one JVM. `config`: a file of more settings for them."""
    sent = [(codec, value) for codec in codecs for value in values(f"{of} {codec}", EACH)]
    settings = [bootstrap, fresh("java"), fresh("group"), str(PATIENCE)]
    settings += [] if config is None else [str(config)]
    classes = class_path(of) if of in RELEASES else clients_class_path(of)
    command = [java(), *JVM, *jvm_options, "-cp", classes, str(ROUND_TRIP), *settings]
    lines = b"\n".join(b"%s\t%s" % (codec.encode(), value) for codec, value in sent)
    done = subprocess.run(command, input=lines, capture_output=True, timeout=4 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    assert sorted(done.stdout.splitlines()) == sorted(value for _, value in sent)
    return {value for _, value in sent}


def tools_of_0_8(cluster: ZookeeperCluster, bootstrap: str, codecs: Sequence[str]) -> set[bytes]:
    """Both producers that 0.8.2 has, Scala's and Java's, in turn; and the consumer that needs no ZooKeeper."""
    topic, sent = fresh("tools"), set()
    where = ["--broker-list", bootstrap, "--topic", topic]
    for number, codec in enumerate(codecs):
        written = values(f"0.8 {codec}", EACH)
        which = ["--new-producer"] if number % 2 else []
        _write_with_0_8(cluster, *where, *which, "--compression-codec", codec, written=written)
        sent.update(written)
    from_the_beginning = ["--partition", "0", "--offset", "-2", "--no-wait-at-logend"]
    seen = cluster.console("kafka-simple-consumer-shell", *where, *from_the_beginning).encode().splitlines()
    assert sorted(value for value in seen if value in sent) == sorted(sent)
    return sent


def consumer_of_zookeeper(cluster: ZookeeperCluster, bootstrap: str) -> set[bytes]:
    """0.8's producer and its consumer with a group, which has the brokers' addresses from ZooKeeper."""
    topic, sent = fresh("zookeeper"), values("zookeeper", EACH)
    _write_with_0_8(cluster, "--broker-list", bootstrap, "--topic", topic, written=sent)
    where = ["--zookeeper", cluster.zookeeper, "--topic", topic, "--from-beginning"]
    until = ["--max-messages", str(EACH)]
    assert cluster.console("kafka-console-consumer", *where, *until).encode().splitlines() == sent
    return set(sent)


def _write_with_0_8(cluster: ZookeeperCluster, *arguments: str, written: Sequence[bytes]) -> None:
    """Each value is acknowledged: by default it is not, and lost while the new topic has no leader."""
    acknowledged = ["--request-required-acks", "1", "--request-timeout-ms", str(PATIENCE * 1000)]
    patient = ["--message-send-max-retries", "100"]
    stdin = b"".join(value + b"\n" for value in written)
    cluster.console("kafka-console-producer", *arguments, *acknowledged, *patient, stdin=stdin)


def librdkafka(bootstrap: str, release: str, codecs: Sequence[str]) -> set[bytes]:
    """By way of confluent-kafka."""
    topic, sent, old = fresh("librdkafka"), set[bytes](), dict[str, Any]()
    if _number(release) < FIRST_THAT_TELLS_ITS_VERSIONS:
        old = {"api.version.request": False, "broker.version.fallback": release}
    for codec in codecs:
        written = values(f"librdkafka {codec}", EACH)
        confluent.produce(bootstrap, topic, written, **old | {"compression.type": codec, "linger.ms": 5})
        sent.update(written)
    if old:
        reader = confluent.consumer(bootstrap, **old)
        reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert set(confluent.read(reader, len(sent))) == sent
    else:
        assert set(confluent.consume(bootstrap, topic, len(sent))) == sent
    with closing(confluent.consumer(bootstrap, **old)) as member:
        read = TopicPartition(topic, 0, len(sent))
        member.commit(offsets=[read], asynchronous=False)
        assert member.committed([read], timeout=PATIENCE)[0].offset == len(sent)
    return sent


def kafka_python(bootstrap: str, release: str, codecs: Sequence[str]) -> set[bytes]:
    topic, sent, old = fresh("kafka-python"), set(), {}
    if _number(release) < FIRST_THAT_TELLS_ITS_VERSIONS:
        old = {"api_version": _number(release)[:3]}
        # brokers had a framing of their own for lz4 then, which kafka-python doesn't write
        codecs = [codec for codec in codecs if codec != "lz4"]
    for codec in codecs:
        written = values(f"kafka-python {codec}", EACH)
        settings = {"compression_type": _or_none(codec), "linger_ms": 5}
        with closing(KafkaProducer(bootstrap_servers=bootstrap, **settings, **old)) as producer:
            for promise in [producer.send(topic, value) for value in written]:
                promise.get(PATIENCE)
        sent.update(written)
    limits = {"auto_offset_reset": "earliest", "consumer_timeout_ms": PATIENCE * 1000}
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=fresh("group"), **limits, **old)) as reader:
        where = kafka.TopicPartition(topic, 0)
        if old:
            reader.assign([where])
        else:
            reader.subscribe([topic])
        assert {message.value for message in islice(reader, len(sent))} == sent
        reader.commit()
        assert reader.committed(where) == len(sent)
    return sent


def aiokafka(bootstrap: str, release: str, codecs: Sequence[str]) -> set[bytes]:
    return asyncio.run(asyncio.wait_for(_aiokafka(bootstrap, codecs), 2 * PATIENCE))


async def _aiokafka(bootstrap: str, codecs: Sequence[str]) -> set[bytes]:
    topic, sent = fresh("aiokafka"), set()
    for codec in codecs:
        written = values(f"aiokafka {codec}", EACH)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=_or_none(codec)) as producer:
            for value in written:
                await producer.send_and_wait(topic, value)
        sent.update(written)
    settings: dict[str, Any] = {"group_id": fresh("group"), "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **settings) as consumer:
        assert {(await consumer.getone()).value for _ in sent} == sent
    return sent


def _or_none(codec: str) -> str | None:
    return None if codec == "none" else codec


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))

"""Clients at work while a partition's leader moves, so that responses name the new one (KIP-951)."""

import signal
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from proxy.wire import catalog
from proxy.wire.keys import METADATA, READ_SHARE_GROUP_STATE
from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads import confluent, fresh

BULK_RECORDS, RECORD_BYTES = 52, 990_000
# a response may hold all of the bulk, and a little more
RESPONSE_BYTES = 60_000_000

BULK, MOVING = 0, 1
# an epoch that no leader of a test's partition reaches
A_LATER_EPOCH = 1000
ATTEMPTS = 5
# where leaders move in an attempt
MOVES = (2, 3, 1)
# by default, the console producer gives up after 1.5 s, or after three refusals
_PATIENT_PRODUCER = ("--request-timeout-ms", str(PATIENCE * 1000), "--message-send-max-retries", "1000000")


def fetches_bulk_while_a_leader_moves(cluster: KafkaCluster, bootstrap: str, named_in_bulk: Callable[[], bool]) -> None:
    """Fetches some 50 MB of one partition and, in the same request, another one whose leader has just moved.

    librdkafka nearly always, but not always, puts both into one request, so there are several attempts.

    Args:
        named_in_bulk: True if a response of that size has named the new leader.
    """
    topic = _two_partitions_on_node_1(bootstrap)
    _send(bootstrap, topic, BULK, [bytes(RECORD_BYTES)] * BULK_RECORDS)
    _send(bootstrap, topic, MOVING, [b"before"])
    for _ in range(ATTEMPTS):
        cluster.move_leader(topic, MOVING, 1)
        _fetch_both(cluster, bootstrap, topic)
        if named_in_bulk():
            break


def _fetch_both(cluster: KafkaCluster, bootstrap: str, topic: str) -> None:
    bulk, moving = TopicPartition(topic, BULK, BULK_RECORDS), TopicPartition(topic, MOVING, 0)
    reader = _patient_consumer(bootstrap)
    reader.assign([bulk, moving])
    assert _read(reader, 1) == {MOVING: [b"before"]}
    reader.pause([bulk, moving])
    cluster.move_leader(topic, MOVING, 2)
    _send(cluster.bootstrap, topic, MOVING, [b"after"])
    reader.seek(TopicPartition(topic, BULK, 0))
    reader.resume([bulk, moving])
    seen = _read(reader, BULK_RECORDS + 1)
    assert len(seen[BULK]) == BULK_RECORDS
    assert len(seen[MOVING]) == 1
    reader.close()


def share_fetches_bulk_while_a_leader_moves(
    cluster: KafkaCluster, bootstrap: str, folder: Path, *, all_answered: Callable[[], bool], named: Callable[[], bool]
) -> None:
    """Does the same with a share consumer, which is stopped while leaders move, because it never stops requesting.

    Args:
        all_answered: True if the consumer waits for no response.
        named: True if a response of that size has named the new leader.
    """
    topic, group = _two_partitions_on_node_1(bootstrap), fresh("share")
    at = ["--bootstrap-server", bootstrap]
    config = ["--alter", "--entity-type", "groups", "--entity-name", group]
    cluster.console("kafka-configs", *at, *config, "--add-config", "share.auto.offset.reset=earliest")
    output = folder / "share.out"
    command = ["kafka-console-share-consumer", *at, "--topic", topic, "--group", group, *_offsets_alone()]
    consumer = children.spawn(cluster.console_command(*command, *_patient_share_consumer(folder)), output=output)
    try:
        for attempt in range(1, ATTEMPTS + 1):
            cluster.move_leader(topic, MOVING, 1)
            for partition in (BULK, MOVING):
                _send(cluster.bootstrap, topic, partition, [b"before"])
            _wait_for_records(output, BULK, attempt + (attempt - 1) * BULK_RECORDS)
            _wait_for_records(output, MOVING, 2 * attempt - 1)
            consumer.send_signal(signal.SIGSTOP)
            wait_for(all_answered, "the consumer to ask no more")
            cluster.move_leader(topic, MOVING, 2)
            _send(cluster.bootstrap, topic, BULK, [bytes(RECORD_BYTES)] * BULK_RECORDS)
            _send(cluster.bootstrap, topic, MOVING, [b"after"])
            consumer.send_signal(signal.SIGCONT)
            _wait_for_records(output, BULK, attempt * (1 + BULK_RECORDS))
            _wait_for_records(output, MOVING, 2 * attempt)
            if named():
                break
    finally:
        consumer.send_signal(signal.SIGCONT)
        children.stop(consumer)


def _offsets_alone() -> list[str]:
    shown = ("print.partition=true", "print.offset=true", "print.value=false")
    return [word for one in shown for word in ("--formatter-property", one)]


def _wait_for_records(output: Path, partition: int, count: int) -> None:
    def come() -> bool:
        return output.read_text().count(f"Partition:{partition}\t") >= count

    wait_for(come, f"{count} records of partition {partition}")


def _patient_share_consumer(folder: Path) -> list[str]:
    """A consumer that takes 50 MB at once, and requests metadata only when it must."""
    file = folder / "share.properties"
    file.write_text(f"fetch.max.bytes={RESPONSE_BYTES}\nmetadata.max.age.ms=3600000\nfetch.max.wait.ms=100\n")
    return ["--command-config", str(file)]


def follow_a_moving_leader(cluster: KafkaCluster, bootstrap: str, folder: Path, all_named: Callable[[], bool]) -> None:
    """A Java producer, a consumer and a share consumer, none of which loses a record.

    Args:
        all_named: True if each of them got a response with a new leader's address.
    """
    topic, share = _two_partitions_on_node_1(bootstrap), fresh("share")
    at = ["--bootstrap-server", bootstrap]
    config = ["--alter", "--entity-type", "groups", "--entity-name", share]
    cluster.console("kafka-configs", *at, *config, "--add-config", "share.auto.offset.reset=earliest")
    commands = {
        "consumer": ["kafka-console-consumer", *at, "--topic", topic, "--from-beginning"],
        "share": ["kafka-console-share-consumer", *at, "--topic", topic, "--group", share],
    }
    running = {
        name: children.spawn(cluster.console_command(*command), output=folder / f"{name}.out")
        for name, command in commands.items()
    }
    producer = children.spawn(
        cluster.console_command("kafka-console-producer", *at, "--topic", topic, *_PATIENT_PRODUCER),
        output=folder / "producer.out",
        stdin=subprocess.PIPE,
    )
    pipe = children.input_of(producer)
    sent: set[bytes] = set()

    def have_come() -> bool:
        return all(sent <= set((folder / f"{name}.out").read_bytes().split()) for name in commands)

    try:
        for number, node in enumerate((1, *MOVES * ATTEMPTS)):
            for partition in (0, 1):
                cluster.move_leader(topic, partition, node)
            line = b"record-%d" % number
            sent.add(line)
            pipe.write(line + b"\n")
            pipe.flush()
            wait_for(have_come, f"{line.decode()} to reach both consumers")
            if all_named():
                break
        pipe.close()
        assert producer.wait(PATIENCE) == 0, (folder / "producer.out").read_text()[-2000:]
    finally:
        for child in (producer, *running.values()):
            children.stop(child)


def acknowledges_to_a_leader_that_is_none(
    cluster: KafkaCluster, bootstrap: str, folder: Path, was_told: Callable[[], bool]
) -> None:
    """A share consumer that acknowledges in separate requests, to a node that no longer leads its partition.

    Brokers of 4.3.1 name the leader there in one case alone: the share coordinator knows a later leader than the one
    that writes the acknowledgements. (A broker that has lost its partition has forgotten its share groups too, and
    answers that it doesn't know the partition.) So the test tells the coordinator of a later leader.

    Args:
        was_told: True if a response to ShareAcknowledge had a node's address.
    """
    topic, group = confluent.create_topic(bootstrap, "share"), fresh("share")
    producer = Producer({"bootstrap.servers": bootstrap})
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group]
    how = ["--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"]
    command = cluster.console_command("kafka-verifiable-share-consumer", *where, *how)
    output = folder / "share.out"

    def after_another_record(reached: Callable[[], bool]) -> bool:
        producer.produce(topic, b"to be acknowledged")
        assert producer.flush(PATIENCE) == 0
        return reached()

    consumer = children.spawn(command, output=output)
    try:
        wait_for(
            lambda: after_another_record(lambda: b"offsets_acknowledged" in output.read_bytes()),
            "records to be acknowledged",
            seconds=PATIENCE,
        )
        _tell_of_a_later_leader(cluster, group, topic)
        wait_for(lambda: after_another_record(was_told), "an acknowledgement to be refused")
    finally:
        children.stop(consumer)


def _tell_of_a_later_leader(cluster: KafkaCluster, group: str, topic: str) -> None:
    """Acts as a new leader: it reads the group's state. The node with that state is found by trial."""
    (described,) = _ask(cluster, 1, METADATA, 12, {"topics": [{"topic_id": bytes(16), "name": topic}]})["topics"]
    partition = {"partition": 0, "leader_epoch": A_LATER_EPOCH}
    asked = {"group_id": group, "topics": [{"topic_id": described["topic_id"], "partitions": [partition]}]}
    answers = [_ask(cluster, node, READ_SHARE_GROUP_STATE, 0, asked)["results"][0] for node in cluster.nodes]
    assert 0 in {answer["partitions"][0]["error_code"] for answer in answers}, answers


def _ask(cluster: KafkaCluster, node: int, key: int, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """Sends a request to one broker, past the proxy."""
    frame = catalog.encode_request(key, version, 1, "test", values)
    direct = cluster.nodes[node].direct
    with socket.create_connection((direct.host, direct.port), PATIENCE) as broker, broker.makefile("rb") as answers:
        broker.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", answers.read(4))
        decoded = catalog.decode_response(answers.read(size), key, version)
    assert isinstance(decoded, tuple)
    return decoded[1]


def _two_partitions_on_node_1(bootstrap: str) -> str:
    topic, admin = fresh("leaders"), AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, 2, replica_assignment=[[1, 2, 3]] * 2)]).values():
        created.result(PATIENCE)
    return topic


def _patient_consumer(bootstrap: str) -> Consumer:
    """A consumer that takes 50 MB at once, and requests metadata only when it is told to."""
    return confluent.consumer(
        bootstrap,
        **{
            "fetch.max.bytes": RESPONSE_BYTES,
            "max.partition.fetch.bytes": RESPONSE_BYTES,
            "receive.message.max.bytes": 2 * RESPONSE_BYTES,
            "queued.max.messages.kbytes": 4 * RESPONSE_BYTES // 1024,
            "topic.metadata.refresh.interval.ms": -1,
            "fetch.wait.max.ms": 50,
        },
    )


def _send(bootstrap: str, topic: str, partition: int, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(PATIENCE) == 0


def _read(reader: Consumer, count: int) -> dict[int, list[bytes]]:
    """Returns the next values, by partition."""
    seen: dict[int, list[bytes]] = {}
    for message in reader.consume(count, PATIENCE):
        value = confluent.value_of(message)
        seen.setdefault(confluent.place_of(message).partition, []).append(value)
    return seen

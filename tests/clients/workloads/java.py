"""Kafka's own Java clients, by way of the console tools of the broker's jars."""

import json
import subprocess
from collections.abc import Iterable
from functools import partial
from threading import Thread
from typing import IO, Any

from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads import ACKS, CODECS, LARGE_BYTES, LARGEST_REQUEST, fresh, values


def produces_and_consumes(cluster: KafkaCluster, bootstrap: str) -> None:
    """Every codec, and every acks; each record is read again by a group's member."""
    topic, group = create_topic(cluster, bootstrap, "java", partitions=3), fresh("group")
    wanted = set()
    # codecs and acks are paired, because each JVM costs more than a second
    for number, codec in enumerate(CODECS):
        sent = values(f"{codec} {number}", 20)
        produce(cluster, bootstrap, topic, sent, codec, f"acks={ACKS[number % len(ACKS)]}", "linger.ms=5")
        wanted.update(sent)
    assert set(consume(cluster, bootstrap, topic, len(wanted), "--group", group)) == wanted


def rebalances_a_group(cluster: KafkaCluster, bootstrap: str, protocol: str) -> None:
    """One member has all partitions, a second one takes half of them, leaves, and the first has all again."""
    topic, group = create_topic(cluster, bootstrap, "rebalance", partitions=4), fresh("group")
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--group-protocol", protocol]
    command = cluster.console_command("kafka-verifiable-consumer", *arguments)
    with Member(command) as first:
        first.wait_for_partitions(4)
        with Member(command) as second:
            second.wait_for_partitions(2)
            first.wait_for_partitions(2)
        first.wait_for_partitions(4)


def keeps_its_transactions(cluster: KafkaCluster, bootstrap: str) -> None:
    """An idempotent producer's transactions, and the tools that look at them."""
    topic, transaction = create_topic(cluster, bootstrap, "transactions"), fresh("transaction")
    load = ["--num-records", "200", "--record-size", "100", "--throughput", "-1", "--transaction-duration-ms", "50"]
    producer = ["--topic", topic, "--bootstrap-server", bootstrap, "--transactional-id", transaction]
    cluster.console("kafka-producer-perf-test", *producer, *load)
    assert len(consume(cluster, bootstrap, topic, 200, "--isolation-level", "read_committed")) == 200
    listed = cluster.console("kafka-transactions", "--bootstrap-server", bootstrap, "list").stdout
    assert transaction in listed
    asked = ["describe", "--transactional-id", transaction]
    assert "CompleteCommit" in cluster.console("kafka-transactions", "--bootstrap-server", bootstrap, *asked).stdout


def administers(cluster: KafkaCluster, bootstrap: str) -> None:
    """Topics, configurations, groups, the quorum, log folders and versions, as the tools show them."""
    topic, group = create_topic(cluster, bootstrap, "admin"), fresh("group")
    at = ["--bootstrap-server", bootstrap]
    produce(cluster, bootstrap, topic, values("admin", 9), "none")
    consume(cluster, bootstrap, topic, 9, "--group", group)
    cluster.console("kafka-topics", *at, "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in cluster.console("kafka-topics", *at, "--describe", "--topic", topic).stdout
    entity = ["--entity-type", "topics", "--entity-name", topic]
    cluster.console("kafka-configs", *at, "--alter", *entity, "--add-config", "retention.ms=3600000")
    shown = partial(cluster.console, "kafka-configs", *at, "--describe", *entity)
    wait_for(lambda: "retention.ms=3600000" in shown().stdout, "the changed setting to reach the broker that is asked")
    brokers = cluster.console("kafka-configs", *at, "--describe", "--all", "--entity-type", "brokers").stdout
    assert "advertised.listeners" in brokers
    assert topic in cluster.console("kafka-consumer-groups", *at, "--describe", "--group", group).stdout
    assert "LeaderId" in cluster.console("kafka-metadata-quorum", *at, "describe", "--status").stdout
    assert topic in cluster.console("kafka-log-dirs", *at, "--describe", "--topic-list", topic).stdout
    assert "ApiVersions" in cluster.console("kafka-broker-api-versions", *at).stdout
    cluster.console("kafka-consumer-groups", *at, "--delete", "--group", group)
    cluster.console("kafka-topics", *at, "--delete", "--topic", topic)


def shares_a_group(cluster: KafkaCluster, bootstrap: str) -> None:
    """A share group's member reads and acknowledges everything; the group can be looked at."""
    topic, group = create_topic(cluster, bootstrap, "share", partitions=2), fresh("share")
    at, sent = ["--bootstrap-server", bootstrap], values("share", 50)
    config = ["--alter", "--entity-type", "groups", "--entity-name", group]
    cluster.console("kafka-configs", *at, *config, "--add-config", "share.auto.offset.reset=earliest")
    produce(cluster, bootstrap, topic, sent, "lz4")
    consumer = ["--topic", topic, "--group", group, "--max-messages", str(len(sent))]
    consumer += ["--timeout-ms", str(PATIENCE * 1000)]
    seen = cluster.console("kafka-console-share-consumer", *at, *consumer).stdout
    assert sorted(seen.encode().splitlines()) == sorted(sent)
    assert topic in cluster.console("kafka-share-groups", *at, "--describe", "--group", group).stdout


def moves_a_large_record(cluster: KafkaCluster, bootstrap: str) -> None:
    config: dict[str, Any] = {"max.message.bytes": str(LARGEST_REQUEST)}
    topic = create_topic(cluster, bootstrap, "large", **config)
    record = b"0123456789abcdef" * (LARGE_BYTES // 16)
    room = [f"max.request.size={LARGEST_REQUEST}", f"buffer.memory={2 * LARGEST_REQUEST}"]
    produce(cluster, bootstrap, topic, [record], "none", *room)
    limit = [f"--command-property=max.partition.fetch.bytes={LARGEST_REQUEST}"]
    assert consume(cluster, bootstrap, topic, 1, *limit) == [record]


def create_topic(cluster: KafkaCluster, bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    topic = fresh(name)
    settings = [argument for key, value in config.items() for argument in ("--config", f"{key}={value}")]
    shape = ["--topic", topic, "--partitions", str(partitions), *settings]
    cluster.console("kafka-topics", "--bootstrap-server", bootstrap, "--create", *shape)
    return topic


def produce(
    cluster: KafkaCluster, bootstrap: str, topic: str, sent: Iterable[bytes], codec: str, *properties: str
) -> None:
    """One line a record."""
    settings = [argument for text in properties for argument in ("--command-property", text)]
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec]
    where += ["--request-timeout-ms", str(PATIENCE * 1000)]  # its default of 1.5 s is too short on a busy machine
    cluster.console("kafka-console-producer", *where, *settings, stdin=b"".join(value + b"\n" for value in sent))


def consume(cluster: KafkaCluster, bootstrap: str, topic: str, count: int, *arguments: str) -> list[bytes]:
    """The topic's first `count` values."""
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"]
    until = ["--max-messages", str(count), "--timeout-ms", str(PATIENCE * 1000)]
    return cluster.console("kafka-console-consumer", *where, *until, *arguments).stdout.encode().splitlines()


class Member:
    """A verifiable consumer: it reads while the test goes on, and prints its assignments as lines of JSON."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._partitions = 0

    def __enter__(self) -> "Member":
        self._child = children.spawn(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader = Thread(target=self._follow, args=(self._child.stdout,))
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        children.stop(self._child)
        self._reader.join()
        children.close_pipes(self._child)

    def wait_for_partitions(self, count: int) -> None:
        wait_for(lambda: self._partitions == count, f"an assignment of {count} partitions")

    def _follow(self, events: IO[str]) -> None:
        for line in events:
            event = json.loads(line)
            if event["name"] == "partitions_assigned":
                self._partitions += len(event["partitions"])
            elif event["name"] == "partitions_revoked":
                self._partitions -= len(event["partitions"])

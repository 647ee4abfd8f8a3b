"""Kafka's own programs: the performance tests, and those of its system tests."""

import csv
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE
from tests.clients.workloads import fresh
from tests.clients.workloads.java import create_topic

# enough for batches, and for fetches of several partitions
MEASURED, MEASURED_BYTES = 5000, 1000
VERIFIED = 1000
# a JVM, or several at once, on a machine that has much else to do
PROGRAM_SECONDS = 600


def measure(cluster: KafkaCluster, bootstrap: str) -> None:
    """The performance tools: what one wrote the others read, a group of the newer protocol and a share group."""
    topic, share = create_topic(cluster, bootstrap, "performance", partitions=3), share_group(cluster, bootstrap)
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(MEASURED)]
    size = ["--record-size", str(MEASURED_BYTES), "--throughput", "-1", "--command-property", "compression.type=lz4"]
    said = cluster.console("kafka-producer-perf-test", *where, *size).stdout
    assert re.search(rf"^{MEASURED} records sent, ", said, re.MULTILINE), said
    patient = ["--timeout", str(PATIENCE * 1000)]
    newer = ["--command-property", "group.protocol=consumer"]
    readers = [
        cluster.console_command("kafka-consumer-perf-test", *where, *patient, *newer),
        cluster.console_command("kafka-share-consumer-perf-test", *where, *patient, "--group", share, "--threads", "2"),
    ]
    for told in at_once(readers):
        assert _measured(told, "nMsg") == MEASURED, told
        assert _measured(told, "MB") == round(MEASURED * MEASURED_BYTES / 2**20, 4), told


def verify(cluster: KafkaCluster, bootstrap: str) -> None:
    """The verifiable programs: what was acknowledged is what each group reads, record by record, once."""
    topic, share = create_topic(cluster, bootstrap, "verifiable", partitions=3), share_group(cluster, bootstrap)
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", str(VERIFIED)]
    producer = cluster.console("kafka-verifiable-producer", *where, "--acks", "-1", "--repeating-keys", "7")
    acked = Counter(map(_record, _events(producer.stdout, "producer_send_success")))
    assert len(acked) == VERIFIED
    member = [*where, "--verbose", "--group-id"]
    readers = [
        cluster.console_command("kafka-verifiable-consumer", *member, fresh("group"), "--group-protocol", protocol)
        for protocol in ("classic", "consumer")
    ]
    shared = [*member, share, "--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"]
    readers.append(cluster.console_command("kafka-verifiable-share-consumer", *shared))
    for told in at_once(readers):
        assert Counter(map(_record, _events(told, "record_data"))) == acked


def at_once(commands: Sequence[Sequence[str]], *, code: int = 0) -> list[str]:
    """What each of the programs prints; they run beside each other, and all of them end with that exit code."""
    with ExitStack() as stack:
        running: list[subprocess.Popen[str]] = []
        for command in commands:
            child = children.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(children.stop, child)
            running.append(child)
        done = [child.communicate(timeout=PROGRAM_SECONDS) for child in running]
    for child, (printed, failed) in zip(running, done, strict=True):
        assert child.returncode == code, f"{child.args!r}:\n{printed[-3000:]}\n{failed[-3000:]}"
    return [printed for printed, _ in done]


def share_group(cluster: KafkaCluster, bootstrap: str) -> str:
    """One that begins with what is there, and whose members may take a minute for a record: no other gets it too."""
    group = fresh("share")
    config = "share.auto.offset.reset=earliest,share.record.lock.duration.ms=60000"
    which = ["--entity-type", "groups", "--entity-name", group, "--add-config", config]
    cluster.console("kafka-configs", "--bootstrap-server", bootstrap, "--alter", *which)
    return group


def _measured(told: str, unit: str) -> float:
    """The sum that a consumer's table ends with."""
    header, *rows = csv.reader(line for line in told.splitlines() if "," in line)
    (column,) = (at for at, name in enumerate(header) if name.strip() == f"data.consumed.in.{unit}")
    return float(rows[-1][column])


def _events(printed: str, name: str) -> Iterator[dict[str, Any]]:
    events = map(json.loads, printed.splitlines())
    return (event for event in events if event["name"] == name)


def _record(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(event[part] for part in ("partition", "offset", "key", "value"))

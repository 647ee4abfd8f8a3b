"""Kafka's own ConsumerPerformance, from a real broker, through each way.

The bare relay changes no addresses, so the broker has to advertise the relay's: it stands where the cluster's fixture
expects a tap. The others ask the broker by its direct address.
"""

import csv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.contenders import DIRECT, RECORDING, Contender, bare_relay, proxy
from bench.loads import Sample
from bench.processes import processor_ns
from tests.brokers.kafka import KafkaCluster

TOPIC = "bench"
RECORD_SIZE = 1000
# a longer run than the consumer's own start, and still within the page cache
RECORDS = 500_000


@contextmanager
def ways(folder: Path, recording: bool = True) -> Iterator[tuple[KafkaCluster, tuple[Contender, ...]]]:
    """A broker with a filled topic, and the ways to it."""
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster(1, folder=folder / "kafka"))
        tapped = cluster.tapped_bootstrap
        behind = cluster.tap_routes[tapped]
        host, _, port = cluster.bootstrap.rpartition(":")
        found = [Contender(DIRECT, host, int(port))]
        found.append(stack.enter_context(bare_relay(behind, folder, tapped)))
        found.append(stack.enter_context(proxy(cluster.bootstrap, folder)))
        if recording:
            found.append(stack.enter_context(proxy(cluster.bootstrap, folder, RECORDING, folder / "capture")))
        _fill(cluster)
        yield cluster, tuple(found)


def _fill(cluster: KafkaCluster) -> None:
    size = ("--num-records", str(RECORDS), "--record-size", str(RECORD_SIZE), "--throughput", "-1")
    where = ("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC)
    cluster.console("kafka-producer-perf-test", *where, *size, seconds=180)


def megabytes_per_second(cluster: KafkaCluster, contender: Contender) -> Sample:
    """What ConsumerPerformance says it fetched a second, its start and rebalance left out; processor time for a MB."""
    where = ("--bootstrap-server", contender.address, "--topic", TOPIC)
    before = processor_ns(contender.pid) if contender.pid else 0
    said = cluster.console("kafka-consumer-perf-test", *where, "--num-records", str(RECORDS), seconds=180).stdout
    after = processor_ns(contender.pid) if contender.pid else 0
    header, *rows = csv.reader(line for line in said.splitlines() if "," in line)
    columns = [name.strip() for name in header]
    fetched = float(rows[-1][columns.index("data.consumed.in.MB")])
    return Sample(float(rows[-1][columns.index("fetch.MB.sec")]), (after - before) / fetched / 1e3)

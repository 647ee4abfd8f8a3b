"""Loads on a real broker: lone Heartbeats, and Kafka's own performance tools, through each way.

The bare relay changes no addresses, so the broker has to advertise the relay's: it stands where the cluster's fixture
expects a tap. The others ask the broker by its direct address.
"""

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import DIRECT, KROXYLICIOUS, PROXY, RECORDING, RELAY, Contender, all_ways
from bench.loads import LOADS, Sample, Target, run
from bench.processes import processor_ns
from tests.brokers.kafka import KafkaCluster

RECORD_SIZE = 1000
# a longer run than the consumer's own start, and still within the page cache
TOPIC, RECORDS = "bench", 500_000
PRODUCED, PRODUCED_RECORDS = "produced", 100_000
# what was produced is not kept for long: it is produced again for every way in every round
_SHORT = {"log.retention.check.interval.ms": 2000, "log.segment.delete.delay.ms": 1000}
_KEPT = ("--config", "retention.bytes=134217728", "--config", "segment.bytes=67108864")

LONE = next(load for load in LOADS if load.name == "lone")


@dataclass(frozen=True, slots=True)
class Broker:
    """A running cluster, the ways to it, and the load generator."""

    cluster: KafkaCluster
    ways: tuple[Contender, ...]
    program: Path
    seconds: float

    def heartbeats(self, way: Contender) -> Sample:
        """The p50 of a Heartbeat, one at a time: the coordinator answers that it knows no such member."""
        return LONE.value(run(self.program, LONE, way, self.seconds))

    def consumed(self, way: Contender) -> Sample:
        """MB a second that ConsumerPerformance says it fetched, its start and rebalance left out."""
        said, used_ns = self._perf("consumer", way, TOPIC, RECORDS)
        header, *rows = csv.reader(line for line in said.splitlines() if "," in line)
        columns = [name.strip() for name in header]
        fetched = float(rows[-1][columns.index("data.consumed.in.MB")])
        return Sample(float(rows[-1][columns.index("fetch.MB.sec")]), used_ns / fetched / 1e3)

    def produced(self, way: Contender) -> Sample:
        """MB a second that ProducerPerformance says it sent."""
        size = ("--record-size", str(RECORD_SIZE), "--throughput", "-1")
        said, used_ns = self._perf("producer", way, PRODUCED, PRODUCED_RECORDS, *size)
        *_, rate = re.findall(r"\(([\d.]+) MB/sec\)", said)
        return Sample(float(rate), used_ns / (PRODUCED_RECORDS * RECORD_SIZE / 2**20) / 1e3)

    def _perf(self, which: str, way: Contender, topic: str, records: int, *more: str) -> tuple[str, int]:
        """What the tool said, and nanoseconds of a processor that the way took."""
        where = ("--bootstrap-server", way.address, "--topic", topic, "--num-records", str(records))
        before = processor_ns(way.pid) if way.pid else 0
        said = self.cluster.console(f"kafka-{which}-perf-test", *where, *more, seconds=180).stdout
        return said, (processor_ns(way.pid) if way.pid else 0) - before


@dataclass(frozen=True, slots=True)
class RealLoad:
    """A load on a real broker; see `Load`. The microseconds of a processor are those for an exchange, or for a MB.

    weight: rounds for each that was asked for: more of what is short and varies, fewer of what takes long and does not.
    """

    name: str
    title: str
    measure: Callable[[Broker, Contender], Sample]
    is_time: bool = False
    targets: tuple[Target, ...] = ()
    weight: float = 1

    def rounds(self, asked: int) -> int:
        """How many there are, if so many were asked for."""
        return max(1, round(asked * self.weight))


REAL_LOADS = (
    RealLoad(
        "heartbeat",
        "a lone Heartbeat on a real broker: p50, microseconds",
        Broker.heartbeats,
        is_time=True,
        targets=LONE.targets,
        weight=3,
    ),
    RealLoad(
        "consumer",
        "ConsumerPerformance from a real broker, MB a second",
        Broker.consumed,
        targets=(
            Target(PROXY, KROXYLICIOUS, 1.0),
            Target(PROXY, RELAY, 0.97, is_aim=True),
            Target(RECORDING, KROXYLICIOUS, 0.75),
        ),
        weight=0.8,
    ),
    RealLoad(
        "producer",
        "ProducerPerformance to a real broker, MB a second",
        Broker.produced,
        targets=(Target(PROXY, KROXYLICIOUS, 0.95), Target(PROXY, DIRECT, 1.0, is_aim=True)),
        weight=0.8,
    ),
)


@contextmanager
def broker(
    folder: Path, program: Path, seconds: float, *, recording: bool = True, java: bool = True
) -> Iterator[Broker]:
    """A broker with a filled topic, and the ways to it."""
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster(1, folder=folder / "kafka", settings=_SHORT))
        tapped = cluster.tapped_bootstrap
        relay = (tapped, cluster.tap_routes[tapped])
        found = all_ways(cluster.bootstrap, folder, relay=relay, recording=recording, java=java)
        ways = stack.enter_context(found)
        _fill(cluster)
        yield Broker(cluster, ways, program, seconds)


def _fill(cluster: KafkaCluster) -> None:
    where = ("--bootstrap-server", cluster.bootstrap)
    cluster.console("kafka-topics", *where, "--create", "--topic", PRODUCED, *_KEPT)
    size = ("--num-records", str(RECORDS), "--record-size", str(RECORD_SIZE), "--throughput", "-1")
    cluster.console("kafka-producer-perf-test", *where, "--topic", TOPIC, *size, seconds=180)

"""A run for the dashboards: three proxies before a cluster, clients that work all the time, faults, and a Prometheus.

    main: two workers; records, ships to a store that is not there, and counts by topic, client and group
    edge: TLS and logins; its recorder has stopped, since it is to leave nearly the whole volume free
    feed: records nothing, and counts clients of a feed in memory

Each fault is a method. `calm` has none of them.
"""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from proxy.wire.keys import ALTER_CLIENT_QUOTAS, API_VERSIONS, FETCH, METADATA, OFFSET_COMMIT
from tests.brokers import children
from tests.brokers.kafka import PASSWORD, USER, KafkaCluster
from tests.brokers.ports import reserved_range
from tests.brokers.waiting import PATIENCE, wait_for
from tests.certificates import Authority
from tests.clients.harness import PROGRAM, READY_SECONDS
from tests.clients.tap import Tap
from tests.clients.workloads import failures
from tests.clients.workloads.confluent import create_topic
from tests.dashboards.prometheus import EVERY, Prometheus

HOST = "127.0.0.1"
# the bootstrap listener's, and those of nodes
PORTS = 5
PARTITIONS = 6
# seconds between two records of a client
PACE = 0.02
# seconds between two commits of the group that gets nowhere
COMMITS = 0.2
# the node that goes down, and the one that becomes slow
LOST, SLOW = 2, 3
# groups that get nowhere. Their hashes follow each other, so two brokers coordinate them, of which one goes down
STUCK = ("stuck-0", "stuck-1")
QUOTA = 2000


class Proxy:
    """A proxy with settings in a file, within `with`."""

    def __init__(self, name: str, folder: Path, settings: str) -> None:
        self._name, self._folder, self._settings = name, folder, settings

    def __enter__(self) -> Proxy:
        self._folder.mkdir(parents=True)
        (self._folder / "wiretap.toml").write_text(self._settings)
        log = self._folder / "log"
        command = [*PROGRAM, "proxy", "--config", str(self._folder / "wiretap.toml")]
        self.child = children.spawn(command, output=log, cwd=self._folder)
        wait_for(
            lambda: "metrics on " in log.read_text() and "listening on" in log.read_text(),
            f"the proxy {self._name}",
            seconds=READY_SECONDS,
            hopeless=lambda: log.read_text()[-3000:] if self.child.poll() is not None else None,
        )
        (line,) = [line for line in log.read_text().splitlines() if "metrics on " in line]
        self.metrics = line.rpartition("http://")[2].split("/")[0]
        return self

    def __exit__(self, *_: object) -> None:
        children.stop(self.child, seconds=PATIENCE)


class Run:
    """What runs, and the faults that it may have. `since`: when the dashboards begin, in seconds since 1970."""

    def __init__(self, cluster: KafkaCluster, tap: Tap, main: Proxy, folder: Path) -> None:
        self.cluster, self.tap, self.main, self._folder = cluster, tap, main, folder
        self.bootstrap = self.edge_bootstrap = self.feed_bootstrap = self.topic = ""
        self.prometheus: Prometheus
        self.since = time.time()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def begins(self, work: Callable[[threading.Event], None]) -> None:
        """Lets a client work until the end of the run."""
        thread = threading.Thread(target=work, args=(self._stop,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        # clients say goodbye to the broker, too
        self.tap.reroute(self.cluster.tap_routes)
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    # clients

    def shop(self, stop: threading.Event) -> None:
        """Writes to every partition, acknowledged by all replicas."""
        _write(self._producer("shop", acks="all"), self.topic, b"paid" * 50, stop)

    def visitor(self, stop: threading.Event) -> None:
        """Writes through the proxy that records nothing."""
        _write(Producer({"bootstrap.servers": self.feed_bootstrap, "log_level": 0}), self.topic, b"seen", stop)

    def meter(self, stop: threading.Event) -> None:
        """Writes, and waits for no acknowledgement."""
        _write(self._producer("meter", acks="0"), self.topic, b"tick", stop)

    def greedy(self, stop: threading.Event) -> None:
        """Writes more than its quota allows."""
        _write(self._producer("greedy", acks="1"), self.topic, bytes(2000), stop)

    def ledger(self, stop: threading.Event) -> None:
        """Reads all, as a group of one."""
        self._read("ledger", stop)

    def stuck(self, group: str, stop: threading.Event) -> None:
        """Commits the same offset again and again: a group that fails at one record."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "client.id": group, "log_level": 0})
        same = [TopicPartition(self.topic, partition, 1) for partition in range(PARTITIONS)]
        while not stop.wait(COMMITS):
            with suppress(KafkaException):
                reader.commit(offsets=same, asynchronous=False)
        reader.close()

    def _producer(self, name: str, **settings: str) -> Producer:
        quiet: dict[str, Any] = {"client.id": name, "log_level": 0, "partitioner": "random"}
        return Producer({"bootstrap.servers": self.bootstrap, "message.timeout.ms": 5000} | quiet | settings)

    def _read(self, group: str, stop: threading.Event) -> None:
        settings = {"group.id": group, "client.id": group, "auto.commit.interval.ms": 500, "log_level": 0}
        reader = Consumer({"bootstrap.servers": self.bootstrap, "auto.offset.reset": "earliest"} | settings)
        reader.subscribe([self.topic])
        while not stop.is_set():
            reader.consume(100, 0.2)
        reader.close()

    def logs_in(self, password: str = PASSWORD) -> None:
        """At the edge. Errors: KafkaException with a wrong password."""
        login = {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": password}
        security = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self._folder / "ca.pem")}
        client = Producer({"bootstrap.servers": self.edge_bootstrap, "log_level": 0} | login | security)
        client.list_topics(timeout=PATIENCE if password == PASSWORD else 3)

    # faults

    def is_refused(self) -> None:
        """Clients ask for what is not there, and for versions that nobody knows."""
        failures.asks_for_a_topic_that_is_not_there(self.bootstrap)
        many = {"topics": [{"name": f"missing-{number}"} for number in range(100)]}
        failures.asks(self.bootstrap, METADATA, 12, many | {"allow_auto_topic_creation": False})
        failures.asks_in_version(self.bootstrap, API_VERSIONS, 99)
        failures.asks_in_version(self.bootstrap, FETCH, 99)
        gone = {"group_id": "ledger", "member_id": "gone", "generation_id_or_member_epoch": 1}
        committed = [{"name": self.topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
        failures.asks(self.bootstrap, OFFSET_COMMIT, 8, gone | {"topics": committed})
        with suppress(KafkaException):
            self.logs_in("wrong")

    def is_throttled(self) -> None:
        """The brokers get a quota for one client, which begins to write."""
        entity = [{"entity_type": "client-id", "entity_name": "greedy"}]
        ops = [{"key": "producer_byte_rate", "value": float(QUOTA), "remove": False}]
        entries = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}
        failures.asks(self.cluster.bootstrap.split(",")[0], ALTER_CLIENT_QUOTAS, 1, entries)
        self.begins(self.greedy)

    @contextmanager
    def is_slow(self) -> Iterator[None]:
        """A broker stands still."""
        broker = self.cluster.nodes[SLOW].child
        assert broker is not None
        broker.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            broker.send_signal(signal.SIGCONT)

    def gets_a_group(self) -> None:
        """Another group joins, later than the first one: what happens only once is no rate."""
        asked = 'sum(kafka_wiretap_latency_seconds_count{api="JoinGroup"})'
        wait_for(lambda: self.prometheus.number(asked), "the first group to join")
        self.begins(lambda stop: self._read("late", stop))

    def loses_a_worker(self) -> None:
        workers = [one for one in psutil.Process(self.main.child.pid).children() if "proxy.worker" in one.cmdline()]
        workers[0].kill()

    def loses_a_broker(self) -> None:
        """Nothing listens at its address any more; new clients want it."""
        routes = [node.tap_routes for node in self.cluster.nodes.values() if node.number != LOST]
        self.tap.reroute({listen: target for of in routes for listen, target in of.items()})
        self.begins(self.shop)


def _write(producer: Producer, topic: str, value: bytes, stop: threading.Event) -> None:
    while not stop.wait(PACE):
        with suppress(BufferError):
            producer.produce(topic, value)
        producer.poll(0)
    producer.purge()


def _main_settings(cluster: KafkaCluster, port: int, folder: Path) -> str:
    # a port that is known: its metrics go to the collector
    return f"""
metrics = "{HOST}:{port + PORTS}"
workers = 2
connections = 1000
[clusters.main]
state = {json.dumps(str(folder / "main-state.json"))}
upstream = {json.dumps(cluster.tapped_bootstrap.split(","))}
listen = "{HOST}:{port}"
advertise = "{HOST}"
node_count = {PORTS - 1}
limits.connections = 200
[live]
topics = 100
clients = 100
groups = 100
otlp = "http://{HOST}:9"
[capture]
folder = {json.dumps(str(folder / "capture"))}
ship = "s3://bucket/folder"
ship_endpoint = "http://{HOST}:9"
ship_credentials = {json.dumps(str(folder / "credentials"))}
"""


def _edge_settings(cluster: KafkaCluster, port: int, folder: Path) -> str:
    return f"""
metrics = "{HOST}:0"
[clusters.edge]
state = {json.dumps(str(folder / "edge-state.json"))}
upstream = {json.dumps(cluster.login_bootstrap.split(","))}
listen = "{HOST}:{port}"
advertise = "{HOST}"
node_count = {PORTS - 1}
tls.certificate = {json.dumps(str(folder / "edge.pem"))}
tls.key = {json.dumps(str(folder / "edge.pem"))}
[capture]
folder = {json.dumps(str(folder / "edge-capture"))}
keep.free = {shutil.disk_usage(folder).total - 1}
"""


def _feed_settings(cluster: KafkaCluster, port: int, folder: Path) -> str:
    return f"""
metrics = "{HOST}:0"
[live]
clients = 100
[clusters.feed]
state = {json.dumps(str(folder / "feed-state.json"))}
upstream = {json.dumps(cluster.tapped_bootstrap.split(","))}
listen = "{HOST}:{port}"
advertise = "{HOST}"
node_count = {PORTS - 1}
"""


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # near its end: an alert that waits for nothing
    Authority(folder).signs("edge", HOST, not_after=datetime.now(UTC) + timedelta(days=2))
    credentials = folder / "credentials"
    credentials.touch(mode=0o600)
    credentials.write_text("[default]\naws_access_key_id = x\naws_secret_access_key = x\n")


@contextmanager
def running(cluster: KafkaCluster, folder: Path) -> Iterator[Run]:
    """Everything, with clients at work and no fault but those of the recorders."""
    _prepare(folder)
    with ExitStack() as stack:
        tap = stack.enter_context(Tap(cluster.tap_routes, folder / "tap", patience=1))
        proxies, ports = {}, {}
        for name, settings in (("main", _main_settings), ("edge", _edge_settings), ("feed", _feed_settings)):
            ports[name] = stack.enter_context(reserved_range((HOST,), PORTS + 1))
            proxies[name] = stack.enter_context(Proxy(name, folder / name, settings(cluster, ports[name], folder)))
        run = Run(cluster, tap, proxies["main"], folder)
        run.bootstrap, run.edge_bootstrap, run.feed_bootstrap = (f"{HOST}:{port}" for port in ports.values())
        run.topic = create_topic(run.bootstrap, "payments", PARTITIONS, 3)
        targets = {f"kafka-wiretap-{name}": proxy.metrics for name, proxy in proxies.items()}
        run.prometheus = stack.enter_context(Prometheus(targets, folder / "prometheus"))
        stack.callback(run.close)
        for client in (run.shop, run.meter, run.visitor, run.ledger):
            run.begins(client)
        for group in STUCK:
            run.begins(partial(run.stuck, group))
        run.since = time.time() - EVERY
        yield run

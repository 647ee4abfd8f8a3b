"""Five clients that keep writing and reading while brokers or the proxy change.

All write to one topic, each value once, and all read it whole, each in a group of its own. The producers are
idempotent, so the log has each value exactly once, as long as they keep their producer id. librdkafka takes a new id
when a moving leader has refused part of its open requests, and may then send written records again under that id: a
leader says NOT_LEADER of records that it has written and the next leader has. Consumers see every value; their offsets
decide which ones they see twice.
"""

import asyncio
import json
import subprocess
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from proxy.wire import records
from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads import fresh
from tests.clients.workloads.confluent import value_of

# seconds between two records of a client: each is a fetch of every consumer's
PACE = 0.2
# seconds that a consumer waits for records before it looks whether that is enough
POLL = 0.1


class Client(ABC):
    """One producer and one consumer. `sent`, `acknowledged`, `seen`: values; `reached`: how far in whose, counted."""

    name: str

    def __init__(self, cluster: KafkaCluster, bootstrap: str, topic: str, folder: Path) -> None:
        self.cluster, self.bootstrap, self.topic, self.folder = cluster, bootstrap, topic, folder
        self.group, self.partitions = fresh(f"group-{self.name}"), PARTITIONS
        self.sent: list[str] = []
        self.acknowledged: set[str] = set()
        self.seen: set[str] = set()
        self.reached: Counter[str] = Counter()
        # the producer shall end; then the consumer
        self.enough, self.done = threading.Event(), threading.Event()

    def value(self) -> str:
        """The next one to send."""
        self.sent.append(f"{self.name}.{len(self.sent)}")
        return self.sent[-1]

    def saw(self, value: str) -> None:
        """The consumer has read it."""
        self.seen.add(value)
        sender, _, number = value.rpartition(".")
        self.reached[sender] = max(self.reached[sender], int(number) + 1)

    @abstractmethod
    def look(self) -> None:
        """Bring `seen` up to now."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def finish_sending(self) -> None:
        """Returns when everything sent has been acknowledged. Errors: AssertionError when something was not."""

    @abstractmethod
    def close(self) -> None:
        """End what is still running."""

    def trouble(self) -> str | None:
        """Why there is no use in waiting for this client; None: there is."""
        return None


class Threaded(Client):
    """A Python client: two threads of this process."""

    def start(self) -> None:
        self._failures: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self.produce, self.consume)]
        for thread in self._threads:
            thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._failures.append(f"{self.name}: {work.__name__}: {error!r}")

    def look(self) -> None:
        """The thread does."""

    def trouble(self) -> str | None:
        return "; ".join(self._failures) or None

    def finish_sending(self) -> None:
        self.enough.set()
        self._threads[0].join(PATIENCE)
        assert not self._threads[0].is_alive(), f"{self.name} is still sending"
        assert not self._failures, self._failures
        assert self.acknowledged == set(self.sent), (
            f"{self.name}: {set(self.sent) - self.acknowledged} not acknowledged"
        )

    def close(self) -> None:
        self.enough.set()
        self.done.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    @abstractmethod
    def produce(self) -> None:
        """Until `enough` is set, and all is acknowledged."""

    @abstractmethod
    def consume(self) -> None:
        """Until `done` is set."""


class Librdkafka(Threaded):
    """confluent-kafka."""

    name = "librdkafka"

    def _settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 1000}

    def produce(self) -> None:
        producer = Producer(self._settings() | {"enable.idempotence": True, "linger.ms": 0})
        while not self.enough.is_set():
            value, partition = self.value(), len(self.sent) % self.partitions
            producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            producer.poll(0)
            self.enough.wait(PACE)
        assert producer.flush(PATIENCE) == 0

    def _delivered(self, error: object, message: Any) -> None:
        assert error is None, error
        self.acknowledged.add(message.value().decode())

    def consume(self) -> None:
        settings = {"group.id": self.group, "auto.offset.reset": "earliest"}
        reader = Consumer(self._settings() | settings)
        reader.subscribe([self.topic])
        while not self.done.is_set():
            message = reader.poll(POLL)
            if message is None:
                continue
            if (error := message.error()) is None:
                self.saw(value_of(message).decode())
            else:
                assert error.retriable() or not error.fatal(), error
        reader.close()


class Aiokafka(Threaded):
    name = "aiokafka"

    def produce(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        settings = {"enable_idempotence": True, "request_timeout_ms": PATIENCE * 1000}
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, **settings) as producer:
            while not self.enough.is_set():
                value, partition = self.value(), len(self.sent) % self.partitions
                await producer.send_and_wait(self.topic, value.encode(), partition=partition)
                self.acknowledged.add(value)
                await asyncio.sleep(PACE)

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        settings = {"group_id": self.group, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(self.topic, bootstrap_servers=self.bootstrap, **settings) as reader:
            while not self.done.is_set():
                for records in (await reader.getmany(timeout_ms=int(1000 * POLL))).values():
                    for record in records:
                        self.saw(record.value.decode())


class KafkaPython(Threaded):
    name = "kafka-python"

    def _settings(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap, "reconnect_backoff_max_ms": 1000}

    def produce(self) -> None:
        producer = kafka.KafkaProducer(**self._settings(), enable_idempotence=True, max_block_ms=PATIENCE * 1000)
        while not self.enough.is_set():
            value, partition = self.value(), len(self.sent) % self.partitions
            producer.send(self.topic, value.encode(), partition=partition).get(PATIENCE)
            self.acknowledged.add(value)
            self.enough.wait(PACE)
        producer.close()

    def consume(self) -> None:
        settings = {"group_id": self.group, "auto_offset_reset": "earliest"}
        reader = kafka.KafkaConsumer(**self._settings(), **settings)
        # it commits as a group, and is no member: one that is starved while it joins may stay still for ever
        reader.assign([kafka.TopicPartition(self.topic, partition) for partition in range(PARTITIONS)])
        while not self.done.is_set():
            # while it reaches no broker, it says so and is asked again
            with suppress(kafka.errors.KafkaConnectionError):
                for records in reader.poll(timeout_ms=int(1000 * POLL)).values():
                    for record in records:
                        self.saw(record.value.decode())
        reader.close()


class Programs(Client):
    """A client that is a program: one child that writes and one that reads, each with a file for what it prints."""

    def start(self) -> None:
        self._read_out, self._sent_out = (self.folder / f"{self.name}.{what}" for what in ("read", "sent"))
        self._read_bytes = 0
        self._reader = children.spawn(self.reading(), output=self._read_out)
        self._sender = children.spawn(self.sending(), output=self._sent_out, stdin=subprocess.PIPE)

    @abstractmethod
    def reading(self) -> list[str]:
        """The consumer's command."""

    @abstractmethod
    def sending(self) -> list[str]:
        """The producer's command."""

    @abstractmethod
    def values(self, line: str) -> Iterator[str]:
        """What a line that the consumer has printed says that it read."""

    def look(self) -> None:
        with self._read_out.open("rb") as printed:
            printed.seek(self._read_bytes)
            whole = printed.read().rpartition(b"\n")[0]
        self._read_bytes += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            for value in self.values(line):
                self.saw(value)

    def trouble(self) -> str | None:
        for child, output in ((self._reader, self._read_out), (self._sender, self._sent_out)):
            may_end = child is self._sender and self.enough.is_set()
            if child.poll() is not None and not may_end:
                return f"{output.name} ended with exit code {child.returncode}: {_text(output)[-2000:]}"
        return None

    def close(self) -> None:
        for child in (self._sender, self._reader):
            children.stop(child)
        children.close_pipes(self._sender)


class Java(Programs):
    """Kafka's own VerifiableProducer and VerifiableConsumer, in a group of the newer kind (KIP-848)."""

    name = "1"  # the tool wants a number

    def sending(self) -> list[str]:
        config = self.folder / "java.properties"
        config.write_text(f"retries={2**31 - 1}\nenable.idempotence=true\nlinger.ms=0\n")
        load = ["--value-prefix", self.name, "--repeating-keys", "12", "--throughput", str(int(1 / PACE))]
        where = ["--bootstrap-server", self.bootstrap, "--topic", self.topic, "--command-config", str(config)]
        return self.cluster.console_command("kafka-verifiable-producer", *where, *load)

    def reading(self) -> list[str]:
        where = ["--bootstrap-server", self.bootstrap, "--topic", self.topic, "--group-id", self.group]
        how = ["--group-protocol", "consumer", "--reset-policy", "earliest", "--enable-autocommit", "--verbose"]
        return self.cluster.console_command("kafka-verifiable-consumer", *where, *how)

    def values(self, line: str) -> Iterator[str]:
        if '"record_data"' in line:
            yield json.loads(line)["value"]

    def finish_sending(self) -> None:
        self.enough.set()
        children.stop(self._sender, seconds=PATIENCE)
        events = [json.loads(line) for line in _text(self._sent_out).splitlines() if line.startswith("{")]
        failed = [event for event in events if event["name"] == "producer_send_error"]
        assert not failed, failed[:5]
        self.acknowledged = {event["value"] for event in events if event["name"] == "producer_send_success"}
        (summary,) = [event for event in events if event["name"] == "tool_data"]
        assert summary["sent"] == summary["acked"] == len(self.acknowledged), summary
        self.sent = sorted(self.acknowledged)


class Kcat(Programs):
    """kcat, whose delivery reports are its exit code."""

    name = "kcat"
    # kcat reads blocks of a KiB, and delivers a record only when its block is full
    KEY_BYTES, BETWEEN = 2048, "|"

    def start(self) -> None:
        super().start()
        self._writer = threading.Thread(target=self._write)
        self._writer.start()

    def sending(self) -> list[str]:
        how = ["-K", self.BETWEEN, "-X", "enable.idempotence=true", "-X", "linger.ms=0"]
        return [*self._kcat(), "-P", "-t", self.topic, *how]

    def reading(self) -> list[str]:
        return [*self._kcat(), "-q", "-u", "-X", "auto.offset.reset=earliest", "-G", self.group, self.topic]

    def _kcat(self) -> list[str]:
        """kcat keeps running when all brokers are down."""
        return ["kcat", "-F", "/dev/null", "-b", self.bootstrap, "-E", "-X", "reconnect.backoff.max.ms=1000"]

    def _write(self) -> None:
        with children.input_of(self._sender) as pipe:
            while not self.enough.is_set() and self._sender.poll() is None:
                value = self.value()
                pipe.write(f"{value:<{self.KEY_BYTES}}{self.BETWEEN}{value}\n".encode())
                pipe.flush()
                self.enough.wait(PACE)

    def values(self, line: str) -> Iterator[str]:
        # it also prints its group's assignments and its brokers' failures
        sender, _, number = line.rpartition(".")
        if number.isdigit() and sender in {client.name for client in CLIENTS}:
            yield line

    def finish_sending(self) -> None:
        self.enough.set()
        self._writer.join(PATIENCE)
        assert self._sender.wait(PATIENCE) == 0, _text(self._sent_out)[-2000:]
        assert "Delivery failed" not in _text(self._sent_out), _text(self._sent_out)[-2000:]
        self.acknowledged = set(self.sent)

    def close(self) -> None:
        self.enough.set()
        self._writer.join(PATIENCE)
        super().close()


CLIENTS = (Librdkafka, Aiokafka, KafkaPython, Java, Kcat)
PARTITIONS = 3
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


class Turn(NamedTuple):
    """A producer's id and epoch, within which no broker stores a value twice."""

    producer_id: int
    producer_epoch: int


class Steady:
    """The clients at work; see `steady`."""

    def __init__(self, clients: Sequence[Client], topic: str) -> None:
        self.clients, self.topic = clients, topic

    def wait_for_more(self) -> None:
        """Waits until every consumer has read a value from every producer that was sent after this call."""
        known = Counter({client.name: len(client.sent) for client in self.clients})
        for client in self.clients:
            client.look()
            known |= client.reached  # only the program itself knows what it has sent
        wanted = Counter({client.name: known[client.name] + 1 for client in self.clients})
        for client in self.clients:
            self._wait(client, partial(_has_reached, client, wanted), f"{client.name} to be at {wanted}")

    def _wait(self, client: Client, reached: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            client.look()
            return reached()

        try:
            wait_for(look, what, seconds=PATIENCE, hopeless=self._trouble)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: it is at {client.reached}") from None

    def _trouble(self) -> str | None:
        return "; ".join(filter(None, (client.trouble() for client in self.clients))) or None

    def finish(self, cluster: KafkaCluster) -> None:
        """Ends the producers; then every consumer has seen all values, and the log has each once."""
        for client in self.clients:
            client.finish_sending()
        acknowledged = {value for client in self.clients for value in client.acknowledged}
        for client in self.clients:
            self._wait(client, partial(acknowledged.issubset, client.seen), f"{client.name} to see everything")
        kept = _kept(cluster, self.topic)
        assert acknowledged == kept.keys(), f"lost: {acknowledged - kept.keys()}, strange: {kept.keys() - acknowledged}"
        doubled = {value: turns for value, turns in kept.items() if len({*turns}) < len(turns)}
        assert not doubled, doubled
        for client in self.clients:
            assert client.seen == acknowledged, f"{client.name} saw {client.seen - acknowledged}"


@contextmanager
def steady(
    cluster: KafkaCluster, bootstrap: str, folder: Path, kinds: Sequence[type[Client]] = CLIENTS
) -> Iterator[Steady]:
    """Runs a client of each kind; yields once each has read from each.

    At the end all values are checked (`Steady.finish`).
    """
    topic = fresh("steady")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = NewTopic(topic, PARTITIONS, replica_assignment=REPLICAS, config={"min.insync.replicas": "2"})
    admin.create_topics([wanted])[topic].result(PATIENCE)
    for partition in range(PARTITIONS):
        wait_for(partial(cluster.leader, topic, partition), f"a leader of {topic}-{partition}")
    clients = [client(cluster, bootstrap, topic, folder) for client in kinds]
    with ExitStack() as running:
        for client in clients:
            client.start()
            running.callback(client.close)
        work = Steady(clients, topic)
        work.wait_for_more()
        yield work
        work.wait_for_more()
        work.finish(cluster)


def _has_reached(client: Client, wanted: Counter[str]) -> bool:
    return client.reached >= wanted


def _kept(cluster: KafkaCluster, topic: str) -> dict[str, list[Turn]]:
    """Returns each value in the topic's log, as the leaders have it on disk, with the turns in which it was sent."""
    found: dict[str, list[Turn]] = {}
    for partition in range(PARTITIONS):
        leader = cluster.nodes[cluster.leader(topic, partition)]
        for segment in sorted((leader.folder / "data" / f"{topic}-{partition}").glob("*.log")):
            log = segment.read_bytes()
            for batch in records.batches(log):
                turn = Turn(batch.producer_id, batch.producer_epoch)
                for record in records.read(log[batch.start : batch.end]):
                    assert record.value is not None
                    found.setdefault(bytes(record.value).decode(), []).append(turn)
    return found


def _text(file: Path) -> str:
    return file.read_text(errors="replace")

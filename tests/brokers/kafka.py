"""Apache Kafka in KRaft mode on loopback (4.3.1 unless told otherwise): one node, or three, each a JVM of its own.

Every node is broker and controller, and has four listeners:

| listener | bound to            | advertised as       | for                                                          |
|----------|---------------------|---------------------|--------------------------------------------------------------|
| DIRECT   | 127.66.16.N:port    | the same            | brokers among themselves, clients and proxies without a tap  |
| TAPPED   | 127.0.0.1:port      | 127.77.17.N:port    | proxies; `tests.clients.tap` listens on the advertised port  |
| LOGIN    | 127.0.0.1:port      | 127.77.17.N:port    | the same with SASL, mechanisms PLAIN and SCRAM               |
| QUORUM   | 127.0.0.1:port      | -                   | controllers                                                  |

The advertised hosts occur nowhere else on the machine, are dialled without DNS, and a proxy can advertise something
shorter (127.1) or longer (127.177.117.117). The TAPPED port is the same for all nodes, so that a proxy for each of them
can stand there (127.77.17.{node_id}). A class archive made on first use brings the start down to some seconds.
"""

import shutil
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.brokers import children
from tests.brokers.jars import VERSION, cache_folder, class_path, java, kafka_home, locked
from tests.brokers.metadata import Metadata, ask_metadata
from tests.brokers.ports import Reserved, different_ports, same_port
from tests.brokers.waiting import PATIENCE, wait_for

__all__ = ["CONSOLE_TOOLS", "KafkaCluster", "kafka_home"]

DIRECT_HOST = "127.66.16.{}"
TAPPED_HOST = "127.77.17.{}"

# name of the script in a distribution -> the class that it runs
CONSOLE_TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}

# C1 only and no second GC thread: brokers of a test live for minutes and share two cores with everything else.
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")

_LOGGING = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.target = {target}
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{{ISO8601}} %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = out
"""

# Room for a record of 20 MB, a fetch of 50 MB, and what a client may add to both.
ROOM_BYTES = 96 << 20

# who may log in with PLAIN
USER, PASSWORD = "alice", "secret-of-alice"
_JAAS = "org.apache.kafka.common.security"

_SETTINGS = {
    "process.roles": "broker,controller",
    "listener.security.protocol.map": "DIRECT:PLAINTEXT,TAPPED:PLAINTEXT,LOGIN:SASL_PLAINTEXT,QUORUM:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.login.plain.sasl.jaas.config": f"{_JAAS}.plain.PlainLoginModule required user_{USER}={PASSWORD};",
    "listener.name.login.scram-sha-256.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
    "listener.name.login.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
    "inter.broker.listener.name": "DIRECT",
    "controller.listener.names": "QUORUM",
    "message.max.bytes": ROOM_BYTES,
    "replica.fetch.max.bytes": ROOM_BYTES,
    "fetch.max.bytes": ROOM_BYTES,
    "socket.request.max.bytes": ROOM_BYTES + (1 << 20),
    # a first member does not wait for others
    "group.initial.rebalance.delay.ms": 0,
    # a member of a classic group may expire within a second
    "group.min.session.timeout.ms": 500,
    # members of the newer groups send a heartbeat twice a second; otherwise a rebalance takes ten seconds
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.heartbeat.interval.ms": 500,
    # share groups' records are locked for a short time, so a closed consumer's are available again during a test
    "group.share.record.lock.duration.ms": 15_000,
    # small, because every one of these partitions is opened at start or first use
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    # the quorum is on loopback, so a lost leader may be noticed soon
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1000,
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    # a broker that has not joined the quorum within a minute would end
    "initial.broker.registration.timeout.ms": PATIENCE * 1000,
}


@dataclass(slots=True)
class Node:
    """One broker and controller: its ports (kept unless it `move`s), its folder, and its JVM while it runs."""

    number: int
    folder: Path
    direct: Reserved
    # the ports of the tap, and those of the broker
    tapped: Reserved
    behind_tapped: Reserved
    login: Reserved
    behind_login: Reserved
    quorum: Reserved
    child: subprocess.Popen[bytes] | None = field(default=None)
    # the addresses that it advertised before on the tapped listener; they are never reused
    left: list[Reserved] = field(default_factory=list)

    @property
    def tap_routes(self) -> dict[str, str]:
        """The tap's address -> the address of this broker behind it, as "host:port"."""
        return {str(self.tapped): str(self.behind_tapped), str(self.login): str(self.behind_login)}

    def move(self) -> None:
        """Makes it advertise another port on the tapped listener from its next start on."""
        self.left.append(self.tapped)
        self.tapped = Reserved(self.tapped.host)

    def listeners(self) -> dict[str, str]:
        bound = {"TAPPED": self.behind_tapped, "LOGIN": self.behind_login, "QUORUM": self.quorum}
        advertised = {"DIRECT": self.direct, "TAPPED": self.tapped, "LOGIN": self.login}
        return {
            name: ",".join(f"{listener}://{port}" for listener, port in ports.items())
            for name, ports in (("listeners", {"DIRECT": self.direct} | bound), ("advertised.listeners", advertised))
        }

    def release(self) -> None:
        for port in (
            self.direct,
            self.tapped,
            self.behind_tapped,
            self.login,
            self.behind_login,
            self.quorum,
            *self.left,
        ):
            port.release()


class KafkaCluster:
    """One or three nodes, which run within `with`.

    Clients (or a proxy's --upstream) get `bootstrap` or `tapped_bootstrap`; node ids count from 1.
    Start it on a thread that lives as long as the cluster: see `children`.
    """

    # on the listeners behind a tap
    is_asked_by_clients_only = True

    def __init__(
        self,
        nodes: int = 1,
        *,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        jvm_options: Sequence[str] | None = None,
        release: str = VERSION,
        one_address: bool = False,
        controllers_only: bool = False,
    ) -> None:
        """Reserve every port and write nothing yet.

        Args:
            folder: made, used and removed again.
            settings: added to server.properties, over this module's.
            jvm_options: for the brokers; default: start from the class archive.
            release: one of `jars.RELEASES` that can do without ZooKeeper; only the default one has a class archive.
            one_address: all nodes advertise one and the same TAPPED address, which leads to the last of them: as behind
                a load balancer that always sends a host to the same broker.
            controllers_only: no node is a broker, so QUORUM is the only listener: an isolated quorum.
        """
        self._folder, self.release = folder, release
        self._settings = dict(settings or {})
        self._controllers_only = controllers_only
        self._jvm_options = self._archive("broker") if jvm_options is None else jvm_options
        self._cluster_id = _uuid()
        tapped = same_port([TAPPED_HOST.format(number) for number in range(1, nodes + 1)])
        if one_address:
            for unused in tapped[1:]:
                unused.release()
            tapped = tapped[:1] * nodes
        self.nodes = {number: self._node(number, port) for number, port in enumerate(tapped, 1)}

    def _node(self, number: int, tapped: Reserved) -> Node:
        hosts = [DIRECT_HOST.format(number), TAPPED_HOST.format(number), *["127.0.0.1"] * 3]
        direct, login, behind_tapped, behind_login, quorum = different_ports(hosts)
        folder = self._folder / f"node-{number}"
        return Node(number, folder, direct, tapped, behind_tapped, login, behind_login, quorum)

    @property
    def bootstrap(self) -> str:
        """Every node's direct address, "host:port,host:port"."""
        return ",".join(str(node.direct) for node in self.nodes.values())

    @property
    def tapped_bootstrap(self) -> str:
        """Every node's address on the tapped listener; nobody answers there without a tap."""
        return ",".join(str(node.tapped) for node in self.nodes.values())

    @property
    def login_bootstrap(self) -> str:
        """Like `tapped_bootstrap`, for clients that log in."""
        return ",".join(str(node.login) for node in self.nodes.values())

    @property
    def tap_routes(self) -> dict[str, str]:
        """The taps' addresses -> the addresses of the brokers behind them, as "host:port"."""
        return {listen: target for node in self.nodes.values() for listen, target in node.tap_routes.items()}

    def __enter__(self) -> "KafkaCluster":
        self._folder.mkdir(parents=True, exist_ok=True)
        self._format()
        try:
            for node in self.nodes.values():
                self._launch(node)
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for node in self.nodes.values():
            if node.child is not None:
                node.child.kill()  # its logs are not needed again
        for node in self.nodes.values():
            if node.child is not None:
                node.child.wait()
            node.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _sees(self, node: Node, numbers: AbstractSet[int]) -> bool:
        return numbers == self.metadata(node.number).brokers.keys()

    def wait_until_ready(self) -> None:
        """Waits until each running node's own metadata has all running nodes; if none is a broker, until all listen."""
        running = {number: node for number, node in self.nodes.items() if node.child is not None}
        for node in running.values() if self._controllers_only else ():
            wait_for(partial(_accepts, node.quorum), f"controller {node.number}", hopeless=partial(_death, node))
        for node in () if self._controllers_only else running.values():
            wait_for(
                partial(self._sees, node, running.keys()),
                f"node {node.number} to see nodes {sorted(running)}",
                hopeless=partial(_death, node),
            )

    def metadata(self, number: int, *topics: str) -> Metadata:
        """That node's own metadata, from its direct listener; empty while it does not answer."""
        node = self.nodes[number]
        return ask_metadata(node.direct.host, node.direct.port, topics)

    def start_node(self, number: int) -> None:
        """Start a stopped node on its ports and in its folder, and wait until all nodes know of it."""
        (self.nodes[number].folder / "server.properties").write_text(self._properties(self.nodes[number]))
        self._launch(self.nodes[number])
        self.wait_until_ready()

    def stop_node(self, number: int, *, kill: bool = False) -> None:
        """Shut a node down (leaders move away first), or kill it; wait until the others have noticed."""
        node = self.nodes[number]
        if node.child is not None:
            if kill:
                node.child.kill()
            children.stop(node.child)
            node.child = None
        self.wait_until_ready()

    def leader(self, topic: str, partition: int) -> int:
        """The partition's leader, once every running node names the same one; 0 before."""
        running = [number for number, node in self.nodes.items() if node.child is not None]
        leaders = {self.metadata(number, topic).leaders.get((topic, partition), -1) for number in running}
        return max(leaders.pop(), 0) if len(leaders) == 1 else 0

    def move_leader(self, topic: str, partition: int, to_node: int) -> None:
        """Make a node the partition's leader, and wait until every node says so.

        A node without a replica gets one first (the data is copied); with one, only their order changes.
        """
        wait_for(lambda: self.leader(topic, partition), f"a leader of {topic}-{partition}")
        replicas = self.metadata(to_node, topic).replicas[topic, partition]
        wanted = [to_node, *(node for node in replicas if node != to_node)][: len(replicas)]
        self.reassign(topic, {partition: wanted})

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Move partitions to these nodes, whose first one shall lead; wait until the data is there and all say so."""
        from kafka import TopicPartition  # imported here, because tests without a cluster should not pay for it
        from kafka.admin import KafkaAdminClient

        wanted = {TopicPartition(topic, partition): list(nodes) for partition, nodes in replicas.items()}
        where, admin = list(wanted), KafkaAdminClient(bootstrap_servers=self.bootstrap, request_timeout_ms=90_000)

        def have_leaders() -> bool:
            # fails while a replica that is to lead is behind the others
            admin.elect_leaders(0, {topic: list(replicas)}, raise_errors=False)
            return all(self.leader(topic, partition) == nodes[0] for partition, nodes in replicas.items())

        try:
            admin.alter_partition_reassignments(wanted)
            wait_for(lambda: not admin.list_partition_reassignments(where), f"the replicas to be {wanted}")
            wait_for(have_leaders, f"the first of {replicas} to lead {topic}")
        finally:
            admin.close()

    def console(
        self, tool: str, *arguments: str, stdin: str | bytes | None = None, seconds: float = 600, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's console tools to its end; what it prints is in stdout and stderr.

        Nothing is added to the arguments: --bootstrap-server is the caller's choice.
        Errors: AssertionError with the tool's output when it fails (unless told not to check).
        """
        command = self.console_command(tool, *arguments)
        text = stdin.decode() if isinstance(stdin, bytes) else stdin
        done = subprocess.run(command, input=text or "", capture_output=True, text=True, timeout=seconds)
        assert not check or done.returncode == 0, f"{tool} {' '.join(arguments)}:\n{done.stdout}\n{done.stderr}"
        return done

    def console_command(self, tool: str, *arguments: str) -> list[str]:
        """The argv of a console tool that runs beside something else (`children.spawn`)."""
        return [*self.untrained(tool, *self._archive("tool")), *arguments]

    def untrained(self, tool: str, *jvm_options: str) -> list[str]:
        """The argv of a console tool that starts without a class archive, up to its arguments."""
        return [*self._jvm("WARN", "SYSTEM_ERR"), *jvm_options, CONSOLE_TOOLS[tool]]

    def _archive(self, user: str) -> Sequence[str]:
        return [f"-XX:SharedArchiveFile={class_archive(user)}"] if self.release == VERSION else ()

    def _format(self) -> None:
        """Format node 1's folder with Kafka's tool and copy it: one JVM instead of one a node."""
        first, *others = self.nodes.values()
        for node in self.nodes.values():
            node.folder.mkdir(parents=True, exist_ok=True)
            (node.folder / "server.properties").write_text(self._properties(node))
        command = ["format", "--cluster-id", self._cluster_id, "--config", str(first.folder / "server.properties")]
        subprocess.run([*self.untrained("kafka-storage"), *command], check=True, capture_output=True)
        for node in others:
            shutil.copytree(first.folder / "data", node.folder / "data")
            meta = node.folder / "data" / "meta.properties"
            meta.write_text(
                f"version=1\nnode.id={node.number}\ncluster.id={self._cluster_id}\ndirectory.id={_uuid()}\n"
            )

    def _properties(self, node: Node) -> str:
        copies = len(self.nodes)
        internal_topics = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        settings = _SETTINGS | node.listeners()
        if self._controllers_only:
            settings |= {"process.roles": "controller", "listeners": f"QUORUM://{node.quorum}"}
            del settings["advertised.listeners"], settings["inter.broker.listener.name"]
        settings |= {f"{topic}.replication.factor": copies for topic in internal_topics}
        settings |= {f"{topic}.min.isr": 1 for topic in internal_topics[1:]}
        settings |= {
            "node.id": node.number,
            "log.dirs": node.folder / "data",
            "controller.quorum.voters": ",".join(f"{n.number}@{n.quorum}" for n in self.nodes.values()),
            "default.replication.factor": copies,
        }
        return "".join(f"{key}={value}\n" for key, value in (settings | self._settings).items())

    def _launch(self, node: Node) -> None:
        command = [*self._jvm("INFO", "SYSTEM_OUT"), *self._jvm_options]
        server = ["kafka.Kafka", str(node.folder / "server.properties")]
        node.child = children.spawn([*command, *server], output=node.folder / "server.log")

    def _jvm(self, level: str, target: str) -> list[str]:
        """The start of a JVM's argv. The long class path is in a file, which keeps messages readable."""
        logging, arguments = self._folder / f"log4j2-{level}.properties", self._folder / f"{level}.args"
        if not arguments.exists():
            logging.write_text(_LOGGING.format(level=level, target=target))
            options = [*JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", class_path(self.release)]
            arguments.write_text("\n".join(options))
        return [java(), f"@{arguments}"]


def class_archive(user: str) -> Path:
    """The classes that a broker or a tool loads, parsed and checked already: two thirds of their start-up time.

    Both are made on first use, by a broker and a tool that run for that alone; a JVM takes one only if it fits.

    Args:
        user: "broker" or "tool".
    """
    runtime = Path(java()).resolve()
    made_for = sha256(f"{runtime} {runtime.stat().st_mtime_ns} {class_path()}".encode()).hexdigest()[:16]
    archives = {name: cache_folder() / f"classes-{made_for}-{name}.jsa" for name in ("tool", "broker")}
    if not archives["broker"].exists():
        with locked("classes"):
            if not archives["broker"].exists():
                _make_class_archives(**archives)
    return archives[user]


def _make_class_archives(tool: Path, broker: Path) -> None:
    """The broker's archive is made last: its existence means that both exist."""
    with TemporaryDirectory(prefix="kafka-classes-") as folder:
        made = Path(folder, "broker.jsa")
        options = (f"-XX:ArchiveClassesAtExit={made}",)
        with KafkaCluster(1, folder=Path(folder, "cluster"), jvm_options=options) as cluster:
            where = ["--bootstrap-server", cluster.bootstrap, "--topic", "training"]
            run = partial(subprocess.run, check=True, capture_output=True)
            # its default of 1.5 s is too short on a busy machine
            patient = ["--request-timeout-ms", str(PATIENCE * 1000)]
            run([*cluster.untrained("kafka-console-producer"), *where, *patient], input=b"something to read\n")
            reader = ["--from-beginning", "--max-messages", "1", "--timeout-ms", str(PATIENCE * 1000)]
            made_by_tool = f"-XX:ArchiveClassesAtExit={made.with_name('tool.jsa')}"
            run([*cluster.untrained("kafka-console-consumer", made_by_tool), *where, *reader])
            broker_process = cluster.nodes[1].child
            assert broker_process is not None
            children.stop(broker_process, seconds=PATIENCE)
        shutil.move(made.with_name("tool.jsa"), tool)
        shutil.move(made, broker)


def _accepts(port: Reserved) -> bool:
    with suppress(OSError), socket.create_connection((port.host, port.port), 5):
        return True
    return False


def _death(node: Node) -> str | None:
    if node.child is None or node.child.poll() is None:
        return None
    log = (node.folder / "server.log").read_text(errors="replace")
    return f"node {node.number} ended with exit code {node.child.returncode}; its log ends:\n{log[-3000:]}"


def _uuid() -> str:
    """A random id as Kafka writes them; none begins with a dash, which its tools would take for an option."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
